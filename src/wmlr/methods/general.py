"""The k-component likelihood: where a climb stands, and the moves from there.

One climb serves few columns and many: what differs, how linear systems in the frame's coordinates are solved, is the
:class:`Algebra` that the task has (:mod:`wmlr.methods.dense`, :mod:`wmlr.methods.wide`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Steps
from wmlr.families import NORMAL, Family
from wmlr.methods.ascent import Move
from wmlr.methods.dense import DENSE
from wmlr.methods.gating import GateFrame, GatePoint, gate_frame
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.ridge import change_of_reference, penalty, residual_variance
from wmlr.methods.starts import Within, random_vectors, rank_candidates, usual_range, usual_rows, whole_range
from wmlr.methods.task import Task, mixture
from wmlr.methods.wide import WIDE
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame
from wmlr.statistics.mixing import UnitGate
from wmlr.statistics.robust import Trimmed
from wmlr.statistics.score import MixtureScore, mean_levels, scale_sums

HEAVY, OUTLYING = 0.8, 2.0 / 3.0  # shares of y that a usual range begins with, by what tails are expected
EDGE = 10.0  # least deviations that the range of y is longer by
WIDEST = 2.0  # times the variance of the usual y: wider components would take outliers for their own
LEAST_LEFT = 0.1  # of the squares before a step with the same Gram for all components, which may promise too much

DAMPINGS = (1.0, 0.5, 0.25, 0.05)

Place = tuple[Array, Array, Array]


@dataclass(frozen=True)
class MixturePoint:
    """Coefficients B (r, k), weights and variances in a frame, with the sums found there.

    ``m`` (r, k) is the mean of r_i e_i w, ``squares`` the mean of r_i e_i^2, ``mass`` the mean of r_i over
    rows (times what else weighs the rows where sigma is estimated), ``curvature_weight`` the same times the family's
    weights, ``units`` its mean over units. ``floor`` are the least variances here. ``shift`` is what the ridge's
    references changed its penalty by on the way here (:mod:`wmlr.methods.ridge`). The frame is a :class:`ScaledFrame`
    where there are too many columns for a white one.
    """

    frame: Any
    B: Array
    weights: Array
    s2: Array
    m: Array
    squares: Array
    mass: Array
    curvature_weight: Array
    units: Array
    log_likelihood: float
    floor: Array
    family: Family = NORMAL
    predicted_gain: float | None = None
    shift: float = 0.0
    gate: GatePoint | None = None

    @property
    def log_weights(self) -> Array:
        return np.log(np.maximum(self.weights, 1e-300))

    @property
    def gate_query(self) -> UnitGate | None:
        """The gate as a query has it, where weights differ from row to row."""
        return None if self.gate is None else self.gate.query

    @property
    def place(self) -> Array:
        return self.B

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.B, (self.weights, self.s2)) + self.shift

    def penalised_likelihood(self, s2: float) -> float:
        """The log-likelihood less the ridge's penalty at this variance, by which points of different paths compare."""
        return self.log_likelihood - penalty(self.frame, self.B, (self.weights, s2))

    @property
    def score(self) -> Array:
        """The penalised score times the variances."""
        return np.asarray(self.m - self.frame.shrink(self.B, self.weights))

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.score / self.s2))

    def mixture(self) -> Mixture:
        found = mixture(self.frame.to_data(self.B), self.weights, self.s2, self.frame.intercept, self.family)
        return found if self.gate is None else self.gate.frame.impose(found, self.gate.state)


class Algebra(Protocol):
    """How systems in a frame's coordinates are solved: with matrices of the columns, or by products alone."""

    @property
    def searches(self) -> bool:
        """Whether a search for the likeliest maximum, and Newton's last steps, can be afforded."""

    def survey(self, task: Task) -> Steps[Any]:
        """The frame."""

    def moments(self, task: Task) -> Query:
        """What a frame's moments of y come from."""

    def least_squares(self, frame: Any) -> Steps[Array]:
        """The single (ridge) regression of y on the features."""

    def spectral_places(self, frame: Any, task: Task, fit: Array, within: Within) -> Steps[list[Place]]:
        """The best few ends of short runs inside spectral directions around the single regression."""

    def allow(self, task: Task, frame: Any, B: Array, weights: Array) -> Array:
        """The coefficients nearest to B that the task's constraints allow: shared ones are B's weighted mean."""

    def scaled_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        """Columns D_i with (c_i S + P) D_i = score_i, c_i the curvature weights, and c_i D_i'S D_i; P is the ridge."""

    def solve_gram(self, frame: Any, right: Array) -> Steps[tuple[Array, Array]]:
        """D with (S + P) D = right, about, and (S + P) D."""

    def weighted_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        """Columns D_i with (S_i + P) D_i = score_i, S_i each component's weighted Gram, and S_i D_i."""


