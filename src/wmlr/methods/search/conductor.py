"""The search: first candidates, their maxima, and generations of moves between maxima until nothing comes of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wmlr.core.progress import announce_search
from wmlr.core.query import Query
from wmlr.core.round import Steps, relayed, side_by_side
from wmlr.methods.search import climbing, insertion, moves, sources
from wmlr.methods.search.effort import MANY_COLUMNS, Effort
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, join
from wmlr.methods.starts import rank_candidates
from wmlr.numerics.arrays import Array, Integers, Sums

AGREE = 0.05  # nats: searches whose best values are nearer than this have found the same maximum
GROWN = 6  # first candidates of each lineage from a fit of one component fewer
GAIN = 0.005  # nats: what a generation must bring to count
SEEDED = 4  # every so many generations seeds its new components, where others can try several in a loop
STAGGER = 5  # rounds between the beginnings of generations that are under way at a time
CLEAR = 1.0  # nats a row: what ends so far below the best of its lineage is of no use to it
FIRST_STEPS = 4  # of EM before steps are extrapolated, which could leave a narrow maximum


@dataclass
class SearchSpending:
    """What a search has asked so far: EM steps of single candidates, and queries; whether it is to end now."""

    steps: float = 0.0
    rounds: int = 0
    interrupted: bool = False

    def over(self, effort: Effort) -> bool:
        """Whether a limit has been reached, or the search is to end."""
        if self.interrupted:
            return True
        enough = effort.steps is not None and self.steps >= effort.steps
        return enough or (effort.rounds is not None and self.rounds >= effort.rounds)

    def count(self, method: Steps[Any]) -> Generator[Query, Sums, Any]:
        """The same questions, counted. Ctrl-C ends the search at its next stop, a second one at once."""
        return relayed(method, self._ask)

    def _ask(self, query: Query) -> Generator[Query, Sums, Sums]:
        self.rounds += 1
        try:
            answer = yield query
        except KeyboardInterrupt:
            if self.interrupted:
                raise
            self.interrupted = True
            answer = yield query
        self.steps += query.em_steps(answer)
        return answer


@dataclass(frozen=True)
class State:
    """Where a search stands.

    Attributes
    ----------
    known : the maxima of each lineage.
    reached : each lineage's best value, before any helped another.
    settled : whether the maxima are maxima in all directions.
    generations : how many there were.
    candidates : how many first candidates each lineage had.
    """

    known: Population
    reached: Array
    settled: bool = True
    generations: int = 0
    candidates: int = 0

    @property
    def agreed(self) -> bool:
        """Whether all lineages came to the same best value."""
        return float(np.ptp(self.reached)) <= AGREE

    @property
    def hits(self) -> float:
        """The least share, over the lineages, of first candidates that ended at their lineage's best."""
        shares = []
        for number in np.unique(self.known.lineage):
            own = self.known.take(self.known.lineage == number)
            shares.append(own.found[own.value.argmax()] / own.found.sum())
        return float(min(shares))

    @property
    def alone(self) -> bool:
        """Whether every first candidate of every lineage ended at the same maximum."""
        return self.agreed and bool(np.all(self.known.found >= self.candidates))

    @property
    def maxima(self) -> Population:
        """The distinct maxima of all lineages, best first."""
        return self.known.as_one_search().distinct()


@dataclass(frozen=True)
class SearchGround:
    """What a search needs to know of the data.

    Attributes
    ----------
    landscape : what is climbed.
    directions : (q, r), where the residuals' moments show components; None where these are all directions.
    units_per_row : groups per row, or 1.
    draws : whether single rows may be looked at.
    smaller : a fit of one component fewer, where there is one.
    levels : whether values of the response may be components of their own.
    """

    landscape: Landscape
    directions: Array | None
    units_per_row: float
    draws: bool
    smaller: Population | None = None
    levels: bool = False

    @property
    def wide(self) -> bool:
        """Whether there are many columns, of which a few rows say nothing."""
        return self.landscape.dimension > MANY_COLUMNS


Stage = Callable[[SearchGround, Effort, np.random.Generator, State | None], Steps[State]]


