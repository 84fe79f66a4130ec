"""The objective's score and curvature in the free parameters: what Newton's steps and the last judgement need.

A surface knows one kind of point. Parameters are in the point's own white coordinates: coefficients, then log sigma,
then logits of the weights, those alone that are free. A variance that stands at one of its bounds is held there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Fit, Steps
from wmlr.methods import general, symmetric
from wmlr.methods.ascent import Point
from wmlr.methods.gating import weight_slopes
from wmlr.methods.general import MixturePoint
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.methods.task import Task
from wmlr.model.layout import Layout, diagonal_blocks
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.missing import MissingInformation

AT_FLOOR = 1.001  # times the floor: a variance so near to it is held there
SCARCE = 3.0  # rows for each coefficient: a component with a sigma of its own that has fewer may be chance
LONGEST_LOG_SIGMA = 1.0  # of a step: beyond it no quadratic is to be trusted
LONGEST_LOGIT = 2.0  # the same

Here = TypeVar("Here", bound=Point)


class Surface(Protocol[Here]):
    """What Newton's method must know of the objective; all in total, not per row."""

    def size(self, here: Here) -> int:
        """Columns of the matrix that :meth:`question` asks for."""

    def question(self, here: Here, whole: bool) -> Query:
        """What the curvature follows from, asked of the ``whole`` rows or of a share of them."""

    def curvature(self, here: Here, sums: Sums, share: float) -> Array:
        """Minus the Hessian, from the answer of a ``share`` of the rows."""

    def drift(self, here: Here) -> Array | None:
        """What the ridge's pull changes by as its reference moves along, to be added to the curvature.

        It makes the derivative of the equations that a penalised fit solves, which is not symmetric.
        """

    def outer(self, here: Here, sums: Sums, share: float) -> Array | None:
        """The sum of the scores' outer products, where the answer has it and no penalty bends the curvature."""

    def complete(self, here: Here) -> Array:
        """What the curvature would be, were the components known: the metric that eigenvalues are taken in."""

    def score(self, here: Here) -> Array:
        """The gradient."""

    def lengths(self, here: Here, step: Array) -> tuple[Array, float]:
        """The squares of a step's length in that metric: in each component's coefficients, and in the gate's."""

    def move(self, here: Here, step: Array) -> Steps[Here]:
        """The point a step leads to."""


def _ridge(frame: Frame, weight: float = 1.0) -> Array:
    """The ridge's matrix for a component of this weight: what components share is penalised once."""
    return np.asarray(frame.ridge - (1.0 - weight) * frame.common)


def _layout(here: MixturePoint) -> Layout:
    r, k = here.B.shape
    return Layout(r, k, int(here.family.own is not None), 1 if here.gate is None else len(here.gate.state))


def at_bounds(here: MixturePoint, task: Task, fit: Fit) -> Fit:
    """The fit, saying whether a variance is the least or the most it may be, or stands on hardly any rows."""
    free = task.sigma is None
    own = free and not (task.shared_sigma or task.constraints.restricted or task.family.discrete)
    scarce = own and bool(np.any(here.weights * here.frame.rows < SCARCE * here.frame.dimension))
    low, high = here.s2 <= AT_FLOOR * here.floor, AT_FLOOR * here.s2 >= here.frame.ceiling
    return replace(fit, floored=free and bool(low.any()), widest=free and bool(high.any()), scarce=scarce)


