"""Refreshed WMLR and EM when each round is answered by other agents.

Likelihoods of different rows cannot be compared, so a proposal is judged against the point it left on the
same answers. Once steps gain less than they promise, who answered decides more than the step does: from
there on the proposals are averaged, by steps of 1/2, 1/3, ..., each of which is an estimate of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Generic, Protocol, cast

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Fit, Method, Report, Steps, Together, iteration_record, with_relay
from wmlr.methods import general, symmetric
from wmlr.methods.ascent import Here, Move
from wmlr.methods.general import MixturePoint
from wmlr.methods.ridge import residual_variance
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.methods.task import Solver, Task, offers
from wmlr.numerics.arrays import Sums
from wmlr.numerics.coordinates import Frame
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureLikelihood
from wmlr.statistics.symmetric_score import SymmetricLengths, SymmetricScore

ADDED_VARIANCE = 0.1  # of the estimate: what the agents that do not answer may cost, by which rounds are counted
FEWEST_AVERAGED = 2  # rounds, where nearly all answer
REFINING_MOVES = 5  # from each start, before the best goes on alone


def partial(solver: Solver, task: Task, share: float) -> Method[Fit]:
    """A solver's method for rounds in which only a ``share`` of the agents answers, others each time.

    Refreshed WMLR and EM average over as many rounds as make the draw of agents add a tenth to the
    variance of the estimate. Other methods run as they are, to their ``max_iter``: their steps are small
    enough to average by themselves. Many columns take their matrix here: products asked of changing rows do
    not fit together.
    """
    task = replace(task, wide=False, exact=False)
    if not offers(solver, "average"):
        return _with_residual_queries(solver.fit(task))
    newton = offers(solver, "newton")
    averaged = max(FEWEST_AVERAGED, ceil((1.0 - share) / share / ADDED_VARIANCE))
    return _with_residual_queries(
        _symmetric(task, newton, averaged) if task.symmetric else _general(task, newton, averaged)
    )


def _with_residual_queries(method: Method[Fit]) -> Method[Fit]:
    """The method, asking in residual form: what other rows answer is put together with the Gram it knows.

    A symmetric method knows the Gram S and E[y^2] from its first round and asks for h = sum t y x later; h - S beta is
    off by how the Grams of the rows that answer differ from S.
    """
    moments: Sums = {}

    def relay(query: Query) -> Steps[Sums]:
        sums = query.from_residual_form((yield query.residual_form()), moments)
        if isinstance(query, Moments):
            moments.update(sums)
        return sums

    return with_relay(method, relay)


class AveragedModel(Protocol[Here]):
    """What averaging must know of the model."""

    def likelihood(self, here: Here) -> Query:
        """The log-likelihood at a point, alone."""

    def correct(self, there: Here, sums: Sums) -> Here:
        """A point with everything it knows taken from its own round."""

    def expected_gain(self, here: Here, proposal: Any) -> float:
        """The gain in mean log-likelihood that a proposal's step predicts."""

    def between(self, here: Here, proposal: Any, gain: float) -> Steps[Here]:
        """Part of the way to a proposal."""


@dataclass(frozen=True)
class SymmetricModel:
    """beta and -beta."""

    task: Task

    def likelihood(self, here: SymmetricPoint) -> Query:
        return SymmetricLengths(here.frame.to_data(here.b), np.ones(1), np.array([here.s2]), here.mean)

    def correct(self, there: SymmetricPoint, sums: Sums) -> SymmetricPoint:
        """The variance left at b is the mean square of this round's residuals."""
        return replace(there, mean_square=float(sums["squares"]) / there.frame.weight)

    def expected_gain(self, here: SymmetricPoint, proposal: SymmetricScore) -> float:
        return 0.5 * float(here.m @ (here.frame.inside(proposal.beta) - here.b)) / here.s2

    def between(self, here: SymmetricPoint, proposal: SymmetricScore, gain: float) -> Steps[SymmetricPoint]:
        b = here.b + gain * (here.frame.inside(proposal.beta) - here.b)
        s2 = here.s2 + gain * (proposal.s2 - here.s2)
        steps = symmetric.evaluate(here.frame, b, s2, self.task, here.mean)
        sums = yield next(steps)
        return self.correct(_finish_steps(steps, sums), sums)


@dataclass(frozen=True)
class MixtureModel:
    """k components."""

    def likelihood(self, here: MixturePoint) -> Query:
        return MixtureLikelihood(here.frame.to_data(here.B), here.log_weights, here.s2, here.family, here.gate_query)

    def correct(self, there: MixturePoint, sums: Sums) -> MixturePoint:
        return there

    def expected_gain(self, here: MixturePoint, proposal: Any) -> float:
        slope = here.score / here.s2
        return 0.5 * float(np.sum(slope * (here.frame.inside(proposal.coef) - here.B)))

    def between(self, here: MixturePoint, proposal: Any, gain: float) -> Steps[MixturePoint]:
        B = here.B + gain * (here.frame.inside(proposal.coef) - here.B)
        weights = here.weights + gain * (np.exp(proposal.log_weights) - here.weights)
        s2 = here.s2 + gain * (proposal.s2 - here.s2)
        gate = None if here.gate is None else here.gate.between(proposal.gate.coef, gain)
        return (yield from general.evaluate(here.frame, B, weights, s2, here.family, gate))


