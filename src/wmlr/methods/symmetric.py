"""The symmetric mixture's likelihood: where a climb stands, and the moves from there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wmlr.coordinates import Frame, ScaledFrame, whitened
from wmlr.methods.ascent import Move
from wmlr.model import Mixture
from wmlr.round import Array, Steps, Sums
from wmlr.starts import lengthened, random_vectors, spectral_direction
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.score import SymmetricScore
from wmlr.task import Task, pair

INFORMATION_FLOOR = 0.05
LONGEST_STEP = 0.5


@dataclass(frozen=True)
class SymmetricPoint:
    """beta and sigma^2 in a white frame, with the score there.

    ``h`` is the mean of t y w with t the posterior sign, so that m = h - b is the (penalised) score of beta
    times sigma^2. ``across`` and ``along`` are the shares of the complete-data information that the data hold
    about beta, across its direction and along it.
    """

    frame: Frame
    b: Array
    s2: float
    h: Array
    log_likelihood: float
    across: float
    along: float
    mean: Array | None = None

    @property
    def m(self) -> Array:
        return np.asarray(self.h - self.b)

    @property
    def place(self) -> Array:
        return self.b

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - 0.5 * self.frame.weight * float(self.b @ self.frame.ridge @ self.b) / self.s2

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.m)) / self.s2

    @property
    def predicted(self) -> float | None:
        return 0.5 * float(self.m @ self.stein_step()) / self.s2

    def stein_step(self) -> Array:
        """Newton's step with the two-number information a across beta and c along it."""
        step = self.m / self.across
        q = float(self.b @ self.b)
        if q > 0:
            step = step + self.b * (float(self.b @ self.m) / q) * (1.0 / self.along - 1.0 / self.across)
        length = float(np.linalg.norm(step))
        longest = LONGEST_STEP * self.frame.scale
        return step if length <= longest else step * (longest / length)

    def variance_at(self, b: Array) -> float:
        """E[y^2] - 2 b'h + b'b: the M-step's variance for any new b, never negative.

        Where there is a ridge, b'b is the mean of u^2 and the penalty together.
        """
        return max(self.frame.yy - 2.0 * float(b @ self.h) + float(b @ b), self.frame.floor)

    def mixture(self) -> Mixture:
        return pair(self.frame, self.b, self.s2, self.mean)


def evaluate(frame: Frame, b: Array, s2: float, task: Task, mean: Array | None = None) -> Steps[SymmetricPoint]:
    """Ask for the score at (b, s2)."""
    s2 = task.sigma**2 if task.sigma is not None else max(s2, frame.floor)
    sums = yield SymmetricScore(frame.raw(b), s2, mean)
    across, along = information(sums, frame.weight, float(b @ b))
    return SymmetricPoint(frame, b, s2, frame.pull(sums["h"]), float(sums["log_likelihood"]), across, along, mean)


def information(sums: Sums, weight: float, q: float) -> tuple[float, float]:
    """The shares of the complete-data information that the data hold across beta and along it, q = beta'S beta."""
    across = 1.0 - float(sums["missing"]) / weight
    along = 1.0 - float(sums["missing_along"]) / weight / q if q > 0 else across
    return float(np.clip(across, INFORMATION_FLOOR, 1.0)), float(np.clip(along, INFORMATION_FLOOR, 1.5))


def stein_move(task: Task, damping: float = 1.0) -> Move[SymmetricPoint]:
    """The refreshed-reference step: Newton's on the moment equation, with Stein's two numbers."""

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        b = here.b + damping * here.stein_step()
        return (yield from evaluate(here.frame, b, here.variance_at(b), task, here.mean))

    return move


def em_move(task: Task) -> Move[SymmetricPoint]:
    """EM with a least-squares M-step: b = S^-1 h, which is h in a white frame."""

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        return (yield from evaluate(here.frame, here.h, here.variance_at(here.h), task, here.mean))

    return move


def survey(task: Task, mean: Array | None = None) -> Steps[tuple[Frame, Array]]:
    """One pass for the white frame and the spectral direction; a second when a mean is taken off."""
    sums = yield Moments(intercept=task.intercept, fourth=mean is None)
    frame = whitened(sums, task.intercept, task.ridge)
    if mean is not None:
        sums = sums | (yield FourthMoments(mean))
        left = float(sums["rr"]) / frame.weight
        frame = replace(frame, xy=frame.xy - frame.inside(mean), y=0.0, yy=left)
    return frame, spectral_direction(frame, sums)


def start(
    task: Task,
    frame: Frame | ScaledFrame,
    direction: Array,
    mean: Array | None = None,
    unit: float | None = None,
) -> Steps[tuple[Array, float]]:
    """(b, s2) to begin with: spectral with its likeliest length, random N(0, I/d) as in the paper, or as given.

    The paper's sigma is 1; without a ``unit`` a random start is as long as half the root mean square of y.
    """
    if isinstance(task.start, str) and task.start in ("auto", "spectral"):
        return (yield from lengthened(frame, direction, task.sigma, task.seed, mean))
    if isinstance(task.start, str):
        b = random_vectors(frame, task, 1)[:, 0] * (frame.scale / 2.0 if unit is None else unit)
    else:
        b = frame.inside(np.asarray(task.start)[0])
    return b, max(frame.yy - float(b @ b), 0.25 * frame.yy, frame.floor)


def begin(task: Task, mean: Array | None = None) -> Steps[SymmetricPoint]:
    """The point to climb from: survey, start, and the score there."""
    frame, direction = yield from survey(task, mean)
    b, s2 = yield from start(task, frame, direction, mean)
    return (yield from evaluate(frame, b, s2, task, mean))
