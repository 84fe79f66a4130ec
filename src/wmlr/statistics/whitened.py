"""Queries asked in other coordinates than the data's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Query, Wrapper
from wmlr.core.round import Rows, add
from wmlr.families import OMIT_DEFAULT
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.sparse import Csr

DENSE_ROWS = 1024
FARTHEST = 1e6  # of a centre: times the largest number of a column
KEPT_BYTES = 2**25  # rows in other coordinates that take no more are kept beside the rows themselves


@dataclass(frozen=True)
class Whitened(Wrapper):
    """A query asked of the features ``(x - centre) @ basis``, or of ``x - centre`` alone, and of ``y - level``.

    The centre is taken off before any product is made: moments of a column whose mean is a million times its
    deviation have lost all digits of the deviation, and nothing done to them afterwards brings those back. A centre of
    nil leaves the features where they are.
    """

    query: Query
    centre: Annotated[Array, Field("p")]
    basis: Annotated[Array | None, Field("p r")] = None
    level: float = field(default=0.0, metadata=OMIT_DEFAULT)

    def answer(self, rows: Rows) -> Sums:
        return add(self.query.answer(self.view(piece)) for piece in dense_pieces(rows))

    def rows(self, rows: Rows) -> Rows:
        """The rows in these coordinates; ValueError where they lie so far from there that digits are lost.

        What is left of y beside a level of 2^54 times its size is whether it is among the largest.
        """
        largest = np.abs(np.column_stack([rows.X, rows.y])).max(axis=0, initial=0.0)
        if np.any(np.abs(np.append(self.centre, self.level)) > FARTHEST * largest, where=largest > 0):
            raise ValueError(f"a centre lies more than {FARTHEST:g} times as far away as any row")
        return super().rows(rows)

    def width(self, columns: int) -> int:
        return columns if self.basis is None else self.basis.shape[1]

    def view(self, rows: Rows) -> Rows:
        """The rows in these coordinates; kept with them, and what queries keep with those, where that is not much."""
        same = self.basis is None and not self.centre.any()
        if not same and 8 * len(rows) * self.width(len(self.centre)) > KEPT_BYTES:
            return self._whiten(rows, same)
        key = self.level, b"" if same else self.centre.tobytes(), None if self.basis is None else self.basis.tobytes()
        if rows.memo.get(Whitened, (None,))[0] != key:
            rows.memo[Whitened] = key, self._whiten(rows, same)
        found: Rows = rows.memo[Whitened][1]
        return found

    def _whiten(self, rows: Rows, same: bool) -> Rows:
        y = rows.y - self.level if self.level else rows.y
        X = rows.X if same else rows.X - self.centre
        return replace(rows, X=X if self.basis is None else X @ self.basis, y=y)


def dense_pieces(rows: Rows, most: int | None = None) -> Iterator[Rows]:
    """The rows as they are, or up to ``most`` at a time; sparse ones some at a time, made dense. No group is split."""
    if isinstance(rows.X, Csr):
        most = DENSE_ROWS
    if most is None or (len(rows) <= most and not isinstance(rows.X, Csr)):
        yield rows
        return
    n = len(rows)
    starts = np.arange(n) if rows.starts is None else rows.starts
    edges = np.unique(np.append(starts[np.searchsorted(starts, np.arange(0, starts[-1] + 1, most))], n))
    for first, last in pairwise(edges.tolist()):
        cut = slice(first, last)
        inside = (starts >= first) & (starts < last)
        yield replace(
            rows,
            X=rows.X[cut].dense() if isinstance(rows.X, Csr) else rows.X[cut],
            y=rows.y[cut],
            weight=None if rows.weight is None else rows.weight[cut],
            starts=None if rows.starts is None else starts[inside] - first,
            index=None if rows.index is None else rows.index[cut],
            beside={role: values[cut] for role, values in rows.beside.items()},
        )
