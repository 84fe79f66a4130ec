"""Coordinates in which the features are white, so that scale and collinearity trouble no method.

Where there are too many columns for their matrix, coordinates in which every column has variance one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.solving import least_squares

WIDE = 2000
"""With more columns than this no matrix of their second moments is made; see :mod:`wmlr.methods.wide`."""

EIGENVALUE_CUT = 1e-11  # of the largest, in a scaled Gram: columns that follow from others but for rounding
VARIANCE_FLOOR = 1e-6  # of y's variance: a component's likelihood must not run away on a few rows
BLUR = 1e-10  # of y's mean square: what its variance is known to, where y lies far from zero
FLAT = 1e-15
BEYOND_ROUNDING = 1e-30  # of the largest variance: what a column of it shows by rounding alone, squared
MOST_NAMED = 12  # columns in a warning


@dataclass(frozen=True, kw_only=True)
class FrameMoments:
    """The moments of the rows in some coordinates w of their r features.

    Attributes
    ----------
    weight, units : total weight of the rows, and the number of units (rows by their weight, or groups).
    rows : the number of rows that weigh something.
    xy, y, yy : means of w y, of y and of y^2.
    intercept : whether the last feature is a constant.
    ridge : (r, r), or (r,) where it is diagonal: the penalty on squared coefficients, per unit of weight.
    common : the part of ``ridge`` that is on columns shared by all components.
    grouped : whether the rows come in groups.
    usual : the range of y that starts look at, where gross outliers are feared; xy, y, yy are then of the rows in it.
    grain : the power of ten that every y is a multiple of, where that matters; else 0.
    relative_grain : the same, where sigma is relative to where y lies.
    ceiling : the largest variance a component may have.
    spread : the variance, on the scale of the starts, of a response whose sigma is 1.
    gate : how mixing weights move that differ from row to row; None where all rows have the same.
    """

    weight: float
    rows: float
    units: float
    xy: Array
    y: float
    yy: float
    intercept: bool
    ridge: Array
    common: Array
    grouped: bool = False
    usual: tuple[float, float] | None = None
    grain: float = 0.0
    relative_grain: float = 0.0
    ceiling: float = np.inf
    spread: float = 1.0
    gate: Any = None

    @property
    def scale(self) -> float:
        """Root mean square of y; 1 when y is zero throughout."""
        return float(np.sqrt(self.yy)) if self.yy > 0 else 1.0

    @property
    def floor(self) -> float:
        """The least variance a component may have: a millionth of y's about its mean.

        Nor less than what rounding y to its ``grain`` adds.
        """
        variance = max(self.scale**2 - self.y**2, BLUR * self.scale**2) / self.spread
        return max(VARIANCE_FLOOR * variance, self.grain**2 / 12.0)

    def floors(self, levels: Array | None) -> Array:
        """The least variance of each component, given the mean logarithm of a deviation of its y over sigma.

        So that the mean log-density of a component that is one value of y, however often, has a bound which is the
        same wherever that value lies.
        """
        if levels is None or not self.relative_grain:
            return np.asarray(self.floor)
        return np.maximum(self.floor, self.relative_grain**2 / 12.0 * np.exp(-2.0 * levels))

    @cached_property
    def is_penalised(self) -> bool:
        """Whether there is a ridge."""
        return bool(self.ridge.any())

    @property
    def members(self) -> float:
        """How many rows, or groups, there are to fill components, whatever they weigh."""
        return self.units if self.grouped else self.rows


@dataclass(frozen=True, kw_only=True)
class Frame(FrameMoments):
    """A basis of coefficient space, and the moments of the rows seen in it.

    Attributes
    ----------
    basis : (p, r); coefficients on the data's own scale are ``basis @ b``. p counts the intercept.
    gram : (r, r), the mean of ww' for the features w seen in this basis; gram + ridge is the identity when whitened.
    usual_gram : (r, r), the mean of ww' over the same rows as xy, where these are not all.
    sampled : whether ``gram``, and with it the basis, is of a sample: near what all rows say, and not it.
    """

    basis: Array
    gram: Array
    usual_gram: Array | None = None
    sampled: bool = False

    def to_data(self, b: Array) -> Array:
        """Coefficients for the data's own features, from this frame's."""
        return np.asarray(self.basis @ b)

    def mean_of(self, sums: Array) -> Array:
        """A mean over rows in this frame, from a sum of weighted features."""
        return np.asarray(self.basis.T @ sums / self.weight)

    def mean_matrix_of(self, sums: Array) -> Array:
        """A mean of weighted ww' in this frame, from a sum of weighted xx'."""
        return np.asarray(self.basis.T @ sums @ self.basis / self.weight)

    def inside(self, coef: Array) -> Array:
        """This frame's coordinates of given coefficients (p,) or (p, k)."""
        if self.basis.shape[0] == self.basis.shape[1]:
            return np.asarray(np.linalg.solve(self.basis, coef))
        return least_squares(self.basis, coef)

    def unit(self, b: Array) -> Array:
        """A direction made so long that the features along it have mean square one."""
        norm = float(np.sqrt(max(float(b @ self.gram @ b), 0.0)))
        return b / norm if norm > 0 else b

    def shrink(self, b: Array, weights: Array | None = None) -> Array:
        """The ridge's pull on coefficients (r,) or (r, k); shared columns count in each component by its weight."""
        if not self.is_penalised:
            return np.zeros_like(b)
        pull = np.asarray(self.ridge @ b)
        return pull if weights is None else pull - (self.common @ b) * (1.0 - weights)

    @cached_property
    def is_white(self) -> bool:
        """Whether the Gram is the identity, without a ridge: then it need not be multiplied with."""
        return not self.is_penalised and bool(np.array_equal(self.gram, np.eye(self.dimension)))

    @property
    def known_gram(self) -> Array | None:
        """The mean of ww' over all rows; None where only a sample of them told it."""
        return None if self.sampled else self.gram

    @property
    def metric(self) -> Array | None:
        """(p, p), by which a gradient on the data's own scale becomes the step that this frame's gradient is."""
        return np.asarray(self.basis @ self.basis.T)

    @property
    def dimension(self) -> int:
        return int(self.basis.shape[1])

    def narrow(self, sums: Sums, usual: tuple[float, float]) -> Frame:
        """This frame with the moments of the rows in the ``usual`` range of y, from their sums."""
        own = replace(self, weight=float(sums["weight"]))
        return replace(
            self,
            xy=own.mean_of(sums["xy"]),
            y=float(sums["y"]) / own.weight,
            yy=float(sums["yy"]) / own.weight,
            usual=usual,
            usual_gram=own.mean_matrix_of(sums["gram"]),
        )

    @property
    def start_gram(self) -> Array:
        """The mean of ww' over the rows that starts look at."""
        return self.gram if self.usual_gram is None else self.usual_gram

    @property
    def least_squares(self) -> Array:
        """The single (ridge) regression of y on the features, of the rows that starts look at."""
        if self.is_white and self.usual is None:
            return self.xy
        return least_squares(self.start_gram + self.ridge, self.xy)


