"""The symmetric mixture's likelihood: where a climb stands, and the moves from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wmlr.core.round import Sampled, Steps
from wmlr.methods.ascent import Move
from wmlr.methods.ridge import change_of_reference, penalty
from wmlr.methods.starts import length_share, random_vectors, spectral_direction, with_likeliest_length
from wmlr.methods.task import Task, pair
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, ScaledFrame, whitened
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.residual_form import SymmetricResiduals
from wmlr.statistics.score import SymmetricScore

INFORMATION_FLOOR = 0.05
LONGEST_STEP = 0.5
LEAST_SHARE = 0.01
WIDEST = 0.1
SAMPLE_GAIN = 2.0
LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class AlongStep:
    """Newton's step in the length of beta and in log sigma together: sigma shrinks where beta grows.

    ``slope`` is beta'm / beta'beta, ``longer`` the share by which beta grows, ``wider`` what log sigma gains, and
    ``gain`` what the mean log-likelihood is promised to.
    """

    slope: float
    longer: float
    wider: float
    gain: float

    @classmethod
    def of(
        cls, q: float, slope: float, left: float, along: float, s2: float, s2_known: bool, pull: float = 0.0
    ) -> AlongStep | None:
        """From beta'beta, beta'm, the mean square left and the share of the information along beta.

        ``pull`` is the ridge's part of beta'beta. None where the curvature is not that of a maximum.
        """
        if q <= 0.0:
            return None
        if s2_known:
            return cls(slope / q, slope / q / along, 0.0, 0.5 * slope**2 / (q * along * s2))
        lost = q * (1.0 - along)
        cross = 2.0 * (lost + slope + pull)
        matrix = np.array([[q - lost, cross], [cross, 2.0 * left - 4.0 * lost]]) / s2
        if not (matrix[0, 0] > 0.0 and np.linalg.det(matrix) > LEAST_SHARE * matrix[0, 0] * abs(matrix[1, 1])):
            return None
        score = np.array([slope / s2, left / s2 - 1.0])
        longer, wider = np.linalg.solve(matrix, score)
        return cls(slope / q, float(longer), float(wider), 0.5 * float(score @ [longer, wider]))


@dataclass(frozen=True)
class SymmetricPoint:
    """beta and sigma^2 in a white frame, with the score there.

    ``h`` is the mean of t y w with t the posterior sign, so that m = h - b is the (penalised) score of beta
    times sigma^2. ``across`` and ``along`` are the shares of the complete-data information that the data hold
    about beta, across its direction and along it; ``shift`` as in :class:`wmlr.methods.general.MixturePoint`.
    """

    frame: Frame
    b: Array
    s2: float
    h: Array
    log_likelihood: float
    across: float
    along: float
    mean: Array | None = None
    s2_known: bool = False
    shift: float = 0.0

    @property
    def m(self) -> Array:
        return np.asarray(self.h - self.b)

    @property
    def place(self) -> Array:
        return self.b

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.b, (None, self.s2)) + self.shift

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.m)) / self.s2

    @property
    def predicted(self) -> float | None:
        across = self.m if self.along_step is None else self.m - self.b * self.along_step.slope
        gain = 0.5 * float(across @ self.m) / self.across / self.s2
        return gain if self.along_step is None else gain + self.along_step.gain

    @cached_property
    def along_step(self) -> AlongStep | None:
        """Newton's step in the length of beta and in sigma."""
        q, along = float(self.b @ self.b), float(self.b @ self.m)
        pull = float(self.b @ self.frame.shrink(self.b))
        left = self.frame.yy - 2.0 * float(self.b @ self.h) + q - pull
        return AlongStep.of(q, along, left, self.along, self.s2, self.s2_known, pull)

    def stein_step(self, joint: bool = False) -> Array:
        """Newton's step with the two-number information a across beta and c along it; ``joint`` with sigma's."""
        step = self.m / self.across
        q = float(self.b @ self.b)
        if q > 0:
            share = float(self.b @ self.m) / q
            longer = self.along_step.longer if joint and self.along_step is not None else share / self.along
            step = step + self.b * (longer - share / self.across)
        length = float(np.linalg.norm(step))
        longest = LONGEST_STEP * self.frame.scale
        return step if length <= longest else step * (longest / length)

    def variance_at(self, b: Array) -> float:
        """E[y^2] - 2 b'h + b'Sb: the M-step's variance for any new b, never negative."""
        return max(self.frame.yy - 2.0 * float(b @ self.h) + float(b @ self.frame.gram @ b), self.frame.floor)

    def mixture(self) -> Mixture:
        return pair(self.frame, self.b, self.s2, self.mean)


