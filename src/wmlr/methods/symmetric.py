"""The symmetric mixture's likelihood: where a climb stands, and the moves from there, for few columns and many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from wmlr.core.round import Sampled, Steps
from wmlr.methods import wide
from wmlr.methods.ascent import Move
from wmlr.methods.general import algebra
from wmlr.methods.ridge import PenalisedPair, change_of_reference
from wmlr.methods.starts import (
    LARGEST_SHARE,
    LENGTH_ROWS,
    ROWS_PER_COLUMN,
    clear_direction,
    length_share,
    random_vectors,
    spectral_direction,
    with_likeliest_length,
)
from wmlr.methods.task import Task, pair
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, FrameMoments, ScaledFrame, centred_moments, spanning_columns, white_frame
from wmlr.statistics.moments import FourthMoments, Moments, ResponseMoments, SecondMoments
from wmlr.statistics.symmetric_score import SymmetricResiduals, SymmetricScore

INFORMATION_FLOOR = 0.05
LONGEST_STEP = 0.5
LEAST_SHARE = 0.01
WIDEST = 0.1
SAMPLE_GAIN = 2.0
SAMPLE_STEPS = 2  # at most: each costs a part of one on all rows
LIKE_PARABOLA = 0.05  # of what a step's curvature gained: what a parabola through its ends may be wrong by
MOST_LEARNED = 4  # steps that are remembered
SLOW = 0.2  # of a promised gain: what a good step leaves at most
ROUND = 1e-6  # least eigenvalue of correlations in which no column can be said to follow from others


@dataclass(frozen=True)
class AlongStep:
    """Newton's step in the length of beta and in log sigma together: sigma shrinks where beta grows.

    ``slope`` is beta'm / beta'beta, ``longer`` the share by which beta grows, ``wider`` what log sigma gains, and
    ``gain`` what the mean log-likelihood is promised to. ``matrix`` is the curvature in both, or in the length alone.
    """

    slope: float
    longer: float
    wider: float
    gain: float
    matrix: Array

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
            only = np.array([[q * along / s2]])
            return cls(slope / q, slope / q / along, 0.0, 0.5 * slope**2 / (q * along * s2), only)
        lost = q * (1.0 - along)
        cross = 2.0 * (lost + slope + pull)
        matrix = np.array([[q - lost, cross], [cross, 2.0 * left - 4.0 * lost]]) / s2
        if not (matrix[0, 0] > 0.0 and np.linalg.det(matrix) > LEAST_SHARE * matrix[0, 0] * abs(matrix[1, 1])):
            return None
        score = np.array([slope / s2, left / s2 - 1.0])
        longer, wider = np.linalg.solve(matrix, score)
        return cls(slope / q, float(longer), float(wider), 0.5 * float(score @ [longer, wider]), matrix)


@dataclass(frozen=True)
class SymmetricPoint(PenalisedPair):
    """beta and sigma^2 in a frame, with the score there.

    ``m`` is the penalised score of beta times sigma^2, ``D`` = A^-1 m and ``AD`` = A D, with A the features' second
    moments and the ridge; in a white frame A is the identity. ``q`` is beta'A beta, ``mean_square`` that of the
    residuals at beta. ``across`` and ``along`` are the shares of the complete-data information that the data hold about
    beta, across its direction and along it; ``shift`` as in :class:`wmlr.methods.general.MixturePoint`;
    ``promised_gain`` is the ``predicted_gain`` where the step that led here began; ``learned`` are steps on the way,
    each with what m fell by along it.
    """

    frame: Any
    b: Array
    s2: float
    m: Array
    D: Array
    AD: Array
    q: float
    mean_square: float
    log_likelihood: float
    across: float
    along: float
    mean: Array | None = None
    s2_known: bool = False
    shift: float = 0.0
    promised_gain: float = np.inf
    learned: tuple[tuple[Array, Array], ...] = ()

    @classmethod
    def white(cls, frame: FrameMoments, b: Array, s2: float, m: Array, left: float, *more: Any) -> SymmetricPoint:
        """A point in a white frame, from the log-likelihood on as the fields are."""
        return cls(frame, b, s2, m, m, m, float(b @ b), left, *more)

    @property
    def gradient_norm(self) -> float:
        return float(np.sqrt(max(float(self.m @ self.D), 0.0))) / self.s2

    @property
    def predicted_gain(self) -> float:
        along = self.along_step
        square = float(self.m @ self.D) - (0.0 if along is None else along.slope**2 * self.q)
        gain = 0.5 * max(square, 0.0) / self.across / self.s2
        return gain if along is None else gain + along.gain

    @cached_property
    def along_step(self) -> AlongStep | None:
        """Newton's step in the length of beta and in sigma."""
        pull = float(self.b @ self.frame.shrink(self.b))
        return AlongStep.of(self.q, float(self.b @ self.m), self.mean_square, self.along, self.s2, self.s2_known, pull)

    def stein_step(self, joint: bool = False) -> tuple[Array, float]:
        """Newton's step with the two-number information a across beta and c along it; ``joint`` with sigma's.

        And its squared length step'A step.
        """
        turn = 0.0
        if self.q > 0:
            share = float(self.b @ self.m) / self.q
            longer = self.along_step.longer if joint and self.along_step is not None else share / self.along
            turn = longer - share / self.across
        step = self.D / self.across + turn * self.b
        square = float(self.D @ self.AD) / self.across**2 + turn**2 * self.q
        square += 2.0 * turn * float(self.b @ self.AD) / self.across
        longest = LONGEST_STEP * self.frame.scale
        short = min(1.0, longest / np.sqrt(square)) if square > 0 else 1.0
        return short * step, short**2 * square

    @property
    def _place_and_slope(self) -> tuple[Array, Array]:
        """Where the point is, in beta and log sigma, and the slope of the mean log-likelihood in both."""
        place, slope = np.append(self.b, 0.5 * np.log(self.s2)), np.append(self.m, self.mean_square - self.s2) / self.s2
        return (place[:-1], slope[:-1]) if self.s2_known else (place, slope)

    def learned_step(self, along: AlongStep) -> tuple[Array, float]:
        """Newton's step in beta, and in log sigma, with what was learned on the way (BFGS), in a white frame."""
        slope, shares = self._place_and_slope[1], []
        for moved, fallen in reversed(self.learned):
            shares.append(float(moved @ slope) / float(moved @ fallen))
            slope = slope - shares[-1] * fallen
        step = self._newton(slope, along)
        for (moved, fallen), share in zip(self.learned, reversed(shares)):
            step = step + (share - float(fallen @ step) / float(moved @ fallen)) * moved
        r = len(self.b)
        return step[:r], float(np.clip(step[r:], -WIDEST, WIDEST).sum())

    def _newton(self, slope: Array, along: AlongStep) -> Array:
        """The step that a slope in beta and log sigma asks for, by the information across beta and along it."""
        r = len(self.b)
        length = float(self.b @ slope[:r])
        longer, *wider = np.linalg.solve(along.matrix, np.append(length, slope[r:]))
        turn = longer - length * self.s2 / self.q / self.across
        return np.append(slope[:r] * self.s2 / self.across + turn * self.b, wider)

    def learn(self, here: SymmetricPoint) -> SymmetricPoint:
        """With what the step from ``here`` has shown, where a sample measured steps and the way was a parabola.

        Where it was none, what was learned before is forgotten.
        """
        (place, slope), (before, steeper) = self._place_and_slope, here._place_and_slope
        moved, bent = place - before, float((place - before) @ (steeper - slope))
        gain = (self.objective - here.objective) / self.frame.weight
        astray = gain - 0.5 * float(moved @ (slope + steeper))
        if not (self.frame.sampled and bent > 0.0 and abs(astray) <= LIKE_PARABOLA * 0.5 * bent):
            return self
        return replace(self, learned=(*here.learned, (moved, steeper - slope))[-MOST_LEARNED:])

    def em_step(self) -> tuple[Array, float]:
        """The way to the maximiser of a least-squares M-step, and its squared length."""
        return self.D, float(self.D @ self.AD)

    def variance_after(self, step: Array, square: float) -> float:
        """The M-step's variance where a step leads, never negative."""
        pull = 2.0 * (self.m + self.frame.shrink(self.b)) + self.frame.shrink(step)
        return max(self.mean_square - float(step @ pull) + square, float(self.frame.floor))

    def mixture(self) -> Mixture:
        return pair(self.frame, self.b, self.s2, self.mean)


