"""The k-component likelihood: where a climb stands, and the moves from there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Steps
from wmlr.methods import m_step
from wmlr.methods.ascent import Move
from wmlr.methods.ridge import left_by, penalty, renewed
from wmlr.methods.search.spectral import spectral_places
from wmlr.methods.starts import Within, random_vectors, ranked, usual_range
from wmlr.methods.task import Task, mixture
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, whitened
from wmlr.statistics.grain import Grain, coarsest
from wmlr.statistics.moments import Moments
from wmlr.statistics.robust import StudentScore, Trimmed
from wmlr.statistics.score import MixtureScore

LEAST_MASS = 1e-8
LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class MixturePoint:
    """Coefficients B (r, k), weights and variances in a white frame, with the sums found there.

    ``m`` (r, k) is the mean of r_i e_i w, ``squares`` the mean of r_i e_i^2, ``mass`` the mean of r_i over
    rows, ``grip`` the same with clipped weights, ``units`` its mean over units. ``shift`` is what the ridge's
    references changed its penalty by on the way here (:mod:`wmlr.methods.ridge`).
    """

    frame: Frame
    B: Array
    weights: Array
    s2: Array
    m: Array
    squares: Array
    mass: Array
    grip: Array
    units: Array
    log_likelihood: float
    dof: float | None = None
    predicted: float | None = None
    shift: float = 0.0

    @property
    def place(self) -> Array:
        return self.B

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.B, (self.weights, self.s2)) + self.shift

    def compared(self, s2: float) -> float:
        """The log-likelihood less a penalty with this variance, by which points on different ways are compared."""
        return self.log_likelihood - penalty(self.frame, self.B, (self.weights, s2))

    @property
    def score(self) -> Array:
        """The penalised score times the variances."""
        return np.asarray(self.m - self.frame.shrink(self.B, self.weights))

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.score / self.s2))

    def mixture(self) -> Mixture:
        return mixture(self.frame.raw(self.B), self.weights, self.s2, self.frame.intercept, self.dof)


def query(frame: Frame, B: Array, weights: Array, s2: Array, dof: float | None = None, grams: bool = False) -> Query:
    coef, log_weights = frame.raw(B), np.log(np.maximum(weights, 1e-300))
    if dof is not None:
        return StudentScore(coef, log_weights, s2, dof, grams)
    return MixtureScore(coef, log_weights, s2, grams)


def evaluate(frame: Frame, B: Array, weights: Array, s2: Array, dof: float | None = None) -> Steps[MixturePoint]:
    """Ask for the score at (B, weights, s2)."""
    sums = yield query(frame, B, weights, s2, dof)
    return _read(frame, B, weights, s2, dof, sums)


def _read(frame: Frame, B: Array, weights: Array, s2: Array, dof: float | None, sums: Sums) -> MixturePoint:
    units = sums["units"] / max(float(sums["units"].sum()), 1e-300)
    means = {name: sums[name] / frame.weight for name in ("squares", "mass")}
    grip = sums["grip"] / frame.weight if "grip" in sums else means["mass"]
    score = frame.pull(sums["score"])
    return MixturePoint(
        frame, B, weights, s2, score, means["squares"], means["mass"], grip, units, float(sums["log_likelihood"]), dof
    )


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
        frame = here.frame
        grip = np.maximum(here.grip, LEAST_MASS)
        grams = [share * frame.gram for share in grip]
        D = damping * m_step.steps(frame, grams, here.m, here.B, here.weights, here.s2, task.shared)
        D = D if task.shared else D * (here.grip > LEAST_MASS)
        squares = here.squares - 2.0 * (D * here.m).sum(axis=0) + grip * np.einsum("ri,rs,si->i", D, frame.gram, D)
        squares = np.maximum(squares, 0.1 * here.squares)
        return (yield from _moved(task, here, here.B + D, squares))

    return move


def em_move(task: Task) -> Move[MixturePoint]:
    """EM with the exact M-step: a weighted least squares per component."""

    def move(here: MixturePoint) -> Steps[MixturePoint]:
        frame = here.frame
        sums = yield query(frame, here.B, here.weights, here.s2, here.dof, grams=True)
        grams = [frame.pull_matrix(gram) for gram in sums["grams"]]
        D = m_step.steps(frame, grams, here.m, here.B, here.weights, here.s2, task.shared)
        bent = np.stack([gram @ D[:, i] for i, gram in enumerate(grams)], axis=1)
        squares = np.maximum(here.squares + (D * (bent - 2.0 * here.m)).sum(axis=0), 0.0)
        return (yield from _moved(task, here, here.B + D, squares))

    return move


def _moved(task: Task, here: MixturePoint, B: Array, squares: Array) -> Steps[MixturePoint]:
    if task.cautious:
        squares = squares + (B * here.frame.shrink(B, here.weights)).sum(axis=0)
    weights, s2 = constrained(task, here.frame, here.units, squares, here.mass)
    if task.cautious:
        return (yield from evaluate(here.frame, B, weights, s2, here.dof))
    return (yield from reached(here, B, weights, s2))


def reached(here: MixturePoint, B: Array, weights: Array, s2: Array) -> Steps[MixturePoint]:
    """The point at (B, weights, s2), reached from here."""
    there = yield from evaluate(here.frame, B, weights, s2, here.dof)
    return replace(there, shift=here.shift + renewed(here.frame, B, (here.weights, here.s2), (weights, s2)))


def survey(task: Task) -> Steps[Frame]:
    """One pass for the white frame; where influence is bounded, y's moments are those of its usual range."""
    sums = yield Moments(intercept=task.intercept)
    frame = whitened(sums, task.intercept, task.ridge, task.shared)
    if task.guard and task.sigma is None and not task.shared_sigma and task.n_components > 1:
        frame = replace(frame, grain=coarsest((yield Grain())))
    if task.dof is None:
        return frame
    mean = float(sums["y"]) / frame.weight
    low, high = yield from usual_range(mean, float(np.sqrt(max(frame.yy - mean**2, 1e-300))))
    usual = yield Trimmed(Moments(intercept=task.intercept), low, high)
    weight = float(usual["weight"])
    y, yy = (float(usual[name]) / weight for name in ("y", "yy"))
    return replace(frame, xy=frame.basis.T @ usual["xy"] / weight, y=y, yy=yy, usual=(low, high))


