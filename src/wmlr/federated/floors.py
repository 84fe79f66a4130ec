"""On how few of an agent's rows its numbers stand, one by one and all together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array

NOTHING = 1e-9  # of a column of shares: what rounding leaves of one that earlier ones combine to
MOST_KEPT = 2**24  # numbers of the shares that are remembered


def effective_rows(shares: Array) -> Array:
    """How many rows weighted sums stand on, (sum w)^2 / sum w^2 for each column of weights (n, c) (Kish, 1965).

    A sum of one row has 1, one of n rows that count alike n. Columns in which no row counts are left out.
    """
    shares = np.abs(_scale_columns(shares))
    return np.asarray(shares.sum(axis=0) ** 2 / (shares**2).sum(axis=0))


def fewest_rows(query: Query, rows: Rows) -> float:
    """The fewest rows that any number of an answer stands on; infinity where no row is looked at.

    Rows that are left out count as well: what they sum to follows from an answer of all rows.
    """
    found = [*shares_in(query, rows), *shares_in(query, rows, scalars=True)]
    return min((float(n) for shares in found for n in effective_rows(shares)), default=float("inf"))


def shares_in(query: Query, rows: Rows, scalars: bool = False) -> Iterator[Array]:
    """How much each row counts in the numbers of an answer: (n, c) for each statistic in the query.

    With ``scalars``, in those single ones that say no more than likelihoods.
    """
    seen, chosen = query.rows(rows), query.keeps(rows)
    kept = np.ones(len(rows), dtype=bool) if chosen is None else chosen
    if chosen is not None:
        yield np.column_stack([kept, ~kept]).astype(np.float64)
    found = [shares for child in query.children() for shares in shares_in(child, seen, scalars)]
    if len(seen) and scalars:
        found.append(query.scalar_shares(seen))
    elif len(seen) and (not query.children() or type(query).shares is not Query.shares):
        found.append(query.shares(seen))
    for shares in found:
        whole = np.zeros((len(rows), shares.shape[1]))
        whole[kept] = shares
        yield whole


class Shown:
    """All that has left in the clear, as the shares of rows in it; and how near it comes to a single row.

    Of what was shown, whoever sees it can form any combination. That in which a row weighs most has the row's
    *leverage* as the row's part of its squared weights, the squared length of the row's direction inside all shares: at
    1 the row stands alone there.
    """

    def __init__(self, rows: int) -> None:
        self._basis = np.zeros((rows, 0))

    def leverage(self, shares: Array) -> tuple[float, Array]:
        """The largest leverage of a row with these shares shown as well, and the basis of all that is then shown."""
        basis = self._basis
        for column in _scale_columns(shares).T:
            rest = column / max(float(np.linalg.norm(column)), 1e-300)
            for _ in range(2):
                rest = rest - basis @ (basis.T @ rest)
            size = float(np.linalg.norm(rest))
            if size > NOTHING:
                basis = np.column_stack([basis, rest / size])
            if basis.size > MOST_KEPT:
                return 1.0, basis
        return float(np.max((basis**2).sum(axis=1), initial=0.0)), basis

    def show(self, basis: Array) -> None:
        """What :meth:`leverage` was asked about is shown."""
        self._basis = basis


def _scale_columns(shares: Array) -> Array:
    sizes = np.abs(shares).max(axis=0, initial=0.0)
    return np.asarray(shares[:, sizes > 0] / sizes[sizes > 0])
