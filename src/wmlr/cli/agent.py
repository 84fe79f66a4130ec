"""``wmlr agent``: take part in a fit with the rows of a file, which stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _federated, _places
from wmlr.cli._options import option_under

network, limit = _federated.network, option_under("Limits")
EXAMPLE = "wmlr agent --data tone --target tuned --server 127.0.0.1:9092"


def agent(
    ctx: typer.Context,
    *,
    data: Annotated[str, _data.option("CSV or Parquet, or built-in data: the rows to answer for.", metavar="FILE")],
    target: _data.TheTarget,
    server: Annotated[str, network("Where wmlr server listens.", metavar="HOST:PORT")],
    features: _data.Features = None,
    exclude: _data.Exclude = None,
    missing: _data.Missing = "drop",
    form: _data.Format,
    tls: Annotated[Path | None, network("The server's ca.crt: speak TLS.", metavar="FILE")] = None,
    key: Annotated[Path | None, network("This agent's private key.", "--key", "--keys", metavar="FILE")] = None,
    insecure: _federated.Insecure = False,
    name: Annotated[str | None, network("What to call this agent; with a key, the key's name is.")] = None,
    min_rows: Annotated[int, limit("Show no number in the clear that stands on fewer rows than this.")] = 10,
    only_secure: Annotated[
        bool, limit("Answer under masks only, among agents --tls vouches for.", "--only-secure")
    ] = False,
    min_agents: Annotated[int, limit("Refuse secure sums of fewer agents than this.", min=2)] = 3,
    max_epsilon: Annotated[
        float | None, limit("Give noisy answers only, and none beyond this cost, over all runs.")
    ] = None,
    max_delta: Annotated[float, limit("Count that cost at this delta, and allow no larger one.")] = 1e-5,
    budget: Annotated[
        Path | None, limit("Keep that cost in this file; beside the data, if not given.", callback=_places.file)
    ] = None,
    methods: Annotated[
        str | None, limit("Take part in fits by these methods only, as refreshed,em.", metavar="NAMES")
    ] = None,
    max_components: Annotated[int, limit("Take part in fits of no more components.", min=1)] = 20,
    max_rounds: Annotated[int, limit("Answer no more questions than this, over all fits.", min=1)] = 2000,
    own_start: Annotated[bool, limit("Refuse a start that the server gives.", "--own-start")] = False,
    any_question: Annotated[bool, limit("Take part with servers that ask what they like.", "--any-question")] = False,
    stay: Annotated[bool, network("Wait for the next fit after one is done.", "--stay")] = False,
    patience: Annotated[float, network("Seconds to keep trying where the server refuses.")] = 60.0,
    pause: Annotated[float, network("Seconds between two looks for messages.")] = 0.5,
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
    from wmlr.io.table import list_names
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
    tell = _federated.prefixed_printer(f"wmlr agent {rows.name}")
    for text in given.notes:
        tell(text)
    tell(f"{len(rows):,} rows of {data} with the features {list_names(rows.columns)}")
    with _federated.graceful_end():
        join(rows, Connection(server, tls, key, pause, patience), tell, stay)
