"""A component that is one value: the zeros that a zero-inflated count has more of than its law would give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.numerics.arrays import Array

NEVER = -1e200  # a log-density that no other comes near, and that weights do not make infinite


@dataclass(frozen=True)
class PointMass(Family):
    """y is ``at``, whatever the columns say: a component without coefficients and without a scale.

    It stands beside components of counts, as one of several families (:class:`wmlr.families.ComponentFamilies`).

    Attributes
    ----------
    at : the value.
    """

    at: float = 0.0

    name: ClassVar[str] = "point-mass"
    has_scale: ClassVar[bool] = False
    has_predictor: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.at) and self.at >= 0 and self.at == np.floor(self.at)):
            raise ValueError(f"a point mass lies at a count: 0, 1, 2 ... (got at={self.at!r})")

    @property
    def label(self) -> str:
        return f"point mass at {self.at:g}"

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        nil = np.zeros(np.broadcast_shapes(y.shape, predictor.shape))
        return Terms(self.log_likelihood(y, predictor, s2), nil, nil)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        nil = np.zeros(np.broadcast_shapes(y.shape, predictor.shape))
        return Derivatives(nil, nil, nil, nil, nil)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        """0 at the value, and elsewhere so low that no other component's comes near."""
        return np.where(y == self.at, 0.0, NEVER) + np.zeros_like(predictor)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.where(y >= self.at, 1.0, 0.0) + np.zeros_like(predictor)

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.full(np.broadcast_shapes(q.shape, predictor.shape), self.at)

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        return np.full(predictor.shape, self.at)

    def mean(self, predictor: Array) -> Array:
        return np.full(predictor.shape, self.at)

    def predictor_of(self, mean: Array) -> Array:
        return np.zeros_like(mean)
