"""Counts: the predictor is the logarithm (or the square root) of their mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, ndtri, pdtr

from wmlr.families.base import Derivatives, Terms
from wmlr.families.links import FARTHEST, LinkedFamily
from wmlr.numerics.arrays import Array
from wmlr.numerics.compiled import row_terms
from wmlr.numerics.stirling import LOG_ROOT_2PI, log_gamma_rest, log_less_gap

NEAR = 1e-6  # of a mean: nearer counts have the weight that a Newton step gives them
LARGEST_COUNT = 1e9  # mean of which quantiles are sought count by count; beyond it a law of amounts is as good
LARGE_COUNTS = 2.0**20  # from here on the compiled loops' sums of logarithms would lose the tenth decimal
TABLED = 2**14  # counts below it have their log-factorials from a table
NEWTON = 4.0  # the weight of a count whose mean is the predictor's square


@dataclass(frozen=True)
class Poisson(LinkedFamily):
    """Poisson's law with the mean that the predictor says, and no scale.

    Attributes
    ----------
    link : "log", or "sqrt", by which counts have nearly one variance.
    """

    link: str = "log"

    name: ClassVar[str] = "poisson"
    links: ClassVar[tuple[str, ...]] = ("log", "sqrt")
    has_scale: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """A count above the mean has the secant's weight, so that its working residual is log(y / mean).

        With Newton's weight, the mean, a component that begins far below a count would leap beyond all bounds.
        """
        if self.link == "log":
            return _log_terms(y, predictor)
        mean, slope, _ = self._mean.at(predictor)
        score = (y - mean) * slope / mean
        weight = np.maximum(NEWTON, np.abs(score))
        return Terms(log_probability(y, np.log(mean), mean), score / weight, weight)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        mean, slope, bend = self._mean.at(predictor)
        gap, relative = y - mean, slope / mean  # squares of means may be beyond floating point
        curvature = slope * relative - gap * (bend / mean - relative**2)
        nil = np.zeros_like(curvature)
        return Derivatives(np.asarray(gap * relative), nil, curvature, nil, nil)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        known, mean = (y >= 0) & (y == np.floor(y)), self.mean(predictor)
        return np.where(known, log_probability(np.where(known, y, 0.0), np.log(mean), mean), -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), self.mean(predictor))))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        from scipy.stats import poisson

        mean = self.mean(predictor)
        found = poisson.ppf(q, np.minimum(mean, LARGEST_COUNT))
        return np.where(mean > LARGEST_COUNT, np.floor(mean + np.sqrt(mean) * ndtri(q)), found)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        return generator.poisson(self.mean(predictor)).astype(np.float64)

    def start_response(self, y: Array) -> Array:
        if np.any((y < 0) | (y != np.floor(y))):  # an agent's error may be read by others, so it names no value
            raise ValueError("family='poisson' is for counts, 0, 1, 2 ..., and y has other numbers: use another family")
        return self._mean.predictor(np.asarray(y + 0.5))


def _log_terms(y: Array, predictor: Array) -> Terms:
    """With the logarithm as link."""
    log_y = np.log(np.maximum(y, 1.0))
    if not has_large_counts(y):
        found = row_terms("poisson_terms", predictor, (y, log_y, log_factorials(y)), (FARTHEST, NEAR), 3)
        if found is not None:
            return Terms(*found)
    eta = np.clip(predictor, -FARTHEST, FARTHEST)
    mean = np.exp(eta)
    gap = y - mean
    ratio = gap / mean
    above = ratio > NEAR
    residual = np.where(above, log_y - eta, ratio)
    weight = np.divide(gap, residual, out=mean.copy("K"), where=above)
    return Terms(log_probability(y, eta, mean), residual, weight)


def has_large_counts(y: Array) -> bool:
    """Whether a logarithm of a factorial is so large that its rounding matters."""
    return bool(y.size and not y.max() < LARGE_COUNTS)


def log_probability(y: Array, log_mean: Array, mean: Array) -> Array:
    """Of counts, with what is large and cancels taken out beforehand (Loader, 2000)."""
    positive = np.where(y > 0, y, 1.0)
    short = log_less_gap(log_mean - np.log(positive), mean / positive - 1.0)
    constant = 0.5 * np.log(positive) + LOG_ROOT_2PI + log_gamma_rest(positive)
    return np.asarray(np.where(y > 0, positive * short - constant, -mean))


def log_factorials(y: Array) -> Array:
    """log y!, of counts."""
    if not y.size or not y.max() < TABLED:
        return np.asarray(gammaln(y + 1.0))
    return np.asarray(_first_log_factorials()[y.astype(np.int64)])


@cache
def _first_log_factorials() -> Array:
    return np.asarray(gammaln(np.arange(TABLED) + 1.0))
