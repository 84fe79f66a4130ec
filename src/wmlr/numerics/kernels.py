"""The inner loops over one block of rows: arrays in, arrays out.

``X`` is never copied. A coefficient array with one more row than ``X`` has columns carries an
intercept in its last row; it never becomes a column of ones.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from wmlr.numerics import compiled
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.sparse import Csr

LOG_2 = float(np.log(2.0))
LOG_2PI = float(np.log(2.0 * np.pi))


def forward(X: Any, B: Array) -> Array:
    """``X @ B``, plus the intercept when B has a last row for it.

    In memory the columns of B come first, so that what follows works on many rows at once.
    """
    d = X.shape[1]
    if isinstance(X, np.ndarray) and B.ndim == 2:
        return np.asarray((B[:d].T @ X.T).T if B.shape[0] == d else (B[:d].T @ X.T + B[d][:, None]).T)
    return np.asarray(X @ B if B.shape[0] == d else X @ B[:d] + B[d])


def backward(X: Any, W: Array, intercept: bool) -> Array:
    """``X' W``, with the column sums of W below it when there is an intercept."""
    product = np.asarray(X.T @ W)
    if not intercept:
        return product
    return np.concatenate([product, W.sum(axis=0, keepdims=W.ndim > 1).reshape(1, *W.shape[1:])])


def gram(X: Any, weight: Array | None, intercept: bool) -> Array:
    """``X' diag(weight) X``, bordered by the weighted column sums when there is an intercept."""
    if isinstance(X, Csr):
        counts = np.ones(len(X)) if weight is None else weight
        return border(X.gram(weight), backward(X, counts, True)) if intercept else X.gram(weight)
    weighted = X if weight is None else X * weight[:, None]
    square = np.asarray(X.T @ weighted)
    if not intercept:
        return square
    corner = float(X.shape[0]) if weight is None else float(weight.sum())
    return border(square, np.append(weighted.sum(axis=0), corner))


def border(square: Array, last: Array) -> Array:
    """A symmetric matrix with one more row and column, ``last``."""
    return np.block([[square, last[:-1, None]], [last]])


def group_sums(X: Any, weight: Array, starts: Integers) -> Any:
    """The weighted sum of each group's features: a row for each group, sparse if X is."""
    return X.sum_runs(weight, starts) if isinstance(X, Csr) else np.add.reduceat(X * weight[:, None], starts, axis=0)


def unit_sums(values: Array, weight: Array | None, starts: Integers | None) -> Array:
    """Weighted sums over each group's rows; the values themselves when every row stands alone.

    A *unit* is what has a component of its own: a row, or a group of rows.
    """
    if starts is None:
        return values
    weighted = values if weight is None else (values.T * weight).T
    return np.asarray(np.add.reduceat(weighted, starts, axis=0))


def unit_counts(n: int, weight: Array | None, starts: Integers | None) -> Array:
    """How often each unit counts: a row by its weight, a group once (never, if its weight is nil)."""
    if starts is None:
        return np.ones(n) if weight is None else weight
    if weight is None:
        return np.ones(len(starts))
    return (np.add.reduceat(weight, starts) > 0).astype(np.float64)


def to_rows(values: Array, weight: Array | None, starts: Integers | None, n: int) -> Array:
    """Each unit's value for each of its rows, times the row's weight."""
    spread = values if starts is None else np.repeat(values, np.diff(np.append(starts, n)), axis=0)
    return spread if weight is None else np.asarray((spread.T * weight).T)


def signs(
    u: Array, y: Array, s2: float, weight: Array | None, starts: Integers | None
) -> tuple[Array, dict[str, float]]:
    """Posterior signs of the symmetric mixture, ``t = tanh(sum over the unit of y u / s2)``.

    Returns ``w t y`` per row, and sums over the units: log cosh, and the two numbers that say how much
    of the complete-data information the unknown signs take away, across beta and along it.
    """
    z = unit_sums(y * u, weight, starts) / s2
    count = unit_counts(len(y), weight, starts)
    t, values = tanh_log_cosh(z)
    lost = count * (1.0 - t * t)
    sums = {
        "log_cosh": float(count @ values),
        "missing": float(lost @ unit_sums(y * y, weight, starts)) / s2,
        "missing_along": float(lost @ (z * z)) * s2,
    }
    return to_rows(t, weight, starts, len(y)) * y, sums