@dataclass(frozen=True, kw_only=True)
class ScaledFrame(FrameMoments):
    """Columns centred, where there is an intercept, and divided by their deviation: what needs no matrix.

    The last coordinate is the intercept's, if there is one.

    Attributes
    ----------
    means : (d,), what is taken off the columns.
    per : (d,), what they are multiplied by; zero for a column in which nothing varies.
    trace : the mean of y^2 |w|^2.
    usual_weight : the total weight of the rows that xy is of, where these are not all.
    known_gram, metric : None, as there are no matrices of the columns.
    """

    means: Array
    per: Array
    trace: float
    usual_weight: float | None = None
    sampled: ClassVar[bool] = False
    known_gram: ClassVar[None] = None
    metric: ClassVar[None] = None

    def to_data(self, b: Array) -> Array:
        """Coefficients for the data's own features, from this frame's."""
        d = len(self.per)
        slopes = (b[:d].T * self.per).T
        return np.concatenate([slopes, b[d:] - self.means @ slopes]) if self.intercept else slopes

    def mean_of(self, sums: Array) -> Array:
        """A mean over rows in this frame, from a sum of weighted features."""
        d = len(self.per)
        means = sums / self.weight
        if not self.intercept:
            return np.asarray((means.T * self.per).T)
        inner = ((means[:d] - np.multiply.outer(self.means, means[d])).T * self.per).T
        return np.concatenate([inner, means[d:]])

    def inside(self, coef: Array) -> Array:
        """This frame's coordinates of given coefficients (p,) or (p, k)."""
        d = len(self.per)
        inner = (coef[:d].T / np.where(self.per > 0, self.per, np.inf)).T
        return np.concatenate([inner, coef[d:] + self.means @ coef[:d]]) if self.intercept else inner

    def unit(self, b: Array) -> Array:
        """The direction as it is: one that is found by products has its length already."""
        return b

    def shrink(self, b: Array, weights: Array | None = None) -> Array:
        """The ridge's pull on coefficients (r,) or (r, k); shared columns count in each component by its weight."""
        pull = np.asarray((b.T * self.ridge).T)
        return pull if weights is None else pull - (b.T * self.common).T * (1.0 - weights)

    def narrow(self, sums: Sums, usual: tuple[float, float]) -> ScaledFrame:
        """This frame with the moments of the rows in the ``usual`` range of y, from their sums."""
        own = replace(self, weight=float(sums["weight"]))
        y, yy = float(sums["y"]) / own.weight, float(sums["yy"]) / own.weight
        return replace(self, xy=own.mean_of(sums["xy"]), y=y, yy=yy, usual=usual, usual_weight=own.weight)

    @property
    def start_weight(self) -> float:
        """The total weight of the rows that starts look at."""
        return self.weight if self.usual_weight is None else self.usual_weight

    @property
    def dimension(self) -> int:
        return len(self.xy)


