"""Counts that vary by more than Poisson's: the predictor is the logarithm of their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaln, polygamma, psi
from scipy.stats import nbinom

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.families.links import LINKS
from wmlr.families.poisson import NEAR
from wmlr.numerics.arrays import Array


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """The negative binomial law with mean exp(predictor) and variance mean + sigma^2 mean^2.

    It is Poisson's law with a mean that a gamma law multiplies by numbers of coefficient of variation ``sigma``; R's
    ``theta``, or size, is 1 / sigma^2.
    """

    name: ClassVar[str] = "negative-binomial"
    discrete: ClassVar[bool] = True
    dispersed: ClassVar[bool] = True

    @property
    def predictor_scale(self) -> str:
        return "log"

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """A count above the mean has the secant's weight, as Poisson's has.

        What a count says of sigma is taken to be what a gamma law's would, times the share of the variance that
        comes from it.
        """
        size, mean = 1.0 / s2, self.mean(predictor)
        gap = y - mean
        ratio = gap / mean
        above = ratio > NEAR
        residual = np.log1p(ratio, out=ratio.copy("K"), where=above)
        spread = 1.0 + s2 * mean
        weight = np.divide(gap, residual, out=mean.copy("K"), where=above) * (s2 / spread)
        share = s2 * mean / spread
        certainty = 2.0 * size**2 * (polygamma(1, size) - s2) * share**2
        change = -2.0 * size * _size_score(y, mean, size)
        return Terms(_log_probability(y, mean, size), residual, weight, s2 * (certainty + change), certainty)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        size, mean = 1.0 / s2, self.mean(predictor)
        whole = size + mean
        change = _size_score(y, mean, size)
        bend = polygamma(1, y + size) - polygamma(1, size) + 1.0 / size - 2.0 / whole + (y + size) / whole**2
        pull = size * (y - mean) / whole
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
        return np.asarray(nbinom.cdf(y, *self._usual(predictor, sigma)))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(nbinom.ppf(q, *self._usual(predictor, sigma)))

    def _usual(self, predictor: Array, sigma: Array) -> tuple[Array, Array]:
        """Size and probability of success, as the law is usually written."""
        size = sigma**-2.0
        return size, np.asarray(size / (size + self.mean(predictor)))

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


def _log_probability(y: Array, mean: Array, size: Array) -> Array:
    whole = size + mean
    return np.asarray(
        -betaln(size, y + 1.0) - np.log(size + y) - size * np.log1p(mean / size) + y * (np.log(mean) - np.log(whole))
    )


def _size_score(y: Array, mean: Array, size: Array) -> Array:
    """The derivative of the log-probability in the size."""
    return np.asarray(psi(y + size) - psi(size) - np.log1p(mean / size) - (y - mean) / (size + mean))
