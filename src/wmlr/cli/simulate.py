"""``wmlr simulate``: fit among agents, each with its own rows of a file, and account for every round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from wmlr.cli import _dashboard, _data, _guards, _json, _model, _places, _report
from wmlr.cli._console import say, show
from wmlr.core.round import Report, Watcher
from wmlr.estimator.summary import Summary
from wmlr.federated import Federation, fit_privately
from wmlr.federated.ledger import human_bytes
from wmlr.inference.intervals import ConfidenceIntervals
from wmlr.io import tables
from wmlr.io.printable import note
from wmlr.methods import EM, GDA, GEM, IFCA, FederatedEM, Refreshed
from wmlr.options import data, guards, model

EXAMPLE = "wmlr simulate co2 --target CO2 --agent-column country --separate-sigma"
SHOWN = 12
COLUMNS = ("iteration", "rounds", "asked", "answered", "log-likelihood", "bytes, all agents")

AgentColumn = Annotated[
    str, typer.Option(help="Rows with the same entry in this column are one agent's.", metavar="COLUMN")
]
Method = Annotated[
    str, typer.Option(help="wmlr (refreshed), gda (F-WMLR), em (exact), fem (by inner rounds), gem or ifca.")
]
Level = Annotated[str, typer.Option(help="row: each row has its component; agent: an agent's rows share theirs.")]
Weighting = Annotated[str, typer.Option(help="rows: as one fit of all rows; agents: every agent counts alike.")]
Participation = Annotated[float, typer.Option(help="The fraction of the agents asked in each round.")]
Dropout = Annotated[float, typer.Option(help="How likely an agent, once asked, never answers.")]
Late = Annotated[float, typer.Option(help="How likely an answer comes after its round has closed.")]
LocalSteps = Annotated[int, typer.Option(help="For gda: steps on every agent before averaging.", min=1)]
Printed = Annotated[bool, typer.Option("--as-printed", help="gda, gem and fem as in the paper: raw and uncapped.")]


def simulate(
    ctx: typer.Context,
    file: _data.File,
    target: _data.TheTarget,
    agent_column: AgentColumn,
    features: _data.Features = None,
    components: Annotated[int, typer.Option(help="How many.", min=1)] = 2,
    symmetric: _model.Symmetric = False,
    method: Method = "wmlr",
    level: Level = "row",
    weighting: Weighting = "rows",
    participation: Participation = 1.0,
    dropout: Dropout = 0.0,
    late: Late = 0.0,
    local_steps: LocalSteps = 1,
    as_printed: Printed = False,
    secure: _guards.Secure = False,
    epsilon: _guards.Epsilon = None,
    noise_multiplier: _guards.Noise = None,
    delta: _guards.Delta = 1e-5,
    clip: _guards.Clip = 2.0,
    private_rounds: _guards.Rounds = 8,
    x_scale: _guards.XScale = 1.0,
    y_scale: _guards.YScale = None,
    agent_rows: _guards.AgentRows = None,
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    delimiter: _data.Delimiter = None,
    out: _places.Model = None,
    agents_out: Annotated[
        Path | None,
        typer.Option(
            help="Write each agent's component and its probability here.", metavar="FILE", callback=_places.file
        ),
    ] = None,
    report: _report.Report = None,
    release: Annotated[
        bool,
        typer.Option("--release", help="With --epsilon: show exact counts, rows and agents' components all the same."),
    ] = False,
    dashboard: _dashboard.Dashboard = False,
    dashboard_port: _dashboard.Port = 0,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture among simulated agents and print the fit, and what every round asked and sent."""
    solver = _solver(method, as_printed, local_steps)
    _refuse_exact(epsilon is not None or noise_multiplier is not None, release, agents_out, report)
    privacy = guards.privacy(epsilon, noise_multiplier, delta, clip, private_rounds, x_scale, y_scale, agent_rows)
    problem = _load(file, target, features, agent_column, delimiter)
    federation = Federation.split(
        problem.X,
        np.asarray(problem.y),
        problem.groups,
        weighting=weighting,
        level=level,
        participation=participation,
        dropout=dropout,
        late=late,
        seed=seed,
        secure=secure,
        privacy=privacy,
    )
    wanted = model.estimator(
        components,
        symmetric=symmetric,
        no_intercept=no_intercept,
        equal_weights=equal_weights,
        separate_sigma=separate_sigma,
        sigma=sigma,
        start=start,
        seed=seed,
        max_iter=max_iter,
    ).set_params(method=solver)
    live = _dashboard.begun(ctx, dashboard, dashboard_port, f"{file}: {target}")
    with _live_table(federation) as watch:
        rows, watch = live.over(federation), live.also(watch)
        fitted = wanted.fit_on(rows, watch) if privacy is None else fit_privately(wanted, rows, watch)
    intervals = None if privacy is not None else _intervals(fitted, federation)
    if out is not None:
        fitted.save(out)
    if agents_out is not None:
        _write_agents(agents_out, federation, fitted, agent_column)
    if report is not None:
        _report.among(report, fitted, problem, federation, intervals, file, target)
    if as_json:
        told = _described(fitted, federation, intervals, release) | {
            "file": file,
            "target": target,
            "agent_column": agent_column,
        }
        _json.put(told)
    else:
        _print_tables(fitted, federation, intervals, release)
    problem.remark()
    if not fitted.converged_:
        note(f"stopped after {fitted.n_iter_} iterations without converging: raise --max-iter")
    for path in (out, agents_out, report):
        if path is not None:
            say(f"wrote {path}")