def posteriors(
    E: Array, log_weights: Array, s2: Array, weight: Array | None, starts: Integers | None
) -> tuple[Array, Array, float, Array]:
    """Responsibilities from residuals ``E`` (n, k).

    Returns ``w r`` per row (n, k), the expected number of units per component, the log-likelihood, and
    the responsibilities per unit.
    """
    densities = E * E
    densities *= -0.5 / s2
    densities -= 0.5 * (LOG_2PI + np.log(s2))
    return responsibilities(densities, log_weights, weight, starts)


def responsibilities(
    densities: Array, log_weights: Array, weight: Array | None, starts: Integers | None
) -> tuple[Array, Array, float, Array]:
    """Responsibilities from log-densities (n, k); returns what :func:`posteriors` does."""
    joint = unit_sums(densities, weight, starts) + log_weights
    n = len(densities)
    count = unit_counts(n, weight, starts)
    log_likelihood = float(count @ shares_of_log_joint(joint.T))
    return to_rows(joint, weight, starts, n), count @ joint, log_likelihood, joint


def shares_of_log_joint(joint: Array) -> Array:
    """Responsibilities in the place of logarithms of weight times density (k, ...); the logarithms of their sums."""
    found = compiled.shares_of_log_joint(joint.reshape(len(joint), prod(joint.shape[1:-1]), joint.shape[-1]))
    if found is not None:
        return found.reshape(joint.shape[1:])
    top = joint.max(axis=0)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return np.asarray(top + np.log(total))


def weigh_responses(counted: Array, predictor: Array, residual: Array) -> tuple[Array, Array]:
    """Responses, predictor plus residual, times their rows' weights (k, s, n); their weighted squares (k, s)."""
    found = compiled.weigh_responses(counted, predictor, residual)
    if found is not None:
        return found
    response = predictor + residual
    pulled = counted * response
    return pulled, np.einsum("ksn,ksn->ks", pulled, response)


def tanh_log_cosh(z: Array) -> tuple[Array, Array]:
    """``tanh z`` and ``log cosh z`` from one exponential."""
    size = np.abs(z)
    decay = np.exp(-2.0 * size)
    return np.copysign((1.0 - decay) / (1.0 + decay), z), np.asarray(size + np.log1p(decay) - LOG_2)


def log_cosh_sums(z: Array, factors: Array, count: Array) -> Array:
    """The sums of log cosh(factor z) over units that count so often, for each factor."""
    found = compiled.log_cosh_sums(z, factors, count)
    return np.array([float(count @ _log_cosh(z * factor)) for factor in factors]) if found is None else found


def _log_cosh(z: Array) -> Array:
    """``log cosh z`` alone."""
    size = np.abs(z)
    decay = np.exp(-2.0 * size)
    np.log1p(decay, out=decay)
    size += decay
    size -= LOG_2
    return size


def discriminator(
    y: Array, G: Array, log_weights: Array, tau2: float, weight: Array | None = None, starts: Integers | None = None
) -> tuple[Array, Array, Array]:
    """One half of psi (eq. prop_psi_k): ``log sum_i w_i exp(-(y - g_i)^2 / (2 tau2))`` at ``G = x'gamma``.

    ``y`` has any shape (n, ...), G is (n, k). Within a group the squares add before the exponential.
    Returns the value per unit, its slope in y, and its slopes in g_i (last axis).
    """
    shape = (G.shape[0],) + (1,) * (y.ndim - 1) + (G.shape[1],)
    gaps = y[..., None] - G.reshape(shape)
    joint = unit_sums(gaps * gaps * (-0.5 / tau2), weight, starts) + log_weights
    top = joint.max(axis=-1, keepdims=True)
    shares = np.exp(joint - top)
    total = shares.sum(axis=-1, keepdims=True)
    shares /= total
    pull = to_rows(shares, None, starts, len(y)) * gaps / tau2
    return (top + np.log(total))[..., 0], -pull.sum(axis=-1), pull
