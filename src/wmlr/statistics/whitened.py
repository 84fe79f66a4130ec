"""Queries asked in other coordinates than the data's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from wmlr.core.round import Query, Rows, add
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.sparse import Csr

DENSE_ROWS = 1024


@dataclass(frozen=True)
class Whitened:
    """A query asked of the features ``(x - centre) @ basis``, or of ``x - centre`` alone.

    The centre is taken off before any product is made: moments of a column whose mean is a million times its
    deviation have lost all digits of the deviation, and nothing done to them afterwards brings those back.
    """

    query: Query
    centre: Array
    basis: Array | None = None

    def answer(self, rows: Rows) -> Sums:
        return add(self.query.answer(self._seen(piece)) for piece in dense_pieces(rows))

    @property
    def answer_each(self) -> Callable[[Rows, Integers], Sums]:
        """What the query does about each agent, where it does; rows are dense there."""
        each: Callable[[Rows, Integers], Sums] = self.query.answer_each  # type: ignore[attr-defined]
        return lambda rows, firsts: each(self._seen(rows), firsts)

    def _seen(self, rows: Rows) -> Rows:
        X = rows.X - self.centre
        return replace(rows, X=X if self.basis is None else X @ self.basis)


def dense_pieces(rows: Rows) -> Iterator[Rows]:
    """The rows as they are; sparse ones some at a time, made dense, without splitting a group."""
    if not isinstance(rows.X, Csr):
        yield rows
        return
    n = len(rows)
    starts = np.arange(n) if rows.starts is None else rows.starts
    edges = np.unique(np.append(starts[np.searchsorted(starts, np.arange(0, starts[-1] + 1, DENSE_ROWS))], n))
    for first, last in pairwise(edges.tolist()):
        cut = slice(first, last)
        inside = (starts >= first) & (starts < last)
        yield replace(
            rows,
            X=rows.X[cut].dense(),
            y=rows.y[cut],
            weight=None if rows.weight is None else rows.weight[cut],
            starts=None if rows.starts is None else starts[inside] - first,
            index=None if rows.index is None else rows.index[cut],
        )
