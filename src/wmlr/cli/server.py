"""``wmlr server``: fit a mixture among agents on other machines; ``wmlr server keys`` makes what they trust."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _dashboard, _data, _federated, _guards, _json, _model, _places, _report
from wmlr.cli._console import say
from wmlr.cli._server_keys import keys as make_keys
from wmlr.io.notes import notes

EXAMPLE = "wmlr server --agents 3 --out model.json"
SUBCOMMANDS = {"keys": make_keys}
AGENTS, NETWORK = "Agents", _federated.NETWORK
FEWEST_MASKED = 2
MASKED_FROM = 3  # of two agents, who hear the sums, each would know the other's answer


def server(
    ctx: typer.Context,
    agents: Annotated[
        int | None,
        typer.Option(help="How many take part: the fit waits for them.", min=1, rich_help_panel=AGENTS),
    ] = None,
    min_agents: Annotated[
        int, typer.Option(help="The fewest answers a round goes on with.", rich_help_panel=AGENTS)
    ] = 1,
    level: Annotated[
        str,
        typer.Option(help="row: each row has its component; agent: an agent's rows share.", rich_help_panel=AGENTS),
    ] = "row",
    weighting: Annotated[
        str, typer.Option(help="rows: as one fit of all rows; agents: all count alike.", rich_help_panel=AGENTS)
    ] = "rows",
    round_timeout: Annotated[
        float, typer.Option(help="Seconds a round waits for the slowest agent.", rich_help_panel=AGENTS)
    ] = 60.0,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait while too few agents are there.", rich_help_panel=AGENTS)
    ] = 300.0,
    answering: Annotated[
        float, typer.Option(help="The share of agents expected to answer each round.", rich_help_panel=AGENTS)
    ] = 1.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write every round to this file.", callback=_places.file, rich_help_panel=AGENTS)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --checkpoint.", rich_help_panel=AGENTS)
    ] = False,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all.", rich_help_panel=NETWORK)
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535, rich_help_panel=NETWORK)] = 9092,
    tls: Annotated[
        Path | None, typer.Option(help="The folder wmlr server keys filled: speak TLS.", rich_help_panel=NETWORK)
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(help="The folder of public keys: let only those agents in.", rich_help_panel=NETWORK),
    ] = None,
    insecure: _federated.Insecure = False,
    components: _model.Count = 2,
    symmetric: _model.Symmetric = False,
    family: _model.Family = "normal",
    gate: _model.Gate = None,
    offset: _data.Offset = None,
    exposure: _data.Exposure = None,
    trials: _data.Trials = None,
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    robust: _model.Robust = False,
    outliers: _model.Outliers = False,
    alpha: _model.Alpha = 0.0,
    no_errors: Annotated[
        bool,
        typer.Option("--no-errors", help="Leave out the standard errors' round.", rich_help_panel=_model.PANEL),
    ] = False,
    method: _model.Method = "wmlr",
    solver: _model.Solver = "auto",
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    trust: _guards.Trust = "all",
    secure: _guards.Secure = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="See each agent's own answer; without it, from three agents on, sums only.",
            rich_help_panel=AGENTS,
        ),
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
        typer.Option(
            help="Keep every reply in this folder, as it came.",
            metavar="FOLDER",
            callback=_places.folder,
            rich_help_panel=_guards.PANEL,
        ),
    ] = None,
    out: _places.Model = None,
    report: _report.Report = None,
    dashboard: _dashboard.Dashboard = False,
    dashboard_port: _dashboard.Port = 0,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture among agents that join over the network, and print the fit and what every round took."""
    if ctx.invoked_subcommand is not None:
        return
    from wmlr import flower

    flower.require()
    if agents is None:
        raise ValueError("say how many agents take part, by --agents N: the fit waits until they have joined")
    if secure and agents < FEWEST_MASKED:
        raise ValueError(
            f"--secure hides each agent's answer in the sum of all, and with --agents {agents} that sum is the answer "
            f"itself: use --agents {FEWEST_MASKED} or more, or leave out --secure"
        )
    from wmlr.estimator.settings import check_parameters
    from wmlr.federated.privacy import Secure
    from wmlr.flower.fitting import Rules, fit_among
    from wmlr.flower.server_app import outcome_text
    from wmlr.flower.serving import superlink
    from wmlr.flower.terms import RunTerms
    from wmlr.options import guards

    wanted = _model.estimator(ctx, components)
    shared = "agent" if gate == "group" else level
    privacy = guards.privacy(epsilon, noise_multiplier, delta, clip, private_rounds, x_scale, y_scale, agent_rows)
    rules = Rules(
        agents=agents,
        min_agents=min_agents,
        terms=RunTerms(shared, weighting, Secure() if _uses_masks(secure, plain, agents) else None, privacy),
        answering=answering,
        round_timeout=round_timeout,
        patience=patience,
        errors=not no_errors,
        checkpoint=checkpoint,
        resume=resume,
        audit=audit,
        trust=trust,
        roles=_data.options(ctx).roles(),
    )
    check_parameters(wanted)
    _check_checkpoint(checkpoint, resume)
    address = _address(host, port, tls, keys, insecure)
    tell = _federated.teller("wmlr server")
    live = _dashboard.open_page(ctx, dashboard, dashboard_port, f"agents at {address.host}:{port}")
    with _federated.ending_well(), superlink(address) as grid:
        tell(f"listening on {address.host}:{port}, waiting for {agents} agent{'s' if agents > 1 else ''}")
        outcome = fit_among(grid, wanted, rules, tell, live)
    _model.remark_end(outcome.fitted)
    if as_json:
        _json.print_json(_plain(outcome) | {"notes": list(notes())})
    else:
        print(outcome_text(outcome))
    if out is not None:
        outcome.fitted.save(out)
    if report is not None:
        _report.write_deployed_report(report, outcome)
    for path in (out, report):
        if path is not None:
            say(f"wrote {path}")


