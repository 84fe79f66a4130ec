"""The k-component likelihood: where a climb stands, and the moves from there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.coordinates import Frame, whitened
from wmlr.methods.ascent import Move
from wmlr.model import Mixture
from wmlr.round import Array, Steps, Sums
from wmlr.starts import multi_start, random_vectors, ranked
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.task import Task, mixture

LEAST_MASS = 1e-8
LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class MixturePoint:
    """Coefficients B (r, k), weights and variances in a white frame, with the sums found there.

    ``m`` (r, k) is the mean of r_i e_i w, ``squares`` the mean of r_i e_i^2, ``mass`` the mean of r_i over
    rows, ``units`` its mean over units.
    """

    frame: Frame
    B: Array
    weights: Array
    s2: Array
    m: Array
    squares: Array
    mass: Array
    units: Array
    log_likelihood: float

    predicted: float | None = None

    @property
    def place(self) -> Array:
        return self.B

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.m / self.s2))

    def mixture(self) -> Mixture:
        return mixture(self.frame.raw(self.B), self.weights, self.s2, self.frame.intercept)


def query(frame: Frame, B: Array, weights: Array, s2: Array, grams: bool = False) -> MixtureScore:
    return MixtureScore(frame.raw(B), np.log(np.maximum(weights, 1e-300)), s2, grams)


def read(frame: Frame, B: Array, weights: Array, s2: Array, sums: Sums) -> MixturePoint:
    units = sums["units"] / max(float(sums["units"].sum()), 1e-300)
    return MixturePoint(
        frame, B, weights, s2, frame.pull(sums["score"]), sums["squares"] / frame.weight,
        sums["mass"] / frame.weight, units, float(sums["log_likelihood"]),
    )  # fmt: skip


def evaluate(frame: Frame, B: Array, weights: Array, s2: Array) -> Steps[MixturePoint]:
    """Ask for the score at (B, weights, s2)."""
    return read(frame, B, weights, s2, (yield query(frame, B, weights, s2)))


def constrained(
    task: Task, frame: Frame, weights: Array, squares: Array, mass: Array, unit: float = 1.0
) -> tuple[Array, Array]:
    """Weights and variances as the task wants them: equal or free, known, shared or apart, floored.

    ``unit`` is what y was divided by.
    """
    k = len(weights)
    positive = np.maximum(weights, LEAST_WEIGHT)
    shares = np.full(k, 1.0 / k) if task.equal_weights else positive / positive.sum()
    if task.sigma is not None:
        return shares, np.full(k, (task.sigma / unit) ** 2)
    apart = squares / np.maximum(mass, LEAST_MASS)
    s2 = np.full(k, squares.sum() / mass.sum()) if task.shared_sigma else apart
    return shares, np.maximum(s2, frame.floor / unit**2)


def scaled_move(task: Task, damping: float = 1.0) -> Move[MixturePoint]:
    """The refreshed-reference step D_i = S^-1 m_i / pi_i: no weighted Gram is needed."""

    def move(here: MixturePoint) -> Steps[MixturePoint]:
        mass = np.maximum(here.mass, LEAST_MASS)
        D = damping * here.m / mass * (here.mass > LEAST_MASS)
        squares = here.squares - 2.0 * (D * here.m).sum(axis=0) + mass * (D * D).sum(axis=0)
        squares = np.maximum(squares, 0.1 * here.squares)
        weights, s2 = constrained(task, here.frame, here.units, squares, here.mass)
        return (yield from evaluate(here.frame, here.B + D, weights, s2))

    return move


def em_move(task: Task) -> Move[MixturePoint]:
    """EM with the exact M-step: a weighted least squares per component."""

    def move(here: MixturePoint) -> Steps[MixturePoint]:
        sums = yield query(here.frame, here.B, here.weights, here.s2, grams=True)
        B, squares = here.B.copy(), here.squares.copy()
        for j in range(B.shape[1]):
            G = here.frame.pull_matrix(sums["grams"][j])
            D = np.linalg.lstsq(G, here.m[:, j], rcond=1e-12)[0]
            B[:, j] += D
            squares[j] = max(squares[j] - 2.0 * float(D @ here.m[:, j]) + float(D @ G @ D), 0.0)
        weights, s2 = constrained(task, here.frame, here.units, squares, here.mass)
        return (yield from evaluate(here.frame, B, weights, s2))

    return move


def survey(task: Task) -> Steps[Frame]:
    """One pass for the white frame."""
    return whitened((yield Moments(intercept=task.intercept)), task.intercept)


def begin(task: Task, frame: Frame) -> Steps[list[MixturePoint]]:
    """The points to climb from, best first."""
    k = task.n_components
    if isinstance(task.start, str) and task.start != "random" and k > 1:
        places = yield from multi_start(frame, task)
    elif isinstance(task.start, str):
        fit = frame.least_squares
        left = max(frame.yy - float(frame.xy @ fit), frame.floor)
        spread = random_vectors(frame, task, k) * frame.scale if k > 1 else np.zeros((frame.dimension, 1))
        B = spread if k > 1 else fit[:, None]
        places = [(B, np.full(k, 1.0 / k), np.full(k, left))]
    else:
        B = frame.inside(np.asarray(task.start).T)
        left = max(frame.yy - float(frame.xy @ frame.least_squares), frame.floor)
        places = [(B, np.full(k, 1.0 / k), np.full(k, left / 2))]
    points = []
    for B, weights, s2 in places:
        weights, s2 = constrained(task, frame, weights, s2 * weights, weights)
        points.append((yield from evaluate(frame, B, weights, s2)))
    return _best_first(points)


def refine(points: list[MixturePoint], move: Move[MixturePoint], iterations: int = 5) -> Steps[MixturePoint]:
    """A few safe moves from each point; the best of where they lead."""
    if len(points) == 1:
        return points[0]
    reached = []
    for here in points:
        for _ in range(iterations):
            there = yield from move(here)
            here = there if there.log_likelihood >= here.log_likelihood else here
        reached.append(here)
    return _best_first(reached)[0]


def _best_first(points: list[MixturePoint]) -> list[MixturePoint]:
    return [points[place] for place in ranked(np.array([point.log_likelihood for point in points]))]
