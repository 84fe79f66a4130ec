"""Gradient EM: one gradient step on Q where EM maximises it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wmlr.coordinates import Frame, ScaledFrame, raw_frame, whitened
from wmlr.methods import general, symmetric, wide, wide_general, wide_symmetric
from wmlr.round import Array, Fit, Method, Report, Steps
from wmlr.starts import spectral_direction
from wmlr.statistics.moments import Moments
from wmlr.statistics.residuals import SymmetricResiduals
from wmlr.statistics.score import SymmetricScore
from wmlr.task import Task, pair


@dataclass(frozen=True)
class GEM:
    """``method="gem"``: the paper's gradient EM, with the projection of sigma^2 it asks for.

    Attributes
    ----------
    alpha : the step, for y measured in units of the start's sigma (the paper's problem has sigma = 1).
    capped : never step further than EM would (alpha / sigma^2 at most 1); False is the method as printed.
    coordinates : "whitened", or "raw" for the data's own features as in the paper. Too many columns to whiten
        (:data:`wmlr.coordinates.WIDE`) are scaled, so that none of their directions has a mean square above one.
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
        b, s2 = yield from wide_symmetric.start(task, frame, unit=unit)
    else:
        frame, sums = yield from _survey(solver, task)
        b, s2 = yield from symmetric.start(task, frame, spectral_direction(frame, sums), unit=unit)
    unit2 = 1.0 if raw else s2
    s2 = task.sigma**2 if task.sigma is not None else solver.sigma2_start or s2
    iteration, converged = 0, False
    while True:
        score, squares, log_likelihood = yield from _scored(frame, b, s2)
        yield Report(_record(iteration, log_likelihood, frame.weight, score / s2, solver.alpha), pair(frame, b, s2))
        if converged or iteration >= task.max_iter:
            return Fit(pair(frame, b, s2), log_likelihood, iteration, converged)
        ahead = b + float(solver.beta_step(np.array(s2 / unit2))) * score
        if task.sigma is None:
            s2 = max(unit2 * float(solver.variance_step(np.array(s2 / unit2), np.array(squares / unit2))), frame.floor)
        converged = float(np.linalg.norm(ahead - b)) <= task.tol * float(np.linalg.norm(ahead))
        b = ahead
        iteration += 1


def _scored(frame: Frame | ScaledFrame, b: Array, s2: float) -> Steps[tuple[Array, float, float]]:
    """The penalised score of beta times sigma^2, the mean square left there, and the log-likelihood."""
    if isinstance(frame, ScaledFrame):
        found = yield SymmetricResiduals(frame.raw(b), s2)
        score = frame.pull(found["m"]) - frame.shrink(b)
        return score, float(found["squares"]) / frame.weight, float(found["log_likelihood"])
    found = yield SymmetricScore(frame.raw(b), s2)
    h = frame.pull(found["h"])
    squares = frame.yy - 2 * float(b @ h) + float(b @ frame.gram @ b)
    return h - (frame.gram + frame.ridge) @ b, squares, float(found["log_likelihood"])


def _general(solver: GEM, task: Task) -> Method[Fit]:
    here: general.MixturePoint | wide_general.WidePoint
    if task.wide:
        scales = yield from wide_general.survey(task, stretched=True, raw=solver.coordinates == "raw")
        here = yield from wide_general.begin(task, scales)
    else:
        frame, _ = yield from _survey(solver, task)
        here = (yield from general.begin(task, frame))[0]
    weight = here.frame.weight
    unit2 = 1.0 if solver.coordinates == "raw" else float(here.weights @ here.s2)
    iteration, converged = 0, False
    while True:
        yield Report(_record(iteration, here.log_likelihood, weight, here.m / here.s2, solver.alpha), here.mixture())
        if converged or iteration >= task.max_iter:
            return Fit(here.mixture(), here.log_likelihood, iteration, converged)
        share = np.maximum(here.mass, general.LEAST_MASS)
        factor = solver.beta_step(here.s2 / unit2)
        B = here.B + factor * (here.m - here.frame.shrink(here.B)) / (share if solver.capped else 1.0)
        wanted, squares = wide_general.constrained(task, here.frame, here.units, here.squares, here.mass)
        s2 = np.maximum(unit2 * solver.variance_step(here.s2 / unit2, squares / unit2), here.frame.floor)
        s2 = np.full_like(s2, task.sigma**2) if task.sigma is not None else s2
        converged = float(np.linalg.norm(B - here.B)) <= task.tol * float(np.linalg.norm(B))
        if isinstance(here, wide_general.WidePoint):
            here = yield from wide_general.evaluate(here.frame, B, wanted, s2)
        else:
            here = yield from general.evaluate(here.frame, B, wanted, s2)
        iteration += 1


def _survey(solver: GEM, task: Task) -> Steps[tuple[Frame, dict[str, Array]]]:
    sums = yield Moments(intercept=task.intercept, fourth=task.symmetric)
    if solver.coordinates == "raw":
        return raw_frame(sums, task.intercept), sums
    return whitened(sums, task.intercept, task.ridge), sums


def _record(iteration: int, log_likelihood: float, weight: float, gradient: Array, step: float) -> dict[str, float]:
    return {
        "iteration": iteration,
        "objective": log_likelihood / weight,
        "log_likelihood": log_likelihood,
        "gradient_norm": float(np.linalg.norm(gradient)),
        "step": step,
    }
