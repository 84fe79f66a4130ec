"""Rows with gaps: found before a fit, left out of it, and given blanks for an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.model.predictive import Region
from wmlr.numerics.sparse import Csr

MISSING = ("raise", "drop")


@dataclass(frozen=True, eq=False)
class Gaps:
    """Which rows have a gap.

    Attributes
    ----------
    n_rows : all rows, with gaps or without.
    kept : (n_rows,) whether a row is complete; None where all are.
    columns : how many gaps each column has, of those that have any.
    """

    n_rows: int
    kept: NDArray[np.bool_] | None = None
    columns: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, missing: Mapping[str, NDArray[np.bool_]], n: int) -> Gaps:
        """From where each of some columns has its gaps."""
        columns = {name: int(where.sum()) for name, where in missing.items() if where.any()}
        if not columns:
            return cls(n)
        lost = np.zeros(n, dtype=bool)
        for name in columns:
            lost |= missing[name]
        return cls(n, ~lost, columns)

    def refuse_nothing_left(self) -> None:
        """Raise where every row has a gap."""
        if self.dropped == self.n_rows > 0:
            few = ", ".join(
                f"{name!r} ({count} of {self.n_rows} rows)" for name, count in list(self.columns.items())[:3]
            )
            raise ValueError(f"every row has a gap, so that nothing is left: fill or leave out {few}")

    @property
    def dropped(self) -> int:
        """The number of rows with a gap."""
        return 0 if self.kept is None else int(self.n_rows - self.kept.sum())

    def compose(self, later: Gaps) -> Gaps:
        """These gaps, and those found in the rows that had none of them."""
        if self.kept is None or later.kept is None:
            return later if self.kept is None else self
        kept = self.kept.copy()
        kept[self.kept] = later.kept
        return Gaps(self.n_rows, kept, {**self.columns, **later.columns})

    def complete(self, values: Any) -> Any:
        """Values of the complete rows only, of anything with a value per row; a number, or None, stays."""
        if self.kept is None or values is None or np.isscalar(values):
            return values
        known = isinstance(values, (np.ndarray, Csr)) or hasattr(values, "iloc")
        return (values if known else np.asarray(values))[self.kept]

    def expand(self, values: NDArray[Any], blank: float = np.nan) -> NDArray[Any]:
        """One value for every row again, blank for those with a gap."""
        if self.kept is None:
            return values
        found = np.full((self.n_rows, *values.shape[1:]), blank, dtype=values.dtype)
        found[self.kept] = values
        return found

    def expand_region(self, region: Region) -> Region:
        """The same for a region, whose interval from NaN to NaN holds nothing."""
        if self.kept is None:
            return region
        intervals = iter(region.intervals)
        blank = np.full((1, 2), np.nan)
        return Region(tuple(next(intervals) if kept else blank for kept in self.kept), region.level, region.kind)


def missing_in(X: Any, names: Any) -> dict[str, NDArray[np.bool_]]:
    """Where each column of an array of numbers has NaN; columns without are left out."""
    labels = [f"column {place}" for place in range(X.shape[1])] if names is None else [str(name) for name in names]
    if isinstance(X, Csr):
        if not np.isnan(X.data).any():
            return {}
        return {labels[place]: np.isnan(X[:, place]) for place in range(X.shape[1])}
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return {}
    where = np.isnan(X)
    return {labels[place]: where[:, place] for place in np.flatnonzero(where.any(axis=0))}
