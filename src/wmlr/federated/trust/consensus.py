"""The fit that the majority of the agents stands behind.

A fit of all agents is put to all of them: each says what it adds to the equations there (one or two rounds). Where no
agent's rows contradict the others' (:mod:`~wmlr.federated.trust.homogeneity`), and no component is the work of a few,
that fit is the result. Otherwise fits of other sets of agents are tried: without those few, and small random sets as in
RANSAC (Fischler and Bolles, 1981), some of which have no liar. The agents vote: the fit under which the median agent's
rows are likeliest wins, and of those as good as the best the one that most agents' rows agree with. Those agents are
fitted together from the beginning, so that the result is exactly their fit; whoever's rows contradict it is named and
left out.

Nothing here trusts what a minority says: an agent that praises every fit has one vote, one that claims to know more
than its rows can is tested by what that would do to the others' fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, log
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from wmlr.federated.trust.contributions import Agent, Contributions, ask_contributions
from wmlr.federated.trust.homogeneity import Homogeneity
from wmlr.io.users_line import warn_user
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.solving import least_squares

SPREAD = 2.0
HELD_SHARE = 0.8
MOST_DRAWS = 32
MISS_PROBABILITY = 1e-3
FEWEST = 3
ROWS_PER_PARAMETER = 4.0
NATS = 2.0
ROUNDS = 4


FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)
"""What a fit may end with that its agents' answers have spoilt."""


class LeftOutError(RuntimeError):
    """An agent of the present fit gave an answer that cannot be one: the fit must begin again without it."""


class RegroupedError(RuntimeError):
    """An agent of a group answers no more: the others must be judged in groups of their own."""


class Electorate(Protocol):
    """Agents that can be asked one by one, or group by group."""

    level: str

    @property
    def left_out(self) -> dict[Agent, str]:
        """Why an agent's answers are not used, by agent."""
        ...

    @property
    def electors(self) -> tuple[Agent, ...]:
        """Whoever can be asked and has not been left out."""
        ...

    @property
    def rows_by_agent(self) -> dict[Agent, int]: ...

    def among(self, agents: Sequence[Agent]) -> AbstractContextManager[None]:
        """Add up these agents' answers only."""
        ...


