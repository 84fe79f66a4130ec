"""The symmetric mixture of many columns: the climb of :mod:`wmlr.methods.symmetric`, by products alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wmlr.core.round import Fit, Method, Steps
from wmlr.methods import symmetric, wide
from wmlr.methods.ascent import WORTH, Move, climb
from wmlr.methods.ridge import change_of_reference, penalty
from wmlr.methods.task import Task, pair
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import ScaledFrame
from wmlr.statistics.residual_form import SecondMoments, SymmetricResiduals

CERTAIN = np.ones(1)


@dataclass(frozen=True)
class WidePair:
    """beta and sigma^2 in a scaled frame, with the score there.

    ``m`` is the penalised score of beta times sigma^2, ``D`` = S^-1 m with the ridge in S, and ``bent`` = S D.
    ``q`` is beta'S beta, ``left`` the mean square left at beta; ``across``, ``along`` and ``shift`` as in
    :class:`wmlr.methods.symmetric.SymmetricPoint`.
    """

    frame: ScaledFrame
    b: Array
    s2: float
    m: Array
    D: Array
    bent: Array
    q: float
    left: float
    log_likelihood: float
    across: float
    along: float
    mean: Array | None = None
    s2_known: bool = False
    shift: float = 0.0

    @property
    def place(self) -> Array:
        return self.b

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.b, (None, self.s2)) + self.shift

    @property
    def gradient_norm(self) -> float:
        return float(np.sqrt(max(float(self.m @ self.D), 0.0))) / self.s2

    @property
    def predicted(self) -> float | None:
        along = self.along_step
        square = float(self.m @ self.D) - (0.0 if along is None else along.slope**2 * self.q)
        gain = 0.5 * max(square, 0.0) / self.across / self.s2
        return gain if along is None else gain + along.gain

    @cached_property
    def along_step(self) -> symmetric.AlongStep | None:
        """Newton's step in the length of beta and in sigma."""
        pull = float(self.b @ self.frame.shrink(self.b))
        slope = float(self.b @ self.m)
        return symmetric.AlongStep.of(self.q, slope, self.left, self.along, self.s2, self.s2_known, pull)

    def stein_step(self, joint: bool = False) -> tuple[Array, float]:
        """Newton's step with the two-number information, and its squared length step'S step."""
        turn = 0.0
        if self.q > 0:
            share = float(self.b @ self.m) / self.q
            longer = self.along_step.longer if joint and self.along_step is not None else share / self.along
            turn = longer - share / self.across
        step = self.D / self.across + turn * self.b
        square = float(self.D @ self.bent) / self.across**2 + turn**2 * self.q
        square += 2.0 * turn * float(self.b @ self.bent) / self.across
        longest = symmetric.LONGEST_STEP * self.frame.scale
        short = min(1.0, longest / np.sqrt(square)) if square > 0 else 1.0
        return short * step, short**2 * square

    def em_step(self) -> tuple[Array, float]:
        """S^-1 h - beta, and its squared length."""
        return self.D, float(self.D @ self.bent)

    def variance_after(self, step: Array, square: float) -> float:
        """The M-step's variance where a step leads."""
        pull = 2.0 * (self.m + self.frame.shrink(self.b)) + self.frame.shrink(step)
        return max(self.left - float(step @ pull) + square, self.frame.floor)

    def mixture(self) -> Mixture:
        return pair(self.frame, self.b, self.s2, self.mean)


def evaluate(frame: ScaledFrame, b: Array, s2: float, task: Task, mean: Array | None = None) -> Steps[WidePair]:
    """Ask for the score at (b, s2), and for S^-1 times it."""
    s2 = task.sigma**2 if task.sigma is not None else max(s2, frame.floor)
    sums = yield SymmetricResiduals(frame.raw(b), s2, mean)
    shrink = frame.shrink(b)
    m = frame.pull(sums["m"]) - shrink
    D, bent = yield from wide.steps(frame, wide.gram_product(frame, CERTAIN), CERTAIN, m[:, None], CERTAIN)
    q = float(sums["uu"]) / frame.weight + float(b @ shrink)
    across, along = symmetric.information(sums, frame.weight, q)
    left = float(sums["squares"]) / frame.weight
    log_likelihood = float(sums["log_likelihood"])
    known = task.sigma is not None
    return WidePair(frame, b, s2, m, D[:, 0], bent[:, 0], q, left, log_likelihood, across, along, mean, known)


def begin(task: Task, mean: Array | None = None) -> Steps[WidePair]:
    """The point to climb from: scales, the start, and the score there."""
    frame = yield from wide.survey(task)
    if mean is not None:
        sums = yield SecondMoments(np.zeros_like(mean), mean)
        frame = replace(frame, y=0.0, yy=float(sums["yy"]) / frame.weight)
    b, s2 = yield from start(task, frame, mean)
    return (yield from evaluate(frame, b, s2, task, mean))


def start(
    task: Task, frame: ScaledFrame, mean: Array | None = None, unit: float | None = None
) -> Steps[tuple[Array, float]]:
    """(b, s2) to begin with; the spectral direction is looked for only where it is wanted."""
    direction = np.zeros(frame.dimension)
    if isinstance(task.start, str) and task.start != "random":
        direction = yield from wide.spectral_direction(frame, task, mean)
    return (yield from symmetric.start(task, frame, direction, mean, unit))


def move_by(task: Task, newton: bool) -> Move[WidePair]:
    """The refreshed-reference step, or EM's."""

    def move(here: WidePair) -> Steps[WidePair]:
        along = here.along_step
        joint = newton and along is not None and abs(along.wider) <= symmetric.WIDEST
        step, square = here.stein_step(joint) if newton else here.em_step()
        s2 = here.variance_after(step, square)
        if joint and along is not None:
            s2 = here.s2 * float(np.exp(2.0 * along.wider))
        b, frame = here.b + step, here.frame
        there = yield from evaluate(frame, b, s2, task, here.mean)
        return replace(there, shift=here.shift + change_of_reference(frame, b, (None, here.s2), (None, there.s2)))

    return move


def run_climb(task: Task, newton: bool, mean: Array | None = None) -> Method[Fit]:
    """Refreshed WMLR (``newton``) or EM, to the end: the predicted gain in beta and sigma, in total, is too small.

    No matrix of so many columns is made, so the curvature is not looked at any closer than by two numbers.
    """
    here = yield from begin(task, mean)
    moves = [move_by(task, True), move_by(task, False)] if newton else [move_by(task, False)]
    enough = min(task.tol, WORTH / here.frame.weight)
    _, fit = yield from climb(here, moves, here.frame.weight, task.max_iter, enough)
    return replace(fit, units=here.frame.members)


def run_reduction(task: Task) -> Method[Fit]:
    """The paper's reduction: the symmetric climb on what the single regression leaves."""
    frame = yield from wide.survey(task)
    fit = yield from wide.least_squares(frame, wide.EXACT)
    return (yield from run_climb(task, True, frame.raw(fit)))
