"""Agents on other machines as an engine: one question to all of them is one round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.federated.agent_engine import AgentEngine, scale_sums
from wmlr.federated.ledger import entry
from wmlr.federated.trust.contributions import Agent
from wmlr.federated.trust.majority import Majority
from wmlr.flower import rounds
from wmlr.flower.admission import Member
from wmlr.flower.members import Members, TooFewAgentsError
from wmlr.flower.replay import INTERRUPTED, Transcript
from wmlr.flower.terms import RunTerms
from wmlr.numerics.arrays import Sums


class FlowerRows(AgentEngine):
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
    same_agents : whether every round since :meth:`settle` was answered by just the agents it settled on.
    transcript : what the fit has received so far, for the agents to follow it.
    """

    def __init__(
        self, members: Members, terms: RunTerms, *, min_agents: int = 1, answering: float = 1.0, trust: str = "all"
    ) -> None:
        majority = Majority(grouped=terms.secure is not None) if trust == "majority" else None
        super().__init__(terms.weighting, terms.level, terms.privacy, majority)
        self.members, self.terms = members, terms
        self.min_agents, self.answering = min_agents, answering
        self.seconds: list[float] = []
        self.live = 0
        self.settled: dict[str, int] = {}
        self.attendance: tuple[str, ...] = ()
        self.same_agents = True
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

    def settle(self) -> None:
        """Take the agents that are there for those the fit is about."""
        self.settled = {member.name: member.rows for member in self.members.present}
        self.same_agents = True

    def total(self, query: Query) -> Sums:
        """The weighted sum of the agents' answers: one round."""
        if self.rounds_left == 0:
            raise RuntimeError(f"the private rounds are spent ({self.privacy_spent})")
        if self._majority is not None:
            return self._trusted_round(query, self._majority)
        started = time.monotonic()
        hold = rounds.plain_round if self.terms.secure is None else rounds.secure_round
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
        sums = scale_sums(held.sums, self._factor(held.rows))
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
    def agent_sizes(self) -> dict[Agent, int]:
        return {member.name: member.rows for member in self.members.present}

    def fit_by_majority(self, model: Any, fit: Callable[[Any], Any]) -> tuple[Agent, ...]:
        members = super().fit_by_majority(model, fit)
        names = {one for agent in members for one in (agent if isinstance(agent, tuple) else (agent,))}
        self.settled = {member.name: member.rows for member in self.members.present if member.name in names}
        for agent, reason in self.left_out.items():
            self.members.tell(f"agent {agent} is left out of the fit: {reason}")
        return members

    def answers(self, query: Query) -> dict[Agent, Sums]:
        """Each agent's own answer, or each group's, as sums over its rows: one round."""
        return self._screen(query, self._each(query, self.electors))

    def _each(self, query: Query, agents: Sequence[Agent]) -> dict[Agent, Sums]:
        """The answers of agents, or of groups of them, as they came; written down as one round."""
        started, late, found = time.monotonic(), 0, dict[Agent, Sums]()
        self._leave_out_lost()
        by_name = {member.name: member for member in self.members.present}
        self._known.update((name, member) for name, member in by_name.items())
        if self.terms.secure is None:
            members = [by_name[str(agent)] for agent in agents]
            came, late = rounds.single_answers(self.members, self._question(query), members)
            found.update((name, came[name]) for name in came)
        for group in agents if self.terms.secure is not None else ():
            some = [by_name[name] for name in group if name in by_name]  # type: ignore[attr-defined]
            try:
                found[group] = rounds.secure_round(self.members, self._question(query), len(some), some).sums
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

    def _trusted_round(self, query: Query, majority: Majority) -> Sums:
        """A round in which the answers of the agents that count are looked at, and added."""
        counted = majority.summed_agents(tuple(self.agent_sizes))
        rows = self.rows_by_agent  # as it is now: a group may be lost while it is asked
        found = self._screen(query, self._each(query, counted), rows)
        if not found:
            raise TooFewAgentsError(f"no agent that is trusted answered {query.label}")
        self.last_answers = found
        self.attendance = tuple(str(agent) for agent in found)
        return self._add_trusted({agent: rows[agent] for agent in counted}, found)

    def attendance_record(self) -> dict[str, Any]:
        """What a checkpoint must know of the last round besides its sums."""
        return {"settled": self.settled, "attendance": list(self.attendance), "seconds": self.seconds[-1]}

    def recall(self, record: Any, sums: Sums) -> None:
        """Take up what :meth:`attendance_record` said of a round, and its sums."""
        self.transcript.write(sums)
        self.settled = dict(record.settled)
        self._write(record.attendance, record.seconds)

    def _factor(self, answered: Mapping[str, int]) -> float:
        """What a sum is multiplied by, so that it weighs what the fit began with; in privacy agents are counted."""
        if self.terms.privacy is not None:
            return len(self.settled) / len(answered)
        everything = sum(self.settled.values())
        return everything / (sum(answered.values()) if self.terms.weighting == "rows" else len(answered))

    def _write(self, attendance: tuple[str, ...], seconds: float) -> None:
        self.attendance = attendance
        self.same_agents = self.same_agents and set(attendance) == set(self.settled)
        self.seconds.append(seconds)
