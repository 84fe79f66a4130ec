"""Who takes part in a round: a fraction is drawn, some of those drop out, some answer too late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmlr.numerics.arrays import Integers


@dataclass(frozen=True)
class Attendance:
    """One round's numbers, and the agents whose answers are added (None: every agent's).

    ``asked_agents`` are the agents that were asked (None: every agent).
    """

    asked: int
    late: int
    answered: Integers | None
    count: int
    asked_agents: Integers | None = None

    def mask(self, agents: int) -> NDArray[np.bool_] | None:
        """True for the agents that answered, or None when all did."""
        if self.answered is None:
            return None
        chosen = np.zeros(agents, dtype=bool)
        chosen[self.answered] = True
        return chosen


@dataclass(frozen=True)
class Participation:
    """How agents behave.

    Attributes
    ----------
    share : the fraction of the agents drawn anew, without replacement, to be asked in each round.
    dropout : the probability that an agent, once asked, never answers.
    late : the probability that an agent's answer comes after the round has closed. It belongs to a state the
        server has left, so it is counted in the ledger and added nowhere.
    seed : with the round's number, decides every draw.
    """

    share: float = 1.0
    dropout: float = 0.0
    late: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"participation must be above 0 and at most 1 (got {self.share!r})")
        for name in ("dropout", "late"):
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                raise ValueError(f"{name} must be at least 0 and below 1 (got {value!r})")

    @property
    def answering(self) -> float:
        """The share of all agents whose answers a round may expect."""
        return self.share * (1.0 - self.dropout) * (1.0 - self.late)

    @property
    def certain(self) -> bool:
        """Whether every agent that is asked answers in time."""
        return self.dropout == 0.0 and self.late == 0.0

    def draw(self, turn: int, agents: int) -> Attendance:
        """Who is there in round number ``turn``."""
        if self.answering >= 1.0:
            return Attendance(agents, 0, None, agents)
        generator = np.random.default_rng([self.seed, turn])
        asked = np.arange(agents)
        if self.share < 1.0:
            wanted = max(1, round(self.share * agents))
            asked = np.sort(generator.choice(agents, wanted, replace=False, shuffle=False))
        present = asked[generator.random(len(asked)) >= self.dropout]
        in_time = generator.random(len(present)) >= self.late
        answered = present[in_time]
        return Attendance(len(asked), int(np.sum(~in_time)), answered, len(answered), asked)
