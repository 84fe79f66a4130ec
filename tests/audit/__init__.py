"""The library held against code that shares nothing with it, over random combinations of its options."""
