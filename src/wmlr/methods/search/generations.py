"""Generations of moves between maxima, until nothing comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.progress import announce_search
from wmlr.core.round import Steps, side_by_side
from wmlr.methods.search import annealing, climbing, insertion, moves
from wmlr.methods.search.effort import Effort
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, join
from wmlr.methods.search.stages import AGREE, SearchProblem, SearchSpending, SearchState, Stage, best_values
from wmlr.methods.starts import rank_candidates
from wmlr.numerics.arrays import Array, Integers

GAIN = 0.005  # nats: what a generation must bring to count
RIVALS = 2.0  # nats below the best: other maxima so near it say that a better one may be near as well
NEWS = 0.025  # of a maximum as high as the best: what a generation must bring of rivals to count
SEEDING_PERIOD = 4  # every so many generations seeds its new components, where others can try several in a loop
STAGGER = 5  # rounds between the beginnings of generations that are under way at a time
EXCHANGED = 0.5  # of the offspring by moves for rows at hand: by exchanges of rows
FIRST_STEPS = 4  # of EM before steps are extrapolated, which could leave a narrow maximum


def generations(
    problem: SearchProblem,
    effort: Effort,
    state: SearchState,
    generator: np.random.Generator,
    spent: SearchSpending,
    stages: Sequence[Stage],
) -> Steps[SearchState]:
    """Moves between maxima until they bring nothing: first on each island, then, if these disagree, among all.

    Islands that disagree are followed by more and larger ones, which begin anew with the first ``stages``, until the
    best value was reached often enough: what few of them reach may have a better one beside it that none has reached
    yet. Those that agree after so few steps that others cost next to nothing are followed by as many others: all may
    have missed the same, and each search goes on anew. What only all together reach counts as found by one search more.
    """
    kinds = _kinds(problem, effort)
    if effort.rounds is not None:
        strands = Strands(problem, effort, kinds, generator, state.known.best_of_each(effort.kept))
        yield from side_by_side([strands.run() for _ in range(effort.strands)], STAGGER, lambda: spent.is_over(effort))
        return SearchState(strands.known, best_values(strands.known), True, strands.generations)
    breeding = Breeding(problem, effort, kinds, generator, spent)
    known, islands, searches = yield from breeding.run_islands(state)
    for _ in range(effort.restarts):
        agreed = _is_enough(islands, effort)
        if (agreed and spent.steps >= effort.least_steps) or spent.is_over(effort):
            break
        if np.ptp(islands) > AGREE:
            breeding = replace(breeding, effort=effort.widened)
        fresh: SearchState | None = None
        for stage in stages:
            fresh = yield from stage(problem, breeding.effort, generator, fresh)
        assert fresh is not None
        others, reached, found = yield from breeding.run_islands(fresh)
        islands = np.concatenate([islands, reached])
        if agreed:
            searches[-len(found) :] = np.maximum(searches[-len(found) :], found)
        else:
            searches = np.concatenate([searches, found])
        known = join(known, others).as_one_search()
    if np.ptp(islands) > AGREE:
        breeding = replace(breeding, effort=breeding.effort.of_all_islands)
        known = known.as_one_search().distinct().best_of_each(breeding.effort.kept)
        known = yield from breeding.run(known)
        together = best_values(known)
        searches = np.concatenate([searches, together[together > searches.max() + AGREE]])
    return SearchState(known, searches, True, spent.generations)


def _is_enough(islands: Array, effort: Effort) -> bool:
    """Whether all islands, or enough of them, came to the best value by themselves."""
    hits = int(np.sum(islands >= islands.max() - AGREE))
    return hits >= min(effort.enough, len(islands))


@dataclass(frozen=True)
class Breeding:
    """Generations of populations side by side, each until several in succession have brought it nothing.

    Where all have come to the same best value, a new maximum near it counts as well: on a rugged top what all agree on
    often is not the highest.
    """

    problem: SearchProblem
    effort: Effort
    kinds: tuple[moves.MoveKind, ...]
    generator: np.random.Generator
    spent: SearchSpending

    def run(self, known: Population) -> Steps[Population]:
        """The maxima of every lineage, when all are done."""
        best, crowd = known.highest(), known.crowd(RIVALS)
        missed = np.zeros(len(best), dtype=np.int64)
        ended: list[Population] = []
        while len(known) and not self.spent.is_over(self.effort):
            known = yield from self._next(known)
            reached, before = np.maximum(known.highest(len(best)), best), crowd
            crowd = known.crowd(RIVALS, len(best))
            agreed = len(best) > 1 and float(np.ptp(reached)) <= AGREE
            news = (reached > best + GAIN) | (agreed & (np.abs(crowd - before) > NEWS))
            missed = np.where(news, 0, missed + 1)
            best = reached
            patience = self.effort.patience_agreed if agreed else self.effort.patience
            done = missed[known.lineage] >= patience
            ended.append(known.take(done))
            known = known.take(~done)
        return join(*ended, known)

    def run_islands(self, state: SearchState) -> Steps[tuple[Population, Array, Array]]:
        """The maxima of each lineage's islands, the best value of every island, and of every lineage."""
        effort = self.effort
        known = yield from self.run(state.known.best_of_each(effort.kept).deal_to_islands(effort.islands))
        islands = best_values(known)
        return known, islands, islands.reshape(-1, effort.islands).max(axis=1)

    def _next(self, known: Population) -> Steps[Population]:
        """The best maxima after one generation more."""
        effort, landscape, spent = self.effort, self.problem.landscape, self.spent
        spent.generations += 1
        by_trial = landscape.climbs_in_place and bool(spent.generations % SEEDING_PERIOD)
        each = effort.offspring // effort.islands
        children = yield from _children(self.problem, each, known, self.kinds, self.generator, by_trial)
        announce_search(f"generation {spent.generations}", len(children))
        children = yield from climbing.settle(landscape, children, known, FIRST_STEPS)
        return join(known, children).distinct().best_of_each(effort.kept)