@dataclass(frozen=True)
class Trial:
    """A fit of some agents, and what all agents say to it."""

    members: tuple[Agent, ...]
    model: Any
    found: Contributions
    test: Homogeneity

    @property
    def agreeing(self) -> tuple[Agent, ...]:
        """The agents whose rows do not contradict the fit."""
        return tuple(agent for agent, bad in zip(self.found.agents, self.test.outliers) if not bad)

    @property
    def gradient(self) -> float:
        """How far the fit is from its members' own maximum, in twice nats; nought for a fit by maximum likelihood."""
        places = self.found.places(self.members)
        score, information = self.found.scores[places].sum(axis=0), self.found.information[places].sum(axis=0)
        return float(np.abs(score @ least_squares(information, score, 1e-10)))

    @property
    def is_maximum(self) -> bool:
        """Whether the fit is at its members' own maximum."""
        return self.gradient < _most(self)

    @property
    def margin(self) -> float:
        """Nats by which an agent's log-likelihood may differ and say nothing."""
        found = self.found
        return NATS + found.n_parameters * float(np.median(found.rows) / found.rows[found.places(self.members)].sum())

    def votes(self, agents: Sequence[Agent]) -> Array:
        """Each agent's log-likelihood; a member's own, less what it gains by having been fitted."""
        found = self.found
        places, inside = found.places(agents), np.isin(np.arange(len(found.agents)), found.places(self.members))
        gain = inside * found.n_parameters * found.rows / found.rows[inside].sum()
        return np.asarray((found.log_likelihood - gain)[places])

    def few(self) -> list[tuple[Agent, ...]]:
        """Minorities that hold a component, or a direction of the coefficients, almost by themselves."""
        found, places = self.found, self.found.places(self.members)
        if len(places) < 3:
            return []
        held = [_holders(column / max(float(column.sum()), 1e-300)) for column in found.units[places].T]
        held.append(_holders(found.parts_of_information(places)))
        most = max(1, (len(places) - 1) // 3)
        return [tuple(found.agents[places[place]] for place in few) for few in held if 0 < len(few) <= most]


class Consensus:
    """Finds the agents whose fit the majority stands behind.

    Parameters
    ----------
    model : the estimator to be fitted.
    rows : the agents.
    fit : fits a model on whom ``rows`` adds up.
    seed : decides which sets of agents are tried.
    """

    def __init__(self, model: Any, rows: Electorate, fit: Callable[[Any], Any], seed: int = 0) -> None:
        self.model, self.rows, self.fit = model, rows, fit
        self.generator = np.random.default_rng(seed)
        self.cleared: set[Agent] = set()

    def settle(self) -> tuple[Agent, ...]:
        """Fit the model on the agents that agree, name the others in ``rows.left_out``, and give the former."""
        first = self._first()
        best = first if isinstance(first, Trial) else self._elect(first)
        for _ in range(ROUNDS):
            found = best if self._sound(best) and not best.few() else self._elect(best)
            if found is best:
                break
            best = found
        if best is not first:
            best = self._admit(best, self._nearest(best))
        for _ in range(ROUNDS):
            members = self._majority(best)
            if set(members) == set(best.members):
                break
            best = self._admit(best, members)
        self.judged = best
        members = best.members if best.model is self.model else self.fit_as_judged(best.members)
        self._name(best)
        return members

    def fit_as_judged(self, members: Sequence[Agent]) -> tuple[Agent, ...]:
        """Fit the model itself on these agents; where they do not stand behind that, it has the fit that was judged."""
        with suppress(*FAILURES):
            trial = self._trial(members, self.model)
            if self._bears(self.judged, trial):
                return trial.members
        vars(self.model).update({name: value for name, value in vars(self.judged.model).items() if name[-1] == "_"})
        warn_user(
            "some agents answered otherwise in the last fit than where they were judged: that fit is given", UserWarning
        )
        return tuple(agent for agent in members if agent not in self.rows.left_out)

    def _sound(self, trial: Trial) -> bool:
        """Whether the majority's fit can be believed as it is, up to the agents that contradict it.

        One that lost a component may have been led away from it; where the agents' rows have none, others lose it too.
        """
        whole = trial.found.units.shape[1] == self.model.n_components
        return whole and trial.test.spread < SPREAD and trial.is_maximum

    def _trial(self, members: Sequence[Agent], model: Any) -> Trial:
        """Fit these agents, and ask everyone."""
        while True:
            members = self._fit(members, model)
            try:
                with self.rows.among(members):
                    found = ask_contributions(model, self.rows)
                return Trial(members, model, found, Homogeneity.of(found, found.places(members)))
            except LeftOutError:
                continue

    def _fit(self, members: Sequence[Agent], model: Any) -> tuple[Agent, ...]:
        """Fit these agents, and begin again without one whose answers cannot be answers; give those that are left."""
        while True:
            members = tuple(agent for agent in members if agent not in self.rows.left_out)
            if not members:
                raise ValueError("no agent is left whose answers can be answers")
            try:
                with self.rows.among(members):
                    self.fit(model)
                return members
            except LeftOutError:
                continue

    def _first(self) -> Trial | Exception:
        """The fit of all agents, or why there is none."""
        try:
            return self._trial(self.rows.electors, self.model)
        except FAILURES as error:
            return error

    def _fit_quietly(self, members: Sequence[Agent]) -> Trial | None:
        """A fit on the side, of which the user hears nothing; None where it fails."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return self._trial(members, _quick(self.model))
            except FAILURES:
                return None

    def _elect(self, before: Trial | Exception) -> Trial:
        """The best of a fit and those of other sets of agents."""
        trials = [before] if isinstance(before, Trial) else []
        size = self._size(trials)
        for drawn, members in enumerate(dict.fromkeys(self._sets(trials, size))):
            trial = self._fit_quietly(members)
            if trial is None:
                continue
            trials.append(trial)
            best = _winner(trials, self.rows.electors)
            share = len(best.agreeing) / max(len(self.rows.electors), 1)
            if best is not before and drawn + 1 >= _draws_needed(share, size):
                break
        if not trials and isinstance(before, Exception):
            raise before
        return _winner(trials, self.rows.electors)

    def _size(self, trials: Sequence[Trial]) -> int:
        """How many agents a random set has: few, so that some have no liar, and enough for a fit."""
        k, electors, rows = self.model.n_components, self.rows.electors, self.rows.rows_by_agent
        usual = float(np.median([rows[agent] for agent in electors]))
        parameters = max((trial.found.n_parameters for trial in trials), default=k)
        wanted = max(FEWEST, ceil(ROWS_PER_PARAMETER * parameters / usual), 2 * k if self.rows.level == "agent" else 0)
        return max(1, min(wanted, len(electors) // 2))

    def _sets(self, trials: Sequence[Trial], size: int) -> Iterator[tuple[Agent, ...]]:
        """Sets of agents to try: all but those whom a fit makes suspects; random ones, where it cannot be believed."""
        electors = self.rows.electors
        for trial in trials[:1]:
            members = [agent for agent in electors if agent in trial.members]
            for few in [tuple(agent for agent in members if agent not in trial.agreeing), *trial.few()]:
                if 0 < len(few) <= (len(electors) - 1) // 2:
                    yield tuple(agent for agent in members if agent not in few)
            if self._sound(trial):
                return
        if comb(len(electors), size) <= MOST_DRAWS:
            sets = list(combinations(electors, size))
            yield from (sets[place] for place in self.generator.permutation(len(sets)))
            return
        for _ in range(MOST_DRAWS):
            places = np.sort(self.generator.choice(len(electors), size, replace=False))
            yield tuple(electors[place] for place in places)

    def _nearest(self, trial: Trial) -> tuple[Agent, ...]:
        """More than half of the agents: those whose rows agree best with a fit."""
        electors, least = self.rows.electors, len(self.rows.electors) // 2 + 1
        order: Integers = np.argsort(trial.test.statistic, kind="stable")
        nearest = [trial.found.agents[place] for place in order if trial.found.agents[place] in electors][:least]
        return tuple(agent for agent in electors if agent in nearest)

    def _majority(self, trial: Trial) -> tuple[Agent, ...]:
        """The agents that agree with a fit, and at least more than half of all."""
        agreeing = tuple(agent for agent in self.rows.electors if agent in trial.agreeing)
        return agreeing if 2 * len(agreeing) > len(self.rows.electors) else self._nearest(trial)

    def _admit(self, base: Trial, members: Sequence[Agent]) -> Trial:
        """The fit of these agents; where it is worse for the rest than theirs alone, without whoever makes it so.

        What spoils a fit though its agent's rows agree with the others' are answers that are not about its rows.
        """
        trial = self._fit_quietly(members)
        if trial is not None and self._bears(base, trial):
            return trial
        kept = tuple(agent for agent in base.members if agent in members)
        more = [agent for agent in members if agent not in kept]
        if not more:
            return base
        if len(more) == 1:
            other = self._vouch(base, more[0])
            if other is not None:
                return self._admit(other, members)
            self.rows.left_out[more[0]] = "its answers contradict each other: with them the others' fit is worse"
            return base
        for half in (more[: len(more) // 2], more[len(more) // 2 :]):
            members = tuple(agent for agent in self.rows.electors if agent in {*base.members, *half})
            base = self._admit(base, members)
        return base

    def _vouch(self, base: Trial, agent: Agent) -> Trial | None:
        """A fit of an agent with half of those whose fit it makes worse, where that one is not: one of the others lies.

        Now and then, that is, and whoever comes last would be blamed. Looked at once for each agent.
        """
        if agent in self.cleared:
            return None
        self.cleared.add(agent)
        for half in (base.members[::2], base.members[1::2]):
            trial = self._fit_quietly(tuple(one for one in self.rows.electors if one in {*half, agent}))
            if trial is not None and trial.is_maximum and self._median_loss(base, trial) <= trial.margin:
                return trial
        return None

    def _bears(self, base: Trial, trial: Trial) -> bool:
        return self._median_loss(base, trial) <= base.margin and trial.gradient < max(_most(trial), 4.0 * base.gradient)

    def _median_loss(self, base: Trial, trial: Trial) -> float:
        """By how many nats the median agent's rows are less likely under a trial."""
        agents = [agent for agent in self.rows.electors if agent in trial.found.agents and agent in base.found.agents]
        return float(np.median(base.votes(agents) - trial.votes(agents))) if agents else 0.0

    def _name(self, best: Trial) -> None:
        for agent, excess, statistic in zip(best.found.agents, best.test.excess, best.test.statistic):
            if agent not in best.members and agent not in self.rows.left_out:
                self.rows.left_out[agent] = (
                    f"its rows contradict the others': {statistic:.3g} on {best.test.dof} degrees of freedom, "
                    f"{excess:.3g} times what chance and honest differences explain"
                )


def _holders(parts: Array) -> Integers:
    """The fewest that have nearly all of what parts (M,), or matrices (M, f, f) that sum to the identity, are of.

    Of matrices, nearly all in some direction.
    """

    def largest(some: Array) -> Array:
        return some if some.ndim == 1 else np.linalg.eigvalsh(some).max(axis=1, initial=0.0)

    order: Integers = np.argsort(-largest(parts), kind="stable")
    reached = largest(np.cumsum(parts[order], axis=0)) >= HELD_SHARE
    return order[: int(np.argmax(reached)) + 1] if reached.any() else order


def _quick(model: Any) -> Any:
    """The same model, not fitted, with no more search for the likeliest maximum than a comparison needs."""
    return clone(model).set_params(search="quick") if isinstance(model.search, str) else clone(model)


def _winner(trials: Sequence[Trial], electors: Sequence[Agent]) -> Trial:
    """Where the median agent's rows are likeliest; of those as good, what most agents agree with.

    A fit that is no maximum by what its own members say of it was led there by answers that contradict these.
    """
    trials = [trial for trial in trials if trial.is_maximum] or trials
    agents = [agent for agent in electors if all(agent in trial.found.agents for trial in trials)]
    votes = np.array([trial.votes(agents) for trial in trials])
    rows = np.array([trials[0].found.rows[trials[0].found.agents.index(agent)] for agent in agents])
    values = np.median((votes - votes[0]) / rows, axis=1)
    top = int(np.argmax(values))
    close = [place for place in range(len(trials)) if float(np.median(votes[top] - votes[place])) <= trials[top].margin]
    return trials[max(close, key=lambda place: (len(trials[place].agreeing), values[place]))]


def _draws_needed(share: float, size: int) -> int:
    """How many draws find a set without a liar all but surely, where this share of the agents is honest."""
    clean = min(max(share, 0.5) ** size, 1.0 - 1e-9)
    return ceil(log(MISS_PROBABILITY) / log(1.0 - clean))


def _most(trial: Trial) -> float:
    """The largest gradient of a fit at its maximum."""
    return max(1.0, 0.1 * trial.found.n_parameters)
