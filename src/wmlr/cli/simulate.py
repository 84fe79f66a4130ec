"""``wmlr simulate``: fit among agents, each with its own rows of a file, and account for every round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _dashboard, _data, _guards, _json, _model, _places, _report
from wmlr.cli._console import print_written
from wmlr.cli._options import option_under
from wmlr.io.notes import notes

EXAMPLE = "wmlr simulate co2 --target CO2 --agent-column country --separate-sigma"
PANEL = "Agents"

option = option_under(PANEL)


def simulate(
    ctx: typer.Context,
    *,
    file: _data.File,
    target: _data.TheTarget,
    agent_column: Annotated[str, option("Rows with the same entry in this column are one agent's.", metavar="COLUMN")],
    features: _data.Features = None,
    categorical: _data.Categorical = None,
    exclude: _data.Exclude = None,
    role_columns: _data.RoleOptions,
    missing: _data.Missing = "drop",
    form: _data.Format,
    components: _model.Count = 2,
    symmetric: _model.Symmetric = False,
    method: Annotated[
        str, _model.searching("wmlr (refreshed), gda (F-WMLR), em (exact), fem (by inner rounds), gem or ifca.")
    ] = "wmlr",
    level: Annotated[str, option("row: each row has its component; agent: an agent's rows share theirs.")] = "row",
    weighting: Annotated[str, option("rows: as one fit of all rows; agents: every agent counts alike.")] = "rows",
    participation: Annotated[float, option("The fraction of the agents asked in each round.")] = 1.0,
    dropout: Annotated[float, option("How likely an agent, once asked, never answers.")] = 0.0,
    late: Annotated[float, option("How likely an answer comes after its round has closed.")] = 0.0,
    local_steps: Annotated[int, option("For gda: steps on every agent before averaging.", min=1)] = 1,
    as_printed: Annotated[bool, option("gda, gem and fem as in the paper: raw and uncapped.", "--as-printed")] = False,
    guarding: _guards.Guards,
    noise: _guards.PrivacyOptions,
    law: _model.Law,
    start: _model.Start = "auto",
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    out: _places.Model = None,
    agents_out: Annotated[
        Path | None, _places.to_file("Write each agent's component and its probability here.")
    ] = None,
    report: _report.Report = None,
    release: Annotated[
        bool,
        _places.option("With --epsilon: show exact counts, rows and agents' components all the same.", "--release"),
    ] = False,
    watching: _dashboard.Watching,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture among simulated agents and print the fit, and what every round asked and sent."""
    from dataclasses import asdict, astuple, replace

    from wmlr.cli import _simulation
    from wmlr.federated import Federation, fit_privately
    from wmlr.options import guards
    from wmlr.options.problem import load

    solver = _simulation.federated_method(method, as_printed, local_steps)
    _simulation.refuse_exact(noise.is_requested, release, agents_out, report)
    privacy = guards.privacy(*astuple(noise))
    options = replace(_data.options(ctx), groups=agent_column, group_option="--agent-column")
    problem = load(file, options, intercept=not law.no_intercept, symmetric=symmetric)
    exact = privacy is None or release
    wanted = _model.estimator(ctx, components).set_params(method=solver)
    table, y, roles = _simulation.with_roles(wanted, problem)
    federation = Federation.split(
        table,
        y,
        problem.groups,
        weighting=weighting,
        level="agent" if law.gate == "group" else level,
        participation=participation,
        dropout=dropout,
        late=late,
        seed=seed,
        privacy=privacy,
        **asdict(guarding),
    )
    federation.roles = roles
    live = _dashboard.open_page(ctx, watching, f"{file}: {target}")
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
    print_written(out, agents_out, report)
