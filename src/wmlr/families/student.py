"""Student's noise: tails that fall as a power, so that no residual pulls without bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from wmlr.families.normal import REACH
from wmlr.numerics.arrays import Array
from wmlr.numerics.student import student_log_density, student_weights

ONE = np.ones(1)
FARTHEST = 1e90  # its cube, about how fast quantiles change out there, is still a number
TAIL = 1e-12  # probability left out of integrals of bounded functions
SQUARES_TAIL = 1e-10  # share of the second moment left out of a distance
STRETCH = 4.0  # panels in the tails end this many times as far out as they begin
STEP = 0.015


@dataclass(frozen=True)
class Student:
    """Student's t law with ``dof`` degrees of freedom."""

    dof: float

    far = np.inf

    @property
    def name(self) -> str:
        return f"Student's t ({self.dof:g})"

    def log_density(self, z: Array) -> Array:
        return student_log_density(z, ONE, self.dof)

    def slope(self, z: Array) -> Array:
        return np.asarray(-z * student_weights(z, ONE, self.dof))

    def cdf(self, z: Array) -> Array:
        return np.asarray(stdtr(self.dof, z))

    def quantile(self, q: Array) -> Array:
        return np.asarray(stdtrit(self.dof, q))

    def reach(self, log_density: Array) -> Array:
        depth = np.maximum(self.log_density(np.zeros(1)) - log_density, 0.0) + 0.1
        return np.asarray(np.sqrt(self.dof * np.expm1(2.0 * depth / (self.dof + 1.0))))

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return generator.standard_t(self.dof, n)

    def panels(self, count: int) -> Array:
        """Even at the centre, then each ``STRETCH`` times as long as the one before."""
        steps = np.log(max(self._tail(TAIL) / REACH, 1.0)) / np.log(STRETCH)
        tail = REACH * STRETCH ** np.arange(1, int(np.ceil(steps)) + 1)
        return np.concatenate([-tail[::-1], np.linspace(-REACH, REACH, count + 1), tail])

    def knots(self) -> Array:
        """Steps of .015 at the centre, growing in proportion into the tails."""
        if not self.dof > 2:
            raise ValueError(
                f"Student's noise with {self.dof:g} degrees of freedom has no variance, and no 2-Wasserstein "
                "distance: use more than 2"
            )
        end = np.arcsinh(self._tail(SQUARES_TAIL ** (self.dof / (self.dof - 2.0))))
        return np.sinh(np.linspace(-end, end, 2 * int(np.ceil(end / STEP)) + 1))

    def crossing(self, log_ratio: Array) -> tuple[Array, Array]:
        factor = np.exp(2.0 * log_ratio / (self.dof + 1.0))
        return np.asarray(factor), np.asarray(self.dof * np.expm1(2.0 * log_ratio / (self.dof + 1.0)))

    def _tail(self, probability: float) -> float:
        """Where at most that probability is left above, for the tail's leading power."""
        log_height = float(self.log_density(np.zeros(1))[0]) + 0.5 * (self.dof + 1.0) * np.log(self.dof)
        log_place = (log_height - np.log(self.dof) - np.log(max(probability, 1e-300))) / self.dof
        return float(np.exp(min(log_place, np.log(FARTHEST))))
