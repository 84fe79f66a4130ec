"""Agents on other machines as an engine: one question to all of them is one round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.core.round import add
from wmlr.federated.ledger import Ledger, entry
from wmlr.federated.privacy import Spent
from wmlr.federated.trust.contributions import Agent
from wmlr.federated.trust.majority import Majority
from wmlr.flower import rounds
from wmlr.flower.admission import Member
from wmlr.flower.members import Members, TooFewAgentsError
from wmlr.flower.replay import INTERRUPTED, Transcript
from wmlr.flower.terms import RunTerms
from wmlr.numerics.arrays import Sums


class FlowerRows:
    """Rows at agents that a Flower Grid reaches.

    Where only some of the agents answer, their sums are scaled to the weight of all that the fit began with.

    Parameters
    ----------
    members : the agents; one at least has joined.
    terms : what their answers are, and how they are guarded.
    min_agents : the fewest answers a round goes on with.
    answering : the share of the agents whose answers a round may expect; below 1 the methods allow for it.
    trust : "all" adds every agent's answers; "majority" bears a minority of agents that answer anything at all.

    Attributes
    ----------
    ledger : every round so far; ``seconds`` how long each took; ``live`` how many were asked and not recalled.
    settled : the agents that the fit is about, with their rows.
    attendance : the agents whose answers the last round added.
    steady : whether every round since :meth:`settle` was answered by just the agents it settled on.
    transcript : what the fit has received so far, for the agents to follow it.
    """

    def __init__(
        self, members: Members, terms: RunTerms, *, min_agents: int = 1, answering: float = 1.0, trust: str = "all"
    ) -> None:
        self.members, self.terms, self.level = members, terms, terms.level
        self.last_answers: dict[Agent, Sums] = {}
        self._majority = Majority(grouped=terms.secure is not None) if trust == "majority" else None
        self.min_agents, self.answering = min_agents, answering
        self.ledger = Ledger()
        self.seconds: list[float] = []
        self.live = 0
        self.settled: dict[str, int] = {}
        self.attendance: tuple[str, ...] = ()
        self.steady = True
        self.transcript = Transcript()
        self._known: dict[Agent, Member] = {}

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features' names, the same at every agent."""
        return self._pattern.columns

    @property
    def target(self) -> str:
        """What y is called, the same at every agent."""
        return self._pattern.target

    @property
    def _pattern(self) -> Member:
        if self.members.pattern is None:
            raise RuntimeError("no agent has joined")
        return self.members.pattern

    @property
    def rounds_left(self) -> int | None:
        """How many private rounds may still be held; None where they are not counted."""
        return None if self.terms.privacy is None else max(0, self.terms.privacy.rounds - self._noisy)

    @property
    def privacy_spent(self) -> Spent | None:
        """What the noisy rounds so far have cost."""
        return None if self.terms.privacy is None else self.terms.privacy.spent(self._noisy)

    @property
    def _noisy(self) -> int:
        return sum(line.noise > 0 for line in self.ledger)

    def settle(self) -> None:
        """Take the agents that are there for those the fit is about."""
        self.settled = {member.name: member.rows for member in self.members.present}
        self.steady = True

    def total(self, query: Query) -> Sums:
        """The weighted sum of the agents' answers: one round."""
        if self.rounds_left == 0:
            raise RuntimeError(f"the private rounds are spent ({self.privacy_spent})")
        if self._majority is not None:
            return self._counted(query, self._majority)
        started = time.monotonic()
        hold = rounds.plain if self.terms.secure is None else rounds.secure
        question = self._question(query)
        try:
            held = hold(self.members, question, self.min_agents)
        except KeyboardInterrupt:
            self.transcript.mark(INTERRUPTED)
            raise
        self.last_answers = {name: held.answers[name] for name in held.answers if query.tells_influence}
        self._write(tuple(held.rows), time.monotonic() - started)
        self.ledger.write(held.line(question))
        self.live += 1
        sums = _scale(held.sums, self._factor(held.rows))
        self.transcript.write(sums)
        return sums

    def _question(self, query: Query) -> rounds.Question:
        """A query as agents hear it; whom a majority trusts is no matter of sums, so there they are told the query."""
        transcript = self.transcript if self._majority is None else None
        return rounds.Question(query, self.terms, self.n_features, transcript)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            answering=self.answering,
            grouped=self.terms.grouped,
            hides_rows=True,
            slow_rounds=True,
            rounds_left=self.rounds_left,
            ledger=self.ledger,
            totals=self.ledger.totals(),
            privacy_spent=self.privacy_spent,
            agents=len(self.settled),
            members=self.settled,
            seconds=self.seconds,
            feature_names=self.feature_names,
            by_majority=None if self._majority is None else self.fit_by_majority,
            last_answers=self.last_answers,
            rows_by_agent=self.rows_by_agent if self.last_answers else {},
        )

    @property
    def left_out(self) -> dict[Agent, str]:
        """Why an agent's answers are not used, by agent; empty where all are trusted."""
        return {} if self._majority is None else self._majority.left_out

    @property
    def electors(self) -> tuple[Agent, ...]:
        """The agents, or groups of agents under masks, that can be asked one by one."""
        present = [member.name for member in self.members.present]
        return tuple(present) if self._majority is None else self._majority.electors(present)

    @property
    def rows_by_agent(self) -> dict[Agent, int]:
        """How many rows each agent has, or each group of agents that answers together."""
        sizes: dict[Agent, int] = {member.name: member.rows for member in self.members.present}
        groups = () if self._majority is None else self._majority.groups
        return sizes | {group: sum(sizes.get(agent, 0) for agent in group) for group in groups}

    def among(self, agents: Sequence[Agent]) -> AbstractContextManager[None]:
        """Add up these agents' answers only."""
        return nullcontext() if self._majority is None else self._majority.among(agents)

    def fit_by_majority(self, model: Any, fit: Callable[[Any], Any]) -> None:
        """Fit a model on the agents that the majority stands behind; ``fit`` fits a model on these rows."""
        assert self._majority is not None
        members = self._majority.settle(model, self, fit)
        names = {one for agent in members for one in (agent if isinstance(agent, tuple) else (agent,))}
        self.settled = {member.name: member.rows for member in self.members.present if member.name in names}
        self.ledger.left_out, self.ledger.judged = dict(self.left_out), True
        for agent, reason in self.left_out.items():
            self.members.tell(f"agent {agent} is left out of the fit: {reason}")

    def answers(self, query: Query) -> dict[Agent, Sums]:
        """Each agent's own answer, or each group's, as sums over its rows: one round."""
        found = self._each(query, self.electors)
        if self._majority is None:
            return found
        return self._majority.screen(query, found, self.rows_by_agent, self.n_features, self.electors)

    def _each(self, query: Query, agents: Sequence[Agent]) -> dict[Agent, Sums]:
        """The answers of agents, or of groups of them, as they came; written down as one round."""
        started, late, found = time.monotonic(), 0, dict[Agent, Sums]()
        self._leave_out_lost()
        by_name = {member.name: member for member in self.members.present}
        self._known.update((name, member) for name, member in by_name.items())
        if self.terms.secure is None:
            came, late = rounds.each(self.members, self._question(query), [by_name[str(agent)] for agent in agents])
            found.update((name, came[name]) for name in came)
        for group in agents if self.terms.secure is not None else ():
            some = [by_name[name] for name in group if name in by_name]  # type: ignore[attr-defined]
            try:
                found[group] = rounds.secure(self.members, self._question(query), len(some), some).sums
            except TooFewAgentsError:
                if not self._leave_out_lost():
                    raise
        self.seconds.append(time.monotonic() - started)
        example = next(iter(found.values()), {})
        line = entry(query, example, len(agents), len(found), late)
        self.ledger.write(replace(line, secure=self.terms.secure is not None))
        self.live += 1
        return found

    def _leave_out_lost(self) -> bool:
        """Ask agents no more without whom their groups cannot answer; whether there were such."""
        groups = () if self._majority is None else self._majority.groups
        present = {member.name for member in self.members.present}
        lost = [agent for group in groups for agent in group if agent not in present]
        for agent in lost:
            self.members.leave_out(self._known[agent], "its group waits for its answer")
        if lost and self._majority is not None:
            self._majority.lose(lost)
        return bool(lost)

    def _counted(self, query: Query, majority: Majority) -> Sums:
        """A round in which the answers of the agents that count are looked at, and added."""
        counted = majority.counted([member.name for member in self.members.present])
        rows = self.rows_by_agent
        found = majority.screen(query, self._each(query, counted), rows, self.n_features, self.electors)
        if not found:
            raise TooFewAgentsError(f"no agent that is trusted answered {query.label}")
        self.last_answers = found
        self.attendance = tuple(str(agent) for agent in found)
        weights = {agent: float(rows[agent]) if self.terms.weighting == "rows" else 1.0 for agent in counted}
        scale = sum(rows[agent] for agent in counted) / sum(weights[agent] for agent in found)
        return add(_scale(sums, scale * weights[agent] / rows[agent]) for agent, sums in found.items())

    def minutes(self) -> dict[str, Any]:
        """What a checkpoint must know of the last round besides its sums."""
        return {"settled": self.settled, "attendance": list(self.attendance), "seconds": self.seconds[-1]}

    def recall(self, minutes: Any, sums: Sums) -> None:
        """Take up what :meth:`minutes` said of a round, and its sums."""
        self.transcript.write(sums)
        self.settled = dict(minutes.settled)
        self._write(minutes.attendance, minutes.seconds)

    def _factor(self, answered: Mapping[str, int]) -> float:
        """What a sum is multiplied by, so that it weighs what the fit began with; in privacy agents are counted."""
        if self.terms.privacy is not None:
            return len(self.settled) / len(answered)
        everything = sum(self.settled.values())
        return everything / (sum(answered.values()) if self.terms.weighting == "rows" else len(answered))

    def _write(self, attendance: tuple[str, ...], seconds: float) -> None:
        self.attendance = attendance
        self.steady = self.steady and set(attendance) == set(self.settled)
        self.seconds.append(seconds)


def _scale(sums: Sums, factor: float) -> Sums:
    return sums if factor == 1.0 else {name: np.asarray(value * factor) for name, value in sums.items()}
