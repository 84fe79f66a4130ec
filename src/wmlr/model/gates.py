"""Gates: how often each component comes, before y is seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.numerics.arrays import Array

LEAST_WEIGHT = 1e-12  # no component is given up for good by one step
ROUNDING = 1e-9


class Gate(ABC):
    """A rule for mixing weights that are the same for every row.

    What it needs of the rows is the expected number of units of each component; its parameters are the logits of the
    first k-1 weights against the last.
    """

    @abstractmethod
    def step(self, units: Array) -> Array:
        """The weights (..., k) that are likeliest, given the expected number of units of each component."""

    @abstractmethod
    def free(self, k: int) -> Array:
        """The matrix from its free parameters to the k-1 logits."""

    def is_estimated(self, k: int) -> bool:
        """Whether there is anything to estimate."""
        return bool(self.free(k).shape[1])


@dataclass(frozen=True)
class FreeWeights(Gate):
    """Weights that are estimated."""

    def step(self, units: Array) -> Array:
        least = LEAST_WEIGHT * np.maximum(units.sum(axis=-1, keepdims=True), 1e-280)
        positive = np.maximum(units, least)
        return np.asarray(positive / positive.sum(axis=-1, keepdims=True))

    def free(self, k: int) -> Array:
        return np.eye(k - 1)


@dataclass(frozen=True)
class EqualWeights(Gate):
    """Every component as often as the others."""

    def step(self, units: Array) -> Array:
        return np.full(units.shape, 1.0 / units.shape[-1])

    def free(self, k: int) -> Array:
        return np.empty((k - 1, 0))


@dataclass(frozen=True)
class FixedWeights(Gate):
    """Weights that are known."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        proper = all(0.0 < weight <= 1.0 for weight in self.weights)
        if not proper or abs(sum(self.weights) - 1.0) > ROUNDING:
            raise ValueError(f"fixed weights must be positive and sum to 1 (got {', '.join(map(str, self.weights))})")

    def step(self, units: Array) -> Array:
        k = units.shape[-1]
        if k != len(self.weights):
            raise ValueError(f"gate= gives {len(self.weights)} fixed weights for {k} components: give as many as those")
        return np.broadcast_to(np.array(self.weights), units.shape).copy()

    def free(self, k: int) -> Array:
        return np.empty((k - 1, 0))


FREE, EQUAL = FreeWeights(), EqualWeights()


def gate(given: Any) -> Gate:
    """The gate that None (free weights), "equal" or a vector of known weights stands for."""
    if given is None:
        return FREE
    if isinstance(given, str):
        if given == "equal":
            return EQUAL
        raise ValueError(f"gate must be None, 'equal' or a vector of known weights (got {given!r})")
    try:
        return FixedWeights(tuple(float(weight) for weight in given))
    except TypeError:
        raise ValueError(f"gate must be None, 'equal' or a vector of known weights (got {given!r})") from None