def evaluate(
    frame: Frame | ScaledFrame, b: Array, s2: float, task: Task, mean: Array | None = None
) -> Steps[SymmetricPoint]:
    """Ask for the score at (b, s2); of many columns also for A^-1 times it, by products."""
    s2 = task.sigma**2 if task.sigma is not None else max(s2, frame.floor)
    m, q, left, sums = yield from penalised_score(frame, b, s2, mean)
    D, bent = yield from algebra(task).solve_gram(frame, m)
    across, along = information(sums, frame.weight, q)
    likelihood, known = float(sums["log_likelihood"]), task.sigma is not None
    return SymmetricPoint(frame, b, s2, m, D, bent, q, left, likelihood, across, along, mean, known)


def penalised_score(
    frame: Frame | ScaledFrame, b: Array, s2: float, mean: Array | None = None
) -> Steps[tuple[Array, float, float, Sums]]:
    """The penalised score of beta times sigma^2, beta'A beta and the mean square left, with the sums they come from.

    Where the frame knows no Gram of all rows these are sums over residuals.
    """
    shrink, gram = frame.shrink(b), frame.known_gram
    if gram is None:
        sums = yield SymmetricResiduals(frame.to_data(b), s2, mean)
        m, q, left = frame.mean_of(sums["m"]), float(sums["uu"]) / frame.weight, float(sums["squares"]) / frame.weight
        return m - shrink, q + float(b @ shrink), left, sums
    sums = yield SymmetricScore(frame.to_data(b), s2, mean)
    h, image = frame.mean_of(sums["h"]), gram @ b
    left = frame.yy - 2.0 * float(b @ h) + float(b @ image)
    return h - image - shrink, float(b @ (image + shrink)), left, sums


