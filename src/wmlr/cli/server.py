"""``wmlr server``: fit a mixture among agents on other machines; ``wmlr server keys`` makes what they trust."""

from __future__ import annotations

from dataclasses import asdict, astuple
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _dashboard, _data, _federated, _guards, _json, _model, _places, _report
from wmlr.cli._console import print_written
from wmlr.cli._options import option_under
from wmlr.cli._server_keys import keys as make_keys
from wmlr.io.notes import notes

EXAMPLE = "wmlr server --agents 3 --out model.json"
SUBCOMMANDS = {"keys": make_keys}
option, network = option_under("Agents"), _federated.network
FEWEST_MASKED = 2
MASKED_FROM = 3  # of two agents, who hear the sums, each would know the other's answer


def server(
    ctx: typer.Context,
    *,
    agents: Annotated[int | None, option("How many take part: the fit waits for them.", min=1)] = None,
    min_agents: Annotated[int, option("The fewest answers a round goes on with.")] = 1,
    level: Annotated[str, option("row: each row has its component; agent: an agent's rows share.")] = "row",
    weighting: Annotated[str, option("rows: as one fit of all rows; agents: all count alike.")] = "rows",
    round_timeout: Annotated[float, option("Seconds a round waits for the slowest agent.")] = 60.0,
    patience: Annotated[float, option("Seconds to wait while too few agents are there.")] = 300.0,
    answering: Annotated[float, option("The share of agents expected to answer each round.")] = 1.0,
    checkpoint: Annotated[Path | None, option("Write every round to this file.", callback=_places.file)] = None,
    resume: Annotated[bool, option("Go on with the run in --checkpoint.", "--resume")] = False,
    host: Annotated[str, network("The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, network("The port to listen on.", min=1, max=65535)] = 9092,
    tls: Annotated[Path | None, network("The folder wmlr server keys filled: speak TLS.")] = None,
    keys: Annotated[Path | None, network("The folder of public keys: let only those agents in.")] = None,
    insecure: _federated.Insecure = False,
    components: _model.Count = 2,
    symmetric: _model.Symmetric = False,
    law: _model.Law,
    role_columns: _data.RoleOptions,
    safeguards: _model.Safeguards,
    no_errors: Annotated[bool, _model.option("Leave out the standard errors' round.", "--no-errors")] = False,
    solving: _model.Solving,
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    guarding: _guards.Guards,
    plain: Annotated[
        bool, option("See each agent's own answer; without it, from three agents on, sums only.", "--plain")
    ] = False,
    noise: _guards.PrivacyOptions,
    audit: Annotated[
        Path | None,
        _guards.option("Keep every reply in this folder, as it came.", metavar="FOLDER", callback=_places.folder),
    ] = None,
    out: _places.Model = None,
    report: _report.Report = None,
    watching: _dashboard.Watching,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture among agents that join over the network, and print the fit and what every round took."""
    if ctx.invoked_subcommand is not None:
        return
    from wmlr import flower

    flower.require()
    if agents is None:
        raise ValueError("say how many agents take part, by --agents N: the fit waits until they have joined")
    if guarding.secure and agents < FEWEST_MASKED:
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
    shared = "agent" if law.gate == "group" else level
    privacy = guards.privacy(*astuple(noise))
    rules = Rules(
        agents=agents,
        min_agents=min_agents,
        terms=RunTerms(shared, weighting, Secure() if _uses_masks(guarding.secure, plain, agents) else None, privacy),
        answering=answering,
        round_timeout=round_timeout,
        patience=patience,
        errors=not no_errors,
        checkpoint=checkpoint,
        resume=resume,
        audit=audit,
        trust=guarding.trust,
        roles=_data.options(ctx).roles(),
    )
    check_parameters(wanted)
    _check_checkpoint(checkpoint, resume)
    address = _address(host, port, tls, keys, insecure)
    tell = _federated.prefixed_printer("wmlr server")
    live = _dashboard.open_page(ctx, watching, f"agents at {address.host}:{port}")
    with _federated.graceful_end(), superlink(address) as grid:
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
    print_written(out, report)


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