def evaluate(
    frame: Frame | ScaledFrame, B: Array, weights: Array, s2: Array, family: Family = NORMAL, gate: Array | None = None
) -> Steps[MixturePoint]:
    """Ask for the score at (B, weights, s2), and at a gate's state; None for that of these weights."""
    gating: GateFrame | None = frame.gate
    if gating is not None and gate is None:
        gate = gating.start(weights)
    query = None if gating is None or gate is None else gating.query(gate)
    sums = yield MixtureScore(frame.to_data(B), np.log(np.maximum(weights, 1e-300)), s2, family=family, gate=query)
    mass = sums[scale_sums(family)] / frame.weight
    return MixturePoint(
        frame=frame,
        B=B,
        weights=weights,
        s2=s2,
        m=frame.mean_of(sums["score"]),
        squares=sums["squares"] / frame.weight,
        mass=mass,
        curvature_weight=sums["curvature_weight"] / frame.weight if "curvature_weight" in sums else mass,
        units=sums["units"] / max(float(sums["units"].sum()), 1e-300),
        log_likelihood=float(sums["log_likelihood"]),
        floor=frame.floors(mean_levels(sums)),
        family=family,
        gate=None if gating is None or gate is None else GatePoint(gating, gate, sums),
    )


def constrain(
    task: Task,
    frame: Frame | ScaledFrame,
    weights: Array,
    squares: Array,
    mass: Array,
    unit: float = 1.0,
    before: Array | None = None,
    floor: Array | None = None,
) -> tuple[Array, Array]:
    """Weights and variances as the task wants them: equal or free, known, shared or apart, within bounds.

    ``unit`` is what y was divided by; ``before`` are variances that a step in their logarithm is taken from; ``floor``
    the least ones, where they are not the frame's.
    """
    shares = task.gate.step(weights)
    if task.sigma is not None:
        return shares, np.full(len(weights), (task.sigma / unit) ** 2)
    s2 = task.constraints.variances(squares, mass, LEAST_MASS, before)
    least = frame.floors(None) if floor is None else floor
    return shares, task.constraints.within(s2, least / unit**2, frame.ceiling / unit**2)


def scaled_move(task: Task, damping: float = 1.0) -> Move[MixturePoint]:
    """The refreshed-reference step D_i = S^-1 m_i / pi_i: no weighted Gram is needed."""

    def move(here: MixturePoint) -> Steps[MixturePoint]:
        D, bend = yield from algebra(task).scaled_step(task, here)
        squares = here.squares - 2.0 * damping * (D * here.m).sum(axis=0) + damping**2 * bend
        squares = np.maximum(squares, LEAST_LEFT * here.squares)
        return (yield from _move(task, here, here.B + damping * D, squares))

    return move


def em_move(task: Task, damping: float = 1.0, safe: bool = False) -> Move[MixturePoint]:
    """EM with the exact M-step, a weighted least squares per component, or a part of the way there.

    Where the family is not linear it is one step of reweighted least squares; weights that depend on columns make one
    step of Newton's, or a ``safe`` one.
    """

    def move(here: MixturePoint) -> Steps[MixturePoint]:
        D, bent = yield from algebra(task).weighted_step(task, here)
        if task.family.dispersed:
            return (yield from _move(task, here, here.B + damping * D, here.squares, safe))
        change = damping * (D * (damping * bent - 2.0 * here.m)).sum(axis=0)
        squares = np.maximum(here.squares + change, 0.0)
        return (yield from _move(task, here, here.B + damping * D, squares, safe))

    return move


def em_moves(task: Task) -> list[Move[MixturePoint]]:
    """EM's move, and shorter ones where it may go too far."""
    moves = [em_move(task, damping) for damping in (DAMPINGS if not task.family.linear else (1.0,))]
    return [*moves, em_move(task, safe=True)] if task.gate.columns or task.gate.own else moves


