"""Noise families: what the law of y around a regression line is, one file each.

Whatever depends on the noise asks the family, ``mixture.family``, so that none of it can take one family for
another.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from wmlr.families.normal import Normal
from wmlr.families.student import Student
from wmlr.numerics.arrays import Array


class Family(Protocol):
    """Noise of scale 1, symmetric about 0, with a density that falls on either side.

    Attributes
    ----------
    name : what its quantiles are called.
    far : how many scales apart two components have nothing in common; infinite where tails never end.
    """

    @property
    def name(self) -> str: ...

    @property
    def far(self) -> float: ...

    def __hash__(self) -> int: ...

    def log_density(self, z: Array) -> Array:
        """Log-density at z."""
        ...

    def slope(self, z: Array) -> Array:
        """The derivative of the log-density."""
        ...

    def cdf(self, z: Array) -> Array:
        """P(noise <= z); accurate in the lower tail."""
        ...

    def quantile(self, q: Array) -> Array:
        """The inverse of ``cdf``."""
        ...

    def reach(self, log_density: Array) -> Array:
        """How far out the density is certainly below a given one."""
        ...

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        """n independent draws."""
        ...

    def panels(self, count: int) -> Array:
        """Ends of stretches, ``count`` of them at the centre, over which Gauss's rule integrates the density."""
        ...

    def knots(self) -> Array:
        """Points between which the quantile function is as good as linear, out to where squares no longer weigh.

        Raises
        ------
        ValueError
            Where the variance is infinite.
        """
        ...

    def crossing(self, log_ratio: Array) -> tuple[Array, Array]:
        """(a, c) such that the log-density at z_i exceeds that at z_j by -log_ratio where z_i^2 = a z_j^2 + c."""
        ...


def family(dof: float | None) -> Family:
    """Student's noise of that many degrees of freedom; None is normal noise."""
    return Normal() if dof is None else Student(dof)


__all__ = ["Family", "Normal", "Student", "family"]
