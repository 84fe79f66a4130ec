"""``wmlr simulate``: fit among agents, each with its own rows of a file, and account for every round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _dashboard, _data, _guards, _json, _model, _places, _report
from wmlr.cli._console import say
from wmlr.io.notes import notes

EXAMPLE = "wmlr simulate co2 --target CO2 --agent-column country --separate-sigma"
PANEL = "Agents"

AgentColumn = Annotated[
    str,
    typer.Option(
        help="Rows with the same entry in this column are one agent's.", metavar="COLUMN", rich_help_panel=PANEL
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="wmlr (refreshed), gda (F-WMLR), em (exact), fem (by inner rounds), gem or ifca.",
        rich_help_panel=_model.SEARCHING,
    ),
]
Level = Annotated[
    str,
    typer.Option(help="row: each row has its component; agent: an agent's rows share theirs.", rich_help_panel=PANEL),
]
Weighting = Annotated[
    str, typer.Option(help="rows: as one fit of all rows; agents: every agent counts alike.", rich_help_panel=PANEL)
]
Participation = Annotated[
    float, typer.Option(help="The fraction of the agents asked in each round.", rich_help_panel=PANEL)
]
Dropout = Annotated[float, typer.Option(help="How likely an agent, once asked, never answers.", rich_help_panel=PANEL)]
Late = Annotated[
    float, typer.Option(help="How likely an answer comes after its round has closed.", rich_help_panel=PANEL)
]
LocalSteps = Annotated[
    int, typer.Option(help="For gda: steps on every agent before averaging.", min=1, rich_help_panel=PANEL)
]
Printed = Annotated[
    bool,
    typer.Option("--as-printed", help="gda, gem and fem as in the paper: raw and uncapped.", rich_help_panel=PANEL),
]


def simulate(
    ctx: typer.Context,
    file: _data.File,
    target: _data.TheTarget,
    agent_column: AgentColumn,
    features: _data.Features = None,
    categorical: _data.Categorical = None,
    exclude: _data.Exclude = None,
    offset: _data.Offset = None,
    exposure: _data.Exposure = None,
    trials: _data.Trials = None,
    missing: _data.Missing = "drop",
    na: _data.Na = None,
    delimiter: _data.Delimiter = None,
    decimal: _data.Decimal = ".",
    encoding: _data.Encoding = "utf-8",
    components: _model.Count = 2,
    symmetric: _model.Symmetric = False,
    method: Method = "wmlr",
    level: Level = "row",
    weighting: Weighting = "rows",
    participation: Participation = 1.0,
    dropout: Dropout = 0.0,
    late: Late = 0.0,
    local_steps: LocalSteps = 1,
    as_printed: Printed = False,
    trust: _guards.Trust = "all",
    secure: _guards.Secure = False,
    epsilon: _guards.Epsilon = None,
    noise_multiplier: _guards.Noise = None,
    delta: _guards.Delta = 1e-5,
    clip: _guards.Clip = 2.0,
    private_rounds: _guards.Rounds = 8,
    x_scale: _guards.XScale = 1.0,
    y_scale: _guards.YScale = None,
    agent_rows: _guards.AgentRows = None,
    family: _model.Family = "normal",
    gate: _model.Gate = None,
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    out: _places.Model = None,
    agents_out: Annotated[
        Path | None,
        typer.Option(
            help="Write each agent's component and its probability here.",
            metavar="FILE",
            callback=_places.file,
            rich_help_panel=_places.PANEL,
        ),
    ] = None,
    report: _report.Report = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="With --epsilon: show exact counts, rows and agents' components all the same.",
            rich_help_panel=_places.PANEL,
        ),
    ] = False,
    dashboard: _dashboard.Dashboard = False,
    dashboard_port: _dashboard.Port = 0,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture among simulated agents and print the fit, and what every round asked and sent."""
    from dataclasses import replace

    from wmlr.cli import _simulation
    from wmlr.federated import Federation, fit_privately
    from wmlr.options import guards
    from wmlr.options.problem import load

    solver = _simulation.federated_method(method, as_printed, local_steps)
    _simulation.refuse_exact(epsilon is not None or noise_multiplier is not None, release, agents_out, report)
    privacy = guards.privacy(epsilon, noise_multiplier, delta, clip, private_rounds, x_scale, y_scale, agent_rows)
    options = replace(_data.options(ctx), groups=agent_column, group_option="--agent-column")
    problem = load(file, options, intercept=not no_intercept, symmetric=symmetric)
    exact = privacy is None or release
    wanted = _model.estimator(ctx, components).set_params(method=solver)
    table, y, roles = _simulation.with_roles(wanted, problem)
    federation = Federation.split(
        table,
        y,
        problem.groups,
        weighting=weighting,
        level="agent" if gate == "group" else level,
        participation=participation,
        dropout=dropout,
        late=late,
        seed=seed,
        secure=secure,
        privacy=privacy,
        trust=trust,
    )
    federation.roles = roles
    live = _dashboard.open_page(ctx, dashboard, dashboard_port, f"{file}: {target}")
    with _simulation.live_table(federation) as watch:
        rows, watch = _simulation.in_roles(live.over(federation), roles), live.also(watch)
        fitted = wanted.fit_on(rows, watch) if privacy is None else fit_privately(wanted, rows, watch)
    (problem if exact else replace(problem, dropped=0)).complete(fitted)
    intervals = (
        None
        if privacy is not None
        else _simulation.confidence_intervals(fitted, _simulation.in_roles(federation, roles))
    )
    if exact:
        problem.remark()
    _model.remark_end(fitted)
    if out is not None:
        fitted.save(out)
    if agents_out is not None:
        _simulation.write_agents(agents_out, federation, fitted, agent_column)
    if report is not None:
        _report.among(report, fitted, problem, federation, intervals, file, target)
    if as_json:
        told = {
            "file": file,
            "target": target,
            "agent_column": agent_column,
            "rows_with_gaps": problem.dropped if exact else None,
        }
        _json.print_json(
            _simulation.fit_as_plain_data(fitted, federation, intervals, release) | told | {"notes": list(notes())}
        )
    else:
        _simulation.print_tables(fitted, federation, intervals, release)
    for path in (out, agents_out, report):
        if path is not None:
            say(f"wrote {path}")