def _move(task: Task, here: MixturePoint, B: Array, squares: Array, safe: bool = False) -> Steps[MixturePoint]:
    if task.cautious:
        squares = squares + (B * here.frame.shrink(B, here.weights)).sum(axis=0)
    before = here.s2 if task.family.dispersed else None
    weights, s2 = constrain(task, here.frame, here.units, squares, here.mass, before=before, floor=here.floor)
    family = here.family.improve(float(here.mass.sum()))
    gate = None if here.gate is None else here.gate.step(safe)
    if task.cautious:
        return (yield from evaluate(here.frame, B, weights, s2, family, gate))
    return (yield from point_at(here, B, weights, s2, family, gate))


def point_at(
    here: MixturePoint, B: Array, weights: Array, s2: Array, family: Family, gate: Array | None = None
) -> Steps[MixturePoint]:
    """The point at (B, weights, s2), a family and a gate's state, reached from here."""
    there = yield from evaluate(here.frame, B, weights, s2, family, gate)
    return replace(there, shift=here.shift + change_of_reference(here.frame, B, (here.weights, here.s2), (weights, s2)))


def survey(task: Task) -> Steps[Any]:
    """The frame; where gross outliers are to be expected, y's moments are those of its usual range."""
    frame = yield from algebra(task).survey(task)
    frame = yield from usual_moments(task, frame)
    spread = task.family.start_spread(frame.y)
    return replace(frame, spread=spread, gate=(yield from gate_frame(task.gate)))


def usual_moments(task: Task, frame: Any) -> Steps[Any]:
    """A frame with the moments of y's usual range, where gross outliers are to be expected."""
    if not task.family.heavy_tails:
        return frame
    holding = OUTLYING if task.family.outlying else HEAVY
    low, high = yield from usual_range(frame.y, float(np.sqrt(max(frame.yy - frame.y**2, 1e-300))), holding)
    sums = yield Trimmed(algebra(task).moments(task), low, high)
    if float(sums["weight"]) <= 0:
        return frame
    found = frame.narrow(sums, (low, high))
    variance = max(found.yy - found.y**2, found.floor)
    return replace(found, ceiling=WIDEST * variance) if task.family.outlying else found


def place_family(task: Task, frame: Any) -> Steps[Task]:
    """The task with its family placed where y lies, for a family that must know."""
    if not task.family.outlying:
        return task
    low, high = yield from whole_range(*frame.usual)
    edge = EDGE * float(np.sqrt(frame.floor))  # there is a range even where y is constant
    return replace(task, family=task.family.place(low - edge, high + edge))


def begin(task: Task, frame: Any) -> Steps[list[MixturePoint]]:
    """The points to climb from, best first."""
    k, how = task.n_components, algebra(task)
    fit = yield from how.least_squares(frame)
    left = residual_variance(frame, fit)
    equal = np.full(k, 1.0 / k)
    if k == 1:
        places = [(fit[:, None], equal, np.full(k, left))]
    elif isinstance(task.start, Mixture):
        places = [(coefficients_inside(frame, task.start), task.start.weights, task.start.sigma**2)]
    elif not task.start_word:
        places = [(frame.inside(np.asarray(task.start).T), equal, np.full(k, left / 2))]
    elif task.start == "random":
        places = [(random_vectors(frame, task, k) * frame.scale, equal, np.full(k, left))]
    else:
        places = yield from how.spectral_places(frame, task, fit, usual_rows(frame))
    points = []
    for B, weights, s2 in places:
        weights, s2 = constrain(task, frame, weights, s2 * weights, weights)
        B = how.allow(task, frame, B, weights)
        points.append((yield from evaluate(frame, B, weights, s2, task.family)))
    return _best_first(points, left)


def coefficients_inside(frame: Any, mixture: Mixture) -> Array:
    """A mixture's coefficients (q, k) in a frame's coordinates."""
    return np.asarray(frame.inside(mixture.lines[:, : frame.basis.shape[0]].T))


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
    return _best_first(reached, residual_variance(reached[0].frame, reached[0].frame.least_squares))


def _best_first(points: list[MixturePoint], shared: float) -> list[MixturePoint]:
    values = np.array([point.penalised_likelihood(shared) for point in points])
    return [points[place] for place in rank_candidates(values)]


def algebra(task: Task) -> Algebra:
    """How the task's systems are solved."""
    return WIDE if task.wide else DENSE
