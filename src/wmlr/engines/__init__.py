"""Engines: who holds the rows and adds the answers."""

from wmlr.engines.arrays import ArrayRows

__all__ = ["ArrayRows"]
