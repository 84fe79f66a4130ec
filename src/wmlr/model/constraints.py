"""Which parameters of a mixture are free, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmlr.model.gates import EQUAL, FREE, Gate
from wmlr.model.layout import diagonal_blocks
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import split_directions

INTERCEPT, SIGMA, WEIGHT = "(intercept)", "(sigma)", "(weight)"  # in brackets, as no column is called


@dataclass(frozen=True)
class Constraints:
    """Which parameters of a mixture are free.

    Attributes
    ----------
    intercept : each component has an intercept.
    symmetric : the second component is minus the first.
    gate : which weights are free.
    shared_sigma, sigma : whether the components have one sigma, and which where it is known.
    shared : columns whose coefficient is common to all components; column ``d`` is the intercept.
    own : the name of the family's own parameter, where it has one that is estimated.
    """

    intercept: bool = True
    symmetric: bool = False
    gate: Gate = FREE
    shared_sigma: bool = True
    sigma: float | None = None
    shared: tuple[int, ...] = ()
    own: str = ""

    def embedding(self, k: int, d: int) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits, own)."""
        return self.free(self.coefficients(k, d), k)

    def white_embedding(self, basis: Array, k: int) -> Array:
        """The matrix from free coefficients to those of all components, where ``basis @ b`` are the data's own.

        What components share comes first.
        """
        r = basis.shape[1]
        if self.symmetric:
            return np.vstack([np.eye(r), -np.eye(r)])
        if not self.shared:
            return np.eye(k * r)
        common, own = split_directions(basis, self.shared)
        return np.hstack([np.tile(common, (k, 1)), np.kron(np.eye(k), own)])

    def free(self, coefficients: Array, k: int, held: NDArray[np.bool_] | None = None) -> Array:
        """The matrix from free parameters to all, given that of the coefficients; sigmas that are ``held`` stay."""
        deviations = self.deviations(k)
        if held is not None:
            deviations = deviations[:, ~np.any(deviations[held] != 0, axis=0)]
        return diagonal_blocks(coefficients, deviations, self.logits(k), np.eye(int(bool(self.own))))

    def variances(self, squares: Array, mass: Array, least: float) -> Array:
        """sigma^2 (..., k) from sums of squares and of weights, which are taken to be at least ``least``."""
        if self.sigma is not None:
            return np.full(squares.shape, self.sigma**2)
        if not self.shared_sigma:
            return np.asarray(squares / np.maximum(mass, least))
        pooled = squares.sum(axis=-1, keepdims=True) / np.maximum(mass.sum(axis=-1, keepdims=True), 1e-300)
        return np.broadcast_to(pooled, squares.shape).copy()

    def count(self, k: int, d: int, aliased: tuple[int, ...] = ()) -> int:
        """The number of free parameters; columns in ``aliased`` have none."""
        lines, own = d + int(self.intercept), 1 if self.symmetric else k
        coefficients = own * lines - (own - 1) * len(self.shared)
        free = int(coefficients + self.others(k))
        return free - len(self.places(aliased, k, d)) if aliased else free

    def others(self, k: int) -> int:
        """How many parameters are free besides the coefficients."""
        return int(self.deviations(k).shape[1] + self.logits(k).shape[1]) + int(bool(self.own))

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
            *([f"logit {self.own}"] if self.own else []),
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
        if self.sigma is not None:
            return np.empty((k, 0))
        return np.ones((k, 1)) if self.shared_sigma or self.symmetric else np.eye(k)

    def logits(self, k: int) -> Array:
        """The matrix from free logits to all of them."""
        return (EQUAL if self.symmetric else self.gate).free(k)