def usual_rows(frame: Frame) -> Within:
    """What keeps gross outliers out of starts, where they are feared."""
    if frame.usual is None:
        return lambda query: query
    low, high = frame.usual
    return lambda query: Trimmed(query, low, high)


def begin(task: Task, frame: Frame) -> Steps[list[MixturePoint]]:
    """The points to climb from, best first."""
    k = task.n_components
    left = left_by(frame, frame.least_squares)
    equal = np.full(k, 1.0 / k)
    if k == 1:
        places = [(frame.least_squares[:, None], equal, np.full(k, left))]
    elif not isinstance(task.start, str):
        places = [(frame.inside(np.asarray(task.start).T), equal, np.full(k, left / 2))]
    elif task.start == "random":
        places = [(random_vectors(frame, task, k) * frame.scale, equal, np.full(k, left))]
    else:
        places = yield from spectral_places(frame, task, usual_rows(frame))
    points = []
    for B, weights, s2 in places:
        weights, s2 = constrained(task, frame, weights, s2 * weights, weights)
        B = m_step.tied(frame, B, weights, task.shared)
        points.append((yield from evaluate(frame, B, weights, s2, task.dof)))
    return _best_first(points)


def refine(points: list[MixturePoint], move: Move[MixturePoint], iterations: int = 5) -> Steps[list[MixturePoint]]:
    """A few safe moves from each point, where there are several; where they lead, best first."""
    if len(points) == 1:
        return points
    reached = []
    for here in points:
        for _ in range(iterations):
            there = yield from move(here)
            here = there if there.objective >= here.objective else here
        reached.append(here)
    return _best_first(reached)


def _best_first(points: list[MixturePoint]) -> list[MixturePoint]:
    shared = left_by(points[0].frame, points[0].frame.least_squares)
    return [points[place] for place in ranked(np.array([point.compared(shared) for point in points]))]
