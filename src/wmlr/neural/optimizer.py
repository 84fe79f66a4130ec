"""Steps on flat parameters: Adam, and a step size that rises shortly and falls to nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.numerics.arrays import Array

FIRST, SECOND = 0.9, 0.99
EPSILON = 1e-8
RISE = 20


@dataclass(frozen=True)
class Adam:
    """Running means of a gradient and of its square."""

    first: Array
    second: Array
    steps: int = 0

    @classmethod
    def new(cls, size: int) -> Adam:
        return cls(np.zeros(size), np.zeros(size))

    def metric(self) -> Array:
        """What multiplies the gradient: one over its root mean square."""
        return np.asarray(1.0 / (np.sqrt(self.second / (1.0 - SECOND ** max(self.steps, 1))) + EPSILON))

    def shared_metric(self) -> Array:
        """The metric for steps on few rows, whose gradients are noisier than the mean of all.

        An entry of small mean gradient is not small there: none is stretched beyond the usual size.
        """
        usual = 1.0 / (np.sqrt(np.mean(self.second) / (1.0 - SECOND ** max(self.steps, 1))) + EPSILON)
        return np.asarray(np.minimum(self.metric(), usual))

    def step(self, gradient: Array, size: Array | None = None) -> tuple[Adam, Array]:
        """The next state and the direction along ``gradient``, measured by ``size`` where that is given."""
        first = FIRST * self.first + (1 - FIRST) * gradient
        second = SECOND * self.second + (1 - SECOND) * (gradient if size is None else size) ** 2
        after = Adam(first, second, self.steps + 1)
        return after, first / (1.0 - FIRST**after.steps) * after.metric()


def step_factor(step: int, last: int) -> float:
    """A factor on the step size: up from nothing within a few steps, then down along a cosine."""
    return min(1.0, (step + 1) / RISE) * 0.5 * (1.0 + float(np.cos(np.pi * min(step / max(last, 1), 1.0))))
