"""Coordinates in which the features are white, so that scale and collinearity trouble no method.

Where there are too many columns for their matrix, coordinates in which every column has variance one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from wmlr.round import Array, Sums

WIDE = 2000
"""With more columns than this no matrix of their second moments is made; see :mod:`wmlr.methods.wide`."""

EIGENVALUE_CUT = 1e-11
VARIANCE_FLOOR = 1e-6
BLUR = 1e-10


class Measured:
    """What the size of y says, in any coordinates.

    ``y`` and ``yy`` are the means of y and of y^2, ``rows`` the number of rows that weigh something.
    """

    y: float
    yy: float
    rows: float
    units: float
    grouped: bool

    @property
    def scale(self) -> float:
        """Root mean square of y; 1 when y is zero throughout."""
        return float(np.sqrt(self.yy)) if self.yy > 0 else 1.0

    @property
    def floor(self) -> float:
        """The least variance a component may have: a millionth of y's about its mean."""
        return VARIANCE_FLOOR * max(self.scale**2 - self.y**2, BLUR * self.scale**2)

    @property
    def members(self) -> float:
        """How many rows, or groups, there are to fill components, whatever they weigh."""
        return self.units if self.grouped else self.rows


@dataclass(frozen=True)
class Frame(Measured):
    """A basis of coefficient space, and the moments of the rows seen in it.

    Attributes
    ----------
    basis : (p, r); coefficients on the data's own scale are ``basis @ b``. p counts the intercept.
    gram : (r, r), the mean of ww' for the features w seen in this basis; the identity when whitened.
    ridge : (r, r), the penalty on squared coefficients in this basis, per unit of weight; gram + ridge is
        the identity when whitened.
    weight, units : total weight of the rows, and the number of units (rows by their weight, or groups).
    rows : the number of rows that weigh something.
    xy, y, yy : means of w y, of y and of y^2.
    grouped : whether the rows come in groups.
    usual : the range of y that starts look at, where gross outliers are feared.
    """

    basis: Array
    gram: Array
    weight: float
    rows: float
    units: float
    xy: Array
    y: float
    yy: float
    intercept: bool
    ridge: Array
    grouped: bool = False
    usual: tuple[float, float] | None = None

    def raw(self, b: Array) -> Array:
        """Coefficients for the data's own features, from this frame's."""
        return np.asarray(self.basis @ b)

    def pull(self, sums: Array) -> Array:
        """A mean over rows in this frame, from a sum of weighted features."""
        return np.asarray(self.basis.T @ sums / self.weight)

    def pull_matrix(self, sums: Array) -> Array:
        """A mean of weighted ww' in this frame, from a sum of weighted xx'."""
        return np.asarray(self.basis.T @ sums @ self.basis / self.weight)

    def inside(self, coef: Array) -> Array:
        """This frame's coordinates of given coefficients (p,) or (p, k)."""
        return np.asarray(np.linalg.lstsq(self.basis, coef, rcond=None)[0])

    def unit(self, b: Array) -> Array:
        """A direction made so long that the features along it have mean square one."""
        norm = float(np.sqrt(b @ self.gram @ b))
        return b / norm if norm > 0 else b

    def shrink(self, b: Array) -> Array:
        """The ridge's pull on coefficients (r,) or (r, k)."""
        return np.asarray(self.ridge @ b)

    @property
    def dimension(self) -> int:
        return int(self.basis.shape[1])

    @property
    def least_squares(self) -> Array:
        """The single (ridge) regression of y on the features."""
        return np.asarray(np.linalg.lstsq(self.gram + self.ridge, self.xy, rcond=None)[0])


@dataclass(frozen=True)
class ScaledFrame(Measured):
    """Columns centred, where there is an intercept, and divided by their deviation: what needs no matrix.

    The last coordinate is the intercept's, if there is one.

    Attributes
    ----------
    means : (d,), what is taken off the columns.
    per : (d,), what they are multiplied by; zero for a column in which nothing varies.
    ridge : (r,), the penalty on squared coefficients in these coordinates, per unit of weight.
    weight, rows, units, xy, yy, usual : as in :class:`Frame`.
    y : the mean of y.
    trace : the mean of y^2 |w|^2.
    grouped : whether the rows come in groups.
    """

    means: Array
    per: Array
    weight: float
    rows: float
    units: float
    xy: Array
    yy: float
    y: float
    intercept: bool
    ridge: Array
    trace: float
    grouped: bool = False
    usual: tuple[float, float] | None = None

    def raw(self, b: Array) -> Array:
        """Coefficients for the data's own features, from this frame's."""
        d = len(self.per)
        slopes = (b[:d].T * self.per).T
        return np.concatenate([slopes, b[d:] - self.means @ slopes]) if self.intercept else slopes

    def pull(self, sums: Array) -> Array:
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

    def shrink(self, b: Array) -> Array:
        """The ridge's pull on coefficients (r,) or (r, k)."""
        return np.asarray((b.T * self.ridge).T)

    @property
    def dimension(self) -> int:
        return len(self.xy)


