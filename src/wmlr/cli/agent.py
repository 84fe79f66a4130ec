"""``wmlr agent``: take part in a fit with the rows of a file, which stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _federated, _places

SHOWN = 12
NETWORK, LIMITS = _federated.NETWORK, "Limits"
EXAMPLE = "wmlr agent --data tone --target tuned --server 127.0.0.1:9092"


def agent(
    ctx: typer.Context,
    data: Annotated[
        str,
        typer.Option(
            help="CSV or Parquet, or built-in data: the rows to answer for.",
            metavar="FILE",
            rich_help_panel=_data.PANEL,
        ),
    ],
    target: _data.TheTarget,
    server: Annotated[
        str, typer.Option(help="Where wmlr server listens.", metavar="HOST:PORT", rich_help_panel=NETWORK)
    ],
    features: _data.Features = None,
    exclude: _data.Exclude = None,
    missing: _data.Missing = "drop",
    na: _data.Na = None,
    delimiter: _data.Delimiter = None,
    decimal: _data.Decimal = ".",
    encoding: _data.Encoding = "utf-8",
    tls: Annotated[
        Path | None, typer.Option(help="The server's ca.crt: speak TLS.", metavar="FILE", rich_help_panel=NETWORK)
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", "--keys", help="This agent's private key.", metavar="FILE", rich_help_panel=NETWORK),
    ] = None,
    insecure: _federated.Insecure = False,
    name: Annotated[
        str | None,
        typer.Option(help="What to call this agent; with a key, the key's name is.", rich_help_panel=NETWORK),
    ] = None,
    min_rows: Annotated[
        int,
        typer.Option(help="Show no number in the clear that stands on fewer rows than this.", rich_help_panel=LIMITS),
    ] = 10,
    only_secure: Annotated[
        bool,
        typer.Option(
            "--only-secure",
            help="Answer under masks only, among agents --tls vouches for.",
            rich_help_panel=LIMITS,
        ),
    ] = False,
    min_agents: Annotated[
        int, typer.Option(help="Refuse secure sums of fewer agents than this.", min=2, rich_help_panel=LIMITS)
    ] = 3,
    max_epsilon: Annotated[
        float | None,
        typer.Option(help="Give noisy answers only, and none beyond this cost, over all runs.", rich_help_panel=LIMITS),
    ] = None,
    max_delta: Annotated[
        float, typer.Option(help="Count that cost at this delta, and allow no larger one.", rich_help_panel=LIMITS)
    ] = 1e-5,
    budget: Annotated[
        Path | None,
        typer.Option(
            help="Keep that cost in this file; beside the data, if not given.",
            callback=_places.file,
            rich_help_panel=LIMITS,
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Take part in fits by these methods only, as refreshed,em.", metavar="NAMES", rich_help_panel=LIMITS
        ),
    ] = None,
    max_components: Annotated[
        int, typer.Option(help="Take part in fits of no more components.", min=1, rich_help_panel=LIMITS)
    ] = 20,
    max_rounds: Annotated[
        int, typer.Option(help="Answer no more questions than this, over all fits.", min=1, rich_help_panel=LIMITS)
    ] = 2000,
    own_start: Annotated[
        bool, typer.Option("--own-start", help="Refuse a start that the server gives.", rich_help_panel=LIMITS)
    ] = False,
    any_question: Annotated[
        bool,
        typer.Option("--any-question", help="Take part with servers that ask what they like.", rich_help_panel=LIMITS),
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Wait for the next fit after one is done.", rich_help_panel=NETWORK)
    ] = False,
    patience: Annotated[
        float, typer.Option(help="Seconds to keep trying where the server refuses.", rich_help_panel=NETWORK)
    ] = 60.0,
    pause: Annotated[
        float, typer.Option(help="Seconds between two looks for messages.", rich_help_panel=NETWORK)
    ] = 0.5,
) -> None:
    """Answer a server's questions about the rows of a file, until it says that the fit is done.

    Only sums over rows leave this machine, and the server never names a file.
    """
    from wmlr import flower

    flower.require()
    from wmlr.federated.privacy.budget import Budget
    from wmlr.flower.agent_app import agent_of, budget_file
    from wmlr.flower.joining import join
    from wmlr.flower.link import Connection
    from wmlr.flower.policy import Policy
    from wmlr.flower.vouching import Vouching
    from wmlr.options.problem import load_numbers

    _federated.check_address(server, "--server", tls is not None, insecure)
    for path, option in ((tls, "--tls"), (key, "--key")):
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path} for {option}")
    if key is not None and tls is None:
        raise ValueError("--key is shown over TLS only: add --tls ca.crt")
    if pause <= 0 or patience <= 0:
        raise ValueError(f"--pause and --patience must be positive (got {pause} and {patience})")
    called = name if name is not None or key is None else key.name
    if only_secure and key is None:
        raise ValueError("--only-secure needs --tls ca.crt and --key, by which agents vouch for each other")
    vouching = None if tls is None or key is None else Vouching.of(key, tls)
    allowed = () if methods is None else tuple(name.strip() for name in methods.split(","))
    policy = Policy(allowed, max_components, max_rounds, own_start, any_question)
    kept = budget or (None if max_epsilon is None else budget_file(data))
    given = load_numbers(data, _data.options(ctx))
    rows = agent_of(
        given,
        data,
        called,
        min_rows=min_rows,
        only_secure=only_secure,
        min_agents=min_agents,
        vouching=vouching,
        max_epsilon=max_epsilon,
        max_delta=max_delta,
        budget=Budget() if kept is None else Budget.read(kept),
        policy=policy.without_end() if stay else policy,
    )
    tell = _federated.teller(f"wmlr agent {rows.name}")
    for text in given.notes:
        tell(text)
    tell(f"{len(rows):,} rows of {data} with the features {', '.join(rows.columns[:SHOWN])}{_more(rows.columns)}")
    with _federated.ending_well():
        join(rows, Connection(server, tls, key, pause, patience), tell, stay)


def _more(columns: tuple[str, ...]) -> str:
    return f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
