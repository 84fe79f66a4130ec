"""Counts that vary by more than Poisson's: the predictor is the logarithm of their mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.families.links import FARTHEST, LINKS
from wmlr.families.poisson import LARGEST_COUNT, NEAR, has_large_counts, log_factorials
from wmlr.numerics.arrays import Array
from wmlr.numerics.compiled import row_terms
from wmlr.numerics.stirling import LARGE, LOG_ROOT_2PI, digamma_rest, log_gamma_rest, log_less_gap, trigamma_rest


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """The negative binomial law with mean exp(predictor) and variance mean + sigma^2 mean^2.

    It is Poisson's law with a mean that a gamma law multiplies by numbers of coefficient of variation ``sigma``; R's
    ``theta``, or size, is 1 / sigma^2.
    """

    name: ClassVar[str] = "negative-binomial"
    discrete: ClassVar[bool] = True
    dispersed: ClassVar[bool] = True
    vanishing: ClassVar[bool] = True

    @property
    def predictor_scale(self) -> str:
        return "log"

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """A count above the mean has the secant's weight, as Poisson's has.

        What a count says of sigma is taken to be what a gamma law's would, times the share of the variance that
        comes from it.
        """
        size = 1.0 / s2
        certain = np.asarray(2.0 * size**2 * trigamma_rest(size))
        found = _compiled_terms(y, predictor, s2, certain)
        if found is not None:
            return Terms(*found)
        mean = self.mean(predictor)
        gap = y - mean
        ratio = gap / mean
        above = ratio > NEAR
        residual = np.log1p(ratio, out=ratio.copy("K"), where=above)
        spread = 1.0 + s2 * mean
        weight = np.divide(gap, residual, out=mean.copy("K"), where=above) * (s2 / spread)
        share = s2 * mean / spread
        certainty = certain * share**2
        change = -2.0 * size * _size_score(y, mean, size)
        return Terms(_log_probability(y, mean, size), residual, weight, s2 * (certainty + change), certainty)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        size, mean = 1.0 / s2, self.mean(predictor)
        whole = size + mean
        change = _size_score(y, mean, size)
        gap = (y - mean) / whole
        bend = trigamma_rest(y + size) - trigamma_rest(size) + gap**2 / (y + size)
        pull = size * gap
        return Derivatives(
            np.asarray(pull),
            np.asarray(-2.0 * size * change),
            np.asarray(size * mean * (size + y) / whole**2),
            np.asarray(2.0 * pull * mean / whole),
            np.asarray(-4.0 * size * (size * bend + change)),
        )

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        known = (y >= 0) & (y == np.floor(y))
        inside = np.where(known, y, 0.0)
        return np.where(known, _log_probability(inside, self.mean(predictor), sigma**-2.0), -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        from scipy.stats import nbinom

        mean, size = self.mean(predictor), sigma**-2.0
        found = nbinom.cdf(y, size, size / (size + np.minimum(mean, LARGEST_COUNT)))
        return np.where(mean > LARGEST_COUNT, gammainc(size, size * np.maximum(y, 0.0) / mean), found)

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        from scipy.stats import nbinom

        mean, size = self.mean(predictor), sigma**-2.0
        found = nbinom.ppf(q, size, size / (size + np.minimum(mean, LARGEST_COUNT)))
        return np.where(mean > LARGEST_COUNT, np.floor(mean * gammaincinv(size, q) / size), found)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        rate = generator.gamma(sigma**-2.0, self.mean(predictor) * sigma**2)
        return generator.poisson(rate).astype(np.float64)

    def mean(self, predictor: Array) -> Array:
        return LINKS["log"].mean(predictor)

    def predictor_of(self, mean: Array) -> Array:
        return np.log(mean)

    def start_response(self, y: Array) -> Array:
        if np.any((y < 0) | (y != np.floor(y))):  # an agent's error may be read by others, so it names no value
            raise ValueError(
                "family='negative-binomial' is for counts, 0, 1, 2 ..., and y has other numbers: use another family"
            )
        return np.log(y + 0.5)


def _compiled_terms(y: Array, predictor: Array, s2: Array, certain: Array) -> list[Array] | None:
    """What the compiled loop says, which finds functions of a count alone once for each; None where it does not."""
    if not 1 < y.ndim == predictor.ndim > s2.ndim or has_large_counts(y):
        return None
    counts, place = np.unique(y.ravel(), return_inverse=True)
    each, size = counts.reshape(-1, *[1] * (y.ndim - 1)), np.broadcast_to(1.0 / s2, predictor.shape[1:])
    rows = y, np.log(np.maximum(y, 1.0)), log_factorials(y), place.astype(np.float64)
    tables = _log_rising_factorial(size, each), _digamma_rise(size, each)
    return row_terms("negative_binomial_terms", predictor, rows, (FARTHEST, NEAR, s2, certain), 5, tables)


def _log_probability(y: Array, mean: Array, size: Array) -> Array:
    if has_large_counts(y):
        return _large_log_probability(y, mean, size)
    rising = _of_counts(_log_rising_factorial, size, y)
    return np.asarray(rising - log_factorials(y) + y * np.log(mean) - (y + size) * np.log1p(mean / size))


def _large_log_probability(y: Array, mean: Array, size: Array) -> Array:
    """With what is large and cancels taken out beforehand: Loader's form (2000) of y successes in y + size trials."""
    positive = np.where(y > 0, y, 1.0)
    whole = positive + size
    gap, logs = (positive - mean) / (size + mean), np.log(whole) - np.log(size + mean)
    of_counts = positive * log_less_gap(logs + np.log(mean) - np.log(positive), -gap * (size / positive))
    of_size = size * log_less_gap(logs, gap)
    constant = 0.5 * np.log(size / (positive * whole)) - LOG_ROOT_2PI
    rests = log_gamma_rest(whole) - log_gamma_rest(positive) - log_gamma_rest(size)
    return np.asarray(np.where(y > 0, of_counts + of_size + constant + rests, -size * np.log1p(mean / size)))


def _of_counts(function: Callable[[Array, Array], Array], size: Array, y: Array) -> Array:
    """function(size, y), found once for each count where rows (along the first axis) are more than counts."""
    if y.size != len(y) or size.ndim >= y.ndim:
        return function(size, y)
    counts, place = np.unique(y.ravel(), return_inverse=True)
    return np.asarray(function(size, counts.reshape(-1, *[1] * (y.ndim - 1))).T[..., place].T)


def _log_rising_factorial(size: Array, y: Array) -> Array:
    """log(Gamma(size + y) / Gamma(size) / size^y), by Stirling's series where the two logarithms are large and near."""
    large = np.maximum(size, LARGE)
    near = (large + y - 0.5) * np.log1p(y / large) - y + log_gamma_rest(large + y) - log_gamma_rest(large)
    small = np.minimum(size, LARGE)
    apart = gammaln(small + y) - gammaln(small) - y * np.log(small)
    return np.asarray(np.where(size > LARGE, near, apart))


def _digamma_rise(size: Array, y: Array) -> Array:
    """psi(size + y) - psi(size)."""
    return np.asarray(digamma_rest(size + y) - digamma_rest(size) + np.log1p(y / size))


def _size_score(y: Array, mean: Array, size: Array) -> Array:
    """The derivative of the log-probability in the size."""
    rests = _of_counts(lambda size, y: np.asarray(digamma_rest(size + y) - digamma_rest(size)), size, y)
    gap = (y - mean) / (size + mean)
    return np.asarray(rests + log_less_gap(np.log(size + y) - np.log(size + mean), gap))