def _check_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Refuse to write over a run that is not to be taken up."""
    if checkpoint is not None and checkpoint.exists() and not resume:
        raise ValueError(f"{checkpoint} holds a run already: add --resume, or name another file")


def _uses_masks(secure: bool, plain: bool, agents: int) -> bool:
    """Whether answers are masked: where it is asked for, and from three agents on."""
    if secure and plain:
        raise ValueError("--secure and --plain contradict each other: leave one out")
    return secure or (agents >= MASKED_FROM and not plain)


def _address(host: str, port: int, tls: Path | None, keys: Path | None, insecure: bool) -> Any:
    from wmlr.flower.keys import Certificates, public_keys
    from wmlr.flower.serving import Address

    _federated.check_address(f"{host}:{port}", "--host", tls is not None, insecure)
    if keys is not None and tls is None:
        raise ValueError("--keys are shown over TLS only: add --tls FOLDER")
    certificates = None if tls is None else Certificates.of(tls)
    return Address(host, port, certificates, None if keys is None else public_keys(keys))


def _plain(outcome: Any) -> dict[str, Any]:
    """A fit among agents as plain data, for ``--json``."""
    fitted, engine = outcome.fitted, outcome.engine
    names = [str(name) for name in fitted.feature_names_in_]
    return {
        "target": engine.target,
        "features": names,
        "agents": engine.settled,
        "n_rows": sum(engine.settled.values()) or None,
        "components": _model.components(fitted, names),
        "log_likelihood": float(fitted.log_likelihood_),
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_) and outcome.summary.strict,
        "history": fitted.history_,
        "standard_errors": outcome.errors,
        "ledger": engine.ledger.records(),
        "totals": engine.ledger.totals(),
        "seconds": engine.seconds,
        "replayed": outcome.replayed,
        "left_out": {str(agent): reason for agent, reason in engine.left_out.items()},
        "influence": None if engine.ledger.influence is None else engine.ledger.influence.records(),
        "privacy": None if engine.privacy_spent is None else asdict(engine.privacy_spent),
    }
