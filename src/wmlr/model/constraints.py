"""Which parameters of a mixture are free, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from wmlr.numerics.arrays import Array

INTERCEPT, SIGMA, WEIGHT = "(intercept)", "(sigma)", "(weight)"  # in brackets, as no column is called


@dataclass(frozen=True)
class Constraints:
    """Which parameters of a mixture are free.

    Attributes
    ----------
    intercept : each component has an intercept.
    symmetric : the second component is minus the first.
    equal_weights, shared_sigma, sigma_known : what is held equal, common or fixed.
    shared : columns whose coefficient is common to all components; column ``d`` is the intercept.
    """

    intercept: bool = True
    symmetric: bool = False
    equal_weights: bool = False
    shared_sigma: bool = True
    sigma_known: bool = False
    shared: tuple[int, ...] = ()

    def embedding(self, k: int, d: int) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits)."""
        return np.asarray(block_diag(self.coefficients(k, d), self.deviations(k), self.logits(k)))

    def count(self, k: int, d: int, aliased: tuple[int, ...] = ()) -> int:
        """The number of free parameters; columns in ``aliased`` have none."""
        lines, own = d + int(self.intercept), 1 if self.symmetric else k
        coefficients = own * lines - (own - 1) * len(self.shared)
        free = int(coefficients + self.deviations(k).shape[1] + self.logits(k).shape[1])
        return free - len(self.places(aliased, k, d)) if aliased else free

    def places(self, columns: tuple[int, ...], k: int, d: int) -> list[int]:
        """Where the free parameters of some columns are."""
        p = d + int(self.intercept)
        first = self.embedding(k, d).argmax(axis=0)
        return [place for place, at in enumerate(first.tolist()) if at < k * p and at % p in columns]

    def names(self, columns: Sequence[str], k: int) -> tuple[str, ...]:
        """The free parameters' names: ``x1[2]`` is the coefficient of x1 in the second component."""
        lines = [*columns, INTERCEPT] if self.intercept else list(columns)
        own = 1 if self.symmetric else k
        coefficients = [
            name if c in self.shared else f"{name}[{j + 1}]"
            for j in range(own)
            for c, name in enumerate(lines)
            if j == 0 or c not in self.shared
        ]
        return (
            *coefficients,
            *(f"log {name}" for name in self.sigma_names(k)),
            *(f"logit {WEIGHT}[{j + 1}]" for j in range(self.logits(k).shape[1])),
        )

    def sigma_names(self, k: int) -> list[str]:
        """The estimated noise deviations' names."""
        count = self.deviations(k).shape[1]
        return [SIGMA] if count == 1 else [f"{SIGMA}[{j + 1}]" for j in range(count)]

    def coefficients(self, k: int, d: int) -> Array:
        """The matrix from free coefficients to all of them, component by component."""
        p = d + int(self.intercept)
        if self.symmetric:
            return np.vstack([np.eye(p), -np.eye(p)])
        common = np.isin(np.arange(p), self.shared)
        columns = [np.eye(k * p)[:, :p]]
        columns[0][:, common] = np.tile(np.eye(p)[:, common], (k, 1))
        columns += [np.eye(k * p)[:, j * p : (j + 1) * p][:, ~common] for j in range(1, k)]
        return np.hstack(columns)

    def deviations(self, k: int) -> Array:
        """The matrix from free log sigmas to all of them."""
        if self.sigma_known:
            return np.empty((k, 0))
        return np.ones((k, 1)) if self.shared_sigma or self.symmetric else np.eye(k)

    def logits(self, k: int) -> Array:
        """The matrix from free logits to all of them."""
        return np.empty((k - 1, 0)) if self.equal_weights or self.symmetric else np.eye(k - 1)
