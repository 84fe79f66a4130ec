"""Counts: the predictor is the logarithm of their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, pdtr
from scipy.stats import poisson

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.numerics.arrays import Array

FARTHEST = 500.0  # of a predictor: the exponential of more is no number
NEAR = 1e-6  # of a mean: nearer counts have the weight that a Newton step gives them


@dataclass(frozen=True)
class Poisson(Family):
    """Poisson's law with mean exp(predictor), and no scale."""

    name: ClassVar[str] = "poisson"
    has_scale: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """A count above the mean has the secant's weight, so that its working residual is log(y / mean).

        With Newton's weight, the mean, a component that begins far below a count would leap beyond all bounds.
        """
        eta = np.clip(predictor, -FARTHEST, FARTHEST)
        mean = np.exp(eta)
        gap = y - mean
        ratio = gap / mean
        above = ratio > NEAR
        residual = np.log1p(ratio, out=ratio.copy(), where=above)
        weight = np.divide(gap, residual, out=mean.copy(), where=above)
        return Terms(np.asarray(y * eta - mean - gammaln(y + 1.0)), residual, weight)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        mean = self.mean(predictor)
        nil = np.zeros_like(mean)
        return Derivatives(np.asarray(y - mean), nil, mean, nil, nil)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(poisson.logpmf(y, self.mean(predictor)))

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), self.mean(predictor))))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(poisson.ppf(q, self.mean(predictor)))

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        return generator.poisson(self.mean(predictor)).astype(np.float64)

    def mean(self, predictor: Array) -> Array:
        return np.asarray(np.exp(np.clip(predictor, -FARTHEST, FARTHEST)))

    def link(self, mean: Array) -> Array:
        return np.log(mean)

    def start_response(self, y: Array) -> Array:
        if np.any((y < 0) | (y != np.floor(y))):  # an agent's error may be read by others, so it names no value
            raise ValueError("family='poisson' is for counts, 0, 1, 2 ..., and y has other numbers: use another family")
        return np.log(y + 0.5)