@dataclass(frozen=True)
class PairSurface:
    """beta and -beta with one sigma."""

    task: Task

    def size(self, here: SymmetricPoint) -> int:
        return len(here.b) + 1

    def _free(self, here: SymmetricPoint) -> int:
        held = self.task.sigma is not None or here.s2 <= AT_FLOOR * here.frame.floor
        return len(here.b) + int(not held)

    def question(self, here: SymmetricPoint, whole: bool) -> Query:
        return MissingInformation(here.frame.to_data(here.b), here.s2, here.mean, gram=whole and here.frame.sampled)

    def curvature(self, here: SymmetricPoint, sums: Sums, share: float) -> Array:
        frame, b, s2 = here.frame, here.b, here.s2
        lost = frame.mean_matrix_of(sums["lost"]) / share / s2
        gram = frame.mean_matrix_of(sums["gram"]) if frame.sampled and share == 1.0 else frame.gram
        cross = 2.0 * (lost @ b + here.m + frame.shrink(b)) / s2
        squares = here.mean_square - 2.0 * float(b @ lost @ b)
        matrix = np.empty((len(b) + 1, len(b) + 1))
        matrix[:-1, :-1] = (gram - lost + frame.ridge) / s2
        matrix[-1, :-1] = matrix[:-1, -1] = cross
        matrix[-1, -1] = 2.0 * squares / s2
        return np.asarray(frame.weight * matrix[: self._free(here), : self._free(here)])

    def drift(self, here: SymmetricPoint) -> Array | None:
        frame, free = here.frame, self._free(here)
        if not self.task.ridge or free == len(here.b):
            return None
        matrix = np.zeros((free, free))
        matrix[:-1, -1] = -2.0 * frame.weight * frame.shrink(here.b) / here.s2
        return matrix

    def outer(self, here: SymmetricPoint, sums: Sums, share: float) -> Array | None:
        return None

    def complete(self, here: SymmetricPoint) -> Array:
        frame = here.frame
        own = diagonal_blocks((frame.gram + frame.ridge) / here.s2, np.full((1, 1), 2.0))
        return np.asarray(frame.weight * own[: self._free(here), : self._free(here)])

    def score(self, here: SymmetricPoint) -> Array:
        slopes = np.append(here.m / here.s2, here.mean_square / here.s2 - 1.0)
        return np.asarray(here.frame.weight * slopes[: self._free(here)])

    def lengths(self, here: SymmetricPoint, step: Array) -> tuple[Array, float]:
        b = step[: len(here.b)]
        return np.array([b @ self.complete(here)[: len(b), : len(b)] @ b]), 0.0

    def move(self, here: SymmetricPoint, step: Array) -> Steps[SymmetricPoint]:
        r = len(here.b)
        change = float(np.clip(step[r:], -LONGEST_LOG_SIGMA, LONGEST_LOG_SIGMA).sum())
        s2 = here.s2 * float(np.exp(2.0 * change))
        return (yield from symmetric.point_at(self.task, here, here.b + step[:r], s2))


