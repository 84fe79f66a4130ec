"""The options that keep agents' answers from being seen, and the settings they make."""

from __future__ import annotations

from typing import Annotated

import typer

from wmlr.federated.privacy import Privacy

Secure = Annotated[bool, typer.Option("--secure", help="Secure aggregation: the server sees sums of answers only.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Differential privacy of agents: what all rounds together may cost.")
]
Noise = Annotated[
    float | None, typer.Option("--noise-multiplier", help="In place of --epsilon: the noise over the clip.")
]
Delta = Annotated[float, typer.Option(help="With --epsilon: the chance that goes with it.")]
Clip = Annotated[float, typer.Option(help="With --epsilon: an agent's answer is cut to this many times the usual.")]
Rounds = Annotated[int, typer.Option("--private-rounds", help="With --epsilon: the most rounds, the start's too.")]
XScale = Annotated[float, typer.Option(help="With --epsilon: public, how large a column usually is.")]
YScale = Annotated[float | None, typer.Option(help="With --epsilon: public, how large the target usually is.")]
AgentRows = Annotated[float | None, typer.Option(help="With --epsilon: public, how many rows an agent usually has.")]


def privacy(
    epsilon: float | None,
    noise: float | None,
    delta: float,
    clip: float,
    rounds: int,
    x_scale: float,
    y_scale: float | None,
    agent_rows: float | None,
) -> Privacy | None:
    """The settings of the noise, or None where none is asked for."""
    if epsilon is None and noise is None:
        return None
    if y_scale is None or agent_rows is None:
        raise ValueError(
            "noise is measured by public numbers: say how large the target usually is by --y-scale, and how many rows "
            "an agent usually has by --agent-rows (and --x-scale, where columns are not of size 1)"
        )
    return Privacy(epsilon, noise, delta, rounds, clip, x_scale, y_scale, agent_rows)
