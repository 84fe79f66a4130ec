"""Gradient EM: one gradient step on Q where EM maximises it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from wmlr.core.round import Fit, Method, Report, Steps
from wmlr.methods import general, symmetric, wide
from wmlr.methods.ascent import SLACK, WORTH, Here, record
from wmlr.methods.curvature import AT_FLOOR
from wmlr.methods.divergence import divergence_reason, has_diverged, judge_by_fall
from wmlr.methods.general import MixturePoint
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.polish import Verdict, ending, pair_ending
from wmlr.methods.ridge import PenalisedPair, change_of_reference
from wmlr.methods.starts import spectral_direction
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.methods.task import Task, pair
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame, raw_frame, white_frame
from wmlr.statistics.moments import Moments

LEAST_DAMPING = 1e-2  # of a capped step, which is halved no further
LEAST_TOL = 1e-14  # of a relative step: rounding
REMEDY = "lower GEM's alpha, or keep capped=True"


@dataclass(frozen=True)
class GEM:
    """``method="gem"``: the paper's gradient EM, with the projection of sigma^2 it asks for.

    Attributes
    ----------
    alpha : the step, for y measured in units of the start's sigma (the paper's problem has sigma = 1).
    capped : never step further than EM would (alpha / sigma^2 at most 1); False is the method as printed.
    coordinates : "whitened", or "raw" for the data's own features as in the paper. Too many columns to whiten
        (:data:`wmlr.numerics.coordinates.WIDE`) are scaled: none of their directions has a mean square above one.
    half_gradient : halve the gradient in beta, as the authors' code does.
    sigma2_start : sigma^2 to begin with, in the data's units; None takes the start's.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"alpha"})

    alpha: float = 0.5
    capped: bool = True
    coordinates: str = "whitened"
    half_gradient: bool = False
    sigma2_start: float | None = None

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive (got {self.alpha!r})")
        if self.coordinates not in ("whitened", "raw"):
            raise ValueError(f"coordinates must be 'whitened' or 'raw' (got {self.coordinates!r})")
        if self.sigma2_start is not None and not self.sigma2_start > 0:
            raise ValueError(f"sigma2_start must be positive or None (got {self.sigma2_start!r})")

    def fit(self, task: Task) -> Method[Fit]:
        return _symmetric(self, task) if task.symmetric else _general(self, task)

    def beta_step(self, s2: Array) -> Array:
        """alpha / sigma^2, the factor of the score in beta's update."""
        step = self.alpha / s2
        if self.half_gradient:
            step = step / 2
        return np.asarray(np.minimum(step, 1.0) if self.capped else step)

    def variance_step(self, s2: Array, squares: Array) -> Array:
        """sigma^2 + alpha dQ/dsigma^2, for mean squared residuals ``squares``."""
        step = self.alpha / (2 * s2**2)
        return np.asarray(s2 + (np.minimum(step, 1.0) if self.capped else step) * (squares - s2))


def _symmetric(solver: GEM, task: Task) -> Method[Fit]:
    raw = solver.coordinates == "raw"
    unit = 1.0 if raw else None
    frame: Frame | ScaledFrame
    if task.wide:
        frame = yield from wide.survey(task, stretched=True, raw=raw)
        direction = yield from wide.start_direction(frame, task)
    else:
        frame, sums = yield from _survey(solver, task)
        direction = spectral_direction(frame, sums)
    b, s2 = yield from symmetric.start(task, frame, direction, unit=unit)
    unit2 = 1.0 if raw else s2
    s2 = task.sigma**2 if task.sigma is not None else solver.sigma2_start or s2
    here = yield from _score_at(frame, b, s2)

    def proposal(here: GradientPoint, damping: float) -> Steps[GradientPoint | None]:
        s2 = here.s2
        b = here.b + damping * float(solver.beta_step(np.array(s2 / unit2))) * here.score
        if task.sigma is None:
            wanted = solver.variance_step(np.array(s2 / unit2), np.array(here.mean_square / unit2))
            s2 = max(unit2 * float(wanted), frame.floor)
        if has_diverged(frame, b[:, None], np.array(s2)):
            return None
        there = yield from _score_at(frame, b, s2)
        return replace(there, shift=here.shift + change_of_reference(frame, b, (None, here.s2), (None, s2)))

    def verdict(here: GradientPoint) -> Steps[Verdict[GradientPoint]]:
        if task.wide:
            return Verdict(_complete_gain(frame.weight, here.score[:, None], np.array(here.s2), 1.0) < WORTH)
        found = yield from pair_ending(task, frame).verdict(_point(here))
        higher = None
        if found.higher is not None:
            higher = yield from _score_at(frame, found.higher.b, found.higher.s2)
        return Verdict(found.converged, higher, found.reason)

    _, fit = yield from _run_steps(solver, task, here, frame, proposal, verdict)
    return fit


@dataclass(frozen=True)
class GradientPoint(PenalisedPair):
    """beta and sigma^2, the penalised score of beta times sigma^2, and the mean square that sigma^2 follows."""

    frame: Frame | ScaledFrame
    b: Array
    s2: float
    score: Array
    mean_square: float
    log_likelihood: float
    shift: float = 0.0

    @property
    def predicted_gain(self) -> float | None:
        return None

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.score)) / self.s2

    def mixture(self) -> Mixture:
        return pair(self.frame, self.b, self.s2)


