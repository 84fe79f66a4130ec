"""How far a fitted mixture is from another: in its coefficients, and in the law of ``y`` given ``x``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from wmlr.families import Noise
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.matching import cheapest_matching

# Two Gauss points per piece integrate the square of a linear function exactly.
_GAUSS = 0.5 - 0.5 / np.sqrt(3.0)

Quantiles = tuple[Array, Array]


def coefficient_error(estimated: ArrayLike, true: ArrayLike) -> float:
    """Relative l2 error of the coefficients, whatever the order of the components.

    Parameters
    ----------
    estimated, true : array-like of shape (n_components, n_features) or (n_features,)
        One vector per component. A single vector ``beta`` stands for the symmetric pair
        ``beta, -beta``.

    Returns
    -------
    float
        The smallest ``||E - T||_F / ||T||_F`` over the orders of the rows of E. For a symmetric
        pair that is the smaller of ``|b - beta|`` and ``|b + beta|``, over ``|beta|``.

    Raises
    ------
    ValueError
        When the shapes do not match, a number is not finite, or ``true`` is zero, where a relative
        error has no meaning.

    Examples
    --------
    >>> from wmlr.metrics import coefficient_error
    >>> coefficient_error([-1.0, 0.1], [1.0, 0.0])
    0.1
    >>> coefficient_error([[0, 1], [1, 0]], [[1, 0], [0, 1]])
    0.0
    """
    E = np.asarray(estimated, dtype=np.float64)
    T = np.asarray(true, dtype=np.float64)
    shapes = f"(got {E.shape} and {T.shape})"
    if E.ndim == 1:
        E = np.stack([E, -E])
    if T.ndim == 1:
        T = np.stack([T, -T])
    if E.ndim != 2 or E.shape != T.shape or E.size == 0:
        raise ValueError(
            "estimated and true must have the same shape, (n_components, n_features), "
            f"or (n_features,) for a symmetric pair {shapes}"
        )
    for name, values in (("estimated", E), ("true", T)):
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} must be finite (got {values})")
    scale = float(np.linalg.norm(T))
    if scale == 0.0:
        raise ValueError("true must not be all zero: the relative error is undefined; use a norm of the difference")
    squared = ((E[:, None, :] - T[None, :, :]) ** 2).sum(axis=2)
    return float(np.sqrt(squared[np.arange(len(T)), cheapest_matching(squared)].sum())) / scale


def wasserstein2(model_a: Any, model_b: Any, X: Any) -> float:
    """Expected 2-Wasserstein distance between two mixtures of regressions.

    The paper's ``E_x[W2(P(y|x), Q(y|x))]``, with the mean over the rows of X as the expectation.

    Parameters
    ----------
    model_a, model_b : Mixture, or a fitted estimator with a ``mixture_``
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    float
        Never negative, zero for equal models, symmetric in the two, and a metric.

    See Also
    --------
    wasserstein2_rows : the distance at every row.

    Examples
    --------
    >>> from wmlr.metrics import wasserstein2
    >>> from wmlr.model import Mixture
    >>> round(wasserstein2(Mixture.of([[1.0]]), Mixture.of([[3.0]]), [[1.0], [2.0]]), 6)
    3.0
    """
    return float(wasserstein2_rows(model_a, model_b, X).mean())


def wasserstein2_rows(model_a: Any, model_b: Any, X: Any) -> Array:
    """2-Wasserstein distance between two mixtures of regressions at every row of X.

    On the line W2 is the L2 distance of the quantile functions. Each is taken as linear between
    knots placed over every component of its own mixture, so that far apart modes and small weights
    are resolved alike, and the squared difference is integrated exactly piece by piece, from either
    end to the middle so that no tail is rounded off. The result is within about 1e-4 of the exact
    distance, relative to the spread of ``y`` given ``x``, and satisfies the triangle inequality to
    rounding.

    Parameters
    ----------
    model_a, model_b : Mixture, or a fitted estimator with a ``mixture_``
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        For Student's noise of at most 2 degrees of freedom, which has no second moment.
    """
    means_a, mixture_a = _component_means(model_a, X)
    means_b, mixture_b = _component_means(model_b, X)
    distances = np.empty(len(means_a))
    knots_a, knots_b = mixture_a.noise.knots(), mixture_b.noise.knots()
    for row, (centre_a, centre_b) in enumerate(zip(means_a, means_b)):
        halves_a = _quantiles(centre_a, mixture_a, mixture_a.noise, knots_a)
        halves_b = _quantiles(centre_b, mixture_b, mixture_b.noise, knots_b)
        distances[row] = np.sqrt(sum(_squared_difference(a, b) for a, b in zip(halves_a, halves_b)))
    return distances


def _component_means(model: Any, X: Any) -> tuple[Array, Mixture]:
    """The component means at the rows of X, and the mixture they belong to."""
    mixture = model if isinstance(model, Mixture) else getattr(model, "mixture_", None)
    if not isinstance(mixture, Mixture):
        raise TypeError(f"a model must be a Mixture or a fitted estimator with a mixture_ (got {model!r})")
    if not np.all(mixture.sigma > 0):
        raise ValueError(f"every sigma of a mixture must be positive (got {mixture.sigma})")
    if hasattr(model, "predict_components"):
        return np.asarray(model.predict_components(X), dtype=np.float64), mixture
    rows = check_array(X, dtype=np.float64)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(f"X must have {mixture.n_features} columns, as the mixture has (got {rows.shape[1]})")
    return mixture.means(rows), mixture


def _quantiles(means: Array, mixture: Mixture, noise: Noise, knots: Array) -> tuple[Quantiles, Quantiles]:
    """The quantile function of a mixture, by probabilities from below and by probabilities from above."""
    values = np.sort((means[:, None] + mixture.sigma[:, None] * knots).ravel(), kind="stable")
    shares = mixture.weights / mixture.weights.sum()
    z = (values - means[:, None]) / mixture.sigma[:, None]
    below, above = shares @ noise.cdf(z), (shares @ noise.cdf(-z))[::-1]
    return (np.maximum.accumulate(below), values), (np.maximum.accumulate(above), values[::-1])


def _squared_difference(a: Quantiles, b: Quantiles) -> float:
    """The squared difference of two piecewise linear quantile functions, summed over levels up to a half.

    The Gauss points lie inside the pieces, so a jump (a gap between modes) is never evaluated.
    """
    levels = np.sort(np.concatenate([a[0], b[0], [0.0, 0.5]]), kind="stable")
    levels = levels[: np.searchsorted(levels, 0.5, side="right")]
    widths = np.diff(levels)
    inside = np.concatenate([levels[:-1] + _GAUSS * widths, levels[1:] - _GAUSS * widths])
    squared = (np.interp(inside, *a) - np.interp(inside, *b)) ** 2
    return 0.5 * float(np.dot(np.concatenate([widths, widths]), squared))