def information(sums: Sums, weight: float, q: float) -> tuple[float, float]:
    """The shares of the complete-data information that the data hold across beta and along it, q = beta'S beta."""
    across = 1.0 - float(sums["missing"]) / weight
    along = 1.0 - float(sums["missing_along"]) / weight / q if q > 0 else across
    return float(np.clip(across, INFORMATION_FLOOR, 1.0)), float(np.clip(along, INFORMATION_FLOOR, 1.5))


def stein_move(task: Task) -> Move[SymmetricPoint]:
    """The refreshed-reference step: Newton's on the moment equation, with Stein's two numbers.

    Near the end sigma goes along by Newton's step too; before, by the M-step's. Where a step has left much of what it
    promised, and a sample's Gram measured it, that of all rows takes over.
    """

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        if here.frame.sampled and SLOW * here.promised_gain < here.predicted_gain:
            frame = white_frame((yield Moments(intercept=task.intercept)), task.intercept, task.ridge)
            b = frame.inside(here.frame.to_data(here.b))
            here = yield from evaluate(frame, b, here.s2, task, here.mean)
        along = here.along_step
        if along is None or abs(along.wider) > WIDEST:
            step, square = here.stein_step()
            s2 = here.variance_after(step, square)
        else:
            step, wider = here.learned_step(along) if here.learned else (here.stein_step(joint=True)[0], along.wider)
            s2 = here.s2 * float(np.exp(2.0 * wider))
        there = yield from point_at(task, here, here.b + step, s2)
        return replace(there, promised_gain=here.predicted_gain).learn(here)

    return move


def em_move(task: Task) -> Move[SymmetricPoint]:
    """EM with a least-squares M-step: b = S^-1 h, which is h in a white frame."""

    def move(here: SymmetricPoint) -> Steps[SymmetricPoint]:
        step, square = here.em_step()
        return (yield from point_at(task, here, here.b + step, here.variance_after(step, square)))

    return move


def point_at(task: Task, here: SymmetricPoint, b: Array, s2: float) -> Steps[SymmetricPoint]:
    """The point at (b, s2), reached from here."""
    there = yield from evaluate(here.frame, b, s2, task, here.mean)
    return replace(there, shift=here.shift + change_of_reference(here.frame, b, (None, here.s2), (None, there.s2)))


def survey(task: Task, mean: Array | None = None) -> Steps[tuple[Any, Array]]:
    """The frame and the spectral direction, of what a mean leaves: one pass, or two with a mean, for few columns.

    Where single rows may be looked at, the direction comes from the sample that chooses its length, if that shows it
    clearly: fourth moments of all rows would take as long as all the rest. Many columns are searched for the direction
    by products, where it is wanted.
    """
    if task.wide:
        return (yield from _survey_by_products(task, mean))
    if mean is None and task.in_memory and task.draws and task.exact and not task.ridge:
        found = yield from _survey_sample(task)
        if found is not None:
            return found
    at_once = mean is None and not (task.draws and task.exact)
    sums = yield Moments(intercept=task.intercept, fourth=at_once)
    frame = white_frame(sums, task.intercept, task.ridge)
    if mean is not None:
        sums = sums | (yield FourthMoments(mean))
        left = float(sums["rr"]) / frame.weight
        frame = replace(frame, xy=frame.xy - frame.inside(mean), y=0.0, yy=left)
        return frame, spectral_direction(frame, sums)
    if at_once:
        return frame, spectral_direction(frame, sums)
    share = length_share(frame)
    if share < LARGEST_SHARE:
        sampled = yield Sampled(FourthMoments(np.zeros(len(frame.basis))), share, task.seed)
        direction = clear_direction(frame, sampled)
        if direction is not None:
            return frame, direction
    sums = sums | (yield FourthMoments(np.zeros(len(frame.basis))))
    return frame, spectral_direction(frame, sums)


