"""Agents on other machines as an engine: one question to all of them is one round."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.federated.ledger import Ledger
from wmlr.federated.privacy import Spent
from wmlr.flower import rounds
from wmlr.flower.admission import Member
from wmlr.flower.members import Members
from wmlr.flower.replay import INTERRUPTED, Transcript
from wmlr.flower.terms import Terms
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

    Attributes
    ----------
    ledger : every round so far; ``seconds`` how long each took; ``live`` how many were asked and not recalled.
    settled : the agents that the fit is about, with their rows.
    attendance : the agents whose answers the last round added.
    steady : whether every round since :meth:`settle` was answered by just the agents it settled on.
    transcript : what the fit has received so far, for the agents to follow it.
    """

    def __init__(self, members: Members, terms: Terms, *, min_agents: int = 1, answering: float = 1.0) -> None:
        self.members, self.terms = members, terms
        self.min_agents, self.answering = min_agents, answering
        self.ledger = Ledger()
        self.seconds: list[float] = []
        self.live = 0
        self.settled: dict[str, int] = {}
        self.attendance: tuple[str, ...] = ()
        self.steady = True
        self.transcript = Transcript()

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
        started = time.monotonic()
        hold = rounds.plain if self.terms.secure is None else rounds.secure
        question = rounds.Question(query, self.transcript, self.terms, self.n_features)
        try:
            held = hold(self.members, question, self.min_agents)
        except KeyboardInterrupt:
            self.transcript.mark(INTERRUPTED)
            raise
        self._write(tuple(held.rows), time.monotonic() - started)
        self.ledger.write(held.line(question))
        self.live += 1
        sums = _scaled(held.sums, self._factor(held.rows))
        self.transcript.write(sums)
        return sums

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
        )

    def minutes(self) -> dict[str, Any]:
        """What a checkpoint must know of the last round besides its sums."""
        return {"settled": self.settled, "attendance": list(self.attendance), "seconds": self.seconds[-1]}

    def recall(self, minutes: Mapping[str, Any], sums: Sums) -> None:
        """Take up what :meth:`minutes` said of a round, and its sums."""
        self.transcript.write(sums)
        self.settled = {str(name): int(rows) for name, rows in minutes["settled"].items()}
        self._write(tuple(str(name) for name in minutes["attendance"]), float(minutes["seconds"]))

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


def _scaled(sums: Sums, factor: float) -> Sums:
    return sums if factor == 1.0 else {name: np.asarray(value * factor) for name, value in sums.items()}
