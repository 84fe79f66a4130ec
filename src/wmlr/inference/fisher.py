"""How well the parameters of a mixture can be known: Fisher information and the Cramer-Rao bound.

Given ``x``, every score of the model is a scalar function of ``y``, times ``x`` for a coefficient.
So the information of a row is a small matrix of expectations over ``y`` given ``x``, spread over
``xx'``: the small matrix comes from quadrature, the rest is a handful of weighted Grams.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky
from scipy.special import ndtri
from sklearn.utils import check_array

from wmlr.families import Noise, Normal
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI

_BLOCK = 4096  # rows of X at a time
_CELLS = 2**19  # numbers per array in the quadrature, so that its working set stays in cache
_POINTS_PER_PANEL = 16
_SOBOL_LOG2 = 12


@dataclass(frozen=True, eq=False)
class CramerRao:
    """The best covariance an unbiased estimate can have.

    Attributes
    ----------
    information : ndarray of shape (p, p)
        Fisher information of the free parameters, in the order of `fisher_information`.
    covariance : ndarray of shape (p, p)
        Its inverse.
    relative_error : float
        Root mean square error of the coefficients (intercepts left out) over their length:
        ``sqrt(trace) / ||coef||_F``, or ``/ ||beta||`` for a symmetric pair.
    """

    information: Array
    covariance: Array
    relative_error: float


def fisher_information(
    mixture: Mixture,
    X: ArrayLike,
    *,
    equal_weights: bool = False,
    shared_sigma: bool = True,
    sigma_known: bool = False,
    intercept: bool = False,
    nodes: int = 64,
) -> Array:
    """Expected information of the free parameters, summed over the rows of X.

    The parameters are, in this order: the coefficients of component 1 (then its intercept), of
    component 2, ..., of component k; the logarithm of sigma, one or k; and the softmax logits of
    the first k-1 weights relative to the last. For a symmetric mixture they are ``beta`` and
    ``log sigma`` only.

    Parameters
    ----------
    mixture : Mixture
        Where to evaluate.
    X : array-like of shape (n_samples, n_features)
    equal_weights : bool, default=False
        Whether the weights are given rather than estimated.
    shared_sigma : bool, default=True
        Whether the components have one sigma in common.
    sigma_known : bool, default=False
        Whether sigma is given rather than estimated.
    intercept : bool, default=False
        Whether each component has an intercept to be estimated; otherwise the intercepts of the
        mixture are taken as given.
    nodes : int, default=64
        Quadrature nodes over ``y`` per component, in panels of 16. 64 leave an error near
        1e-6 of the information. Student's noise has more of them, out in its tails.

    Returns
    -------
    ndarray of shape (p, p)

    Examples
    --------
    One component is ordinary least squares:

    >>> from wmlr.inference import fisher_information
    >>> from wmlr.model import Mixture
    >>> fisher_information(Mixture.of([[3.0]], sigma=2.0), [[1.0], [3.0]]).round(6)
    array([[2.5, 0. ],
           [0. , 4. ]])
    """
    return _information_of_rows(_Free.of(mixture, equal_weights, shared_sigma, sigma_known, intercept, nodes), X)


def cramer_rao(
    mixture: Mixture,
    X: ArrayLike | None = None,
    *,
    n: float | None = None,
    covariance: ArrayLike | None = None,
    equal_weights: bool = False,
    shared_sigma: bool = True,
    sigma_known: bool = False,
    intercept: bool = False,
    nodes: int = 64,
) -> CramerRao:
    """The Cramer-Rao bound at given rows, or for n rows drawn from ``N(0, covariance)``.

    Parameters
    ----------
    mixture : Mixture
        The true model.
    X : array-like of shape (n_samples, n_features), optional
        The rows. Without them x is Gaussian, and ``n`` is required: the average over x is then a
        one-dimensional integral for a symmetric pair, and an average over 4,096 Sobol points in
        the span of the coefficients otherwise; the other directions are exact.
    n : number, optional
        How many Gaussian rows.
    covariance : array-like of shape (n_features, n_features), optional
        Of the Gaussian x; the identity when omitted.
    equal_weights, shared_sigma, sigma_known, intercept, nodes
        As for `fisher_information`.

    Returns
    -------
    CramerRao

    Examples
    --------
    The paper's setting, 128 features at signal-to-noise ratio 10:

    >>> import numpy as np
    >>> from wmlr.inference import cramer_rao
    >>> from wmlr.model import Mixture
    >>> pair = Mixture.symmetric_pair(10 * np.eye(128)[0], sigma=1.0)
    >>> round(cramer_rao(pair, n=100_000).relative_error, 4)
    0.0037
    """
    length = float(np.linalg.norm(mixture.coef[0] if mixture.symmetric else mixture.coef))
    if length == 0.0:
        raise ValueError("the coefficients are all zero: they have no relative error")
    if X is not None:
        if n is not None or covariance is not None:
            raise ValueError("X already says how many rows there are and where: leave out n and covariance")
    elif n is None or not n > 0:
        raise ValueError(f"give the rows X, or a positive number n of Gaussian rows (got n={n!r})")
    free = _Free.of(mixture, equal_weights, shared_sigma, sigma_known, intercept, nodes)
    if n is None:
        information = _information_of_rows(free, X)
    else:
        information = n * _gaussian_information(free, _root(covariance, mixture.n_features))
    bound = _inverse(information)
    d, width = mixture.n_features, mixture.n_features + intercept
    vectors = 1 if mixture.symmetric else mixture.n_components
    variances = np.diag(bound)[: vectors * width].reshape(vectors, width)[:, :d]
    return CramerRao(information, bound, float(np.sqrt(variances.sum())) / length)


@dataclass(frozen=True)
class _Free:
    """Which parameters of a mixture are free.

    ``selection`` maps the scalar scores of the full model (k of the means, k of the log sigmas, k
    of the logits) to those of the free parameters; the first ``vectors`` of these multiply x.
    """

    mixture: Mixture
    selection: Array
    vectors: int
    intercept: bool
    nodes: int

    @classmethod
    def of(
        cls, mixture: Mixture, equal_weights: bool, shared_sigma: bool, sigma_known: bool, intercept: bool, nodes: int
    ) -> _Free:
        _check(mixture, shared_sigma and not sigma_known, intercept, nodes)
        k = mixture.n_components
        zero, one = np.zeros((k, k)), np.eye(k)
        contrast = np.array([[1.0, -1.0]]) if mixture.symmetric else one
        parts = [contrast @ np.hstack([one, zero, zero])]
        vectors = len(contrast)
        if not sigma_known:
            every = np.hstack([zero, one, zero])
            parts.append(every.sum(axis=0, keepdims=True) if shared_sigma or mixture.symmetric else every)
        if not (equal_weights or mixture.symmetric):
            parts.append(np.hstack([zero, zero, one])[:-1])
        return cls(mixture, np.vstack(parts), vectors, intercept, nodes)

    @property
    def scalars(self) -> int:
        return len(self.selection) - self.vectors

    def conditional_information(self, means: Array) -> Array:
        """The information of the scalar scores, given the component means of each row: (n, s, s)."""
        noise = self.mixture.noise
        if not self.mixture.symmetric or np.isinf(noise.far):
            mixture = self.mixture
            return _conditional(noise, means, mixture.sigma, mixture.weights, self.selection, self.nodes)
        sigma = float(self.mixture.sigma[0])
        gain, cross, scale = _pair_table(noise, self.nodes)
        u = (means[:, 0] - means[:, 1]) / (2.0 * sigma)
        w = np.minimum(np.abs(u), noise.far)
        inner = np.empty((len(u), 1 + self.scalars, 1 + self.scalars))
        inner[:, 0, 0] = gain(w) / sigma**2
        if self.scalars:
            inner[:, 0, 1] = inner[:, 1, 0] = np.sign(u) * cross(w) / sigma
            inner[:, 1, 1] = scale(w)
        return inner


@dataclass(frozen=True)
class _Moments:
    """Sums over rows of the inner information times ``xx'``, ``x`` and 1."""

    quadratic: Array  # (v, v, q, q)
    linear: Array  # (v, s, q)
    constant: Array  # (s, s)

    @classmethod
    def zero(cls, free: _Free) -> _Moments:
        v, s, q = free.vectors, free.scalars, free.mixture.n_features + free.intercept
        return cls(np.zeros((v, v, q, q)), np.zeros((v, s, q)), np.zeros((s, s)))

    def plus(self, design: Array, inner: Array) -> _Moments:
        """Add rows ``design`` (n, q) whose inner information is ``inner`` (n, v + s, v + s)."""
        v = len(self.quadratic)
        quadratic = np.empty_like(self.quadratic)
        for i in range(v):
            for j in range(i + 1):
                gram = design.T @ (inner[:, i, j, None] * design)
                quadratic[i, j] = quadratic[j, i] = 0.5 * (gram + gram.T)
        linear = np.einsum("nis,nq->isq", inner[:, :v, v:], design, optimize=True)
        return _Moments(self.quadratic + quadratic, self.linear + linear, self.constant + inner[:, v:, v:].sum(axis=0))

    def matrix(self) -> Array:
        """The information: vector parameters first, then the scalar ones."""
        v, s, q = self.linear.shape
        coefficients = self.quadratic.transpose(0, 2, 1, 3).reshape(v * q, v * q)
        border = self.linear.transpose(0, 2, 1).reshape(v * q, s)
        return np.block([[coefficients, border], [border.T, self.constant]])


