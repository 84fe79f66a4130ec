"""A histogram of y and trimming by y, which keep gross outliers out of the starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import Field, Kind, Part, Parts, Query, Wrapper, unit
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Sums, one_hot


@dataclass(frozen=True)
class Histogram(Query):
    """The weight of rows with y in each bin between ``edges``, with one bin more on either side."""

    edges: Annotated[Array, Field("b", rising=True)]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"counts": Part((len(self.edges) + 1,), unit(), Kind.COUNT)}

    def shares(self, rows: Rows) -> Array:
        return one_hot(np.searchsorted(self.edges, rows.y, side="right"), len(self.edges) + 1)

    def answer(self, rows: Rows) -> Sums:
        bins = np.searchsorted(self.edges, rows.y, side="right")
        return {"counts": np.bincount(bins, weights=rows.weight, minlength=len(self.edges) + 1).astype(np.float64)}


@dataclass(frozen=True)
class Trimmed(Wrapper):
    """A query asked only of the rows with y in a range; of groups, those all of whose rows are in it."""

    query: Query
    low: float
    high: float

    def keeps(self, rows: Rows) -> NDArray[np.bool_] | None:
        keep = (rows.y >= self.low) & (rows.y <= self.high)
        if rows.starts is not None and len(rows):
            whole = np.logical_and.reduceat(keep, rows.starts)
            keep = np.repeat(whole, rows.group_sizes)
        return None if keep.all() else np.asarray(keep)

    chooses_rows = True

    def check(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"Trimmed keeps no row: low {self.low} is above high {self.high}")
