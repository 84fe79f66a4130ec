"""Statistics over rows: each a query, a frozen dataclass whose answers add."""