@dataclass(frozen=True)
class MixtureSurface:
    """k components."""

    task: Task

    def size(self, here: MixturePoint) -> int:
        return _layout(here).size

    def question(self, here: MixturePoint, whole: bool) -> Query:
        coef = here.frame.to_data(here.B)
        return ObservedInformation(coef, here.weights, here.s2, here.family, here.gate_query)

    def curvature(self, here: MixturePoint, sums: Sums, share: float) -> Array:
        frame, layout = here.frame, _layout(here)
        into = layout.change_of_basis(frame.basis)
        matrix = into.T @ sums["information"] @ into / share
        for j in range(layout.k):
            own = layout.coefficients(j)
            matrix[own, own] += frame.weight * _ridge(frame, here.weights[j]) / here.s2[j]
        free = self._free(here)
        return np.asarray(free.T @ (0.5 * (matrix + matrix.T)) @ free)

    def drift(self, here: MixturePoint) -> Array | None:
        frame, layout, k = here.frame, _layout(here), here.B.shape[1]
        if not self.task.ridge:
            return None
        matrix = np.zeros((self.size(here), self.size(here)))
        pull = frame.weight * frame.shrink(here.B, here.weights) / here.s2
        common = frame.weight * frame.common @ here.B / here.s2
        information = None if here.gate is None else here.gate.sums.get("gate_information")
        moved = weight_slopes(here.weights, information, frame.units)
        for j in range(k):
            own = layout.coefficients(j)
            matrix[own, layout.log_sigma(j)] = -2.0 * pull[:, j]
            matrix[own, layout.logits] = np.outer(common[:, j], moved[j])
        free = self._free(here)
        matrix = np.asarray(free.T @ matrix @ free)
        return matrix if matrix.any() else None

    def outer(self, here: MixturePoint, sums: Sums, share: float) -> Array | None:
        if self.task.ridge:
            return None
        into = _layout(here).change_of_basis(here.frame.basis) @ self._free(here)
        return np.asarray(into.T @ sums["outer"] @ into / share)

    def complete(self, here: MixturePoint) -> Array:
        free = self._free(here)
        return np.asarray(free.T @ self._complete(here) @ free)

    def _complete(self, here: MixturePoint) -> Array:
        """The same in all parameters."""
        frame, inner = here.frame, here.weights[:-1]
        shares = np.maximum(here.curvature_weight, LEAST_MASS / frame.spread)
        mass = np.maximum(here.mass, LEAST_MASS)
        blocks = [frame.weight * (share * frame.gram + frame.ridge) / s2 for share, s2 in zip(shares, here.s2)]
        blocks.append(np.diag(2.0 * frame.weight * mass))
        constant = frame.units * (np.diag(inner) - np.outer(inner, inner))
        blocks.append(constant if here.gate is None else here.gate.complete)
        if here.family.own is not None:
            blocks.append(np.full((1, 1), frame.weight * here.family.own_information()))
        return diagonal_blocks(*blocks)

    def lengths(self, here: MixturePoint, step: Array) -> tuple[Array, float]:
        layout, whole, complete = _layout(here), self._free(here) @ step, self._complete(here)
        parts = [*map(layout.coefficients, range(layout.k)), layout.logits]
        *own, logits = [float(whole[part] @ complete[part, part] @ whole[part]) for part in parts]
        return np.array(own), logits if here.gate is not None else 0.0

    def score(self, here: MixturePoint) -> Array:
        frame = here.frame
        coefficients = here.score / here.s2
        deviations = here.squares / here.s2 - here.mass
        logits = frame.units * (here.units - here.weights)[:-1] if here.gate is None else here.gate.sums["gate_score"]
        layout = _layout(here)
        own = np.full(layout.own, frame.weight * here.family.own_score(float(here.mass.sum())))
        whole = layout.join(frame.weight * coefficients, frame.weight * deviations, logits, own)
        return np.asarray(self._free(here).T @ whole)

    def move(self, here: MixturePoint, step: Array) -> Steps[MixturePoint]:
        coefficients, log_sigmas, logits, own = _layout(here).part(self._free(here) @ step)
        change = np.clip(log_sigmas, -LONGEST_LOG_SIGMA, LONGEST_LOG_SIGMA)
        s2 = here.s2 * np.exp(2.0 * change)
        if self.task.sigma is None:
            s2 = self.task.constraints.within(s2, here.floor, here.frame.ceiling)
        family = here.family.move_own(float(np.clip(own, -LONGEST_LOGIT, LONGEST_LOGIT).sum()))
        weights, gate = here.units, None
        if here.gate is not None:
            gate = here.gate.frame.move(here.gate.state, logits)
        else:
            logs = np.log(here.weights / here.weights[-1])
            logs[:-1] += np.clip(logits, -LONGEST_LOGIT, LONGEST_LOGIT)
            weights = np.exp(logs - logs.max())
            weights = weights / weights.sum()
        there = yield from general.point_at(here, here.B + coefficients, weights, s2, family, gate)
        return replace(there, floor=here.floor)  # what is held in one step is in the next

    def _free(self, here: MixturePoint) -> Array:
        """The matrix from free parameters to all of them."""
        constraints, k = self.task.constraints, here.B.shape[1]
        held = (here.s2 <= AT_FLOOR * here.floor) | (AT_FLOOR * here.s2 >= here.frame.ceiling)
        return constraints.free(constraints.white_embedding(here.frame.basis, k), k, held, _layout(here).gate)
