"""Whose answers count: all agents', some agents' while a fit is tried, the trusted ones' afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.federated.trust.consensus import Consensus, Electorate, LeftOutError, RegroupedError
from wmlr.federated.trust.contributions import Agent, ask_contributions
from wmlr.federated.trust.homogeneity import Homogeneity
from wmlr.federated.trust.screening import faults
from wmlr.io.users_line import warn_user
from wmlr.numerics.arrays import Sums

TRUST = ("all", "majority")
FEWEST = 3
GROUP = 3
"""In secure sums agents are judged by groups of so many at least: of a group the server sees the sum alone."""


def check_trust(trust: str, privacy: Any) -> None:
    """Raise unless agents can be trusted so."""
    if trust not in TRUST:
        raise ValueError(f"trust must be {TRUST[0]!r} or {TRUST[1]!r} (got {trust!r})")
    if trust == "majority" and privacy is not None:
        raise ValueError("trust='majority' compares what agents say, which privacy= hides: leave one of them out")


class Majority:
    """Keeps who has been left out, and why.

    Parameters
    ----------
    grouped : whether agents answer in groups, each under masks of its own.
    seed : decides which agents make a group, and which sets of them are tried.

    Attributes
    ----------
    left_out : why an agent's answers are not used, by agent.
    groups : where agents answer in groups, those.
    """

    def __init__(self, grouped: bool = False, seed: int = 0) -> None:
        self.grouped = grouped
        self.left_out: dict[Agent, str] = {}
        self.groups: tuple[tuple[Agent, ...], ...] = ()
        self._generator = np.random.default_rng([seed, 15])
        self._seed = seed
        self._members: tuple[Agent, ...] | None = None
        self._fitting = self._settling = False

    def electors(self, present: Sequence[Agent]) -> tuple[Agent, ...]:
        """Of the agents that are there, those that may be asked; or the groups they are in."""
        left = [agent for agent in present if agent not in self.left_out]
        if not self.grouped:
            return tuple(left)
        if not self.groups:
            self.groups = self._grouping(left)
        return tuple(group for group in self.groups if group not in self.left_out and set(group) <= set(left))

    def summed_agents(self, present: Sequence[Agent]) -> tuple[Agent, ...]:
        """Whose answers are added up."""
        electors = self.electors(present)
        return electors if self._members is None else tuple(agent for agent in electors if agent in self._members)

    @contextmanager
    def among(self, members: Sequence[Agent]) -> Iterator[None]:
        """Count these only, and begin again where one of them gives an answer that cannot be one."""
        before = self._members, self._fitting
        self._members, self._fitting = tuple(members), True
        try:
            yield
        finally:
            self._members, self._fitting = before

    def screen(
        self,
        query: Query,
        answers: Mapping[Agent, Sums],
        rows: Mapping[Agent, int],
        n_features: int,
        electors: Sequence[Agent],
    ) -> dict[Agent, Sums]:
        """The answers that can be answers. Whoever gave another is left out; a fit it is in begins again."""
        members = electors if self._members is None else self._members
        compared = members if 2 * len(members) > len(electors) else ()
        wrong = faults(query, answers, rows, n_features, compared)
        self.left_out |= wrong
        if self._fitting and self._members is not None and wrong.keys() & set(self._members):
            raise LeftOutError(", ".join(map(str, wrong)))
        return {agent: sums for agent, sums in answers.items() if agent not in wrong}

    def lose(self, agents: Collection[Agent]) -> None:
        """Agents answer no more, and so do their groups; while agents are judged, the others are grouped anew."""
        self.groups = tuple(group for group in self.groups if not set(group) & set(agents))
        if self._settling:
            raise RegroupedError(", ".join(map(str, agents)))

    def settle(self, model: Any, rows: Electorate, fit: Callable[[Any], Any]) -> tuple[Agent, ...]:
        """Fit a model on the agents that the majority stands behind; from here on theirs are the answers that count."""
        self._settling = True
        try:
            while True:
                try:
                    return self._settle(model, rows, fit)
                except RegroupedError:
                    continue
        finally:
            self._settling = False

    def _settle(self, model: Any, rows: Electorate, fit: Callable[[Any], Any]) -> tuple[Agent, ...]:
        self.left_out.clear()
        self.groups, self._members = (), None
        least = FEWEST * (2 if self.grouped else 1)
        present = [one for elector in rows.electors for one in (elector if self.grouped else (elector,))]  # type: ignore[attr-defined]
        if len(present) < least:
            raise ValueError(f"trust='majority' needs at least {least} agents to compare (got {len(present)})")
        consensus = Consensus(model, rows, fit, self._seed)
        members = consensus.settle()
        if self.grouped and self.left_out:
            self._name(model, rows, members)
            members = consensus.fit_as_judged(rows.electors)
        self._members = members
        if self.left_out:
            told = "; ".join(f"{agent}: {reason}" for agent, reason in self.left_out.items())
            warn_user(f"agents left out of the fit: {told}", UserWarning)
        return members

    def _grouping(self, agents: Sequence[Agent]) -> tuple[tuple[Agent, ...], ...]:
        """Random groups, three at least, so that most of them can be without a liar."""
        order = [agents[place] for place in self._generator.permutation(len(agents))]
        count = max(FEWEST, len(order) // GROUP)
        return tuple(tuple(order[first::count]) for first in range(min(count, len(order))))

    def _name(self, model: Any, rows: Electorate, members: Sequence[Agent]) -> None:
        """Of the groups that were left out, the agents who made them so: each is asked together with cleared ones."""
        suspects = [agent for group in self.left_out for agent in group]  # type: ignore[attr-defined]
        cleared = [agent for group in members for agent in group]  # type: ignore[attr-defined]
        why = {agent: reason for group, reason in self.left_out.items() for agent in group}  # type: ignore[attr-defined]
        self.left_out.clear()
        liars: dict[Agent, str] = {}
        each = max(1, len(cleared) // (GROUP - 1))
        for first in range(0, len(suspects), each):
            some = suspects[first : first + each]
            self.groups = tuple((agent, *cleared[place :: len(some)]) for place, agent in enumerate(some))
            with self.among(self.groups):
                self._fitting = False
                found = ask_contributions(model, rows)
            test = Homogeneity.of(found, np.arange(len(found.agents)))
            for group in self.groups:
                failed = group in self.left_out or bool(test.outliers[found.agents.index(group)])
                if failed:
                    liars[group[0]] = why[group[0]]
            self.left_out.clear()
        self.left_out |= liars
        self.groups = ()
