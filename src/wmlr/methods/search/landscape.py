"""What the search climbs: the likelihood, kept from its spikes, and the EM step of many candidates at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import Query
from wmlr.core.repeats import Merged
from wmlr.core.round import Sampled, Steps
from wmlr.methods.gating import LogitFrame
from wmlr.methods.ridge import residual_variance
from wmlr.methods.search.population import Population
from wmlr.methods.starts import Within
from wmlr.methods.task import Task
from wmlr.model.gates import LEAST_WEIGHT
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.coordinates import Frame
from wmlr.statistics.candidates import CandidateScores, unfold
from wmlr.statistics.climbs import BROKEN, SETTLED, UNTRIED, CandidateClimbs, ClimbLaw, ClimbPlan
from wmlr.statistics.exchanges import Exchanges
from wmlr.statistics.insertions import Insertions, Trials
from wmlr.statistics.score import mean_levels, scale_sums
from wmlr.statistics.start_scale import on_start_scale

LEAST_MASS = 1e-9
RIDGE = 1e-9  # of a component's mass, towards where it stands: an M-step is defined for any rows
LINES = 128  # through few rows, of which a trial takes the one that most rows crowd around
ROUNDING = 1e-12  # of the largest entry: a smaller hold would be lost in it

FEWEST_ROWS = 500  # that a part of the sample may leave
LOOP_COLUMNS = 24  # beyond which the products of a matrix library are faster than a loop's
LONGEST_LEAP = 64.0  # an extrapolation goes at most this many EM steps ahead
WIDEST = 1e3  # times the common variance: an extrapolation goes no further


def guard_weight(task: Task) -> float:
    """The hold on the variances, in observations: needed where each component has a deviation of its own.

    Probabilities of counts are at most 1, however small their scale.
    """
    apart = task.sigma is None and not task.shared_sigma and task.n_components > 1 and not task.family.discrete
    return 1.0 if apart and task.guard else 0.0


@dataclass(frozen=True)
class Landscape:
    """The guarded likelihood of a task on (a share of) the rows, in a frame's coordinates.

    Attributes
    ----------
    transform : (p, q), from the data's features to the coordinates searched.
    ridge, shared_ridge : (q, q), the penalty on squared coefficients, per unit of weight, and the part of it that is on
        columns common to all components, each of which counts it by its weight.
    ties, held : (k q, f), (k, q): the coefficients that the task's constraints allow are ``held`` plus what ``ties``
        spans; None when all are free.
    common : the variance that the single regression leaves: components' variances are held towards it.
    guard : the weight of that hold, in observations.
    floors : the least variances, given where the y of each component lie; None where that does not matter.
    ceiling : the largest variance.
    spread : the variance, on the scale of the starts, of a response whose sigma is 1.
    rows, weight, distinct : how many rows there are, what they weigh, and how many differ from each other.
    share, within : which rows are looked at.
    constant : (q,), the function that is 1 on every row, where there is an intercept.
    gate : how weights move that differ from row to row; None where all rows have the same.
    by_rounds : whether each EM step is to be a query of its own, also where all rows are in one place.

    With a ridge every step is a penalised one. The variances in its penalty are the candidate's own, and penalties of
    different maxima not measured alike; candidates are ranked with one variance for all, the common or the known one.
    """

    task: Task
    transform: Array
    ridge: Array
    shared_ridge: Array
    ties: Array | None
    centre: Array
    common: float
    guard: float
    floors: Callable[[Array | None], Array]
    rows: float
    weight: float
    distinct: float
    share: float = 1.0
    within: Within = lambda query: query
    constant: Array | None = None
    ceiling: float = np.inf
    spread: float = 1.0
    held: Array | None = None
    gate: LogitFrame | None = None
    by_rounds: bool = False

    @classmethod
    def of(cls, frame: Frame, task: Task, share: float, within: Within, distinct: float = np.inf) -> Landscape:
        """The landscape in all directions of a white frame."""
        centre = frame.least_squares
        common = residual_variance(frame, centre)
        asked, k = task.constraints, task.n_components
        return cls(
            task=task,
            transform=np.ascontiguousarray(frame.basis),
            ridge=frame.ridge,
            shared_ridge=frame.common,
            ties=asked.white_embedding(frame.basis, k) if asked.restricted else None,
            held=asked.white_held(frame.basis, k) if asked.restricted else None,
            centre=centre,
            common=common,
            guard=guard_weight(task),
            floors=frame.floors,
            rows=frame.rows,
            weight=frame.weight,
            distinct=min(distinct, frame.rows),
            share=share,
            within=within,
            ceiling=frame.ceiling,
            spread=frame.spread,
            gate=frame.gate if frame.gate is not None and frame.gate.is_searched else None,
            constant=frame.inside(np.eye(len(frame.basis))[-1]) if frame.intercept else None,
        )

    @property
    def reference(self) -> float:
        """The variance in the ridge's penalty by which candidates are ranked."""
        return self.common if self.task.sigma is None else self.task.sigma**2

    @property
    def floor(self) -> float:
        """The least variance, wherever y lies."""
        return float(self.floors(None))

    @property
    def deviation(self) -> float:
        """What the single regression leaves, as a deviation on the scale of the starts."""
        return float(np.sqrt(self.common * self.spread))

    @property
    def separate(self) -> bool:
        """Whether each component has a deviation of its own to be found."""
        return self.task.sigma is None and not self.task.shared_sigma

    @property
    def rows_looked_at(self) -> float:
        """How many rows answer."""
        return max(self.share * self.rows, 1.0)

    @property
    def dimension(self) -> int:
        return int(self.transform.shape[1])

    def inside(self, Q: Array) -> Landscape:
        """The same, looked at in the directions Q (q, r) alone."""
        return replace(
            self,
            transform=self.transform @ Q,
            ridge=Q.T @ self.ridge @ Q,
            shared_ridge=Q.T @ self.shared_ridge @ Q,
            ties=None,
            held=None,
            centre=Q.T @ self.centre,
            constant=None,
        )

    def part(self, part: float) -> Landscape:
        """The same, on a part of the rows, where that leaves enough of them."""
        if part >= 1.0 or part * self.share * self.distinct < FEWEST_ROWS:
            return self
        return replace(self, share=part * self.share)

    def on_start_scale(self, query: Query) -> Query:
        """A query about starts, asked of the rows that are looked at."""
        return self._on_sample(on_start_scale(self.task.family, query))

    def _on_sample(self, query: Query) -> Query:
        """A query, asked of the rows that are looked at."""
        sampled = Sampled(self.within(query), self.share, self.task.seed)
        return Merged(sampled, self.distinct / self.rows) if self.distinct < self.rows else sampled

    def query(self, candidates: Population) -> Query:
        """What one EM step of all candidates asks for."""
        gate = None if self.gate is None else self.gate.query(candidates.gate)
        places = candidates.coef, candidates.weights, candidates.s2
        return self._on_sample(CandidateScores(self.transform, *places, self.task.family, gate))

    def with_gate(self, candidates: Population) -> Population:
        """Candidates with a gate's state: those that have none begin with their weights, for all units alike."""
        if self.gate is None or candidates.gate.shape[1]:
            return candidates
        return replace(candidates, gate=self.gate.start(candidates.weights))

    def clip_gate(self, gate: Array) -> Array:
        """States of a gate within their bounds."""
        return gate if self.gate is None else self.gate.clip(gate)

    def step(self, candidates: Population) -> Steps[Population]:
        """Every candidate one EM step further; ``value`` is that of the place it left."""
        sums = yield self.query(candidates)
        return self.m_step(candidates, sums)

    @property
    def climbs_in_place(self) -> bool:
        """Whether candidates may be asked to climb by themselves: few columns of normal regressions, at hand."""
        bound = self.ties is not None or self.gate is not None or bool(self.ridge.any())
        plain = self.task.family.least_squares and not bound and self.dimension <= LOOP_COLUMNS
        return self.task.in_one_place and plain and not self.by_rounds

    def climb(
        self, candidates: Population, plan: ClimbPlan, known: Population | None = None
    ) -> Steps[tuple[Population, Population]]:
        """Those that climbed as the plan says and were not left on their way, and those that must climb by rounds.

        Without ``known`` maxima nothing is left on its way.
        """
        if not (self.climbs_in_place and len(candidates)):
            return candidates.take(np.zeros(0, dtype=np.int64)), candidates
        k, q = candidates.coef.shape[1:]
        lowest = np.full(int(candidates.lineage.max()) + 1, -np.inf)
        if known is not None:
            lowest[: len(known.lowest())] = known.lowest()[: len(lowest)]
        none = np.zeros((0, k, q)), np.zeros((0, k)), np.zeros(0, dtype=np.int64)
        maxima = none if known is None else (known.coef, known.s2, known.lineage)
        places = candidates.coef, self._weights(candidates), candidates.s2, candidates.value
        query = CandidateClimbs(
            self.transform, *places, self._climb_law(), plan, candidates.lineage, lowest, *maxima, self.task.exchange
        )
        sums = yield self._on_sample(query)
        ended = replace(
            candidates, coef=sums["coef"], weights=sums["weights"], s2=sums["s2"], value=sums["values"]
        ).take(sums["ends"] == SETTLED)
        return ended, candidates.take((sums["ends"] == UNTRIED) | (sums["ends"] == BROKEN))

    def insert(self, mixtures: Population, dropped: Integers, trials: Trials, steps: int) -> Steps[Sums]:
        """Other components in the place of dropped ones, where :attr:`climbs_in_place`."""
        places = mixtures.coef, self._weights(mixtures), mixtures.s2, dropped
        query = Insertions(
            self.transform, *places, trials, self._climb_law(), steps,
            columns=self.column_directions, constant=self.constant is not None, lines=LINES,
        )  # fmt: skip
        return (yield self._on_sample(query))

    def exchange(self, mixtures: Population, salts: NDArray[np.uint64], temperatures: Array) -> Steps[Sums]:
        """Mixtures after annealed exchanges of single rows, where :attr:`climbs_in_place`."""
        places = mixtures.coef, self._weights(mixtures), mixtures.s2
        return (yield self._on_sample(Exchanges(self.transform, *places, salts, temperatures, self._climb_law())))

    @property
    def column_directions(self) -> Array:
        """(p, q): where coefficients go when that of one column of the data changes; the constant's is last."""
        return np.asarray(np.linalg.pinv(self.transform).T)

    @property
    def estimates_weights(self) -> bool:
        """Whether an EM step moves the weights."""
        return self.task.gate.is_estimated(self.task.n_components)

    def _weights(self, candidates: Population) -> Array:
        """Those of candidates, or where they are not estimated the gate's."""
        return candidates.weights if self.estimates_weights else self.task.gate.step(candidates.weights)

    def _climb_law(self) -> ClimbLaw:
        task = self.task
        return ClimbLaw(
            shared=float(task.shared_sigma),
            known=float(task.sigma is not None),
            fixed=float(not self.estimates_weights),
            hold=self.guard / self.rows_looked_at**2,
            common=self.common,
            floor=self.floor,
            ceiling=self.ceiling,
            ridge=RIDGE,
            rounding=ROUNDING,
            least_mass=LEAST_MASS,
            least_weight=LEAST_WEIGHT,
            constant=task.family.log_constant,
            longest=LONGEST_LEAP,
            largest=float(np.log(WIDEST * self.common)) if self.common > 0 else -np.inf,
        )

    def m_step(self, candidates: Population, sums: Sums) -> Population:
        """The M-step from a query's sums."""
        total = sums["mass"].sum(axis=1)
        family = self.task.family
        counted = sums[scale_sums(family)]
        hold = self._hold(total)
        grams = unfold(sums["grams"], self.dimension)
        coef = self._coefficients(grams, sums, candidates, total)
        squares = sums["squares"]
        if not family.dispersed:
            bent = np.matmul(grams, coef[..., None])[..., 0]
            squares = np.maximum(squares + ((bent - 2.0 * sums["moments"]) * coef).sum(axis=2), 0.0)
        return Population(
            coef,
            self.task.gate.step(sums["units"] / np.maximum(sums["units"].sum(axis=1, keepdims=True), 1e-300)),
            self._variances(
                squares, counted, hold, candidates.s2 if family.dispersed else None, self.floors(mean_levels(sums))
            ),
            self._value(sums, candidates, total, hold),
            candidates.lineage,
            candidates.origin,
            candidates.found,
            self._gates(candidates, sums),
        )

    def _gates(self, candidates: Population, sums: Sums) -> Array:
        return candidates.gate if self.gate is None else self.gate.step(candidates.gate, sums)

    def _hold(self, total: Array) -> Array:
        """The guard's weight in units of the likelihood: one observation's, spread over all of them."""
        rows = max(self.share * self.rows, 1.0)
        return np.asarray(self.guard * total / rows**2)

    def _value(self, sums: Sums, candidates: Population, total: Array, hold: Array) -> Array:
        value = sums["log_likelihood"] + self.task.family.log_constant * total
        if self.guard:
            ratio = self.common / candidates.s2
            value = value - hold * (ratio - np.log(ratio)).sum(axis=1)
        if self.ridge.any():
            value = value - total * self._penalty(candidates, candidates, np.full_like(candidates.s2, self.reference))
        return np.asarray(value)

    def em_objective(self, value: Array, candidates: Population, start: Population) -> Array:
        """What an EM step from ``start`` raises, at candidates of this value: its penalty has the start's variances."""
        if not self.ridge.any():
            return value
        common = self._penalty(candidates, candidates, np.full_like(candidates.s2, self.reference))
        return np.asarray(value + self.share * self.weight * (common - self._penalty(candidates, start, start.s2)))

    def _penalty(self, candidates: Population, weighed: Population, s2: Array) -> Array:
        """The ridge's, per unit of weight, with these variances."""
        pulled = np.einsum("skq,skqp,skp->sk", candidates.coef, self._ridges(weighed), candidates.coef)
        return np.asarray(0.5 * (pulled / s2).sum(axis=1))

    def guard_penalty(self, s2: Array) -> Array:
        """What the guard takes off the value of all rows, for variances (s, k)."""
        ratio = self.common / s2
        return np.asarray(self.guard / max(self.rows, 1.0) * (ratio - np.log(ratio)).sum(axis=1))

    def plain_value(self, candidates: Population) -> Array:
        """Values without what the guard takes off."""
        return np.asarray(candidates.value + self.guard_penalty(candidates.s2) / self.share)

    def _coefficients(self, grams: Array, sums: Sums, candidates: Population, total: Array) -> Array:
        _, k, q = candidates.coef.shape
        if self.ridge.any():
            grams = grams + total[:, None, None, None] * self._ridges(candidates)
        largest = np.diagonal(grams, axis1=2, axis2=3).max(axis=2)
        if self.ties is not None:  # one system of all components, in which an empty one must not be lost
            largest = np.broadcast_to(largest.max(axis=1, keepdims=True), largest.shape)
        weight = sums.get("curvature_weight", sums["mass"])
        hold = np.maximum(RIDGE * np.maximum(weight, LEAST_MASS / self.spread), ROUNDING * largest)[..., None]
        grams = grams + hold[..., None] * np.eye(q)
        right = sums["moments"] + hold * candidates.coef
        if self.ties is None or self.held is None:
            return solve_each(grams, right)
        right = right - np.einsum("skqp,kp->skq", grams, self.held)
        blocks = self.ties.reshape(k, q, -1)
        weighted = np.einsum("skqp,kpf,sk->skqf", grams, blocks, 1.0 / candidates.s2)
        matrix = np.einsum("kqe,skqf->sef", blocks, weighted)
        vector = np.einsum("kqe,skq,sk->se", blocks, right, 1.0 / candidates.s2)
        return np.asarray(self.held + np.einsum("kqf,sf->skq", blocks, solve_each(matrix, vector)))

    def allowed_variance(self, s2: Array, floors: Array | None = None) -> Array:
        """Variances as the task has them: known ones where they are known, none beyond their bounds."""
        if self.task.sigma is not None:
            return np.full(s2.shape, self.task.sigma**2)
        return self.task.constraints.within(s2, self.floor if floors is None else floors, self.ceiling)

    def _ridges(self, candidates: Population) -> Array:
        """(s, k, q, q): the penalty of each component."""
        return np.asarray(self.ridge - (1.0 - candidates.weights)[..., None, None] * self.shared_ridge)

    def _variances(self, squares: Array, mass: Array, hold: Array, before: Array | None, floors: Array) -> Array:
        held, weight = squares + 2.0 * hold[:, None] * self.common, mass + 2.0 * hold[:, None]
        return self.allowed_variance(self.task.constraints.variances(held, weight, LEAST_MASS, before), floors)


def solve_each(matrices: Array, vectors: Array) -> Array:
    """The solutions of many symmetric systems (..., q, q), (..., q); the shortest where one has none of its own."""
    try:
        return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0])
    except np.linalg.LinAlgError:
        return np.asarray(np.matmul(np.linalg.pinv(matrices, hermitian=True), vectors[..., None])[..., 0])
