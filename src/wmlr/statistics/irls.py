"""Sums for one regression at a time: redescending weights on the rows that no component found so far explains.

A *unit* (a row, or a group of rows) has the root mean square of its residuals as its size. It is *active* while its
size is above ``reach[j]`` for every column ``found[:, j]`` of coefficients found so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, unit
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums, one_hot
from wmlr.statistics.moments import positive_gram
from wmlr.statistics.score import likelihood_shares, score_parts

SURE = 2.0 / 3.0


def unit_sizes(rows: Rows, coef: Array) -> Array:
    """The root mean square residual of every unit, for each column of coefficients: (units, columns)."""
    E = rows.y[:, None] - kernels.forward(rows.X, coef)
    if rows.starts is None:
        return np.asarray(np.abs(E))
    weights = rows.counts
    mass = np.add.reduceat(weights, rows.starts)
    squares = kernels.unit_sums(E * E, rows.weight, rows.starts)
    return np.asarray(np.sqrt(squares / np.where(mass > 0, mass, 1.0)[:, None]))


def _active(rows: Rows, found: Array, reach: Array) -> Array:
    return np.asarray(np.all(unit_sizes(rows, found) > reach, axis=1))


@dataclass(frozen=True)
class ResidualHistogram(Query):
    """The weight of rows whose residual's size is in each bin between ``edges``, and in one bin more on either side.

    The size is that of the closest column of ``coef``. Rows that are not active are counted in a last bin of their own.
    """

    coef: Annotated[Array, Field("p k")]
    found: Annotated[Array, Field("p j")]
    reach: Annotated[Array, Field("j", least=0.0)]
    edges: Annotated[Array, Field("b", rising=True)]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"counts": Part((len(self.edges) + 2,), unit(), Kind.COUNT)}

    def shares(self, rows: Rows) -> Array:
        bins = kernels.to_rows(self._bins(rows), None, rows.starts, len(rows))
        return one_hot(bins.astype(np.int64), len(self.edges) + 2)

    def answer(self, rows: Rows) -> Sums:
        n, last = len(rows), len(self.edges) + 1
        weights = rows.counts
        bins = kernels.to_rows(self._bins(rows), None, rows.starts, n)
        counts = np.bincount(bins, weights=weights, minlength=last + 1)
        return {"counts": counts.astype(np.float64)}

    def _bins(self, rows: Rows) -> Any:
        """The bin of each unit."""
        bins = np.searchsorted(self.edges, unit_sizes(rows, self.coef).min(axis=1), side="right")
        return np.asarray(np.where(_active(rows, self.found, self.reach), bins, len(self.edges) + 1))


@dataclass(frozen=True)
class RedescendingScore(Query):
    """Weighted least squares on the active rows: sum v xx' and sum v e x at ``coef``, weights v = 1/(1 + (e/scale)^2).

    With ``trimmed``, v is 1 up to ``scale`` and 0 beyond.
    """

    coef: Annotated[Array, Field("p")]
    scale: Annotated[float, Field(above=0.0)]
    found: Annotated[Array, Field("p j")]
    reach: Annotated[Array, Field("j", least=0.0)]
    trimmed: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        p = len(self.coef)
        return {"gram": Part((p, p), unit(x=2), Kind.GRAM), "score": Part((p,), unit(x=1, y=1, rows=0.5))}

    def shares(self, rows: Rows) -> Array:
        v = kernels.to_rows(self._weights(rows)[:, None], None, rows.starts, len(rows))
        return np.hstack([v, 1.0 - v])

    def answer(self, rows: Rows) -> Sums:
        intercept = len(self.coef) > rows.X.shape[1]
        v = kernels.to_rows(self._weights(rows), rows.weight, rows.starts, len(rows))
        e = rows.y - kernels.forward(rows.X, self.coef)
        return {"gram": positive_gram(rows.X, v, intercept), "score": kernels.backward(rows.X, v * e, intercept)}

    def _weights(self, rows: Rows) -> Array:
        """How much each unit counts."""
        sizes = unit_sizes(rows, self.coef[:, None])[:, 0] / self.scale
        v = (sizes <= 1.0).astype(np.float64) if self.trimmed else 1.0 / (1.0 + sizes * sizes)
        return np.asarray(v * _active(rows, self.found, self.reach))


@dataclass(frozen=True)
class InverseSquareScore(Query):
    """Least squares of all components together, each unit shared out by the inverse squares of its residuals.

    A share of two thirds or more becomes the whole, one of less than 1/k none. Units whose smallest residual is
    larger than ``reach`` (None: no size is) count as outliers, and for nothing but the log-likelihood, which is the
    mixture's at ``log_weights`` and ``s2``.
    """

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    reach: Annotated[float | None, Field(least=0.0)] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = score_parts(self.coef, self.s2, True)
        del parts["mass"]
        return parts | {"explained": Part(self.s2.shape, unit(), Kind.AMOUNT)}

    def shares(self, rows: Rows) -> Array:
        shares = kernels.to_rows(self._shares(rows), None, rows.starts, len(rows))
        return shares if self.reach is None else np.column_stack([shares, 1.0 - shares.sum(axis=1)])

    scalars_choose = True
    scalar_shares = likelihood_shares

    def answer(self, rows: Rows) -> Sums:
        n = len(rows)
        intercept = len(self.coef) > rows.X.shape[1]
        shares = self._shares(rows)
        R = kernels.to_rows(shares, rows.weight, rows.starts, n)
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        log_likelihood = kernels.posteriors(E, self.log_weights, self.s2, rows.weight, rows.starts)[2]
        return {
            "grams": np.stack([positive_gram(rows.X, column, intercept) for column in R.T]),
            "score": kernels.backward(rows.X, R * E, intercept),
            "squares": np.einsum("ij,ij->j", R * E, E),
            "explained": R.sum(axis=0),
            "units": kernels.unit_counts(n, rows.weight, rows.starts) @ shares,
            "log_likelihood": np.array(log_likelihood),
        }

    def _shares(self, rows: Rows) -> Array:
        """How each unit is shared out: (units, k)."""
        sizes = unit_sizes(rows, self.coef)
        shares = inverse_square_shares(sizes)
        return shares if self.reach is None else shares * (sizes.min(axis=1) <= self.reach)[:, None]


def inverse_square_shares(sizes: Array) -> Array:
    """Shares (units, k) by the inverse squares of residual sizes, those that are clear made hard."""
    k = sizes.shape[1]
    least = sizes.min(axis=1, keepdims=True)
    shares = (np.where(least > 0, least, 1.0) / np.where(sizes > 0, sizes, 1.0)) ** 2
    shares = np.where(least > 0, shares, (sizes == 0).astype(np.float64))
    shares /= shares.sum(axis=1, keepdims=True)
    sure = shares >= SURE
    shares = np.where(sure.any(axis=1, keepdims=True), sure, np.where(shares < 1.0 / k, 0.0, shares))
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300))