def scale_frame(
    sums: Sums, intercept: bool, ridge: float = 0.0, stretch: float = 1.0, shared: tuple[int, ...] = ()
) -> ScaledFrame:
    """The frame from the sums of :class:`Scales`; columns are divided by ``stretch`` times their deviation.

    The data's own coordinates when ``stretch`` is zero.
    """
    weight, d = float(sums["weight"]), len(sums["xx"])
    squares, yy = sums["xx"] / weight, float(sums["yy"]) / weight
    means = sums["x"][:d] / weight if intercept and stretch > 0 else np.zeros(d)
    variances = squares - means**2
    varies = variances > 1e-13 * squares
    per = np.where(varies, 1.0 / (stretch * np.sqrt(np.where(varies, variances, 1.0))), 0.0) if stretch else np.ones(d)
    fourths = (sums["xxyy"] - 2 * means * sums["xyy"][:d]) / weight + means**2 * yy
    last = [0.0] if intercept else []
    penalty = np.append(ridge / weight * per**2, last)
    frame = ScaledFrame(
        means=means,
        per=per,
        weight=weight,
        rows=float(sums["rows"]),
        units=float(sums["units"]),
        xy=sums["xy"],
        yy=yy,
        y=float(sums["y"]) / weight,
        intercept=intercept,
        ridge=penalty,
        common=np.where(np.isin(np.arange(len(penalty)), shared), penalty, 0.0),
        trace=float(per**2 @ fourths) + (yy if intercept else 0.0),
        grouped=float(sums["groups"]) > 0,
    )
    return replace(frame, xy=frame.mean_of(sums["xy"]))


def _frame(sums: Sums, basis: Array, intercept: bool, gram: Array) -> Frame:
    weight = float(sums["weight"])
    return Frame(
        basis=basis,
        gram=gram,
        weight=weight,
        rows=float(sums["rows"]),
        units=float(sums["units"]),
        xy=basis.T @ sums["xy"] / weight,
        y=float(sums["y"]) / weight,
        yy=float(sums["yy"]) / weight,
        intercept=intercept,
        ridge=np.zeros_like(gram),
        common=np.zeros_like(gram),
        grouped=float(sums.get("groups", np.zeros(()))) > 0,
    )


def raw_frame(sums: Sums, intercept: bool) -> Frame:
    """The data's own coordinates, as in the paper."""
    p = len(sums["xy"])
    return _frame(sums, np.eye(p), intercept, sums["gram"] / float(sums["weight"]))


def white_frame(
    sums: Sums,
    intercept: bool,
    ridge: float = 0.0,
    shared: tuple[int, ...] = (),
    noisy: bool = False,
    columns: Spanning | None = None,
) -> Frame:
    """Scale, centre when there is an intercept, and whiten; columns that follow from others are left out and said.

    The last coordinate is the intercept's, if there is one. With a ridge it is the penalised second moment
    that becomes the identity, so that no direction is null. Of ``noisy`` moments directions are left out and not
    columns: noise may take one's variance away where no column follows from others. ``columns`` are those that span
    all, where they are known already.
    """
    weight = float(sums["weight"])
    means, covariance, squares = centred_moments(sums, intercept)
    d = len(means)
    if ridge > 0:
        inner = _ridge_basis(covariance, ridge / weight)
    else:
        columns = spanning_columns(covariance, squares, shared, noisy) if columns is None else columns
        inner = np.zeros((d, len(columns.eigenvalues)))
        inner[columns.kept] = columns.vectors / np.sqrt(columns.eigenvalues) / columns.scale[:, None]
        if inner.shape[1] < d:
            _warn_of_columns_left_out(columns, d, float(sums["rows"]))
    basis = inner
    rank = inner.shape[1]
    if intercept:
        basis = np.zeros((d + 1, rank + 1))
        basis[:d, :rank] = inner
        basis[d, :rank] = -means @ inner
        basis[d, rank] = 1.0
    penalty, common = np.zeros((2, basis.shape[1], basis.shape[1]))
    penalty[:rank, :rank] = ridge / weight * (inner.T @ inner)
    tied = inner[[column for column in shared if column < d]]
    common[:rank, :rank] = ridge / weight * (tied.T @ tied)
    frame = _frame(sums, basis, intercept, np.eye(basis.shape[1]) - penalty)
    return replace(frame, ridge=penalty, common=common)


