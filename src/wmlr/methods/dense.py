"""Few columns: systems are solved with matrices of them, in white coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Steps
from wmlr.methods import m_step
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.search import spectral
from wmlr.methods.starts import Within
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, white_frame
from wmlr.statistics.grain import Grain, coarsest
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.start_scale import on_start_scale

if TYPE_CHECKING:
    from wmlr.methods.general import MixturePoint, Place


@dataclass(frozen=True)
class Dense:
    """Matrices of the columns, held where the method runs."""

    searches: bool = True

    def survey(self, task: Task) -> Steps[Frame]:
        frame = white_frame((yield self.moments(task)), task.intercept, task.ridge, task.shared)
        separate = task.sigma is None and not task.shared_sigma and task.n_components > 1
        if task.guard and separate and not task.family.discrete:  # y's deviation cannot be below what rounding leaves
            grain = coarsest((yield Grain()))
            relative = task.family.relative
            frame = replace(frame, relative_grain=grain) if relative else replace(frame, grain=grain)
        return frame

    def moments(self, task: Task) -> Query:
        return on_start_scale(task.family, Moments(intercept=task.intercept))

    def least_squares(self, frame: Frame) -> Steps[Array]:
        yield from ()
        return frame.least_squares

    def spectral_places(self, frame: Frame, task: Task, fit: Array, within: Within) -> Steps[list[Place]]:
        return (yield from spectral.spectral_places(frame, task, within))

    def allow(self, task: Task, frame: Frame, B: Array, weights: Array) -> Array:
        return task.constraints.nearest(frame.basis, B, weights)

    def scaled_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        yield from ()
        frame: Frame = here.frame
        least = LEAST_MASS / frame.spread
        shares = np.maximum(here.curvature_weight, least)
        white = frame.is_white and not task.constraints.restricted
        D = here.score / shares if white else _solve(task, here, [share * frame.gram for share in shares])
        D = D if task.shared else D * (here.curvature_weight > least)
        return D, np.asarray(shares * (D * (D if white else frame.gram @ D)).sum(axis=0))

    def solve_gram(self, frame: Frame, right: Array) -> Steps[tuple[Array, Array]]:
        yield from ()
        return right, right

    def weighted_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        frame: Frame = here.frame
        sums = yield MixtureScore(frame.to_data(here.B), here.log_weights, here.s2, True, here.family, here.gate_query)
        grams = [frame.mean_matrix_of(gram) for gram in sums["grams"]]
        D = _solve(task, here, grams)
        return D, np.stack([gram @ D[:, i] for i, gram in enumerate(grams)], axis=1)


def _solve(task: Task, here: MixturePoint, grams: Sequence[Array]) -> Array:
    return m_step.steps(here.frame, grams, here.m, here.B, here.weights, here.s2, task.constraints)


DENSE = Dense()
