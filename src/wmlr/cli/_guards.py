"""The options that keep agents' answers from being seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wmlr.cli._options import option_under

PANEL = "Privacy"
option = option_under(PANEL)


@dataclass(frozen=True)
class Guards:
    """Whose answers are believed, and whether they are seen."""

    trust: Annotated[str, option("all: add up what agents say; majority: bear a few that lie.")] = "all"
    secure: Annotated[bool, option("Secure aggregation: the server sees sums of answers only.", "--secure")] = False


@dataclass(frozen=True)
class PrivacyOptions:
    """Differential privacy of agents."""

    epsilon: Annotated[float | None, option("Differential privacy of agents: what all rounds together may cost.")] = (
        None
    )
    noise_multiplier: Annotated[
        float | None, option("In place of --epsilon: the noise over the clip.", "--noise-multiplier")
    ] = None
    delta: Annotated[float, option("With --epsilon: the chance that goes with it.")] = 1e-5
    clip: Annotated[float, option("With --epsilon: an agent's answer is cut to this many times the usual.")] = 2.0
    private_rounds: Annotated[int, option("With --epsilon: the most rounds, the start's too.", "--private-rounds")] = 8
    x_scale: Annotated[float, option("With --epsilon: public, how large a column usually is.")] = 1.0
    y_scale: Annotated[float | None, option("With --epsilon: public, how large the target usually is.")] = None
    agent_rows: Annotated[float | None, option("With --epsilon: public, how many rows an agent usually has.")] = None

    @property
    def is_requested(self) -> bool:
        """Whether noise is asked for."""
        return self.epsilon is not None or self.noise_multiplier is not None