def scaled(sums: Sums, intercept: bool, ridge: float = 0.0, stretch: float = 1.0) -> ScaledFrame:
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
        ridge=np.append(ridge / weight * per**2, last),
        trace=float(per**2 @ fourths) + (yy if intercept else 0.0),
        grouped=float(sums["groups"]) > 0,
    )
    return replace(frame, xy=frame.pull(sums["xy"]))


def _frame(sums: Sums, basis: Array, intercept: bool, gram: Array, ridge: Array | None = None) -> Frame:
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
        ridge=np.zeros_like(gram) if ridge is None else ridge,
        grouped=float(sums.get("groups", np.zeros(()))) > 0,
    )


def raw_frame(sums: Sums, intercept: bool) -> Frame:
    """The data's own coordinates, as in the paper."""
    p = len(sums["xy"])
    return _frame(sums, np.eye(p), intercept, sums["gram"] / float(sums["weight"]))


def whitened(sums: Sums, intercept: bool, ridge: float = 0.0) -> Frame:
    """Scale, centre when there is an intercept, and whiten; null directions are dropped and said.

    The last coordinate is the intercept's, if there is one. With a ridge it is the penalised second moment
    that becomes the identity, so that no direction is null.
    """
    weight = float(sums["weight"])
    second = sums["gram"] / weight
    p = len(second)
    d = p - 1 if intercept else p
    means = second[:d, d] if intercept else np.zeros(d)
    covariance = second[:d, :d] - np.outer(means, means)
    if ridge > 0:
        inner = _ridged(covariance, ridge / weight)
    else:
        inner = _whitening(covariance, np.diag(second)[:d], float(sums["rows"]))
    basis = inner
    rank = inner.shape[1]
    if intercept:
        basis = np.zeros((p, rank + 1))
        basis[:d, :rank] = inner
        basis[d, :rank] = -means @ inner
        basis[d, rank] = 1.0
    penalty = np.zeros((basis.shape[1], basis.shape[1]))
    penalty[:rank, :rank] = ridge / weight * (inner.T @ inner)
    return _frame(sums, basis, intercept, np.eye(basis.shape[1]) - penalty, penalty)


def _ridged(covariance: Array, ridge: float) -> Array:
    """A basis in which covariance + ridge is the identity and both are diagonal."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + ridge))


def _whitening(covariance: Array, squares: Array, rows: float) -> Array:
    """A basis in which the covariance is the identity, without the directions in which nothing varies."""
    d = len(covariance)
    variances = np.diag(covariance)
    varies = variances > 1e-13 * squares
    scale = np.sqrt(variances[varies])
    correlation = covariance[np.ix_(varies, varies)] / np.outer(scale, scale)
    eigenvalues, vectors = np.linalg.eigh(correlation) if scale.size else (np.empty(0), np.empty((0, 0)))
    blur = float((squares[varies] / variances[varies]).max()) if scale.size else 1.0
    cut = max(EIGENVALUE_CUT, 10 * np.finfo(float).eps * d * blur) * max(1.0, eigenvalues.max(initial=0.0))
    kept = eigenvalues > cut
    rank = int(kept.sum())
    if rank < d:
        still = int((~varies).sum())
        warnings.warn(
            f"the {d} features span only {rank} directions (n={rows:.0f} rows"
            f"{f', constant or zero columns: {still}' if still else ''}); "
            "coefficients of collinear columns are shared out between them",
            UserWarning,
            stacklevel=2,
        )
    inner = np.zeros((d, rank))
    inner[varies] = vectors[:, kept] / np.sqrt(eigenvalues[kept]) / scale[:, None]
    return inner
