"""The objective's score and curvature in the free parameters: what Newton's steps and the last judgement need.

A surface knows one kind of point. Parameters are in the point's own white coordinates: coefficients, then log sigma,
then logits of the weights, those alone that are free. A variance that stands at its floor is held there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from scipy.linalg import block_diag

from wmlr.coordinates import Frame, ScaledFrame
from wmlr.methods import general, m_step, symmetric
from wmlr.methods.ascent import Point
from wmlr.methods.general import MixturePoint
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.round import Array, Query, Steps, Sums
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.missing import MissingInformation
from wmlr.statistics.student_information import StudentInformation
from wmlr.task import Task

AT_FLOOR = 1.001
LONGEST_LOG_SIGMA = 1.0
LONGEST_LOGIT = 2.0

Here = TypeVar("Here", bound=Point)


class Surface(Protocol[Here]):
    """What Newton's method must know of the objective; all in total, not per row."""

    def size(self, here: Here) -> int:
        """Columns of the matrix that :meth:`question` asks for."""

    def question(self, here: Here) -> Query:
        """What the curvature follows from; its answer may come from a share of the rows."""

    def curvature(self, here: Here, sums: Sums, share: float) -> Array:
        """Minus the Hessian, from the answer of a ``share`` of the rows."""

    def complete(self, here: Here) -> Array:
        """What the curvature would be, were the components known: the metric that eigenvalues are taken in."""

    def score(self, here: Here) -> Array:
        """The gradient."""

    def moved(self, here: Here, step: Array) -> Steps[Here]:
        """The point a step leads to."""


@dataclass(frozen=True)
class Penalty:
    """b'Pb / (2 s2) per unit of weight: its slopes in b and log sigma, and its second derivatives."""

    slope: Array
    slope_log_sigma: float
    curvature: Array
    cross: Array
    curvature_log_sigma: float

    @classmethod
    def of(cls, P: Array, b: Array, s2: float) -> Penalty:
        pull = P @ b / s2
        size = float(b @ pull)
        return cls(pull, -size, P / s2, -2.0 * pull, 2.0 * size)


def penalized_squares(frame: Frame | ScaledFrame, B: Array, squares: Array) -> Array:
    """The mean squares that sigma^2 follows, from the residuals' own: those at which the objective's slope is nil."""
    return np.asarray(squares + (B * frame.shrink(B)).sum(axis=0))


def at_floor(here: MixturePoint, task: Task) -> bool:
    """Whether a variance has come down to the least it may be."""
    return task.sigma is None and bool(np.any(here.s2 <= AT_FLOOR * here.frame.floor))


@dataclass(frozen=True)
class PairSurface:
    """beta and -beta with one sigma."""

    task: Task

    def size(self, here: SymmetricPoint) -> int:
        return len(here.b) + 1

    def _free(self, here: SymmetricPoint) -> int:
        held = self.task.sigma is not None or here.s2 <= AT_FLOOR * here.frame.floor
        return len(here.b) + int(not held)

    def question(self, here: SymmetricPoint) -> Query:
        return MissingInformation(here.frame.raw(here.b), here.s2, here.mean)

    def curvature(self, here: SymmetricPoint, sums: Sums, share: float) -> Array:
        frame, b, s2 = here.frame, here.b, here.s2
        lost = frame.pull_matrix(sums["lost"]) / share / s2
        penalty = Penalty.of(frame.ridge, b, s2)
        cross = 2.0 * (lost @ b + here.h - frame.gram @ b) / s2 + penalty.cross
        squares = frame.yy + float(b @ frame.gram @ b) - 2.0 * float(b @ here.h) - 2.0 * float(b @ lost @ b)
        matrix = np.empty((len(b) + 1, len(b) + 1))
        matrix[:-1, :-1] = (frame.gram - lost) / s2 + penalty.curvature
        matrix[-1, :-1] = matrix[:-1, -1] = cross
        matrix[-1, -1] = 2.0 * squares / s2 + penalty.curvature_log_sigma
        return np.asarray(frame.weight * matrix[: self._free(here), : self._free(here)])

    def complete(self, here: SymmetricPoint) -> Array:
        frame = here.frame
        own = block_diag((frame.gram + frame.ridge) / here.s2, np.full((1, 1), 2.0))
        return np.asarray(frame.weight * own[: self._free(here), : self._free(here)])

    def score(self, here: SymmetricPoint) -> Array:
        frame, b, s2 = here.frame, here.b, here.s2
        penalty = Penalty.of(frame.ridge, b, s2)
        squares = frame.yy - 2.0 * float(b @ here.h) + float(b @ frame.gram @ b)
        slopes = np.append((here.h - frame.gram @ b) / s2 - penalty.slope, squares / s2 - 1.0 - penalty.slope_log_sigma)
        return np.asarray(frame.weight * slopes[: self._free(here)])

    def moved(self, here: SymmetricPoint, step: Array) -> Steps[SymmetricPoint]:
        r = len(here.b)
        change = float(np.clip(step[r:], -LONGEST_LOG_SIGMA, LONGEST_LOG_SIGMA).sum())
        s2 = here.s2 * float(np.exp(2.0 * change))
        return (yield from symmetric.evaluate(here.frame, here.b + step[:r], s2, self.task, here.mean))