@dataclass
class Strands:
    """Generations where rounds are what is costly: several are under way at a time, and share what they know.

    The best after a few steps go on; each that has gone some way is known to the others at once, so that nothing is
    lost when the rounds are over.
    """

    problem: SearchProblem
    effort: Effort
    kinds: tuple[moves.MoveKind, ...]
    generator: np.random.Generator
    known: Population
    generations: int = 0
    missed: int = 0

    def run(self) -> Steps[None]:
        """One generation after another, until several in succession have brought nothing."""
        landscape, effort = self.problem.landscape, self.effort
        while self.generations < effort.generations and self.missed < self._patience():
            self.generations += 1
            before = best_values(self.known)
            children = yield from _children(
                self.problem, effort.offspring, self.known, self.kinds, self.generator, False
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
            self.missed = 0 if bool(np.any(best_values(self.known) > before + GAIN)) else self.missed + 1

    def _patience(self) -> int:
        agreed = float(np.ptp(best_values(self.known))) <= AGREE
        return self.effort.patience_agreed if agreed else self.effort.patience

    def _learn(self, children: Population) -> None:
        self.known = join(self.known, children).distinct().best_of_each(self.effort.kept)


def _kinds(problem: SearchProblem, effort: Effort) -> tuple[moves.MoveKind, ...]:
    kinds = moves.choose_kinds(problem.draws, problem.wide, problem.levels, effort.rounds is not None)
    return (*kinds, moves.EXCHANGE) if problem.landscape.task.components_differ else kinds


def _children(
    problem: SearchProblem,
    each: int,
    known: Population,
    kinds: tuple[moves.MoveKind, ...],
    generator: np.random.Generator,
    by_trial: bool,
) -> Steps[Population]:
    """So many offspring of each lineage: a quarter crossed, a quarter of its best, the rest from the better of two."""
    use = yield from moves.component_use(problem.landscape, known)
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
    parts = [moves.cross(problem.landscape, known, first, second, generator)] if len(first) else []
    if by_trial:
        parts.append((yield from _offspring_in_place(problem.landscape, known, use, chosen, generator)))
    if not by_trial or not len(parts[-1]):
        parts.append((yield from moves.offspring(
            problem.landscape, known, use, chosen, kinds, generator, problem.units_per_row
        )))  # fmt: skip
    return join(*parts)


def _offspring_in_place(
    landscape: Landscape, known: Population, use: moves.Use, chosen: Integers, generator: np.random.Generator
) -> Steps[Population]:
    """Offspring by moves for rows that are all at hand.

    For half of them components are tried, for the rest rows exchanged: what neither finds alone both may find in turn.
    """
    exchanged = generator.random(len(chosen)) < EXCHANGED
    tried, shaken = chosen[~exchanged][:: insertion.KEPT_TRIALS], chosen[exchanged][:: insertion.KEPT_TRIALS]
    inserted = yield from insertion.insert(landscape, known, use, tried, generator)
    return join(inserted, (yield from annealing.anneal(landscape, known.take(shaken), generator)))
