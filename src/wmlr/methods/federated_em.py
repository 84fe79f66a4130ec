"""F-EM as the paper prints it: every maximisation of Q by gradient rounds among the agents.

Its premise is that a maximiser cannot be averaged over agents. Their sums can: :class:`wmlr.EM` on a federation
is exact, one round per iteration, and no inner rounds are needed. This is the algorithm to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.round import Fit, Method, Report, Steps, iteration_record
from wmlr.methods import general, symmetric
from wmlr.methods.gem import GEM
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.starts import spectral_direction
from wmlr.methods.task import Task, mixture_at
from wmlr.model.gates import EQUAL
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, raw_frame, white_frame
from wmlr.statistics.moments import Moments
from wmlr.statistics.q_score import HeldScore


@dataclass(frozen=True)
class FederatedEM(GEM):
    """Algorithm F-EM of the appendix; its inner steps are those of :class:`wmlr.GEM`, the posterior held.

    Attributes
    ----------
    inner : the most gradient rounds in one maximisation.
    nu : a maximisation ends when the gradient in beta is no longer than this, y measured in units of the
        start's sigma (the paper's problem has sigma = 1).
    alpha, capped, coordinates, half_gradient, sigma2_start : as in :class:`wmlr.GEM`; the method as printed has
        ``capped=False`` and ``coordinates="raw"``.
    """

    inner: int = 50
    nu: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner < 1:
            raise ValueError(f"inner must be at least 1 (got {self.inner!r})")
        if not self.nu >= 0:
            raise ValueError(f"nu must not be negative (got {self.nu!r})")

    def fit(self, task: Task) -> Method[Fit]:
        return _nest(self, replace(task, gate=EQUAL, shared_sigma=True) if task.symmetric else task)


@dataclass(frozen=True)
class FederatedIterate:
    """Coefficients C (r, k), or (r, 1) when symmetric; weights and variances (k,)."""

    C: Array
    weights: Array
    s2: Array

    def q_score(self, frame: Frame, C: Array, task: Task) -> HeldScore:
        """The score at C with the posterior of this iterate."""
        return HeldScore(frame.to_data(self.C), np.log(self.weights), self.s2, frame.to_data(C), task.symmetric)

    def mixture(self, frame: Frame, task: Task) -> Mixture:
        return mixture_at(task, frame, self.C, self.weights, self.s2)


def _nest(solver: FederatedEM, task: Task) -> Method[Fit]:
    sums = yield Moments(intercept=task.intercept, fourth=task.symmetric)
    make = white_frame if solver.coordinates == "whitened" else raw_frame
    frame = make(sums, task.intercept)
    old = yield from _start(task, frame, sums)
    unit2 = 1.0 if solver.coordinates == "raw" else float(old.weights @ old.s2)
    if solver.sigma2_start is not None and task.sigma is None:
        old = FederatedIterate(old.C, old.weights, np.full_like(old.s2, solver.sigma2_start))
    iteration, rounds, converged = 0, 0, False
    while True:
        found = yield old.q_score(frame, old.C, task)
        log_likelihood = float(found["log_likelihood"])
        record = iteration_record(
            iteration,
            log_likelihood / frame.weight,
            log_likelihood,
            float(np.linalg.norm(_slope(frame, found, old.s2))),
            solver.alpha,
            inner=rounds,
        )
        yield Report(record, old.mixture(frame, task))
        if converged or iteration >= task.max_iter:
            return Fit(old.mixture(frame, task), log_likelihood, iteration, converged, frame.members)
        new, rounds = yield from _maximise_q(solver, task, frame, old, found, unit2)
        converged = float(np.linalg.norm(new.C - old.C)) <= task.tol * float(np.linalg.norm(new.C))
        old = new
        iteration += 1


def _maximise_q(
    solver: FederatedEM, task: Task, frame: Frame, old: FederatedIterate, found: Sums, unit2: float
) -> Steps[tuple[FederatedIterate, int]]:
    """Gradient rounds on Q(. | old); the weights, which Q maximises in closed form, at the end."""
    C, s2 = old.C, old.s2
    mass = found["mass"] / frame.weight
    share = np.maximum(mass, LEAST_MASS) if solver.capped and not task.symmetric else 1.0
    units = found["units"] / found["units"].sum()
    weights = old.weights
    rounds = 0
    while True:
        rounds += 1
        slope = _slope(frame, found, s2) * float(np.sqrt(unit2))
        step = solver.beta_step(s2 / unit2)
        C = C + (step[:1] if task.symmetric else step) * frame.mean_of(found["score"]) / share
        weights, wanted = general.constrain(task, frame, units, found["squares"] / frame.weight, mass)
        if task.sigma is None:
            s2 = np.maximum(unit2 * solver.variance_step(s2 / unit2, wanted / unit2), frame.floor)
        if float(np.linalg.norm(slope)) <= solver.nu or rounds == solver.inner:
            return FederatedIterate(C, weights, s2), rounds
        found = yield old.q_score(frame, C, task)


def _slope(frame: Frame, found: Sums, s2: Array) -> Array:
    score = frame.mean_of(found["score"])
    return np.asarray(score / s2[: score.shape[1]])


def _start(task: Task, frame: Frame, sums: Sums) -> Steps[FederatedIterate]:
    if task.symmetric:
        b, s2 = yield from symmetric.start(task, frame, spectral_direction(frame, sums))
        s2 = s2 if task.sigma is None else task.sigma**2
        return FederatedIterate(b[:, None], np.full(2, 0.5), np.full(2, s2))
    near = (yield from general.begin(task, frame))[0]
    return FederatedIterate(near.B, near.weights, near.s2)
