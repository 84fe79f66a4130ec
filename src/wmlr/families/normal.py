"""Normal noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI

REACH = 7.5  # standard deviations that hold all but 1e-13 of the probability


@dataclass(frozen=True)
class Normal:
    """The standard normal law."""

    name = "normal"
    far = 12.0

    def log_density(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * (z * z + LOG_2PI))

    def slope(self, z: Array) -> Array:
        return np.asarray(-z)

    def cdf(self, z: Array) -> Array:
        return np.asarray(ndtr(z))

    def quantile(self, q: Array) -> Array:
        return np.asarray(ndtri(q))

    def reach(self, log_density: Array) -> Array:
        depth = np.maximum(-0.5 * LOG_2PI - log_density, 0.0) + 0.1
        return np.asarray(np.sqrt(2.0 * depth))

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return generator.standard_normal(n)

    def panels(self, count: int) -> Array:
        return np.linspace(-REACH, REACH, count + 1)

    def knots(self) -> Array:
        """A step of .013 at the centre, growing into tails that weigh 1e-17."""
        return np.asarray(8.5 * np.sinh(3.0 * np.linspace(-1.0, 1.0, 401)) / np.sinh(3.0))

    def crossing(self, log_ratio: Array) -> tuple[Array, Array]:
        return np.ones_like(log_ratio), np.asarray(2.0 * log_ratio)
