"""Coordinates in which the features are white, so that scale and collinearity trouble no method."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from wmlr.round import Array, Sums

EIGENVALUE_CUT = 1e-11
VARIANCE_FLOOR = 1e-6


@dataclass(frozen=True)
class Frame:
    """A basis of coefficient space, and the moments of the rows seen in it.

    Attributes
    ----------
    basis : (p, r); coefficients on the data's own scale are ``basis @ b``. p counts the intercept.
    gram : (r, r), the mean of ww' for the features w seen in this basis; the identity when whitened.
    ridge : (r, r), the penalty on squared coefficients in this basis, per unit of weight; gram + ridge is
        the identity when whitened.
    weight, units : total weight of the rows, and the number of units (rows or groups).
    xy, yy : means of w y and of y^2.
    usual : the range of y that starts look at, where gross outliers are feared.
    """

    basis: Array
    gram: Array
    weight: float
    rows: float
    units: float
    xy: Array
    yy: float
    intercept: bool
    ridge: Array
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

    @property
    def dimension(self) -> int:
        return int(self.basis.shape[1])

    @property
    def scale(self) -> float:
        """Root mean square of y; 1 when y is zero throughout."""
        return float(np.sqrt(self.yy)) if self.yy > 0 else 1.0

    @property
    def floor(self) -> float:
        """The least variance a component may have."""
        return VARIANCE_FLOOR * self.scale**2

    @property
    def least_squares(self) -> Array:
        """The single (ridge) regression of y on the features."""
        return np.asarray(np.linalg.lstsq(self.gram + self.ridge, self.xy, rcond=None)[0])


def _frame(sums: Sums, basis: Array, intercept: bool, gram: Array, ridge: Array | None = None) -> Frame:
    weight = float(sums["weight"])
    return Frame(
        basis=basis,
        gram=gram,
        weight=weight,
        rows=float(sums["rows"]),
        units=float(sums["units"]),
        xy=basis.T @ sums["xy"] / weight,
        yy=float(sums["yy"]) / weight,
        intercept=intercept,
        ridge=np.zeros_like(gram) if ridge is None else ridge,
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
