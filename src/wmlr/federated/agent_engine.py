"""What engines of agents have in common: who is believed, what the noise has cost, how answers seen one by one add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import add
from wmlr.federated.ledger import Ledger
from wmlr.federated.privacy import Privacy, Spent
from wmlr.federated.trust.contributions import Agent
from wmlr.federated.trust.majority import Majority
from wmlr.numerics.arrays import Sums


class AgentEngine(ABC):
    """Agents, of whom all are trusted or a majority is.

    Attributes
    ----------
    ledger : every round so far.
    weighting : "rows" or "agents", what an agent counts by.
    level : "row" or "agent", what has a component of its own.
    privacy : the noise of its rounds; None without.
    last_answers : the agents' own answers to the last query, where these are seen and say how far the fit moves.
    """

    def __init__(self, weighting: str, level: str, privacy: Privacy | None, majority: Majority | None) -> None:
        self.ledger = Ledger()
        self.weighting, self.level, self.privacy = weighting, level, privacy
        self.last_answers: dict[Agent, Sums] = {}
        self._majority = majority

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many columns the agents have."""

    @property
    @abstractmethod
    def agent_sizes(self) -> dict[Agent, int]:
        """The agents that are there, with their rows."""

    @property
    def rounds_left(self) -> int | None:
        """How many private rounds may still be held; None where they are not counted."""
        return None if self.privacy is None else max(0, self.privacy.rounds - self._noisy_rounds)

    @property
    def privacy_spent(self) -> Spent | None:
        """What the rounds so far have cost; None where there is no noise."""
        return None if self.privacy is None else self.privacy.spent(self._noisy_rounds)

    @property
    def _noisy_rounds(self) -> int:
        return sum(line.noise > 0 for line in self.ledger)

    @property
    def left_out(self) -> dict[Agent, str]:
        """Why an agent's answers are not used, by agent; empty where all are trusted."""
        return {} if self._majority is None else self._majority.left_out

    @property
    def electors(self) -> tuple[Agent, ...]:
        """The agents, or groups of agents under masks, that can be asked one by one."""
        present = tuple(self.agent_sizes)
        return present if self._majority is None else self._majority.electors(present)

    @property
    def rows_by_agent(self) -> dict[Agent, int]:
        """How many rows each agent has, or each group of agents that answers together."""
        sizes, groups = self.agent_sizes, () if self._majority is None else self._majority.groups
        return sizes | {group: sum(sizes.get(agent, 0) for agent in group) for group in groups}

    def among(self, agents: Sequence[Agent]) -> AbstractContextManager[None]:
        """Add up these agents' answers only."""
        return nullcontext() if self._majority is None else self._majority.among(agents)

    def fit_by_majority(self, model: Any, fit: Callable[[Any], Any]) -> tuple[Agent, ...]:
        """Fit a model on the agents that the majority stands behind, which are returned; ``fit`` fits one here."""
        if self._majority is None:
            raise ValueError("this federation trusts all its agents: give it trust='majority'")
        members = self._majority.settle(model, self, fit)
        self.ledger.left_out, self.ledger.judged = dict(self.left_out), True
        return members

    def _screen(
        self, query: Query, answers: Mapping[Agent, Sums], rows: Mapping[Agent, int] | None = None
    ) -> dict[Agent, Sums]:
        """The answers that can be answers, where agents are judged; of the ``rows`` that they had before, if given."""
        if self._majority is None:
            return dict(answers)
        rows = self.rows_by_agent if rows is None else rows
        return self._majority.screen(query, answers, rows, self.n_features, self.electors)

    def _add_trusted(self, rows: Mapping[Agent, int], answers: Mapping[Agent, Sums]) -> Sums:
        """The sum of the answers of some agents, scaled to the weight of all that count, who have these ``rows``."""
        weights = {agent: float(count) if self.weighting == "rows" else 1.0 for agent, count in rows.items()}
        scale = sum(rows.values()) / max(sum(weights[agent] for agent in answers), 1e-300)
        return add(scale_sums(sums, scale * weights[agent] / rows[agent]) for agent, sums in answers.items())


def scale_sums(sums: Sums, factor: float) -> Sums:
    """Sums times a number."""
    return sums if factor == 1.0 else {name: np.asarray(value * factor) for name, value in sums.items()}
