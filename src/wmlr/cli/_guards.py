"""The options that keep agents' answers from being seen."""

from __future__ import annotations

from typing import Annotated

import typer

Trust = Annotated[
    str, typer.Option(help="all: add up whatever agents say; majority: bear a minority that lies, and name it.")
]
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