def _refuse_exact(private: bool, release: bool, agents_out: Path | None, report: Path | None) -> None:
    """Refuse to write beside a private fit what its noise hides, unless it is asked for."""
    for path, option, what in (
        (agents_out, "--agents-out", "each agent's component and number of rows"),
        (report, "--report", "rows, residuals and each agent's components"),
    ):
        if private and path is not None and not release:
            raise ValueError(f"{option} holds {what}, exactly, which epsilon does not cover: add --release to write it")


def _solver(method: str, as_printed: bool, local_steps: int) -> Any:
    space, capped = ("raw", False) if as_printed else ("whitened", True)
    made = {
        "wmlr": Refreshed(),
        "gda": GDA(local_steps=local_steps, coordinates=space),
        "em": EM(),
        "fem": FederatedEM(capped=capped, coordinates=space),
        "gem": GEM(capped=capped, coordinates=space),
        "ifca": IFCA(),
    }
    if method not in made:
        raise ValueError(f"--method must be one of {', '.join(made)} (got {method!r})")
    if local_steps > 1 and method != "gda":
        raise ValueError(f"--local-steps are steps of gradient descent ascent: use --method gda (got {method!r})")
    return made[method]


def _load(file: str, target: str, features: str | None, agent_column: str, delimiter: str | None) -> data.Problem:
    try:
        return data.load(file, target, features, agent_column, delimiter=delimiter)
    except ValueError as error:
        raise ValueError(str(error).replace("--groups", "--agent-column")) from None


@contextmanager
def _live_table(federation: Federation) -> Iterator[Watcher | None]:
    """A table that grows with every iteration, on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    lines: list[tuple[str, ...]] = []
    with Live(console=console, transient=True, refresh_per_second=8) as live:

        def watch(report: Report) -> None:
            lines.append(_line(report.record))
            table = Table(title=f"{federation.n_agents:,} agents", box=None, pad_edge=False)
            for column in COLUMNS:
                table.add_column(column, justify="right", no_wrap=True)
            for line in lines[-SHOWN:]:
                table.add_row(*line)
            live.update(table)

        yield watch


def _line(record: dict[str, float]) -> tuple[str, ...]:
    counts = [f"{record[name]:,.0f}" for name in ("iteration", "rounds", "asked", "answered")]
    return (*counts, f"{record['log_likelihood']:,.4f}", human_bytes(record["bytes"]))


def _intervals(fitted: Any, federation: Federation) -> ConfidenceIntervals:
    """Standard errors and intervals: one round more."""
    found: ConfidenceIntervals = fitted.fitted_.confidence_intervals_on(federation)
    return found


def _print_tables(
    fitted: Any, federation: Federation, intervals: ConfidenceIntervals | None, release: bool = False
) -> None:
    errors = "none: another noisy round" if intervals is None else "observed information"
    print(Summary.of(fitted.fitted_, intervals, (("agents", str(federation.n_agents)), ("errors", errors))))
    print()
    history = fitted.history_
    shown = history if len(history) <= SHOWN else [history[0], *history[1 - SHOWN :]]
    show(COLUMNS, [_line(record) for record in shown])
    print()
    print(federation.ledger.table(merged=True))
    sizes = federation.sizes
    if federation.privacy is None or release:
        print(f"\n{federation.n_agents:,} agents with {sizes.min():,} to {sizes.max():,} rows each")
    if federation.privacy is not None:
        print(fitted.privacy_)


def _write_agents(path: Path, federation: Federation, fitted: Any, agent_column: str) -> None:
    component, probability = federation.assign(fitted)
    columns = {agent_column: federation.agent_ids, "component": component + 1, "probability": probability}
    tables.write(path, columns | {"rows": federation.sizes})


def _described(
    fitted: Any, federation: Federation, intervals: ConfidenceIntervals | None, release: bool = False
) -> dict[str, Any]:
    names = [str(name) for name in fitted.feature_names_in_]
    told = {
        "features": names,
        "n_agents": federation.n_agents,
        "n_rows": int(federation.sizes.sum()) if federation.privacy is None or release else None,
        "components": _model.components(fitted, names),
        "log_likelihood": float(fitted.log_likelihood_),
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_),
        "history": fitted.history_,
        "ledger": federation.ledger.records(),
        "totals": federation.ledger.totals(),
    }
    if intervals is not None:
        told["standard_errors"] = {name: float(error) for name, error in zip(intervals.names, intervals.errors)}
    if federation.privacy is not None:
        told["privacy"] = asdict(fitted.privacy_)
    return told
