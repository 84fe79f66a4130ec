"""Laplace's noise: what least absolute deviations are likeliest under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wmlr.families.base import Noise
from wmlr.numerics.arrays import Array

LEAST = 1e-4  # a residual of fewer scales counts as one of so many: at 0 its weight has no bound


@dataclass(frozen=True)
class Laplace(Noise):
    """The density exp(-|z|) / 2, with a kink at 0: the scale is the mean absolute deviation."""

    name: ClassVar[str] = "laplace"
    smooth: ClassVar[bool] = False

    def log_density(self, z: Array) -> Array:
        return np.asarray(-np.abs(z) - np.log(2.0))

    def weight(self, z: Array) -> Array:
        return np.asarray(1.0 / np.maximum(np.abs(z), LEAST))

    def slope(self, z: Array) -> Array:
        return np.asarray(-np.sign(z))

    def curvature(self, z: Array) -> Array:
        """None but at the kink."""
        return np.zeros_like(z)

    def information(self, z: Array) -> Array:
        """The square of the slope, which has the kink's expectation."""
        return np.ones_like(z)

    def cdf(self, z: Array) -> Array:
        lower = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z < 0, lower, 1.0 - lower))

    def quantile(self, q: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(q < 0.5, np.log(2.0 * q), -np.log(2.0 * (1.0 - q))))

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return generator.laplace(size=n)
