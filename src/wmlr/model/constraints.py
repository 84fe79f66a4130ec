"""Which parameters of a mixture are free, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from wmlr.model.gates import EQUAL, FREE, Gate
from wmlr.model.layout import diagonal_blocks
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.solving import least_squares

LONGEST_STEP = 1.0  # of the logarithm of a variance
INTERCEPT, SIGMA, WEIGHT = "(intercept)", "(sigma)", "(weight)"  # in brackets, as no column is called
GATE = "gate"

Held = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Constraints:
    """Which parameters of a mixture are free.

    Attributes
    ----------
    intercept : each component has an intercept.
    symmetric : the second component is minus the first.
    gate : which weights are free.
    shared_sigma, sigma : whether the components have one sigma, and which where it is known.
    shared : columns whose coefficient is common to all components that have one to estimate; column ``d`` is the
        intercept.
    own : the name of the family's own parameter, where it has one that is estimated.
    held : (component, column, value) of the coefficients that are known; 0 where a component does not have a column.
    labelled : whether the components of some rows are known, so that each component has its number.
    kinds : a number per component, the same for those of the same family; none where all are of one.
    scaleless : the components that have no scale while others have.
    """

    intercept: bool = True
    symmetric: bool = False
    gate: Gate = FREE
    shared_sigma: bool = True
    sigma: float | None = None
    shared: tuple[int, ...] = ()
    own: str = ""
    held: Held = ()
    labelled: bool = False
    kinds: tuple[int, ...] = ()
    scaleless: tuple[int, ...] = ()

    @property
    def restricted(self) -> bool:
        """Whether coefficients of different components depend on each other, or are known."""
        return bool(self.shared or self.held)

    def classes(self, k: int) -> Integers:
        """(k,): components of the same number may change places, since the same is asked of them."""
        if self.labelled:
            return np.arange(k)
        kinds = self.kinds or (0,) * k
        asked = [
            (kinds[j], self.gate.known_weight(j), *((column, value) for i, column, value in self.held if i == j))
            for j in range(k)
        ]
        return np.array([asked.index(one) for one in asked], dtype=np.int64)

    def of_first(self, k: int) -> Constraints:
        """What is asked of the first k components, where others were left out."""
        return replace(self, held=tuple(one for one in self.held if one[0] < k), kinds=self.kinds[:k])

    def embedding(self, k: int, d: int) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits, own)."""
        return self.free(self.coefficients(k, d), k)

    def white_embedding(self, basis: Array, k: int) -> Array:
        """The matrix from free coefficients to those of all components, where ``basis @ b`` are the data's own."""
        r = basis.shape[1]
        if self.symmetric:
            return np.vstack([np.eye(r), -np.eye(r)])
        rows = self._restrictions(basis, k)[0]
        return np.asarray(null_space(rows)) if len(rows) else np.eye(k * r)

    def white_held(self, basis: Array, k: int) -> Array:
        """(k, r): the shortest coefficients that have the values which are known."""
        rows, values = self._restrictions(basis, k)
        return least_squares(rows, values).reshape(k, -1)

    def nearest(self, basis: Array, B: Array, weights: Array) -> Array:
        """The allowed coefficients (r, k) that are nearest to B, each component's distance counting by its weight."""
        if not self.restricted:
            return B
        k, held = len(weights), self.white_held(basis, len(weights))
        root = np.sqrt(weights)[:, None]
        blocks = self.white_embedding(basis, k).reshape(*held.shape, -1)
        weighted = (root[:, :, None] * blocks).reshape(held.size, -1)
        free = least_squares(weighted, (root * (B.T - held)).ravel())
        return np.asarray((held + blocks @ free).T)

    def impose(self, mixture: Mixture) -> Mixture:
        """A mixture with its known coefficients exactly as they are known, which rounding may have moved."""
        lines = mixture.lines
        for component, column, value in self.held:
            lines[component, column] = value
        return replace(mixture, coef=lines[:, :-1], intercept=lines[:, -1])

    def held_by_column(self, without: tuple[int, ...] = ()) -> dict[int, dict[int, float]] | None:
        """Known coefficients by their column and component, counted from 1; none of components ``without`` any."""
        found: dict[int, dict[int, float]] = {}
        for component, column, value in (one for one in self.held if one[0] not in without):
            found.setdefault(column, {})[component + 1] = value
        return found or None

    def _restrictions(self, basis: Array, k: int) -> tuple[Array, Array]:
        """Rows C and numbers v with C b = v, for b the coefficients of all components in a basis; of length one."""
        p, r = basis.shape
        if not self.restricted:
            return np.zeros((0, k * r)), np.zeros(0)
        sizes = np.linalg.norm(basis, axis=1)
        rows, values = [], []
        for component, column, value in self.held:
            if sizes[column] > 0:
                row = np.zeros((k, r))
                row[component] = basis[column] / sizes[column]
                rows.append(row.ravel())
                values.append(value / sizes[column])
            elif value:
                raise ValueError(
                    f"the coefficient of column {column} (counted from 0) is held at {value:g}, and the column follows "
                    "from others, so that it has none of its own: leave out one of them"
                )
        for column, (first, *others) in ((c, js) for c, js in self._free_coefficients(k, p) if len(js) > 1):
            for other in others if sizes[column] > 0 else ():
                row = np.zeros((k, r))
                row[first], row[other] = basis[column] / sizes[column], -basis[column] / sizes[column]
                rows.append(row.ravel())
                values.append(0.0)
        return np.array(rows).reshape(-1, k * r), np.array(values)

    def _free_coefficients(self, k: int, p: int) -> list[tuple[int, tuple[int, ...]]]:
        """Of each free coefficient its column and the components that have it, in the parameters' order."""
        held = {(component, column) for component, column, _ in self.held}
        having = {c: tuple(j for j in range(k) if (j, c) not in held) for c in self.shared}
        every = [(c, having.get(c, (j,)), j) for j in range(1 if self.symmetric else k) for c in range(p)]
        return [(c, js) for c, js, j in every if (j, c) not in held and j == js[0]]

    def free(
        self, coefficients: Array, k: int, held: NDArray[np.bool_] | None = None, gate: int | None = None
    ) -> Array:
        """The matrix from free parameters to all, given that of the coefficients; sigmas that are ``held`` stay.

        ``gate`` is how many coordinates each logit has; None for the columns' own.
        """
        deviations = self.deviations(k)
        if held is not None:
            deviations = deviations[:, ~np.any(deviations[held] != 0, axis=0)]
        return diagonal_blocks(coefficients, deviations, self.logits(k, gate), np.eye(int(bool(self.own))))

    def variances(self, squares: Array, mass: Array, least: float, before: Array | None = None) -> Array:
        """sigma^2 (..., k) from sums of squares and of weights, which are taken to be at least ``least``.

        Where the squares are no sums of squares, but say by how much to move the variances that were ``before``, they
        are moved on the scale of their logarithm.
        """
        if self.sigma is not None:
            return np.full(squares.shape, self.sigma**2)
        if not self.shared_sigma:
            found = np.asarray(squares / np.maximum(mass, least))
        else:
            pooled = squares.sum(axis=-1, keepdims=True) / np.maximum(mass.sum(axis=-1, keepdims=True), 1e-300)
            found = np.broadcast_to(pooled, squares.shape).copy()
        if before is not None:
            found = np.asarray(before * np.exp(np.clip(found / before - 1.0, -LONGEST_STEP, LONGEST_STEP)))
        return found

    def within(self, s2: Array, least: Array | float, most: float) -> Array:
        """Variances (..., k) within bounds; 1 for components without a scale."""
        found = np.clip(s2, least, most)
        found[..., list(self.scaleless)] = 1.0
        return np.asarray(found)

    def count(self, k: int, d: int, aliased: tuple[int, ...] = ()) -> int:
        """The number of free parameters; columns in ``aliased`` have none."""
        free = len(self._free_coefficients(k, d + int(self.intercept))) + self.others(k)
        return free - len(self.places(aliased, k, d)) if aliased else free

    def others(self, k: int) -> int:
        """How many parameters are free besides the coefficients."""
        prior = k if self.gate.own else 0
        return int(self.deviations(k).shape[1] + self.logits(k).shape[1]) + int(bool(self.own)) + prior

    def places(self, columns: tuple[int, ...], k: int, d: int) -> list[int]:
        """Where the free parameters of some columns are."""
        p = d + int(self.intercept)
        first = self.embedding(k, d).argmax(axis=0)
        return [place for place, at in enumerate(first.tolist()) if at < k * p and at % p in columns]

    def names(self, columns: Sequence[str], k: int) -> tuple[str, ...]:
        """The free parameters' names: ``x1[2]`` is the coefficient of x1 in the second component."""
        lines = [*columns, INTERCEPT] if self.intercept else list(columns)
        coefficients = [
            lines[c] if c in self.shared else f"{lines[c]}[{js[0] + 1}]"
            for c, js in self._free_coefficients(k, len(lines))
        ]
        return (
            *coefficients,
            *(f"log {name}" for name in self.sigma_names(k)),
            *self.gate_names(k),
            *([f"logit {self.own}"] if self.own else []),
        )

    def gate_names(self, k: int) -> list[str]:
        """The free logits' names: ``gate w[1]`` is what w does to the logit of the first component."""
        if self.symmetric or not self.gate.columns:
            return [f"logit {WEIGHT}[{j + 1}]" for j in range(self.logits(k).shape[1])]
        return [f"{GATE} {name}[{j + 1}]" for j in range(k - 1) for name in (*self.gate.columns, INTERCEPT)]

    def sigma_names(self, k: int) -> list[str]:
        """The estimated noise deviations' names."""
        own = self.sigma_components(k)
        return [SIGMA] if len(own) == 1 else [f"{SIGMA}[{j + 1}]" for j in own]

    def sigma_components(self, k: int) -> list[int]:
        """Of each free log sigma the first component that has it."""
        found: list[int] = self.deviations(k).argmax(axis=0).tolist()
        return found

    def coefficients(self, k: int, d: int) -> Array:
        """The matrix from free coefficients to all of them, component by component."""
        p = d + int(self.intercept)
        if self.symmetric:
            return np.vstack([np.eye(p), -np.eye(p)])
        free = self._free_coefficients(k, p)
        matrix = np.zeros((k * p, len(free)))
        for place, (column, components) in enumerate(free):
            matrix[[j * p + column for j in components], place] = 1.0
        return matrix

    def deviations(self, k: int) -> Array:
        """The matrix from free log sigmas to all of them."""
        if self.sigma is not None:
            return np.empty((k, 0))
        if self.shared_sigma or self.symmetric:
            having = np.ones((k, 1))
            having[list(self.scaleless)] = 0.0
            return having
        return np.delete(np.eye(k), list(self.scaleless), axis=1)

    def logits(self, k: int, size: int | None = None) -> Array:
        """The matrix from free logits to all of them, or of their coefficients where weights depend on columns."""
        return (EQUAL if self.symmetric else self.gate).free(k, size)