def _survey_sample(task: Task) -> Steps[tuple[Frame, Array] | None]:
    """The frame and the direction that a sample shows, where it is a small part of the rows and shows both clearly.

    A product of all rows with themselves takes as long as several iterations. The Gram of a hundred rows for each
    column is within a fifth of that of all: good enough to measure steps by, while scores are those of all rows.
    """
    sums = yield ResponseMoments()
    rows = float(sums["rows"])
    share = LENGTH_ROWS / max(rows, 1.0)
    if share >= LARGEST_SHARE or float(sums["groups"]) > 0:
        return None
    sampled = yield Sampled(Moments(intercept=task.intercept, fourth=True), share, task.seed)
    means, covariance, squares = centred_moments(sampled, task.intercept)
    columns = spanning_columns(covariance, squares)
    full = len(columns.eigenvalues) == len(means) and columns.eigenvalues.min(initial=1.0) > ROUND
    if not full or float(sampled["rows"]) < ROWS_PER_COLUMN * len(means):
        return None
    own = white_frame(sampled, task.intercept, columns=columns)
    direction = clear_direction(own, sampled | {"rr": sampled["yy"]})
    if direction is None:
        return None
    weight = float(sums["weight"])
    y, yy = float(sums["y"]) / weight, float(sums["yy"]) / weight
    return replace(own, weight=weight, rows=rows, units=float(sums["units"]), y=y, yy=yy, sampled=True), direction


def _survey_by_products(task: Task, mean: Array | None) -> Steps[tuple[ScaledFrame, Array]]:
    frame = yield from wide.survey(task)
    if mean is not None:
        sums = yield SecondMoments(np.zeros_like(mean), mean)
        frame = replace(frame, y=0.0, yy=float(sums["yy"]) / frame.weight)
    return frame, (yield from wide.start_direction(frame, task, mean))


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
    if task.start_word in ("auto", "spectral"):
        return (yield from with_likeliest_length(frame, direction, task, mean))
    if task.start_word:
        b = random_vectors(frame, task, 1)[:, 0] * (frame.scale / 2.0 if unit is None else unit)
    else:
        b = frame.inside(np.asarray(task.start)[0])
    return b, max(frame.yy - float(b @ b), 0.25 * frame.yy, frame.floor)


def sharpen_start(task: Task, frame: Frame, b: Array, s2: float, mean: Array | None) -> Steps[tuple[Array, float]]:
    """A start after steps on the sample that chose its length, while the gain they promise is more than noise gives.

    A step in as many directions as b has gains half of one each from noise alone. Groups tell a start that is good
    enough, and small data are soon passed over.
    """
    share = length_share(frame)
    if share >= LARGEST_SHARE or frame.grouped:
        return b, s2
    own, known = replace(frame, weight=share * frame.weight), task.sigma is not None
    for _ in range(SAMPLE_STEPS):
        sums = yield Sampled(SymmetricResiduals(frame.to_data(b), s2, mean), share, task.seed)
        m = own.mean_of(sums["m"]) - frame.shrink(b)
        left = float(sums["squares"]) / own.weight
        found = information(sums, own.weight, float(b @ b))
        here = SymmetricPoint.white(own, b, s2, m, left, 0.0, *found, mean, known)
        if own.weight * here.predicted_gain < SAMPLE_GAIN * len(b):
            break
        step, square = here.stein_step()
        b, s2 = b + step, here.variance_after(step, square)
    return b, s2


def begin(task: Task, mean: Array | None = None) -> Steps[SymmetricPoint]:
    """The point to climb from: survey, start, and the score there."""
    frame, direction = yield from survey(task, mean)
    b, s2 = yield from start(task, frame, direction, mean)
    if not task.wide and task.start_word not in ("", "random"):
        b, s2 = yield from sharpen_start(task, frame, b, s2, mean)
    return (yield from evaluate(frame, b, s2, task, mean))