def evaluate(frame: Frame, b: Array, s2: float, task: Task, mean: Array | None = None) -> Steps[SymmetricPoint]:
    """Ask for the score at (b, s2)."""
    s2 = task.sigma**2 if task.sigma is not None else max(s2, frame.floor)
    sums = yield SymmetricScore(frame.raw(b), s2, mean)
    across, along = information(sums, frame.weight, float(b @ b))
    likelihood, known = float(sums["log_likelihood"]), task.sigma is not None
    return SymmetricPoint(frame, b, s2, frame.pull(sums["h"]), likelihood, across, along, mean, known)


def information(sums: Sums, weight: float, q: float) -> tuple[float, float]:
    """The shares of the complete-data information that the data hold across beta and along it, q = beta'S beta."""
    across = 1.0 - float(sums["missing"]) / weight
    along = 1.0 - float(sums["missing_along"]) / weight / q if q > 0 else across
    return float(np.clip(across, INFORMATION_FLOOR, 1.0)), float(np.clip(along, INFORMATION_FLOOR, 1.5))


def stein_move(task: Task) -> Move[SymmetricPoint]:
    """The refreshed-reference step: Newton's on the moment equation, with Stein's two numbers.

    Near the end sigma goes along by Newton's step too; before, by the M-step's.
    """

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        along = here.along_step
        if along is None or abs(along.wider) > WIDEST:
            b = here.b + here.stein_step()
            s2 = here.variance_at(b)
        else:
            b = here.b + here.stein_step(joint=True)
            s2 = here.s2 * float(np.exp(2.0 * along.wider))
        return (yield from point_at(task, here, b, s2))

    return move


def em_move(task: Task) -> Move[SymmetricPoint]:
    """EM with a least-squares M-step: b = S^-1 h, which is h in a white frame."""

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        return (yield from point_at(task, here, here.h, here.variance_at(here.h)))

    return move


def point_at(task: Task, here: SymmetricPoint, b: Array, s2: float) -> Steps[SymmetricPoint]:
    """The point at (b, s2), reached from here."""
    there = yield from evaluate(here.frame, b, s2, task, here.mean)
    return replace(there, shift=here.shift + change_of_reference(here.frame, b, (None, here.s2), (None, there.s2)))


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
        return (yield from with_likeliest_length(frame, direction, task.sigma, task.seed, mean))
    if isinstance(task.start, str):
        b = random_vectors(frame, task, 1)[:, 0] * (frame.scale / 2.0 if unit is None else unit)
    else:
        b = frame.inside(np.asarray(task.start)[0])
    return b, max(frame.yy - float(b @ b), 0.25 * frame.yy, frame.floor)


def sharpen_start(task: Task, frame: Frame, b: Array, s2: float, mean: Array | None) -> Steps[tuple[Array, float]]:
    """A start after a step on the sample that chose its length, if the gain it promises is more than noise gives.

    A step in as many directions as b has gains half of one each from noise alone. Groups tell a start that is good
    enough, and small data are soon passed over.
    """
    share = length_share(frame)
    if share >= LARGEST_SHARE or frame.grouped:
        return b, s2
    sums = yield Sampled(SymmetricResiduals(frame.raw(b), s2, mean), share, task.seed)
    own = replace(frame, weight=share * frame.weight)
    h = own.pull(sums["m"]) + b - frame.ridge @ b
    left = float(sums["squares"]) / own.weight + float(b @ frame.ridge @ b)
    own = replace(own, yy=max(left + 2.0 * float(b @ h) - float(b @ b), frame.floor))
    found, known = information(sums, own.weight, float(b @ b)), task.sigma is not None
    here = SymmetricPoint(own, b, s2, h, 0.0, *found, mean, known)
    if own.weight * (here.predicted or 0.0) < SAMPLE_GAIN * len(b):
        return b, s2
    b = b + here.stein_step()
    return b, here.variance_at(b)


def begin(task: Task, mean: Array | None = None) -> Steps[SymmetricPoint]:
    """The point to climb from: survey, start, and the score there."""
    frame, direction = yield from survey(task, mean)
    b, s2 = yield from start(task, frame, direction, mean)
    if isinstance(task.start, str) and task.start != "random":
        b, s2 = yield from sharpen_start(task, frame, b, s2, mean)
    return (yield from evaluate(frame, b, s2, task, mean))
