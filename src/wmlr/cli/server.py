"""``wmlr server``: fit a mixture among agents on other machines; ``wmlr server keys`` makes what they trust."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _dashboard, _federated, _guards, _json, _model, _places, _report
from wmlr.cli._console import say
from wmlr.io.printable import note
from wmlr.options import guards, model

EXAMPLE = "wmlr server --agents 3 --out model.json"
KEYS = ("what", "out", "agents", "host", "days", "names")
ACTIONS = ("run", "keys")
SECURE_FROM = 3  # of two agents each would know the other's answer from the sum

What = Annotated[
    str,
    typer.Argument(help="run: fit with the agents that join; keys: make certificates and keys.", metavar="[run|keys]"),
]
Out = Annotated[Path | None, typer.Option(help="Write the model here, as JSON; with keys: the folder to fill.")]
Agents = Annotated[
    int, typer.Option(help="Wait for this many before fitting; with keys: how many keys to make.", min=1)
]
Host = Annotated[
    list[str] | None,
    typer.Option(help="The address to listen on (0.0.0.0: all); with keys: names agents will reach it by."),
]


def server(
    ctx: typer.Context,
    what: What = "run",
    out: Out = None,
    agents: Agents = 1,
    host: Host = None,
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 9092,
    tls: Annotated[Path | None, typer.Option(help="The folder wmlr server keys filled: speak TLS.")] = None,
    keys: Annotated[Path | None, typer.Option(help="The folder of public keys: let only those agents in.")] = None,
    insecure: _federated.Insecure = False,
    components: Annotated[int, typer.Option(help="How many.", min=1)] = 2,
    symmetric: _model.Symmetric = False,
    method: _model.Method = "wmlr",
    solver: _model.Solver = "auto",
    level: Annotated[str, typer.Option(help="row: each row has its component; agent: an agent's rows share.")] = "row",
    weighting: Annotated[str, typer.Option(help="rows: as one fit of all rows; agents: all count alike.")] = "rows",
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    robust: _model.Robust = False,
    alpha: _model.Alpha = 0.0,
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    min_agents: Annotated[int, typer.Option(help="The fewest answers a round goes on with.")] = 1,
    round_timeout: Annotated[float, typer.Option(help="Seconds a round waits for the slowest agent.")] = 60.0,
    patience: Annotated[float, typer.Option(help="Seconds to wait while too few agents are there.")] = 300.0,
    answering: Annotated[float, typer.Option(help="The share of agents expected to answer each round.")] = 1.0,
    no_errors: Annotated[bool, typer.Option("--no-errors", help="Leave out the standard errors' round.")] = False,
    checkpoint: Annotated[Path | None, typer.Option(help="Write every round to this file.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --checkpoint.")] = False,
    secure: _guards.Secure = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="See each agent's own answer; without it, from three agents on, sums only.")
    ] = False,
    epsilon: _guards.Epsilon = None,
    noise_multiplier: _guards.Noise = None,
    delta: _guards.Delta = 1e-5,
    clip: _guards.Clip = 2.0,
    private_rounds: _guards.Rounds = 8,
    x_scale: _guards.XScale = 1.0,
    y_scale: _guards.YScale = None,
    agent_rows: _guards.AgentRows = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="Keep every reply in this folder, as it came.", metavar="FOLDER", callback=_places.folder),
    ] = None,
    report: _report.Report = None,
    dashboard: _dashboard.Dashboard = False,
    dashboard_port: _dashboard.Port = 0,
    as_json: _json.Json = False,
    days: Annotated[int, typer.Option(help="With keys: how long the certificate is good for.")] = 365,
    names: Annotated[str | None, typer.Option(help="With keys: the agents' names, as a,b,c.")] = None,
) -> None:
    """Fit a mixture among agents that join over the network, and print the fit and what every round took."""
    from wmlr import flower

    flower.require()
    if what not in ACTIONS:
        raise ValueError(f"wmlr server does run or keys (got {what!r})")
    _refuse_misplaced(ctx, what)
    if what == "keys":
        _make_keys(out, agents, host or [], days, names)
        return
    from wmlr.estimator.settings import check_parameters
    from wmlr.federated.privacy import Secure
    from wmlr.flower.fitting import Rules, fit_among
    from wmlr.flower.server_app import described
    from wmlr.flower.serving import superlink
    from wmlr.flower.terms import Terms

    wanted = model.estimator(
        components,
        symmetric=symmetric,
        method=method,
        solver=solver,
        no_intercept=no_intercept,
        equal_weights=equal_weights,
        separate_sigma=separate_sigma,
        sigma=sigma,
        robust=robust,
        alpha=alpha,
        start=start,
        seed=seed,
        max_iter=max_iter,
    )
    privacy = guards.privacy(epsilon, noise_multiplier, delta, clip, private_rounds, x_scale, y_scale, agent_rows)
    rules = Rules(
        agents=agents,
        min_agents=min_agents,
        terms=Terms(level, weighting, Secure() if _masked(secure, plain, agents) else None, privacy),
        answering=answering,
        round_timeout=round_timeout,
        patience=patience,
        errors=not no_errors,
        checkpoint=checkpoint,
        resume=resume,
        audit=audit,
    )
    check_parameters(wanted)
    _check_files(out, checkpoint, resume)
    address = _address(host or ["127.0.0.1"], port, tls, keys, insecure)
    tell = _federated.teller("wmlr server")
    live = _dashboard.begun(ctx, dashboard, dashboard_port, f"agents at {address.host}:{port}")
    with _federated.ending_well(), superlink(address) as grid:
        tell(f"listening on {address.host}:{port}, waiting for {agents} agent{'s' if agents > 1 else ''}")
        outcome = fit_among(grid, wanted, rules, tell, live)
    if as_json:
        _json.put(_plain(outcome))
    else:
        print(described(outcome))
    if not outcome.fitted.converged_:
        note(f"stopped after {outcome.fitted.n_iter_} iterations without converging: raise --max-iter")
    if out is not None:
        outcome.fitted.save(out)
    if report is not None:
        _report.deployed(report, outcome)
    for path in (out, report):
        if path is not None:
            say(f"wrote {path}")


def _masked(secure: bool, plain: bool, agents: int) -> bool:
    """Whether answers are masked: where it is asked for, and from three agents on."""
    if secure and plain:
        raise ValueError("--secure and --plain contradict each other: leave one out")
    return secure or (agents >= SECURE_FROM and not plain)


def _refuse_misplaced(ctx: typer.Context, what: str) -> None:
    """Options of one action given to the other do nothing, so they are mistakes."""
    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and (name not in KEYS if what == "keys" else name in ("days", "names")):
            raise ValueError(f"--{name.replace('_', '-')} is no option of wmlr server {what}: leave it out")


def _check_files(out: Path | None, checkpoint: Path | None, resume: bool) -> None:
    """Refuse before the fit what could not be written after it."""
    for path, option in ((out, "--out"), (checkpoint, "--checkpoint")):
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a folder: name a file in it for {option}")
        _places.file(path)
    if checkpoint is not None and checkpoint.exists() and not resume:
        raise ValueError(f"{checkpoint} holds a run already: add --resume, or name another file")


def _make_keys(out: Path | None, agents: int, hosts: list[str], days: int, names: str | None) -> None:
    from wmlr.flower.keys import make_keys

    if out is None:
        raise ValueError("say where to: wmlr server keys --out FOLDER")
    called = [f"agent-{number}" for number in range(1, agents + 1)] if names is None else names.split(",")
    made = make_keys(out, [name.strip() for name in called], hosts, days)
    print(f"{out}/ca.crt, ca.key            the authority; keep ca.key to yourself")
    print(f"{out}/server.crt, server.key    the server's, good for {', '.join(made.hosts)} and {days} days")
    for name in (*made.agents, *made.kept):
        print(f"{out}/agents/{name}, {name}.pub{'    kept as it was' if name in made.kept else ''}")
    print(f"server: wmlr server --tls {out} --keys {out}/agents ...")
    print(
        "agent:  wmlr agent --tls ca.crt --key NAME ...   (bring it ca.crt and its own NAME and NAME.crt, nothing else)"
    )


def _address(hosts: list[str], port: int, tls: Path | None, keys: Path | None, insecure: bool) -> Any:
    from wmlr.flower.keys import Certificates, public_keys
    from wmlr.flower.serving import Address

    if len(hosts) != 1:
        raise ValueError(f"--host is the one address to listen on, 0.0.0.0 for all (got {', '.join(hosts)})")
    _federated.check_address(f"{hosts[0]}:{port}", "--host", tls is not None, insecure)
    if keys is not None and tls is None:
        raise ValueError("--keys are shown over TLS only: add --tls FOLDER")
    certificates = None if tls is None else Certificates.of(tls)
    return Address(hosts[0], port, certificates, None if keys is None else public_keys(keys))


def _plain(outcome: Any) -> dict[str, Any]:
    """A fit among agents as plain data, for ``--json``."""
    fitted, engine = outcome.fitted, outcome.engine
    names = list(engine.columns)
    return {
        "features": names,
        "agents": engine.settled,
        "n_rows": sum(engine.settled.values()) or None,
        "components": _model.components(fitted, names),
        "log_likelihood": float(fitted.log_likelihood_),
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_),
        "history": fitted.history_,
        "standard_errors": outcome.errors,
        "ledger": engine.ledger.records(),
        "totals": engine.ledger.totals(),
        "seconds": engine.seconds,
        "replayed": outcome.replayed,
        "privacy": None if engine.privacy_spent is None else asdict(engine.privacy_spent),
    }
