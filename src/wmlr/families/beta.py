"""Shares between 0 and 1: the predictor is the logit (or another link) of their mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaincinv

from wmlr.families.base import Derivatives, Terms
from wmlr.families.links import LARGEST_LOGIT, Link, LinkedFamily
from wmlr.numerics.arrays import Array
from wmlr.numerics.stirling import LOG_ROOT_2PI, digamma_rest, log_gamma_rest, log_less_gap, trigamma_rest

LONGEST = 4.0  # by so much at most a row may ask its predictor to move


@dataclass(frozen=True)
class Beta(LinkedFamily):
    """The beta law with the mean that the predictor says and precision 1 / sigma^2.

    The variance is mean (1 - mean) sigma^2 / (1 + sigma^2); in R's betareg, phi is 1 / sigma^2.

    Attributes
    ----------
    link : "logit", "probit" or "cloglog".
    """

    link: str = "logit"

    name: ClassVar[str] = "beta"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    dispersed: ClassVar[bool] = True

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        law, slope = _BetaLaw.of(self._mean, y, predictor, 1.0 / s2), self._mean.at(predictor).slope
        score = slope * law.score  # times the precision
        weight = np.maximum(law.precision * law.spread * slope**2, np.abs(score) / LONGEST)
        change = -2.0 * law.precision * law.precision_score
        certainty = 2.0 * law.precision**2 * law.precision_certainty
        residual = score / weight + np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT) - predictor
        return Terms(law.log_density, residual, weight, s2 * (certainty + change), certainty)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        law, (_, slope, bend) = _BetaLaw.of(self._mean, y, predictor, 1.0 / s2), self._mean.at(predictor)
        precision = law.precision
        twist = law.mean * law.trigammas[0] - law.rest * law.trigammas[1]
        return Derivatives(
            np.asarray(precision * slope * law.score),
            np.asarray(-2.0 * precision * law.precision_score),
            np.asarray(precision**2 * law.spread * slope**2 - precision * law.score * bend),
            np.asarray(2.0 * precision * slope * (law.score - precision * twist)),
            np.asarray(4.0 * precision * (precision * law.precision_certainty - law.precision_score)),
        )

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        inside = np.where((y > 0) & (y < 1), y, 0.5)
        law = _BetaLaw.of(self._mean, inside, predictor, sigma**-2.0)
        return np.where((y > 0) & (y < 1), law.log_density, -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(betainc(*self._shapes(predictor, sigma), np.clip(y, 0.0, 1.0)))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(betaincinv(*self._shapes(predictor, sigma), q))

    def _shapes(self, predictor: Array, sigma: Array) -> tuple[Array, Array]:
        """The two shapes, as the law is usually written."""
        precision = sigma**-2.0
        return np.asarray(self.mean(predictor) * precision), np.asarray(self._mean.complement(predictor) * precision)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        least = np.finfo(np.float64).eps
        return np.asarray(np.clip(generator.beta(*self._shapes(predictor, sigma)), least, 1.0 - least))

    def log_deviation(self, y: Array) -> Array:
        return np.asarray(0.5 * (np.log(y) + np.log1p(-y)))

    def start_response(self, y: Array) -> Array:
        if np.any((y <= 0) | (y >= 1)):  # an agent's error may be read by others, so it names no value
            raise ValueError(
                "family='beta' is for shares above 0 and below 1, and y has others: use another family, or take the "
                "ends a little inwards"
            )
        return self._mean.predictor(y)


@dataclass(frozen=True)
class _BetaLaw:
    """The beta law at shares y, written so that no digit is lost where the precision is large.

    With r = y / mean and q = (1 - y) / rest, a log r + b log q = a (log r - r + 1) + b (log q - q + 1).

    Attributes
    ----------
    to_one, to_rest : log r - r + 1 and log q - q + 1.
    above : r - q.
    """

    y: Array
    mean: Array
    rest: Array
    precision: Array
    above: Array
    to_one: Array
    to_rest: Array

    @staticmethod
    def of(link: Link, y: Array, predictor: Array, precision: Array) -> _BetaLaw:
        mean, rest = link.mean(predictor), link.complement(predictor)
        gap = np.where(mean < 0.5, y - mean, rest - (1.0 - y))
        to_one = log_less_gap(np.log(y) - np.log(mean), gap / mean)
        to_rest = log_less_gap(np.log1p(-y) - np.log(rest), -gap / rest)
        return _BetaLaw(y, mean, rest, precision, np.asarray(gap / mean + gap / rest), to_one, to_rest)

    @cached_property
    def a(self) -> Array:
        return np.asarray(self.mean * self.precision)

    @cached_property
    def b(self) -> Array:
        return np.asarray(self.rest * self.precision)

    @cached_property
    def digammas(self) -> tuple[Array, Array]:
        """What Stirling leaves of the two shapes' digammas."""
        return digamma_rest(self.a), digamma_rest(self.b)

    @cached_property
    def trigammas(self) -> tuple[Array, Array]:
        """What Stirling leaves of the two shapes' trigammas."""
        return trigamma_rest(self.a), trigamma_rest(self.b)

    @property
    def log_density(self) -> Array:
        law = 0.5 * np.log(self.mean * self.rest * self.precision) - LOG_ROOT_2PI
        rests = log_gamma_rest(self.precision) - log_gamma_rest(self.a) - log_gamma_rest(self.b)
        logs = np.log(self.y) + np.log1p(-self.y)
        return np.asarray(self.a * self.to_one + self.b * self.to_rest - logs + law + rests)

    @property
    def score(self) -> Array:
        """The derivative of the log-density in the mean, over the precision: log r - log q and what Stirling leaves."""
        return np.asarray(self.above + self.to_one - self.to_rest - self.digammas[0] + self.digammas[1])

    @property
    def spread(self) -> Array:
        """The information on the mean, over the squared precision."""
        return np.asarray(self.trigammas[0] + 1.0 / self.a + self.trigammas[1] + 1.0 / self.b)

    @property
    def precision_score(self) -> Array:
        """The derivative of the log-density in the precision."""
        law = digamma_rest(self.precision) - self.mean * self.digammas[0] - self.rest * self.digammas[1]
        return np.asarray(law + self.mean * self.to_one + self.rest * self.to_rest)

    @property
    def precision_certainty(self) -> Array:
        """Less the second derivative of the log-density in the precision."""
        of_shapes = self.mean**2 * self.trigammas[0] + self.rest**2 * self.trigammas[1]
        return np.asarray(of_shapes - trigamma_rest(self.precision))