@dataclass(frozen=True)
class StochasticClimb(Generic[Here]):
    """Where a run stands among changing answers: first it climbs, then it averages."""

    model: AveragedModel[Here]
    moves: Sequence[Move[Here]]
    weight: float
    max_iter: int
    averaged_rounds: int
    units: float

    def run(self, start: Here) -> Method[Fit]:
        here, iteration = start, 0
        yield self._report(iteration, here, 0.0)
        climbing = True
        while climbing and iteration < self.max_iter:
            there, climbing = yield from self._climb(here)
            if there is not here:
                iteration += 1
                yield self._report(iteration, there, float(np.linalg.norm(there.place - here.place)))
            here = there
        count = 1
        while count <= self.averaged_rounds and iteration < self.max_iter:
            count += 1
            _, proposal = yield from _propose(self.moves[0], here)
            there = yield from self.model.between(here, proposal, 1.0 / count)
            iteration += 1
            yield self._report(iteration, there, float(np.linalg.norm(there.place - here.place)))
            here = there
        return Fit(here.mixture(), here.log_likelihood, iteration, count > self.averaged_rounds, self.units)

    def _climb(self, here: Here) -> Steps[tuple[Here, bool]]:
        """The first move that gains, and whether it gained what it promised."""
        for move in self.moves:
            steps, proposal = yield from _propose(move, here)
            expected_gain = self.model.expected_gain(here, proposal)
            asked = Together((proposal, self.model.likelihood(here)))
            own, before = asked.split_sums((yield asked))
            there = self.model.correct(_finish_steps(steps, own), own)
            penalty = here.log_likelihood - here.objective
            gain = (there.objective + penalty - float(np.sum(before["log_likelihood"]))) / self.weight
            if gain > 0.0:
                return there, gain > 0.5 * expected_gain
            if gain > -expected_gain:
                return here, False
        return here, False

    def _report(self, iteration: int, here: Here, step: float) -> Report:
        record = iteration_record(
            iteration, here.objective / self.weight, here.log_likelihood, here.gradient_norm, step
        )
        return Report(record, here.mixture())


def _symmetric(task: Task, newton: bool, averaged: int) -> Method[Fit]:
    frame, direction = yield from symmetric.survey(task)
    b, s2 = yield from symmetric.start(task, frame, direction)
    model = SymmetricModel(task)
    steps = symmetric.evaluate(frame, b, s2, task)
    sums = yield next(steps)
    here = model.correct(_finish_steps(steps, sums), sums)
    moves = [symmetric.stein_move(task), symmetric.em_move(task)] if newton else [symmetric.em_move(task)]
    return (yield from StochasticClimb(model, moves, frame.weight, task.max_iter, averaged, frame.members).run(here))


def _general(task: Task, newton: bool, averaged: int) -> Method[Fit]:
    frame = yield from general.survey(task)
    task = yield from general.place_family(task, frame)
    points = yield from general.begin(task, frame)
    bold = general.scaled_move(task)
    alike = task.family.weights_alike
    here = (yield from _likeliest(frame, points, bold)) if alike else points[0]
    moves = [bold, general.scaled_move(task, 0.5)] if newton and alike else general.em_moves(task)
    return (
        yield from StochasticClimb(MixtureModel(), moves, frame.weight, task.max_iter, averaged, frame.members).run(
            here
        )
    )


def _likeliest(frame: Frame, points: list[MixturePoint], move: Move[MixturePoint]) -> Steps[MixturePoint]:
    """A few moves from every point side by side, so that all are judged by the same answers."""
    for _ in range(REFINING_MOVES if len(points) > 1 else 0):
        begun = [move(here) for here in points]
        asked = Together(tuple(next(steps) for steps in begun))
        parts = asked.split_sums((yield asked))
        points = [_finish_steps(steps, sums) for steps, sums in zip(begun, parts)]
    shared = residual_variance(frame, frame.least_squares)
    return max(points, key=lambda point: point.penalised_likelihood(shared))


def _propose(move: Move[Here], here: Here) -> Steps[tuple[Steps[Here], Query]]:
    """A move up to the question it asks at the point it proposes."""
    steps = move(here)
    proposal = next(steps)
    while proposal.grams:
        proposal = steps.send((yield proposal))
    return steps, proposal


def _finish_steps(steps: Generator[Query, Sums, Here], sums: Sums) -> Here:
    """The outcome of steps that wait for their last sums."""
    try:
        steps.send(sums)
    except StopIteration as stop:
        return cast(Here, stop.value)
    raise RuntimeError("a move asked for more than one round at its proposal")