@dataclass(frozen=True)
class MixtureSurface:
    """k components, with normal or Student's noise."""

    task: Task

    def size(self, here: MixturePoint) -> int:
        return int(here.B.size + 2 * here.B.shape[1] - 1)

    def question(self, here: MixturePoint) -> Query:
        coef = here.frame.raw(here.B)
        if here.dof is None:
            return ObservedInformation(coef, here.weights, here.s2)
        return StudentInformation(coef, here.weights, here.s2, here.dof)

    def curvature(self, here: MixturePoint, sums: Sums, share: float) -> Array:
        frame, (r, k) = here.frame, here.B.shape
        into = block_diag(*[frame.basis] * k, np.eye(2 * k - 1))
        matrix = into.T @ sums["information"] @ into / share
        for j in range(k):
            penalty = Penalty.of(frame.ridge, here.B[:, j], float(here.s2[j]))
            own, sigma = slice(j * r, (j + 1) * r), k * r + j
            matrix[own, own] += frame.weight * penalty.curvature
            matrix[own, sigma] += frame.weight * penalty.cross
            matrix[sigma, own] += frame.weight * penalty.cross
            matrix[sigma, sigma] += frame.weight * penalty.curvature_log_sigma
        free = self._free(here)
        return np.asarray(free.T @ (0.5 * (matrix + matrix.T)) @ free)

    def complete(self, here: MixturePoint) -> Array:
        frame, inner = here.frame, here.weights[:-1]
        grip, mass = np.maximum(here.grip, general.LEAST_MASS), np.maximum(here.mass, general.LEAST_MASS)
        blocks = [frame.weight * (share * frame.gram + frame.ridge) / s2 for share, s2 in zip(grip, here.s2)]
        weights = frame.units * (np.diag(inner) - np.outer(inner, inner))
        free = self._free(here)
        return np.asarray(free.T @ block_diag(*blocks, np.diag(2.0 * frame.weight * mass), weights) @ free)

    def score(self, here: MixturePoint) -> Array:
        frame, k = here.frame, here.B.shape[1]
        penalties = [Penalty.of(frame.ridge, here.B[:, j], float(here.s2[j])) for j in range(k)]
        coefficients = here.m / here.s2 - np.stack([penalty.slope for penalty in penalties], axis=1)
        deviations = here.squares / here.s2 - here.mass - [penalty.slope_log_sigma for penalty in penalties]
        logits = frame.units * (here.units - here.weights)[:-1]
        whole = np.concatenate([frame.weight * coefficients.T.ravel(), frame.weight * deviations, logits])
        return np.asarray(self._free(here).T @ whole)

    def moved(self, here: MixturePoint, step: Array) -> Steps[MixturePoint]:
        r, k = here.B.shape
        whole = self._free(here) @ step
        B = here.B + whole[: k * r].reshape(k, r).T
        change = np.clip(whole[k * r : k * r + k], -LONGEST_LOG_SIGMA, LONGEST_LOG_SIGMA)
        s2 = np.maximum(here.s2 * np.exp(2.0 * change), here.frame.floor)
        logits = np.log(here.weights / here.weights[-1])
        logits[:-1] += np.clip(whole[k * r + k :], -LONGEST_LOGIT, LONGEST_LOGIT)
        weights = np.exp(logits - logits.max())
        return (yield from general.evaluate(here.frame, B, weights / weights.sum(), s2, here.dof))

    def _free(self, here: MixturePoint) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits)."""
        task, (r, k) = self.task, here.B.shape
        coefficients = m_step.embedding(here.frame, task.shared, k) if task.shared else np.eye(k * r)
        floored = here.s2 <= AT_FLOOR * here.frame.floor
        deviations = np.empty((k, 0))
        if task.sigma is None and task.shared_sigma:
            deviations = np.empty((k, 0)) if floored.any() else np.ones((k, 1))
        elif task.sigma is None:
            deviations = np.eye(k)[:, ~floored]
        logits = np.empty((k - 1, 0)) if task.equal_weights else np.eye(k - 1)
        return np.asarray(block_diag(coefficients, deviations, logits))
