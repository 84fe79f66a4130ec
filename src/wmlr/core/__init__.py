"""The round: rows, queries, methods and engines, and the runner that brings them together."""
