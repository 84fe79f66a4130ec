"""Links: which function of the linear predictor the mean is, with its first two derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from wmlr.families.base import Family
from wmlr.numerics.arrays import Array
from wmlr.numerics.stirling import LOG_ROOT_2PI

FARTHEST = 500.0  # of a predictor whose exponential is taken: that of more is no number
LARGEST_LOGIT = 36.0  # a share nearer to 1 than that has no logit
LARGEST_PROBIT = 8.0  # predictor: beyond it a normal tail is below 1e-15
LEAST = 1e-8  # of the square root of a count, which must be positive
LEAST_INVERSE = 1e-100  # of an amount's inverse, in whatever unit: its third power is still a number


class MeanAt(NamedTuple):
    """The mean at a predictor, and its first and second derivative there."""

    mean: Array
    slope: Array
    bend: Array


class Link(ABC):
    """From the linear predictor to the mean, and back."""

    @abstractmethod
    def at(self, predictor: Array) -> MeanAt:
        """The mean and its derivatives."""

    @abstractmethod
    def predictor(self, mean: Array) -> Array:
        """The predictor of a mean."""

    def mean(self, predictor: Array) -> Array:
        """The mean alone."""
        return self.at(predictor).mean

    def complement(self, predictor: Array) -> Array:
        """1 less the mean, of links to shares with every digit where the mean is nearly 1."""
        return np.asarray(1.0 - self.mean(predictor))


class Log(Link):
    """mean = exp(predictor)."""

    def at(self, predictor: Array) -> MeanAt:
        mean = np.exp(np.clip(predictor, -FARTHEST, FARTHEST))
        return MeanAt(mean, mean, mean)

    def predictor(self, mean: Array) -> Array:
        return np.asarray(np.log(mean))


class SquareRoot(Link):
    """mean = predictor^2, of a predictor that is taken to be positive."""

    def at(self, predictor: Array) -> MeanAt:
        root = np.maximum(predictor, LEAST)
        return MeanAt(root * root, 2.0 * root, np.full_like(root, 2.0))

    def predictor(self, mean: Array) -> Array:
        return np.asarray(np.sqrt(mean))


class Inverse(Link):
    """mean = 1 / predictor, of a predictor that is taken to be positive."""

    def at(self, predictor: Array) -> MeanAt:
        mean = 1.0 / np.maximum(predictor, LEAST_INVERSE)
        return MeanAt(mean, -(mean**2), 2.0 * mean**3)

    def predictor(self, mean: Array) -> Array:
        return np.asarray(1.0 / mean)


class Logit(Link):
    """mean = 1 / (1 + exp(-predictor))."""

    def at(self, predictor: Array) -> MeanAt:
        eta = np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT)
        mean = expit(eta)
        slope = mean * expit(-eta)
        return MeanAt(mean, slope, slope * (1.0 - 2.0 * mean))

    def complement(self, predictor: Array) -> Array:
        return np.asarray(expit(-np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT)))

    def predictor(self, mean: Array) -> Array:
        return np.asarray(np.log(mean) - np.log1p(-mean))


class Probit(Link):
    """mean = P(a standard normal number is below the predictor)."""

    def at(self, predictor: Array) -> MeanAt:
        eta = np.clip(predictor, -LARGEST_PROBIT, LARGEST_PROBIT)
        slope = np.exp(-0.5 * eta * eta - LOG_ROOT_2PI)
        return MeanAt(ndtr(eta), slope, -eta * slope)

    def complement(self, predictor: Array) -> Array:
        return np.asarray(ndtr(-np.clip(predictor, -LARGEST_PROBIT, LARGEST_PROBIT)))

    def predictor(self, mean: Array) -> Array:
        return np.asarray(ndtri(mean))


class ComplementaryLogLog(Link):
    """mean = 1 - exp(-exp(predictor))."""

    def at(self, predictor: Array) -> MeanAt:
        rate = self._rate(predictor)
        slope = rate * np.exp(-rate)
        return MeanAt(-np.expm1(-rate), slope, slope * (1.0 - rate))

    def complement(self, predictor: Array) -> Array:
        return np.asarray(np.exp(-self._rate(predictor)))

    def _rate(self, predictor: Array) -> Array:
        return np.asarray(np.exp(np.clip(predictor, -LARGEST_LOGIT, np.log(LARGEST_LOGIT))))

    def predictor(self, mean: Array) -> Array:
        return np.asarray(np.log(-np.log1p(-mean)))


LINKS: Mapping[str, Link] = {
    "log": Log(),
    "sqrt": SquareRoot(),
    "inverse": Inverse(),
    "logit": Logit(),
    "probit": Probit(),
    "cloglog": ComplementaryLogLog(),
}


class LinkedFamily(Family):
    """A family whose mean is a function of the predictor that its ``link``, one of ``links``, names."""

    link: str
    links: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if self.link not in self.links:
            known = ", ".join(map(repr, self.links))
            raise ValueError(f"the link of family {self.name!r} must be one of {known} (got {self.link!r})")

    @property
    def predictor_scale(self) -> str:
        return self.link

    @property
    def _mean(self) -> Link:
        return LINKS[self.link]

    def mean(self, predictor: Array) -> Array:
        return self._mean.mean(predictor)

    def predictor_of(self, mean: Array) -> Array:
        return self._mean.predictor(mean)