def centred_moments(sums: Sums, intercept: bool) -> tuple[Array, Array, Array]:
    """Means (0 without an intercept), covariance about them, and mean squares of the columns."""
    second = sums["gram"] / float(sums["weight"])
    d = len(second) - int(intercept)
    means = second[:d, d] if intercept else np.zeros(d)
    covariance = second[:d, :d] - np.outer(means, means)
    varies = np.diag(covariance) > 0  # below zero by rounding where a column is constant
    return means, covariance * np.outer(varies, varies), np.diag(second)[:d]


def _ridge_basis(covariance: Array, ridge: float) -> Array:
    """A basis in which covariance + ridge is the identity and both are diagonal."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    least = BEYOND_ROUNDING * eigenvalues.max(initial=0.0)
    return np.asarray(vectors / np.sqrt(np.maximum(np.maximum(eigenvalues, 0.0) + ridge, least)))


@dataclass(frozen=True)
class Spanning:
    """Columns from which the others follow.

    Attributes
    ----------
    kept : their numbers.
    scale : their deviations.
    eigenvalues, vectors : of their correlations, all that are not nil.
    constant : the number of columns in which nothing varies.
    """

    kept: Integers
    scale: Array
    eigenvalues: Array
    vectors: Array
    constant: int


def spanning_columns(covariance: Array, squares: Array, shared: tuple[int, ...] = (), noisy: bool = False) -> Spanning:
    """Of columns that follow from each other the first stays, and one in ``shared`` only after those that are not.

    Where the moments are ``noisy`` all columns in which something varies stay.
    """
    d = len(covariance)
    variances = np.diag(covariance)
    varies = variances > 1e-13 * squares
    scale = np.sqrt(np.where(varies, variances, 1.0))
    correlation = covariance / np.outer(scale, scale)
    blur = float((squares[varies] / variances[varies]).max(initial=1.0))
    least = max(EIGENVALUE_CUT, 10 * np.finfo(float).eps * d * blur)
    kept = np.flatnonzero(varies)
    eigenvalues, vectors = _eigen(correlation, kept)
    if noisy:
        seen = eigenvalues > least * max(1.0, float(eigenvalues.max(initial=0.0)))
        return Spanning(kept, scale[kept], eigenvalues[seen], vectors[:, seen], int((~varies).sum()))
    cut = least
    while kept.size and eigenvalues[0] <= cut * max(1.0, eigenvalues[-1]):
        order = sorted(kept.tolist(), key=lambda column: column in shared)
        kept = independent(correlation, order, least)
        eigenvalues, vectors = _eigen(correlation, kept)
        cut, least = min(cut, FLAT * d * blur), 10.0 * least
    return Spanning(kept, scale[kept], eigenvalues, vectors, int((~varies).sum()))


def _warn_of_columns_left_out(columns: Spanning, d: int, rows: float) -> None:
    left_out = np.setdiff1d(np.arange(d), columns.kept)
    named = ", ".join(str(column) for column in left_out[:MOST_NAMED]) + (", ..." if len(left_out) > MOST_NAMED else "")
    constant = f", constant or zero columns: {columns.constant}" if columns.constant else ""
    clause = f"; columns that follow from the others get no estimate (number {named}, counted from 0)" if named else ""
    warnings.warn(
        f"the {d} features span only {len(columns.eigenvalues)} directions (n={rows:.0f} rows{constant}){clause}",
        UserWarning,
        stacklevel=3,
    )


def _eigen(correlation: Array, kept: Integers) -> tuple[Array, Array]:
    if not kept.size:
        return np.empty(0), np.empty((0, 0))
    values, vectors = np.linalg.eigh(correlation[np.ix_(kept, kept)])
    return values, vectors


def independent(correlation: Array, order: list[int], least: float) -> Integers:
    """The columns that do not follow from those before them in ``order``, sorted.

    A column follows from others when of its variance no more than the share ``least`` is left without them.
    """
    factor = np.zeros((len(order), len(order)))
    kept: list[int] = []
    for column in order:
        size = len(kept)
        explained = solve_triangular(factor[:size, :size], correlation[kept, column], lower=True, check_finite=False)
        left = float(correlation[column, column] - explained @ explained)
        if left > least:
            factor[size, :size], factor[size, size] = explained, np.sqrt(left)
            kept.append(column)
    return np.sort(np.array(kept, dtype=np.int64))


def orient_columns(vectors: Array) -> Array:
    """Columns with their largest entry positive, so that an eigenvector's sign is no accident."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs))
