"""What y follows given a component's linear predictor and scale, in plain SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, loggamma

Array = Any
NOISES = ("normal", "student", "laplace")
WITHOUT_SCALE = ("poisson", "binomial")
COUNTS = ("poisson", "binomial", "negative-binomial")
LOGARITHMS = ("poisson", "negative-binomial", "gamma")


def log_densities(family: str, dof: float | None, y: Array, eta: Array, sigma: Array, trials: Array) -> Array:
    """Of y (n, 1), at predictors (B, n, k) and scales (B, 1, k) that may be complex, so that derivatives come by steps
    into the complex plane."""
    if family in NOISES:
        z = (y - eta) / sigma
        return _standard(family, dof, z) - np.log(sigma)
    if family == "poisson":
        return _counted(y, eta)
    if family == "binomial":
        ways = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        top = np.maximum(eta.real, 0.0)
        return ways + y * eta - trials * (top + np.log(np.exp(eta - top) + np.exp(-top)))
    size = 1 / sigma**2
    if family == "beta":
        mean, rest = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(eta))
        gap = np.where(mean.real < 0.5, y - mean, rest - (1 - y))
        of_y = mean * _bent(np.log(y / mean), gap / mean) + rest * _bent(np.log((1 - y) / rest), -gap / rest)
        rests = _beyond_stirling(size) - _beyond_stirling(mean * size) - _beyond_stirling(rest * size)
        return size * of_y + 0.5 * np.log(mean * rest * size / (2 * np.pi)) + rests - np.log(y) - np.log1p(-y)
    mean = np.exp(eta)
    if family == "gamma":
        constant = 0.5 * np.log(size / (2 * np.pi)) - _beyond_stirling(size)
        return size * _bent(np.log(y) - eta, y / mean - 1) + constant - np.log(y)
    whole, some = y + size, np.where(y > 0, y, 1)
    logs = np.log(whole) - np.log(mean + size)
    shares = y * _bent(logs + eta - np.log(some), size * (mean - y) / (some * (mean + size)))
    shares = shares + size * _bent(logs, (y - mean) / (mean + size))
    rests = _beyond_stirling(whole) - _beyond_stirling(some) - _beyond_stirling(size)
    found = shares + 0.5 * np.log(size / (2 * np.pi * some * whole)) + rests
    return np.where(y > 0, found, -size * np.log1p(mean / size))


def _bent(logarithm: Array, gap: Array) -> Array:
    """log(1 + gap) - gap, by Taylor's series where both are small."""
    small = np.abs(gap) < 0.05
    inside = np.where(small, gap, 0)
    series = sum(-((-inside) ** power) / power for power in range(13, 1, -1))
    return np.where(small, series, logarithm - gap)


def _beyond_stirling(x: Array) -> Array:
    """log Gamma(x) less Stirling's formula for it, which for large x is a small difference of large numbers."""
    large = x.real > 1000
    small, far = np.where(large, 1.0, x), np.where(large, x, 1e4)
    exact = loggamma(small) - (small - 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.where(large, 1 / (12 * far) - 1 / (360 * far**3), exact)


def _counted(y: Array, eta: Array) -> Array:
    """Poisson's log-probabilities, without the large logarithms that cancel."""
    some, mean = np.where(y > 0, y, 1), np.exp(eta)
    found = y * _bent(eta - np.log(some), mean / some - 1) - 0.5 * np.log(2 * np.pi * some) - _beyond_stirling(some)
    return np.where(y > 0, found, -mean)


def _standard(family: str, dof: float | None, z: Array) -> Array:
    if family == "laplace":
        return -np.where(z.real < 0, -z, z) - np.log(2)
    if dof is None:
        return -0.5 * np.log(2 * np.pi) - 0.5 * z * z
    half = (dof + 1) / 2
    constant = gammaln(half) - gammaln(dof / 2) - 0.5 * np.log(dof * np.pi)
    return constant - half * np.log(1 + z * z / dof)


def mean(family: str, eta: Array) -> Array:
    if family in NOISES:
        return eta
    return np.exp(eta) if family in LOGARITHMS else expit(eta)


def law(family: str, dof: float | None, eta: Array, sigma: Array, trials: Array) -> Any:
    """SciPy's own object, with a density (or a probability), a distribution function and quantiles."""
    size, centre = 1 / sigma**2, mean(family, eta)
    if family == "poisson":
        return stats.poisson(centre)
    if family == "binomial":
        return stats.binom(trials, centre)
    if family == "negative-binomial":
        return stats.nbinom(size, size / (size + centre))
    if family == "gamma":
        return stats.gamma(size, scale=centre / size)
    if family == "beta":
        return stats.beta(centre * size, (1 - centre) * size)
    if family == "laplace":
        return stats.laplace(eta, sigma)
    return stats.norm(eta, sigma) if dof is None else stats.t(dof, eta, sigma)
