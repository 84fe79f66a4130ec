"""Features phi(x): fitted transformers as plain data, and the rows seen through them."""
