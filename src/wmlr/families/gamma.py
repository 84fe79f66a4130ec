"""Positive amounts whose deviation is in proportion to their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammainc, gammaincinv

from wmlr.families.base import Derivatives, Terms
from wmlr.families.links import FARTHEST, LinkedFamily, MeanAt
from wmlr.numerics.arrays import Array
from wmlr.numerics.compiled import row_terms
from wmlr.numerics.stirling import LOG_ROOT_2PI, digamma_rest, log_gamma_rest, log_less_gap, trigamma_rest

NEAR = 1e-6  # of a mean: nearer amounts have the weight that a Newton step gives them
LEAST = 1e-8  # with the inverse link: of a row's predictor, which must be positive, times its amount


@dataclass(frozen=True)
class Gamma(LinkedFamily):
    """The gamma law with the mean that the predictor says; ``sigma`` is the coefficient of variation.

    The shape is 1 / sigma^2, and the variance sigma^2 mean^2.

    Attributes
    ----------
    link : "log", or "inverse".
    """

    link: str = "log"

    name: ClassVar[str] = "gamma"
    links: ClassVar[tuple[str, ...]] = ("log", "inverse")
    dispersed: ClassVar[bool] = True

    def _at(self, y: Array, predictor: Array) -> MeanAt:
        """The mean beside amounts y, whose unit says what is nearly nil."""
        return self._mean.at(np.maximum(predictor, LEAST / y) if self.link == "inverse" else predictor)

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """An amount above the mean has the secant's weight, as Poisson's counts have."""
        shape, log_y = 1.0 / s2, np.log(y)
        constant = np.asarray(0.5 * np.log(shape) - LOG_ROOT_2PI - log_gamma_rest(shape))
        certainty = np.asarray(2.0 * shape**2 * trigamma_rest(shape))
        squares = np.asarray(s2 * certainty + 2.0 * digamma_rest(shape))
        if self.link == "log":
            found = row_terms("gamma_terms", predictor, (y, log_y), (FARTHEST, NEAR, shape, constant, squares), 4)
            if found is not None:
                density, residual, weight, of_scale = found
                return Terms(density, residual, weight, of_scale, certainty)
        mean, slope, _ = self._at(y, predictor)
        ratio = y / mean
        gap, logs = ratio - 1.0, np.log(ratio)
        if self.link == "log":
            above = gap > NEAR
            residual = np.where(above, logs, gap)
            weight = np.divide(gap, logs, out=np.ones_like(gap), where=above)
        else:
            relative = slope / mean
            weight = relative**2 * np.maximum(1.0, ratio)
            residual = gap * relative / weight
            beyond = predictor < LEAST / y  # no mean has such a predictor: it is drawn to the amount's own
            weight, residual = np.where(beyond, y * y, weight), np.where(beyond, 1.0 / y - predictor, residual)
        short = log_less_gap(logs, gap)
        return Terms(shape * short + constant - log_y, residual, weight, squares - 2.0 * short, certainty)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        mean, slope, bend = self._at(y, predictor)
        shape, ratio = 1.0 / s2, y / mean
        relative = slope / mean
        pull = shape * (ratio - 1.0) * relative
        change = log_less_gap(np.log(ratio), ratio - 1.0) - digamma_rest(shape)
        curvature = shape * (ratio * relative**2 - (ratio - 1.0) * (bend / mean - relative**2))
        twice = 4.0 * shape**2 * trigamma_rest(shape) - 4.0 * shape * change
        return Derivatives(pull, -2.0 * shape * change, curvature, 2.0 * pull, np.asarray(twice))

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        shape, inside = sigma**-2.0, np.where(y > 0, y, 1.0)
        mean = self._at(inside, predictor).mean
        short = log_less_gap(np.log(inside) - np.log(mean), inside / mean - 1.0)
        constant = 0.5 * np.log(shape) - LOG_ROOT_2PI - log_gamma_rest(shape)
        return np.where(y > 0, shape * short + constant - np.log(inside), -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        shape = sigma**-2.0
        return np.asarray(gammainc(shape, shape * np.maximum(y, 0.0) / self.mean(predictor)))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        shape = sigma**-2.0
        return np.asarray(gammaincinv(shape, q) * self.mean(predictor) / shape)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        shape = sigma**-2.0
        return np.asarray(generator.gamma(shape, self.mean(predictor) / shape))

    def log_deviation(self, y: Array) -> Array:
        return np.asarray(np.log(y))

    def start_response(self, y: Array) -> Array:
        if np.any(y <= 0):  # an agent's error may be read by others, so it names no value
            raise ValueError("family='gamma' is for positive amounts, and y has others: use another family")
        return self._mean.predictor(y)

    def start_spread(self, mean: float) -> float:
        """An inverse deviates in proportion to its mean, as the amount does; a logarithm has no unit."""
        return mean**2 if self.link == "inverse" else 1.0