def _score_at(frame: Frame | ScaledFrame, b: Array, s2: float) -> Steps[GradientPoint]:
    """Ask for the score at (b, s2)."""
    score, _, squares, sums = yield from symmetric.penalised_score(frame, b, s2)
    return GradientPoint(frame, b, s2, score, squares, float(sums["log_likelihood"]))


def _point(here: GradientPoint) -> SymmetricPoint:
    place = here.frame, here.b, here.s2, here.score, here.mean_square
    return SymmetricPoint.white(*place, here.log_likelihood, 1.0, 1.0)


def _complete_gain(weight: float, score: Array, s2: Array, share: Array | float) -> float:
    """What a step promises were the components known: less than the data's own curvature promises."""
    return 0.5 * weight * float(np.sum(score**2 / (s2 * share)))


def _general(solver: GEM, task: Task) -> Method[Fit]:
    frame: Frame | ScaledFrame
    if task.wide:
        frame = yield from wide.survey(task, stretched=True, raw=solver.coordinates == "raw")
    else:
        frame, _ = yield from _survey(solver, task)
    here = (yield from general.begin(task, frame))[0]
    unit2 = 1.0 if solver.coordinates == "raw" else float(here.weights @ here.s2)

    def proposal(here: MixturePoint, damping: float) -> Steps[MixturePoint | None]:
        factor = damping * solver.beta_step(here.s2 / unit2)
        B = here.B + factor * (_capped_step(here) if solver.capped else here.score)
        weights, wanted = general.constrain(task, here.frame, here.units, here.squares, here.mass)
        s2 = np.maximum(unit2 * solver.variance_step(here.s2 / unit2, wanted / unit2), here.frame.floor)
        s2 = np.full_like(s2, task.sigma**2) if task.sigma is not None else s2
        if has_diverged(here.frame, B, s2):
            return None
        return (yield from general.point_at(here, B, weights, s2, here.family))

    def verdict(here: MixturePoint) -> Steps[Verdict[MixturePoint]]:
        if bool(np.any(here.weights * here.frame.members < 1.0)):
            return Verdict(True)
        if task.wide:
            share = np.maximum(here.mass, LEAST_MASS)
            return Verdict(_complete_gain(here.frame.weight, here.score, here.s2, share) < WORTH)
        found = yield from ending(task, here.frame).verdict(here)
        return Verdict(found.converged, found.higher, found.reason)

    here, fit = yield from _run_steps(solver, task, here, here.frame, proposal, verdict)
    floored = task.sigma is None and bool(np.any(here.s2 <= AT_FLOOR * here.frame.floor))
    return replace(fit, floored=floored)


def _capped_step(here: MixturePoint) -> Array:
    """EM's own step, with the same Gram for every component: no gradient step should be longer."""
    share = np.maximum(here.mass, LEAST_MASS)
    right = here.score
    ridge, gram = here.frame.ridge, here.frame.known_gram
    if gram is None:
        return np.asarray(right / (share + ridge[:, None]))
    if not ridge.any():
        return np.asarray(right / share)
    shrunk = [np.linalg.solve(s * gram + ridge, right[:, j]) for j, s in enumerate(share)]
    return np.stack(shrunk, axis=1)


def _run_steps(
    solver: GEM,
    task: Task,
    start: Here,
    frame: Frame | ScaledFrame,
    proposal: Callable[[Here, float], Steps[Here | None]],
    verdict: Callable[[Here], Steps[Verdict[Here]]],
) -> Method[tuple[Here, Fit]]:
    """Gradient steps until they stand still and the fit is found to have converged.

    A fit that stands still too early goes on to a smaller tolerance, one on a saddle along its direction of ascent.
    Capped steps are halved where they lower the objective; a run that leaves the data behind is ended.
    """
    here, tol, damping, iteration = start, task.tol, 1.0, 0
    weight = frame.weight
    best, reason, converged = here.objective, "", False
    yield Report(record(0, here, weight, solver.alpha), here.mixture())
    while not converged and iteration < task.max_iter:
        there = yield from proposal(here, damping)
        if there is None:
            reason = divergence_reason(iteration + 1, REMEDY)
            break
        slack = SLACK * (abs(here.objective) + weight)
        if solver.capped and task.exact and damping > LEAST_DAMPING and there.objective < here.objective - slack:
            damping *= 0.5
            continue
        still = float(np.linalg.norm(there.place - here.place)) <= tol * float(np.linalg.norm(there.place))
        here, best, iteration = there, max(best, there.objective), iteration + 1
        yield Report(record(iteration, here, weight, solver.alpha), here.mixture())
        if still:
            found = (yield from verdict(here)) if task.exact else Verdict[Here](True)
            converged, reason, tol = found.converged, found.reason, 0.1 * tol
            here = here if found.higher is None else found.higher
            if not converged and tol < LEAST_TOL:
                break
    reason = "" if converged else reason
    fit = Fit(here.mixture(), here.log_likelihood, iteration, converged, frame.members, reason=reason)
    return here, judge_by_fall(fit, best, here.objective, weight, REMEDY)


def _survey(solver: GEM, task: Task) -> Steps[tuple[Frame, dict[str, Array]]]:
    sums = yield Moments(intercept=task.intercept, fourth=task.symmetric)
    if solver.coordinates == "raw":
        return raw_frame(sums, task.intercept), sums
    return white_frame(sums, task.intercept, task.ridge, task.shared), sums
