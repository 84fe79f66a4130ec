"""Methods: each a generator of queries that reads like its algorithm."""
