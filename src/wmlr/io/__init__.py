"""Files and tables: reading, writing, and showing them safely."""