def spectral_stage(
    ground: SearchGround, effort: Effort, generator: np.random.Generator, before: State | None = None
) -> Steps[State]:
    """Short runs inside the spectral directions alone: where these are few, cheap, and often enough."""
    assert ground.directions is not None
    inner = ground.landscape.inside(ground.directions)
    lineage = np.tile(np.arange(effort.lineages), effort.spectral)
    announce_search("spectral starts", len(lineage))
    candidates = yield from climbing.halve(inner, sources.draws(inner, lineage, generator), effort.spectral_plan)
    candidates = candidates.distinct()
    known = replace(
        candidates, coef=candidates.coef @ ground.directions.T, origin=np.full(len(candidates), sources.SPECTRAL)
    )
    return State(known, _best(known), settled=False)


def first_stage(
    ground: SearchGround, effort: Effort, generator: np.random.Generator, before: State | None = None
) -> Steps[State]:
    """Candidates from every source, and those of the stage ``before``, climbed in all directions to their maxima."""
    landscape = ground.landscape

    def lineages(each: int) -> Integers:
        return np.tile(np.arange(effort.lineages), each)

    drawn = effort.first if ground.wide else max(effort.first // 3, 1)
    parts = [sources.draws(landscape, lineages(drawn), generator)]
    if effort.first > drawn:
        rest = lineages(effort.first - drawn)
        if ground.draws:
            parts.append((yield from sources.elemental(landscape, rest, generator, ground.units_per_row)))
        else:
            parts.append((yield from sources.weighted_fits(landscape, rest, generator)))
    if ground.levels:
        parts.append((yield from sources.level(landscape, lineages(drawn), generator)))
    if landscape.task.components_differ:
        parts = [part.relabelled(generator) for part in parts]
    if landscape.task.labelled:
        parts.append((yield from sources.labelled(landscape, lineages(drawn), generator)))
    if ground.smaller is not None:
        count = max(GROWN, 2 * (landscape.task.n_components - 1))
        parts.append((yield from sources.grow(landscape, ground.smaller, lineages(count), generator, ground.draws)))
    if before is not None:
        parts.append(replace(before.known, value=np.full(len(before.known), -np.inf)))
    if effort.chains and (ground.wide or before is not None):
        parts.append((yield from sources.sequential(landscape, lineages(effort.chains), generator)))
    first = join(*map(landscape.gated, parts))
    announce_search("first starts", len(first))
    candidates = yield from climbing.halve(landscape, first, effort.first_plan)
    candidates = candidates.distinct().best_of_each(effort.size)
    known = (yield from _first_maxima(ground, effort, candidates)).distinct()
    return State(known, _best(known), candidates=int(np.bincount(first.lineage).max()))


def _first_maxima(ground: SearchGround, effort: Effort, candidates: Population) -> Steps[Population]:
    """First candidates at their maxima; of many columns, where steps are dear, without those clearly below the best."""
    landscape = ground.landscape
    if not ground.wide or effort.rounds is not None:
        return (yield from climbing.converge(landscape, candidates, effort.rounds))
    candidates = candidates.best_of_each(len(candidates))
    leading = np.unique(candidates.lineage, return_index=True)[1]
    best = yield from climbing.converge(landscape, candidates.take(leading))
    others = candidates.take(np.delete(np.arange(len(candidates)), leading))
    below = replace(best, value=best.value - CLEAR * landscape.rows_looked_at)
    return join(best, (yield from climbing.settle(landscape, others, below)))


def generations(
    ground: SearchGround, effort: Effort, state: State, generator: np.random.Generator, spent: SearchSpending
) -> Steps[State]:
    """Moves between maxima until they bring nothing: first on each island, then, if these disagree, among all."""
    landscape = ground.landscape
    kinds = _kinds(ground, effort)
    if effort.rounds is not None:
        strands = Strands(ground, effort, kinds, generator, state.known.best_of_each(effort.size))
        yield from side_by_side([strands.run() for _ in range(effort.strands)], STAGGER, lambda: spent.over(effort))
        return State(strands.known, _best(strands.known), True, strands.generations)
    known, count, missed, apart = state.known.best_of_each(effort.size).dealt(effort.islands), 0, 0, True
    each = effort.offspring // effort.islands
    reached = _best(known)
    while count < effort.generations and not spent.over(effort):
        agreed = len(reached) > 1 and float(np.ptp(reached)) <= AGREE
        patience = effort.patience_agreed if agreed else effort.patience
        if missed >= patience:
            if agreed or not apart:
                break
            known, missed, apart = known.as_one_search().distinct(), 0, False
        before = _best(known)
        by_trial = landscape.climbs_in_place and bool((count + 1) % SEEDED)
        children = yield from _children(ground, each, known, kinds, generator, by_trial)
        announce_search(f"generation {count + 1}", len(children))
        count += 1
        children = yield from climbing.settle(landscape, children, known, FIRST_STEPS)
        known = join(known, children).distinct().best_of_each(effort.size)
        missed = 0 if bool(np.any(_best(known) > before + GAIN)) else missed + 1
        reached = _best(known) if apart else reached
    return State(known, reached.reshape(-1, effort.islands).max(axis=1), True, count)


@dataclass
class Strands:
    """Generations where rounds are what is dear: several are under way at a time, and share what they know.

    The best after a few steps go on; each that has gone some way is known to the others at once, so that nothing is
    lost when the rounds are over.
    """

    ground: SearchGround
    effort: Effort
    kinds: tuple[moves.MoveKind, ...]
    generator: np.random.Generator
    known: Population
    generations: int = 0
    missed: int = 0

    def run(self) -> Steps[None]:
        """One generation after another, until several in succession have brought nothing."""
        landscape, effort = self.ground.landscape, self.effort
        while self.generations < effort.generations and self.missed < self._patience():
            self.generations += 1
            before = _best(self.known)
            children = yield from _children(
                self.ground, effort.offspring, self.known, self.kinds, self.generator, False
            )
            announce_search(f"generation {self.generations}", len(children))
            children = yield from climbing.halve(landscape, children, effort.plan, self.known)
            children = (
                children.take(~children.near(self.known, landscape.task.exchange, landscape.spread))
                .distinct()
                .best_of_each(effort.last)
            )
            self._learn(children)
            self._learn((yield from climbing.converge(landscape, children, effort.rounds)))
            self.missed = 0 if bool(np.any(_best(self.known) > before + GAIN)) else self.missed + 1

    def _patience(self) -> int:
        agreed = float(np.ptp(_best(self.known))) <= AGREE
        return self.effort.patience_agreed if agreed else self.effort.patience

    def _learn(self, children: Population) -> None:
        self.known = join(self.known, children).distinct().best_of_each(self.effort.size)


def _kinds(ground: SearchGround, effort: Effort) -> tuple[moves.MoveKind, ...]:
    kinds = moves.chosen_kinds(ground.draws, ground.wide, ground.levels, effort.rounds is not None)
    return (*kinds, moves.EXCHANGE) if ground.landscape.task.components_differ else kinds


def _children(
    ground: SearchGround,
    each: int,
    known: Population,
    kinds: tuple[moves.MoveKind, ...],
    generator: np.random.Generator,
    by_trial: bool,
) -> Steps[Population]:
    """So many offspring of each lineage: a quarter crossed, a quarter of its best, the rest from the better of two."""
    use = yield from moves.component_use(ground.landscape, known)
    single: list[Integers] = []
    pairs: list[Integers] = []
    for number in np.unique(known.lineage):
        own = np.flatnonzero(known.lineage == number)
        own = own[rank_candidates(known.value[own])]
        place = generator.integers(len(own), size=(each, 2)).min(axis=1)
        turn = np.arange(each) % 4
        place[turn == 1] = 0
        crossed = (turn == 0) & (len(own) > 1)
        partner = (place + 1 + generator.integers(max(len(own) - 1, 1), size=each)) % len(own)
        single.append(own[place[~crossed]])
        pairs.append(own[np.stack([place, partner])[:, crossed]])
    chosen, (first, second) = np.concatenate(single), np.concatenate(pairs, axis=1)
    parts = [moves.crossed(ground.landscape, known, first, second, generator)] if len(first) else []
    if by_trial:
        parts.append((yield from insertion.insert(ground.landscape, known, use, chosen[:: insertion.KEPT], generator)))
    if not by_trial or not len(parts[-1]):
        parts.append((yield from moves.offspring(
            ground.landscape, known, use, chosen, kinds, generator, ground.units_per_row
        )))  # fmt: skip
    return join(*parts)


def _best(known: Population) -> Array:
    """Each lineage's best value."""
    return np.array([known.value[known.lineage == number].max() for number in np.unique(known.lineage)])
