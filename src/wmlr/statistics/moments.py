"""Moments of the rows: what scales, whitening, least squares and the spectral starts need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, linear_factors, unit
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Integers, Sums


def response(rows: Rows, mean: Array | None) -> Array:
    """``y``, or what is left of it when a common regression ``mean`` is taken off."""
    return rows.y if mean is None else rows.y - kernels.forward(rows.X, mean)


def in_double(rows: Rows) -> Rows:
    """The rows with features in double precision: converted once, and not in each product."""
    X = rows.X
    return replace(rows, X=X.astype(np.float64)) if isinstance(X, np.ndarray) and X.dtype != np.float64 else rows


def positive_gram(X: Any, weight: Array | None, intercept: bool) -> Array:
    """``X' diag(weight) X`` for weights that are not negative, as Z'Z with z = sqrt(weight) x.

    A matrix times its own transpose takes half the work of a product of two matrices.
    """
    if not isinstance(X, np.ndarray):
        return kernels.gram(X, weight, intercept)
    if weight is None:
        return kernels.gram(X.astype(np.float64, copy=False), None, intercept)
    Z = X * np.sqrt(weight)[:, None]
    if not intercept:
        return np.asarray(Z.T @ Z)
    return kernels.border(Z.T @ Z, kernels.backward(X, weight, intercept))


def scale_parts(p: int) -> dict[str, Part]:
    """What is known of p columns and y after a first look: counts, X'y, and the sums of y and of its square."""
    return {
        "weight": Part((), unit(), Kind.COUNT),
        "rows": Part((), unit(), Kind.COUNT),
        "units": Part((), unit(), Kind.UNITS),
        "groups": Part((), unit()),
        "xy": Part((p,), unit(x=1, y=1)),
        "yy": Part((), unit(y=2), Kind.AMOUNT),
        "y": Part((), unit(y=1)),
    }


def pair_parts(shape: tuple[int, ...], symmetric: bool) -> dict[str, Part]:
    """Sums over pairs of rows of the same group, of r^2 xx' or its products with as many vectors as ``shape`` says.

    Where an agent has more rows than columns, they add up in the directions that the columns have.
    """
    usual = unit(x=2, y=2)
    pairs = Part(
        shape,
        lambda scales: usual(scales) * max(1.0, scales.rows / max(shape[-1], 1)),
        Kind.SYMMETRIC if symmetric else Kind.NUMBER,
    )
    return {"pairs": pairs, "pair_count": Part((), unit(rows=2), Kind.AMOUNT)}


def _fourth_parts(p: int, grouped: bool) -> dict[str, Part]:
    parts = {"fourth": Part((p, p), unit(x=2, y=2), Kind.GRAM)}
    return parts | pair_parts((p, p), symmetric=True) if grouped else parts


@dataclass(frozen=True)
class ResponseMoments(Query):
    """How many rows there are, and the sums of y and of its square: what can be known without a look at X."""

    travels = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = scale_parts(columns)
        return {name: parts[name] for name in parts if name != "xy"}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        w, y = rows.weight, rows.y
        wy = y if w is None else w * y
        return {
            "weight": np.array(rows.total_weight),
            "rows": np.array(float(np.count_nonzero(rows.counts))),
            "units": np.array(float(kernels.unit_counts(len(rows), w, rows.starts).sum())),
            "groups": np.array(0.0 if rows.starts is None else float(len(rows.starts))),
            "yy": np.array(float(wy @ y)),
            "y": np.array(float(wy.sum())),
        }


@dataclass(frozen=True)
class Moments(Query):
    """Gram matrix, X'y and y'y; with ``fourth``, also sum y^2 xx' (and, for groups, sum s_a s_a').

    One pass gives both: the spectral direction needs only differences of these sums.
    """

    intercept: bool = False
    fourth: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        p = columns + self.intercept
        parts = scale_parts(p) | {"gram": Part((p, p), unit(x=2), Kind.GRAM)}
        return parts | _fourth_parts(p, grouped) if self.fourth else parts

    shares = all_alike

    def factors(self, rows: Rows) -> Array:
        """Where there are no fourth moments, matrices have nothing of y."""
        return super().factors(rows) if self.fourth else linear_factors(self, rows)

    def answer(self, rows: Rows) -> Sums:
        rows = in_double(rows)
        w, y = rows.weight, rows.y
        wy = y if w is None else w * y
        sums = ResponseMoments().answer(rows) | {
            "gram": positive_gram(rows.X, w, self.intercept),
            "xy": kernels.backward(rows.X, wy, self.intercept),
        }
        if self.fourth:
            sums |= _fourth(rows, y, wy, self.intercept)
        return sums

    @classmethod
    def answer_alike(cls, queries: Sequence[Self], rows: Rows) -> list[Sums]:
        """Once where several methods ask for the same."""
        found = {query: query.answer(rows) for query in dict.fromkeys(queries)}
        return [found[query] for query in queries]


@dataclass(frozen=True)
class FourthMoments(Query):
    """sum r^2 xx' and sum r^2 x of the residuals r of a regression, for the k-component subspace."""

    mean: Annotated[Array, Field("p")]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return _fourth_parts(len(self.mean), grouped) | {
            "rr": Part((), unit(y=2), Kind.AMOUNT),
            "weight": Part((), unit(), Kind.COUNT),
        }

    def shares(self, rows: Rows) -> Array:
        """All alike, and by their residuals, which another regression would change."""
        return np.column_stack([np.ones(len(rows)), response(rows, self.mean)])

    def answer(self, rows: Rows) -> Sums:
        rows = in_double(rows)
        intercept = len(self.mean) == rows.X.shape[1] + 1
        r = response(rows, self.mean)
        wr = r if rows.weight is None else rows.weight * r
        return _fourth(rows, r, wr, intercept) | {
            "rr": np.array(float(wr @ r)),
            "weight": np.array(rows.total_weight),
        }


def pair_count(rows: Rows, starts: Integers) -> Array:
    """How many ordered pairs of rows of the same group there are, by weight."""
    sizes = np.add.reduceat(rows.counts, starts)
    return np.array(float(sizes @ sizes - sizes.sum()))


def _fourth(rows: Rows, r: Array, wr: Array, intercept: bool) -> Sums:
    sums = {"fourth": positive_gram(rows.X, wr * r, intercept)}
    if rows.starts is not None:
        S = kernels.group_sums(rows.X, wr, rows.starts)
        square = kernels.gram(S, None, intercept=False)
        if intercept:
            last = np.add.reduceat(wr, rows.starts)
            square = kernels.border(square, np.append(S.T @ last, last @ last))
        sums["pairs"] = square - sums["fourth"]
        sums["pair_count"] = pair_count(rows, rows.starts)
    return sums


@dataclass(frozen=True)
class SecondMoments(Query):
    """sum w y^2 and sum w u^2 with u = x'beta."""

    beta: Annotated[Array, Field("p")]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"yy": Part((), unit(y=2), Kind.AMOUNT), "uu": Part((), unit(y=2), Kind.AMOUNT)}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.beta)
        w = rows.counts
        return {"yy": np.array(float(w @ (y * y))), "uu": np.array(float(w @ (u * u)))}
