"""The options that keep agents' answers from being seen."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Privacy"

Trust = Annotated[
    str,
    typer.Option(help="all: add up what agents say; majority: bear a few that lie.", rich_help_panel=PANEL),
]
Secure = Annotated[
    bool,
    typer.Option("--secure", help="Secure aggregation: the server sees sums of answers only.", rich_help_panel=PANEL),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Differential privacy of agents: what all rounds together may cost.", rich_help_panel=PANEL),
]
Noise = Annotated[
    float | None,
    typer.Option("--noise-multiplier", help="In place of --epsilon: the noise over the clip.", rich_help_panel=PANEL),
]
Delta = Annotated[float, typer.Option(help="With --epsilon: the chance that goes with it.", rich_help_panel=PANEL)]
Clip = Annotated[
    float,
    typer.Option(help="With --epsilon: an agent's answer is cut to this many times the usual.", rich_help_panel=PANEL),
]
Rounds = Annotated[
    int,
    typer.Option("--private-rounds", help="With --epsilon: the most rounds, the start's too.", rich_help_panel=PANEL),
]
XScale = Annotated[
    float, typer.Option(help="With --epsilon: public, how large a column usually is.", rich_help_panel=PANEL)
]
YScale = Annotated[
    float | None, typer.Option(help="With --epsilon: public, how large the target usually is.", rich_help_panel=PANEL)
]
AgentRows = Annotated[
    float | None,
    typer.Option(help="With --epsilon: public, how many rows an agent usually has.", rich_help_panel=PANEL),
]