def _check(mixture: Mixture, one_sigma: bool, intercept: bool, nodes: int) -> None:
    if nodes < _POINTS_PER_PANEL:
        raise ValueError(f"nodes must be at least {_POINTS_PER_PANEL} (got {nodes})")
    if not np.all(mixture.sigma > 0):
        raise ValueError(f"every sigma of a mixture must be positive (got {mixture.sigma})")
    if (one_sigma or mixture.symmetric) and not np.allclose(mixture.sigma, mixture.sigma[0], rtol=1e-8, atol=0.0):
        raise ValueError(f"the sigmas differ (got {mixture.sigma}): pass shared_sigma=False, or make them equal")
    if mixture.symmetric:
        if intercept or np.any(mixture.intercept):
            raise ValueError(
                "a symmetric pair has no intercepts: pass intercept=False, or symmetric=False in the model"
            )
        if mixture.n_components != 2 or not np.allclose(mixture.coef[0], -mixture.coef[1], rtol=1e-8, atol=0.0):
            raise ValueError(f"a symmetric pair has coefficients beta and -beta (got {mixture.coef})")
        if not np.allclose(mixture.weights, 0.5):
            raise ValueError(f"a symmetric pair has weights .5 and .5 (got {mixture.weights})")


def _panels(noise: Noise, centres: Array, scales: Array, nodes: int) -> tuple[Array, Array]:
    """Composite Gauss-Legendre nodes and weights on the line, one rule per row of ``centres`` (m, c).

    Panel ends are laid over every centre in its own scale and merged, so that a narrow feature
    inside a wide one is resolved.
    """
    ticks = noise.panels(-(-nodes // _POINTS_PER_PANEL))
    ends = np.sort((centres[:, :, None] + scales[:, None] * ticks).reshape(len(centres), -1), axis=1)
    points, weights = np.polynomial.legendre.leggauss(_POINTS_PER_PANEL)
    half = 0.5 * np.diff(ends, axis=1)[:, :, None]
    middle = 0.5 * (ends[:, 1:] + ends[:, :-1])[:, :, None]
    shape = (len(centres), -1)
    return (middle + half * points).reshape(shape), (half * weights).reshape(shape)


def _conditional(noise: Noise, means: Array, sigma: Array, weights: Array, selection: Array, nodes: int) -> Array:
    """``E[g g' | x]`` for the selected scalar scores g, rows given by their component means (n, k)."""
    k = len(sigma)
    information = np.empty((len(means), len(selection), len(selection)))
    points = k * _POINTS_PER_PANEL * len(noise.panels(-(-nodes // _POINTS_PER_PANEL)))
    step = max(1, _CELLS // (points * 3 * k))
    with np.errstate(divide="ignore"):
        offsets = np.log(weights) - np.log(sigma)
    for start in range(0, len(means), step):
        block = means[start : start + step]
        y, dy = _panels(noise, block, sigma, nodes)
        z = (y[:, None, :] - block[:, :, None]) / sigma[:, None]
        joint = offsets[:, None] + noise.log_density(z)
        top = joint.max(axis=1, keepdims=True)
        shares = np.exp(joint - top)
        total = shares.sum(axis=1, keepdims=True)
        shares /= total
        density = np.exp(top) * total
        pull = -noise.slope(z)
        of_means, of_scales = shares * pull / sigma[:, None], shares * (z * pull - 1.0)
        scores = np.concatenate([of_means, of_scales, shares - weights[:, None]], axis=1)
        chosen = selection @ scores
        information[start : start + step] = (chosen * (density * dy[:, None, :])) @ chosen.transpose(0, 2, 1)
    return information


@lru_cache(maxsize=8)
def _pair_table(noise: Noise, nodes: int) -> tuple[Any, Any, Any]:
    """Information of (beta, log sigma) in a symmetric pair with sigma 1, against ``w = |x'beta|``.

    The first is ``Var(y tanh(yw))``, from 0 at w = 0 to 1; the last tends to 2, the middle to 0.
    """
    from scipy.interpolate import CubicSpline

    w = np.linspace(0.0, noise.far, 1201)
    selection = np.array([[1.0, -1.0, 0, 0, 0, 0], [0, 0, 1.0, 1.0, 0, 0]])
    values = _conditional(noise, np.column_stack([w, -w]), np.ones(2), np.full(2, 0.5), selection, nodes)
    return CubicSpline(w, values[:, 0, 0]), CubicSpline(w, values[:, 0, 1]), CubicSpline(w, values[:, 1, 1])


def _information_of_rows(free: _Free, X: Any) -> Array:
    """Expected information of the rows of X."""
    mixture, rows = free.mixture, check_array(X, dtype=np.float64)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(f"X must have {mixture.n_features} columns, as the mixture has (got {rows.shape[1]})")
    total = _Moments.zero(free)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        design = np.column_stack([block, np.ones(len(block))]) if free.intercept else block
        total = total.plus(design, free.conditional_information(mixture.means(block)))
    return total.matrix()


def _gaussian_information(free: _Free, root: Array) -> Array:
    """Expected information of one row ``x = root @ w``, ``w ~ N(0, I)``.

    The inner information depends on w through its coordinates ``a`` in the span of the whitened
    coefficients. Across that span, w is independent of it with covariance I.
    """
    mixture = free.mixture
    whitened = mixture.coef @ root
    _, lengths, directions = np.linalg.svd(whitened, full_matrices=False)
    span = directions[lengths > 1e-12 * lengths[0]]
    if mixture.symmetric:
        a, probability = _line_points(float(np.linalg.norm(whitened[0]) / mixture.sigma[0]), free.nodes)
    else:
        a, probability = _sobol_points(len(span))
    inner = free.conditional_information(a @ span @ whitened.T + mixture.intercept) * probability[:, None, None]

    v, d = free.vectors, mixture.n_features
    along = np.column_stack([a @ span, np.ones(len(a))]) if free.intercept else a @ span
    total = _Moments.zero(free).plus(along, inner)
    across = np.zeros((d + free.intercept, d + free.intercept))
    across[:d, :d] = np.eye(d) - span.T @ span
    quadratic = total.quadratic + inner[:, :v, :v].sum(axis=0)[:, :, None, None] * across
    spread = np.eye(d + free.intercept)
    spread[:d, :d] = root
    return _Moments(spread @ quadratic @ spread.T, total.linear @ spread.T, total.constant).matrix()


def _line_points(snr: float, nodes: int) -> tuple[Array, Array]:
    """Points (m, 1) and probabilities for ``N(0, 1)`` that also resolve features ``1 / snr`` wide."""
    points, weights = _panels(Normal(), np.zeros((1, 2)), np.array([1.0, 1.0 / snr]), nodes)
    return points.T, np.exp(-0.5 * (points[0] ** 2 + LOG_2PI)) * weights[0]


def _sobol_points(dimension: int) -> tuple[Array, Array]:
    """Points (m, dimension) and probabilities for ``N(0, I)``, with its mean and covariance exactly."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(dimension, scramble=False).random_base2(_SOBOL_LOG2) + 0.5 ** (_SOBOL_LOG2 + 1)
    points = ndtri(uniform)
    points -= points.mean(axis=0)
    factor = np.linalg.cholesky(points.T @ points / len(points))
    return np.linalg.solve(factor, points.T).T, np.full(len(points), 1.0 / len(points))


def _root(covariance: ArrayLike | None, d: int) -> Array:
    """Lower triangular L with ``L L' = covariance``."""
    if covariance is None:
        return np.eye(d)
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (d, d):
        raise ValueError(f"covariance must be ({d}, {d}), one line per feature (got shape {matrix.shape})")
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ValueError("covariance must be positive definite: drop the features that repeat others") from error


def _inverse(information: Array) -> Array:
    """Inverse of a positive definite matrix, its diagonal scaled to 1 first."""
    scale = np.sqrt(np.diag(information))
    remedy = "a direction of the parameters cannot be learned from these rows; give more rows or fix parameters"
    if not np.all(scale > 0):
        raise ValueError(f"the information is singular (zero for parameter {int(np.argmin(scale))}): {remedy}")
    scaled = information / scale / scale[:, None]
    smallest = float(np.linalg.eigvalsh(scaled)[0])
    if smallest < 1e-13 * len(scaled):
        raise ValueError(f"the information is singular (smallest scaled eigenvalue {smallest:.1e}): {remedy}")
    inverse = cho_solve((cholesky(scaled, lower=True), True), np.eye(len(scaled)))
    return np.asarray(0.5 * (inverse + inverse.T) / scale / scale[:, None])
