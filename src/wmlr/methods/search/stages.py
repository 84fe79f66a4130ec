"""The first part of a search: candidates from every source, and their maxima."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wmlr.core.progress import announce_search
from wmlr.core.query import Query
from wmlr.core.round import Steps, with_relay
from wmlr.methods.search import climbing, sources
from wmlr.methods.search.effort import MANY_COLUMNS, Effort
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, join
from wmlr.numerics.arrays import Array, Integers, Sums

AGREE = 0.05  # nats: searches whose best values are nearer than this have found the same maximum
GROWN_CANDIDATES = 6  # first candidates of each lineage from a fit of one component fewer
CHAIN_ROWS = 10  # per coefficient of a mixture of many columns, by which components are found one at a time
CLEAR = 1.0  # nats a row: what ends so far below the best of its lineage is of no use to it


@dataclass
class SearchSpending:
    """What a search has asked so far: EM steps of single candidates, queries, generations; whether it is to end now."""

    steps: float = 0.0
    rounds: int = 0
    generations: int = 0
    interrupted: bool = False

    def is_over(self, effort: Effort) -> bool:
        """Whether a limit has been reached, or the search is to end."""
        if self.interrupted:
            return True
        enough = effort.steps is not None and self.steps >= effort.steps
        enough |= self.generations >= effort.generations
        return enough or (effort.rounds is not None and self.rounds >= effort.rounds)

    def count(self, method: Steps[Any]) -> Generator[Query, Sums, Any]:
        """The same questions, counted. Ctrl-C ends the search at its next stop, a second one at once."""
        return with_relay(method, self._ask)

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
class SearchState:
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
    def lineages_agree(self) -> bool:
        """Whether all lineages came to the same best value."""
        return float(np.ptp(self.reached)) <= AGREE

    @property
    def hit_share(self) -> float:
        """The least share, over the lineages, of first candidates that ended at their lineage's best."""
        shares = []
        for number in np.unique(self.known.lineage):
            own = self.known.take(self.known.lineage == number)
            shares.append(own.found[own.value.argmax()] / own.found.sum())
        return float(min(shares))

    @property
    def has_one_maximum(self) -> bool:
        """Whether every first candidate of every lineage ended at the same maximum."""
        return self.lineages_agree and bool(np.all(self.known.found >= self.candidates))

    @property
    def maxima(self) -> Population:
        """The distinct maxima of all lineages, best first."""
        return self.known.as_one_search().distinct()


@dataclass(frozen=True)
class SearchProblem:
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

    @property
    def for_chains(self) -> Landscape:
        """What is climbed, on as many rows as finding one component at a time takes; whole groups are left together."""
        landscape = self.landscape
        if not self.wide or self.units_per_row < 1.0:
            return landscape
        enough = CHAIN_ROWS * landscape.task.n_components * landscape.dimension
        return landscape.part(enough / (landscape.share * landscape.distinct))


Stage = Callable[[SearchProblem, Effort, np.random.Generator, SearchState | None], Steps[SearchState]]


def spectral_stage(
    problem: SearchProblem, effort: Effort, generator: np.random.Generator, before: SearchState | None = None
) -> Steps[SearchState]:
    """Short runs inside the spectral directions alone: where these are few, cheap, and often enough."""
    assert problem.directions is not None
    inner = problem.landscape.inside(problem.directions)
    lineage = np.tile(np.arange(effort.lineages), effort.spectral)
    announce_search("spectral starts", len(lineage))
    candidates = yield from climbing.halve(inner, sources.draws(inner, lineage, generator), effort.spectral_plan)
    candidates = candidates.distinct()
    known = replace(
        candidates, coef=candidates.coef @ problem.directions.T, origin=np.full(len(candidates), sources.SPECTRAL)
    )
    return SearchState(known, best_values(known), settled=False)


def first_stage(
    problem: SearchProblem, effort: Effort, generator: np.random.Generator, before: SearchState | None = None
) -> Steps[SearchState]:
    """Candidates from every source, and those of the stage ``before``, climbed in all directions to their maxima."""
    landscape = problem.landscape

    def lineages(each: int) -> Integers:
        return np.tile(np.arange(effort.lineages), each)

    drawn = effort.first if problem.wide else max(effort.first // 3, 1)
    parts = [sources.draws(landscape, lineages(drawn), generator)]
    if effort.first > drawn:
        rest = lineages(effort.first - drawn)
        if problem.draws:
            parts.append((yield from sources.elemental_fits(landscape, rest, generator, problem.units_per_row)))
        else:
            parts.append((yield from sources.weighted_fits(landscape, rest, generator)))
    if problem.levels:
        parts.append((yield from sources.level_draws(landscape, lineages(drawn), generator)))
    if landscape.task.components_differ:
        parts = [part.relabel(generator) for part in parts]
    if landscape.task.labelled and drawn:
        parts.append((yield from sources.labelled_fits(landscape, lineages(drawn), generator)))
    if problem.smaller is not None:
        count = max(GROWN_CANDIDATES, 2 * (landscape.task.n_components - 1))
        parts.append((yield from sources.grow(landscape, problem.smaller, lineages(count), generator, problem.draws)))
    if before is not None:
        parts.append(replace(before.known, value=np.full(len(before.known), -np.inf)))
    if effort.chains and (problem.wide or before is not None):
        parts.append((yield from sources.sequential_fits(problem.for_chains, lineages(effort.chains), generator)))
    first = join(*map(landscape.with_gate, parts))
    announce_search("first starts", len(first))
    candidates = yield from climbing.halve(landscape, first, effort.first_plan)
    candidates = candidates.distinct().best_of_each(effort.size)
    known = (yield from _first_maxima(problem, effort, candidates)).distinct()
    return SearchState(known, best_values(known), candidates=int(np.bincount(first.lineage).max()))


def _first_maxima(problem: SearchProblem, effort: Effort, candidates: Population) -> Steps[Population]:
    """First candidates at their maxima; of many columns, where steps are costly, without those far below the best."""
    landscape = problem.landscape
    if not problem.wide or effort.rounds is not None:
        return (yield from climbing.converge(landscape, candidates, effort.rounds))
    candidates = candidates.best_of_each(len(candidates))
    leading = np.unique(candidates.lineage, return_index=True)[1]
    best = yield from climbing.converge(landscape, candidates.take(leading))
    others = candidates.take(np.delete(np.arange(len(candidates)), leading))
    below = replace(best, value=best.value - CLEAR * landscape.rows_looked_at)
    return join(best, (yield from climbing.settle(landscape, others, below)))


def best_values(known: Population) -> Array:
    """Each lineage's best value."""
    return np.array([known.value[known.lineage == number].max() for number in np.unique(known.lineage)])
