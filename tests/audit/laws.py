"""Distances and errors of mixtures on the line, by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr
from scipy.stats import norm
from scipy.stats import t as student

from audit.likelihood import Array, Data, Model, unit_likelihoods, unit_scores


def degrees(mixture: Any) -> float | None:
    """Of freedom of a mixture's noise; None where it is normal."""
    return getattr(mixture.family, "dof", None)


def law(dof: float | None) -> Any:
    return norm() if dof is None else student(dof)


def quantiles(means: Array, sigma: Array, weights: Array, dof: float | None, levels: Array) -> Array:
    """By bisection of the distribution function, on a scale that reaches 1e55."""
    low, high = np.full(len(levels), -130.0), np.full(len(levels), 20.0)
    for _ in range(50):
        middle = (low + high) / 2
        z = (np.sinh(middle)[:, None] - means) / sigma
        above = (ndtr(z) if dof is None else stdtr(dof, z)) @ weights > levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.sinh((low + high) / 2)


def wasserstein2(a: Any, b: Any) -> float:
    """W2 at x = 0 of two mixtures, over levels that crowd towards either end."""
    nodes, shares = np.polynomial.legendre.leggauss(2)
    ends = np.concatenate([np.geomspace(1e-100, 1e-3, 800), np.linspace(1e-3, 0.5, 1200)[1:]])
    half = np.diff(ends)[:, None] / 2
    levels, weights = (ends[:-1, None] + half * (1 + nodes)).ravel(), (half * shares).ravel()
    total = 0.0
    for sign in (1.0, -1.0):  # the upper half is the lower half of the mixture turned around
        values = [quantiles(sign * m.intercept, m.sigma, m.weights, degrees(m), levels) for m in (a, b)]
        total += float(weights @ (values[0] - values[1]) ** 2)
    return float(np.sqrt(total))


def grid(means: Array, sigma: Array, dof: float | None, points: int = 20_001) -> Array:
    """Places that crowd around every mean in its own scale, out to where nothing is left."""
    end = 12.0 if dof is None else float(np.arcsinh(-law(dof).ppf(1e-11)))
    out = np.linspace(-end, end, points) if dof is None else np.sinh(np.linspace(-end, end, points))
    return np.unique((means + sigma * out[:, None]).ravel())


def bayes_error(means: Array, sigma: Array, weights: Array, dof: float | None) -> float:
    """The probability of all components but the likeliest, by the trapezoidal rule."""
    places = grid(means, sigma, dof)
    shares = weights * law(dof).pdf((places[:, None] - means) / sigma) / sigma
    return float(np.trapezoid(shares.sum(axis=1) - shares.max(axis=1), places))


def fisher_information(model: Model, theta: Array, x: Array) -> Array:
    """E[score score'] of one row, by the trapezoidal rule."""
    lines, sigma, _ = (part[0] for part in model.unpack(theta[None]))
    places = grid(lines[:, : model.d] @ x + (lines[:, model.d] if model.intercept else 0.0), sigma, model.dof, 4001)
    rows = Data(np.tile(x, (len(places), 1)), places)
    density = np.exp(unit_likelihoods(model, rows, theta[None])[0])
    scores = unit_scores(model, rows, theta)
    return np.trapezoid(scores[:, :, None] * scores[:, None] * density[:, None, None], places, axis=0)
