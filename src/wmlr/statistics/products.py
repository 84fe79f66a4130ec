"""Moments of many columns: scales, and matrices of second and fourth moments only by their products with vectors.

``V`` has the vectors as columns, the intercept last if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, linear_factors, unit
from wmlr.core.round import Rows
from wmlr.families import NORMAL, OMIT_DEFAULT, Family
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.sparse import Csr
from wmlr.statistics.mixing import UnitGate
from wmlr.statistics.moments import pair_count, pair_parts, response, scale_parts
from wmlr.statistics.score import MixtureQuery, with_offset


@dataclass(frozen=True)
class Scales(Query):
    """What :class:`Moments` gives of each column, without its matrices: sums, squares, and both times y^2."""

    intercept: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        p = columns + self.intercept
        return scale_parts(p) | {
            "x": Part((p,), unit(x=1)),
            "xyy": Part((p,), unit(x=1, y=2)),
            "xx": Part((columns,), unit(x=2), Kind.AMOUNT),
            "xxyy": Part((columns,), unit(x=2, y=2), Kind.AMOUNT),
        }

    shares = all_alike

    def factors(self, rows: Rows) -> Array:
        columns = linear_factors(self, rows)
        return np.hstack([columns, columns**2])

    def answer(self, rows: Rows) -> Sums:
        n, y = len(rows), rows.y
        w = rows.counts
        wy = w * y
        sums = kernels.backward(rows.X, np.column_stack([w, wy, wy * y]), self.intercept)
        squares = _square_sums(rows, np.column_stack([w, wy * y]))
        return {
            "weight": np.array(float(w.sum())),
            "rows": np.array(float(np.count_nonzero(w))),
            "units": np.array(float(kernels.unit_counts(n, rows.weight, rows.starts).sum())),
            "groups": np.array(0.0 if rows.starts is None else float(len(rows.starts))),
            "x": sums[:, 0],
            "xy": sums[:, 1],
            "xyy": sums[:, 2],
            "xx": squares[:, 0],
            "xxyy": squares[:, 1],
            "yy": np.array(float(wy @ y)),
            "y": np.array(float(wy.sum())),
        }


@dataclass(frozen=True)
class Products(Query):
    """sum w x (x'v): the Gram matrix times vectors."""

    V: Annotated[Array, Field("p c")]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"gram": Part(self.V.shape, unit(x=2))}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        U = kernels.forward(rows.X, self.V)
        WU = U if rows.weight is None else U * rows.weight[:, None]
        return {"gram": kernels.backward(rows.X, WU, len(self.V) > rows.X.shape[1])}


@dataclass(frozen=True)
class FourthProducts(Query):
    """Products of vectors with the Gram and with sum w r^2 xx', r the residuals of a regression ``mean`` (None: y).

    For groups also with the cross terms sum_a s_a s_a' - sum w r^2 xx', s_a the sum of w r x over the group.
    """

    V: Annotated[Array, Field("p c")]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = {
            "gram": Part(self.V.shape, unit(x=2)),
            "fourth": Part(self.V.shape, unit(x=2, y=2)),
            "growth": Part(self.V.shape[:1], unit(x=1, y=2)),
            "rr": Part((), unit(y=2), Kind.AMOUNT),
            "weight": Part((), unit(), Kind.COUNT),
        }
        return parts | pair_parts(self.V.shape, symmetric=False) if grouped else parts

    def shares(self, rows: Rows) -> Array:
        return np.column_stack([np.ones(len(rows)), response(rows, self.mean)])

    def factors(self, rows: Rows) -> Array:
        return times_columns(self, rows, kernels.forward(rows.X, self.V))

    def answer(self, rows: Rows) -> Sums:
        U = kernels.forward(rows.X, self.V)
        r = response(rows, self.mean)
        w = rows.counts
        wr = w * r
        columns = [w[:, None] * U, (wr * r)[:, None] * U, (wr * r)[:, None]]
        if rows.starts is not None:
            pulls = np.add.reduceat(wr[:, None] * U, rows.starts, axis=0)
            columns.append(kernels.to_rows(pulls, wr, rows.starts, len(rows)))
        parts = kernels.backward(rows.X, np.hstack(columns), len(self.V) > rows.X.shape[1])
        c = U.shape[1]
        sums = {
            "gram": parts[:, :c],
            "fourth": parts[:, c : 2 * c],
            "growth": parts[:, 2 * c],
            "rr": np.array(float(wr @ r)),
            "weight": np.array(float(w.sum())),
        }
        if rows.starts is not None:
            sums["pairs"] = parts[:, 2 * c + 1 :] - sums["fourth"]
            sums["pair_count"] = pair_count(rows, rows.starts)
        return sums


@dataclass(frozen=True)
class PosteriorProducts(MixtureQuery):
    """Per component, sum w r_i x (x'v_i): the weighted Grams of the exact M-step times a vector each.

    r_i are the posteriors at ``coef``, ``log_weights`` and ``s2``, times the family's weights.
    """

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    V: Annotated[Array, Field("p k")]
    family: Family = field(default=NORMAL, metadata=OMIT_DEFAULT)
    gate: UnitGate | None = field(default=None, metadata=OMIT_DEFAULT)

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"grams": Part(self.V.shape, unit(x=2))}

    def factors(self, rows: Rows) -> Array:
        return times_columns(self, rows, kernels.forward(rows.X, self.V))

    def answer(self, rows: Rows) -> Sums:
        lines, U = np.hsplit(kernels.forward(rows.X, np.column_stack([self.coef, self.V])), 2)
        terms = self.family.of_rows(rows.beside).terms(rows.y[:, None], with_offset(rows, lines), self.s2)
        R = self.mixing.posterior(rows, terms.log_density).rows
        counted = R if terms.weight is None else R * terms.weight
        return {"grams": kernels.backward(rows.X, counted * U, len(self.V) > rows.X.shape[1])}


def times_columns(query: Query, rows: Rows, products: Array) -> Array:
    """Columns of the rows, and these times each of some products (n, c)."""
    columns = linear_factors(query, rows)
    return np.hstack([columns, *(columns * one[:, None] for one in products.T)])


def _square_sums(rows: Rows, W: Array) -> Array:
    if isinstance(rows.X, Csr):
        return rows.X.square_sums(W)
    X = np.asarray(rows.X)
    return np.stack([np.einsum("ij,ij,i->j", X, X, column, dtype=np.float64) for column in W.T], axis=1)
