"""Shares between 0 and 1: the predictor is the logit (or another link) of their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaincinv, betaln, polygamma, psi

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.families.links import LARGEST_LOGIT, LINKS, Link, checked_link
from wmlr.numerics.arrays import Array

LONGEST = 4.0  # by so much at most a row may ask its predictor to move


@dataclass(frozen=True)
class Beta(Family):
    """The beta law with the mean that the predictor says and precision 1 / sigma^2.

    The variance is mean (1 - mean) sigma^2 / (1 + sigma^2); in R's betareg, phi is 1 / sigma^2.

    Attributes
    ----------
    link : "logit", "probit" or "cloglog".
    """

    link: str = "logit"

    name: ClassVar[str] = "beta"
    dispersed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_link(self.name, self.link, ("logit", "probit", "cloglog"))

    @property
    def predictor_scale(self) -> str:
        return self.link

    @property
    def _mean(self) -> Link:
        return LINKS[self.link]

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        precision = 1.0 / s2
        mean, slope, _ = self._mean.at(predictor)
        a, b = mean * precision, (1.0 - mean) * precision
        logs, others = np.log(y), np.log1p(-y)
        score = slope * (logs - others - psi(a) + psi(b))  # times the precision
        at_a, at_b = polygamma(1, a), polygamma(1, b)
        weight = np.maximum(precision * (at_a + at_b) * slope**2, np.abs(score) / LONGEST)
        change = -2.0 * precision * _precision_score(logs, others, mean, precision)
        certainty = 2.0 * precision**2 * (mean**2 * at_a + (1.0 - mean) ** 2 * at_b - polygamma(1, precision))
        density = (a - 1.0) * logs + (b - 1.0) * others - betaln(a, b)
        residual = score / weight + np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT) - predictor
        return Terms(np.asarray(density), residual, weight, s2 * (certainty + change), certainty)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        precision = 1.0 / s2
        mean, slope, bend = self._mean.at(predictor)
        a, b = mean * precision, (1.0 - mean) * precision
        logs, others = np.log(y), np.log1p(-y)
        gap = logs - others - psi(a) + psi(b)
        at_a, at_b = polygamma(1, a), polygamma(1, b)
        change = _precision_score(logs, others, mean, precision)
        certain = mean**2 * at_a + (1.0 - mean) ** 2 * at_b - polygamma(1, precision)
        return Derivatives(
            np.asarray(precision * slope * gap),
            np.asarray(-2.0 * precision * change),
            np.asarray(precision**2 * (at_a + at_b) * slope**2 - precision * gap * bend),
            np.asarray(2.0 * precision * slope * (gap - precision * (mean * at_a - (1.0 - mean) * at_b))),
            np.asarray(4.0 * precision * (precision * certain - change)),
        )

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        a, b = self._usual(predictor, sigma)
        inside = np.where((y > 0) & (y < 1), y, 0.5)
        found = (a - 1.0) * np.log(inside) + (b - 1.0) * np.log1p(-inside) - betaln(a, b)
        return np.where((y > 0) & (y < 1), found, -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(betainc(*self._usual(predictor, sigma), np.clip(y, 0.0, 1.0)))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(betaincinv(*self._usual(predictor, sigma), q))

    def _usual(self, predictor: Array, sigma: Array) -> tuple[Array, Array]:
        """The two shapes, as the law is usually written."""
        mean, precision = self.mean(predictor), sigma**-2.0
        return np.asarray(mean * precision), np.asarray((1.0 - mean) * precision)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        least = np.finfo(np.float64).eps
        return np.asarray(np.clip(generator.beta(*self._usual(predictor, sigma)), least, 1.0 - least))

    def mean(self, predictor: Array) -> Array:
        return self._mean.mean(predictor)

    def predictor_of(self, mean: Array) -> Array:
        return self._mean.predictor(mean)

    def start_response(self, y: Array) -> Array:
        if np.any((y <= 0) | (y >= 1)):  # an agent's error may be read by others, so it names no value
            raise ValueError(
                "family='beta' is for shares above 0 and below 1, and y has others: use another family, or take the "
                "ends a little inwards"
            )
        return self._mean.predictor(y)


def _precision_score(logs: Array, others: Array, mean: Array, precision: Array) -> Array:
    """The derivative of the log-density in the precision."""
    rest = 1.0 - mean
    of_law = psi(precision) - mean * psi(mean * precision) - rest * psi(rest * precision)
    return np.asarray(of_law + mean * logs + rest * others)
