"""Normal noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from wmlr.families.base import Derivatives, Noise, Terms
from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI


@dataclass(frozen=True)
class Normal(Noise):
    """The standard normal law: its M-step is least squares, and every residual counts in full."""

    name: ClassVar[str] = "normal"
    least_squares: ClassVar[bool] = True
    weights_alike: ClassVar[bool] = True
    log_constant: ClassVar[float] = -0.5 * LOG_2PI
    far: ClassVar[float] = 12.0

    def log_density(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * (z * z + LOG_2PI))

    def weight(self, z: Array) -> Array:
        return np.ones_like(z)

    def curvature(self, z: Array) -> Array:
        return np.ones_like(z)

    def slope(self, z: Array) -> Array:
        return np.asarray(-z)

    def cdf(self, z: Array) -> Array:
        return np.asarray(ndtr(z))

    def quantile(self, q: Array) -> Array:
        return np.asarray(ndtri(q))

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return generator.standard_normal(n)

    def reach(self, log_density: Array) -> Array:
        depth = np.maximum(-0.5 * LOG_2PI - log_density, 0.0) + 0.1
        return np.asarray(np.sqrt(2.0 * depth))

    def knots(self) -> Array:
        """A step of .013 at the centre, growing into tails that weigh 1e-17."""
        return np.asarray(8.5 * np.sinh(3.0 * np.linspace(-1.0, 1.0, 401)) / np.sinh(3.0))

    def crossing(self, log_ratio: Array) -> tuple[Array, Array]:
        return np.ones_like(log_ratio), np.asarray(2.0 * log_ratio)

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        residual = y - predictor
        densities = residual * residual
        densities *= -0.5 / s2
        densities -= 0.5 * (LOG_2PI + np.log(s2))
        return Terms(densities, residual)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        residual = y - predictor
        pull = residual / s2
        squares = residual * pull
        return Derivatives(pull, squares - 1.0, np.broadcast_to(1.0 / s2, pull.shape), 2.0 * pull, 2.0 * squares)
