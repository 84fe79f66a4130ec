"""Student's noise: tails that fall as a power, so that no residual pulls without bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from wmlr.families.base import Noise, sinh_grid
from wmlr.numerics.arrays import Array

FARTHEST = 1e90  # its cube, about how fast quantiles change out there, is still a number
SQUARES_LEFT = 1e-10  # share of the second moment left out of a distance
SMALLEST, LARGEST = 1e-6, 1e9


@dataclass(frozen=True)
class Student(Noise):
    """Student's t law with ``dof`` degrees of freedom."""

    dof: float = 4.0

    name: ClassVar[str] = "student"
    heavy_tails: ClassVar[bool] = True
    weights_alike: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not SMALLEST <= self.dof <= LARGEST:
            raise ValueError(
                f"dof must be between {SMALLEST:g} and {LARGEST:g} (got {self.dof}): 4 bounds the influence of "
                "outliers, and family='normal' is the limit of many"
            )

    @property
    def title(self) -> str:
        return f"Student's t ({self.dof:g})"

    def log_density(self, z: Array) -> Array:
        half = (self.dof + 1.0) / 2.0
        constant = gammaln(half) - gammaln(self.dof / 2.0) - 0.5 * np.log(np.pi * self.dof)
        with np.errstate(over="ignore", divide="ignore"):
            ratios = np.log1p(z * z / self.dof)
            if np.isinf(ratios).any():
                ratios = np.where(np.isinf(ratios), 2.0 * np.log(np.abs(z)) - np.log(self.dof), ratios)
        return np.asarray(constant - half * ratios)

    def weight(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray((self.dof + 1.0) / (self.dof + z * z))

    def curvature(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            square = z * z
            return np.asarray(self.weight(z) * (2.0 * self.dof / (self.dof + square) - 1.0))

    def cdf(self, z: Array) -> Array:
        return np.asarray(stdtr(self.dof, z))

    def quantile(self, q: Array) -> Array:
        return np.asarray(stdtrit(self.dof, q))

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return generator.standard_t(self.dof, n)

    def reach(self, log_density: Array) -> Array:
        depth = np.maximum(self.peak - log_density, 0.0) + 0.1
        return np.asarray(np.sqrt(self.dof * np.expm1(2.0 * depth / (self.dof + 1.0))))

    def knots(self) -> Array:
        if not self.dof > 2:
            raise ValueError(
                f"Student's noise with {self.dof:g} degrees of freedom has no variance, and no 2-Wasserstein "
                "distance: use more than 2"
            )
        return sinh_grid(self.tail(SQUARES_LEFT ** (self.dof / (self.dof - 2.0))))

    def crossing(self, log_ratio: Array) -> tuple[Array, Array]:
        factor = np.exp(2.0 * log_ratio / (self.dof + 1.0))
        return np.asarray(factor), np.asarray(self.dof * np.expm1(2.0 * log_ratio / (self.dof + 1.0)))

    def tail(self, probability: float) -> float:
        """By the tail's leading power."""
        log_height = self.peak + 0.5 * (self.dof + 1.0) * np.log(self.dof)
        log_place = (log_height - np.log(self.dof) - np.log(max(probability, 1e-300))) / self.dof
        return float(np.exp(min(log_place, np.log(FARTHEST))))
