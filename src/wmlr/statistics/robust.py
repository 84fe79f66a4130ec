"""What keeps gross outliers out of the starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Query, Rows
from wmlr.numerics.arrays import Array, Sums


@dataclass(frozen=True)
class Histogram:
    """The weight of rows with y in each bin between ``edges``, with one bin more on either side."""

    edges: Array

    def answer(self, rows: Rows) -> Sums:
        bins = np.searchsorted(self.edges, rows.y, side="right")
        return {"counts": np.bincount(bins, weights=rows.weight, minlength=len(self.edges) + 1).astype(np.float64)}


@dataclass(frozen=True)
class Trimmed:
    """A query asked only of the rows with y in a range; of groups, those all of whose rows are in it."""

    query: Query
    low: float
    high: float

    def answer(self, rows: Rows) -> Sums:
        keep = (rows.y >= self.low) & (rows.y <= self.high)
        if rows.starts is not None and len(rows):
            whole = np.logical_and.reduceat(keep, rows.starts)
            keep = np.repeat(whole, np.diff(np.append(rows.starts, len(rows))))
        return self.query.answer(rows if keep.all() else rows.take(keep))
