"""Gates: how often each component comes, before y is seen.

A gate is a rule: which weights there may be, and which of their parameters are free. Parameters are coefficients of
linear functions, one for the logit of each of the first k-1 components against the last, of the columns that weights
depend on and of a constant; weights that are the same for all rows depend on no columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wmlr.numerics.arrays import Array

LEAST_WEIGHT = 1e-12  # no component is given up for good by one step
ROUNDING = 1e-9  # by which weights that a user gives may miss 1
GATES = "None, 'equal', 'group', a vector of known weights, a list of columns, or '~ w' beside a formula"


class Gate(ABC):
    """A rule for mixing weights.

    What it needs of the rows is the expected number of units of each component; where weights depend on columns, also
    the sums of :class:`wmlr.statistics.mixing.LogitGate`.

    Attributes
    ----------
    columns : names of the columns that the weights depend on.
    own : whether each group has weights of its own.
    """

    columns: tuple[str, ...] = ()
    own: ClassVar[bool] = False

    @abstractmethod
    def step(self, units: Array) -> Array:
        """The weights (..., k) that are likeliest, given the expected number of units of each component.

        Where they depend on columns, their means over the units.
        """

    def free(self, k: int, size: int | None = None) -> Array:
        """The matrix from its free parameters, if it has any, to those of the k-1 logits.

        These have ``size`` coordinates each; None stands for as many as there are columns, and one for the constant.
        """
        return np.empty((k - 1, 0))

    def known_weight(self, component: int) -> float | None:
        """The weight of a component, counted from 0, where it is known apart from the others'."""
        return None

    @property
    def differs(self) -> bool:
        """Whether weights differ from row to row."""
        return bool(self.columns) or self.own

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

    def free(self, k: int, size: int | None = None) -> Array:
        return np.eye((k - 1) * (len(self.columns) + 1 if size is None else size))


@dataclass(frozen=True)
class EqualWeights(Gate):
    """Every component as often as the others."""

    def step(self, units: Array) -> Array:
        return np.full(units.shape, 1.0 / units.shape[-1])


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

    def known_weight(self, component: int) -> float | None:
        return self.weights[component]


@dataclass(frozen=True)
class ColumnWeights(FreeWeights):
    """Weights whose logits are linear functions of columns: a multinomial logit."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class GroupWeights(FreeWeights):
    """Each group's own weights, drawn from a Dirichlet law that is estimated."""

    own: ClassVar[bool] = True
    free = Gate.free


FREE, EQUAL, GROUP = FreeWeights(), EqualWeights(), GroupWeights()


def log_softmax(logits: Array, axis: int = -1) -> Array:
    """Logarithms of weights that sum to 1 along an axis, from their logits."""
    lowered = logits - logits.max(axis=axis, keepdims=True)
    return np.asarray(lowered - np.log(np.exp(lowered).sum(axis=axis, keepdims=True)))


def column_log_weights(coef: Array, columns: Array) -> Array:
    """(n, k) at columns (n, g), by coefficients (k, g + 1) of the logits, the constant's last."""
    return log_softmax(columns @ coef[:, :-1].T + coef[:, -1])


def gate(given: Any) -> Gate:
    """The gate that a setting stands for: None (free weights), "equal", known weights, or columns.

    Columns are a list of names or of whole numbers, or text such as ``"~ w"``, and are called as they are given; a
    vector of other numbers is one of weights.
    """
    if given is None:
        return FREE
    if isinstance(given, str):
        if given == "equal":
            return EQUAL
        if given == "group":
            return GROUP
        if given.lstrip().startswith("~") and given.strip("~ "):
            return ColumnWeights((given,))
        raise ValueError(f"gate must be {GATES} (got {given!r})")
    try:
        items = list(given)
        if items and all(isinstance(item, (str, int, np.integer)) and not isinstance(item, bool) for item in items):
            return ColumnWeights(tuple(map(str, items)))
        return FixedWeights(tuple(float(weight) for weight in items))
    except TypeError:
        raise ValueError(f"gate must be {GATES} (got {given!r})") from None
