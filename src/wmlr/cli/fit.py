"""``wmlr fit``: fit a mixture of regressions to the columns of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _data, _json, _model, _places, _report, _spark, _stream
from wmlr.cli._console import print_written, status_line
from wmlr.cli._words import in_options
from wmlr.io.notes import note, notes

EXAMPLE = "wmlr fit tone --target tuned --separate-sigma"


def fit(
    ctx: typer.Context,
    *,
    file: _data.File,
    columns: _data.ColumnOptions,
    row_columns: _data.RowColumns,
    role_columns: _data.RoleOptions,
    missing: _data.Missing = "drop",
    form: _data.Format,
    stream: _stream.Stream = None,
    spark: _spark.Spark = False,
    components: _model.Components = "2",
    max_components: _model.MaxComponents = None,
    symmetric: _model.Symmetric = False,
    law: _model.Law,
    safeguards: _model.Safeguards,
    coefficients: _model.CoefficientRules,
    errors: _model.Errors = "observed",
    solving: _model.Solving,
    start: _model.Start = "auto",
    searching: _model.Searching,
    out: _places.Model = None,
    plot: Annotated[Path | None, _places.to_file("Draw the rows and the lines into this picture.")] = None,
    report: _report.Report = None,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture of linear regressions to the columns of a file, and print it as a table.

    Text becomes levels, rows with gaps are left out, ids and many dates are not taken: each is said.
    """
    count = component_count(components, symmetric)
    if count is not None and max_components is not None:
        raise ValueError("--max-components says how many --components auto may try: leave one out")
    from wmlr.options import problem as rows

    rows.refuse_errors(errors, row_columns.groups, columns.formula)
    options, intercept = _data.options(ctx), not law.no_intercept
    options.require_one_target(intercept)
    if spark and stream is not None:
        raise ValueError("--spark leaves the rows on the cluster: leave out --stream and --no-stream")
    if spark and report is not None:
        raise ValueError("--report draws some of the rows, and --spark leaves them on the cluster: leave one out")
    source = None if spark else _stream.streamed_source(file, stream, options)
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
        if spark or source is not None:
            where = "stays on the cluster" if spark else "is read block by block"
            raise ValueError(
                f"--plot draws rows in memory, and {file} {where}: plot a sample of its rows"
                + ("" if spark else ", or read it whole with --no-stream")
            )
    problem: Any
    if spark:
        wanted = _model.estimator(ctx, count or 2)
        with status_line("fitting on the cluster"), _spark.load(file, options) as problem:
            fitted, selection = _fit(problem, wanted, count, max_components)
            summary = problem.summary(fitted, errors)
    elif source is None:
        problem = rows.load(file, options, intercept=intercept, symmetric=symmetric)
        if plot is not None and problem.formula is not None:
            plots.variables_to_draw_along(problem.formula, problem.frame)
        wanted = _model.estimator(ctx, count or 2)
        with status_line(f"fitting {len(problem):,} rows"):
            fitted, selection = _fit(problem, wanted, count, max_components)
            summary = problem.summary(fitted, errors)
    else:
        wanted = _model.estimator(ctx, count or 2)
        with _stream.rows_bar("fitting") as progress:
            problem = _stream.load(source, options, intercept, symmetric, progress)
            fitted, selection = _fit(problem, wanted, count, max_components)
            summary = problem.summary(fitted, errors)
    problem.remark()
    _remark(fitted, problem, selection)
    if out is not None:
        fitted.save(out)
    if plot is not None:
        drawn = problem.X if problem.frame is None else problem.frame
        y = problem.y if problem.frame is None else None
        plots.save(plots.fitted_lines(fitted, drawn, y, groups=problem.groups, **problem.roles), plot)
    if report is not None:
        _report.write(report, fitted, problem, file, columns.target, summary=summary, selection=selection)
    if as_json:
        chosen = {} if selection is None else {"choice": _model.choice(selection)}
        described_fit = fit_as_plain_data(
            fitted, problem, summary, without_password(file), columns.target or columns.formula or ""
        )
        _json.print_json(described_fit | chosen | {"notes": list(notes())})
    else:
        print(summary)
    print_written(out, plot, report)


def _fit(problem: Any, wanted: Any, count: int | None, most: int | None) -> tuple[Any, Any]:
    """The fit, and the choice of the number of components where there was one."""
    from wmlr.selection import MOST_COMPONENTS

    if count is not None:
        return problem.fit(wanted, count), None
    selection = problem.choose(wanted, most or min(MOST_COMPONENTS, len(problem) or MOST_COMPONENTS))
    return selection.estimator, selection


def _remark(fitted: Any, problem: Any, selection: Any) -> None:
    _model.remark_size(fitted, len(problem), None if selection is None else max(selection.n_components))
    _model.remark_end(fitted)
    for k, against in ({} if selection is None else selection.set_aside()).items():
        note(f"{k} components would have the lesser BIC, and are not chosen: {in_options(against)}")


def without_password(file: str) -> str:
    """What was read, without the password that an address may hold."""
    if "://" not in file:
        return file
    from wmlr.engines.databases import hide_password

    return hide_password(file)


def component_count(components: str, symmetric: bool) -> int | None:
    """The number of components, or None for auto."""
    if components == "auto":
        if symmetric:
            raise ValueError("--symmetric means two components: leave out --components auto")
        return None
    if not components.isdigit() or int(components) < 1:
        raise ValueError(f"--components must be a whole number of at least 1, or auto (got {components!r})")
    return int(components)


def fit_as_plain_data(fitted: Any, problem: Any, summary: Any, file: str, target: str) -> dict[str, Any]:
    """A fit as plain data, for ``--json``."""
    from wmlr.estimator.summary import feature_names

    names, law = feature_names(fitted), fitted.mixture_.family
    aic, bic = problem.criteria(fitted)
    return {
        "file": file,
        "target": target,
        "features": names,
        "family": law.label
        if law.one_law
        else [law.of_component(j).label for j in range(fitted.mixture_.n_components)],
        "link": law.predictor_scale,
        "n_rows": len(problem),
        "rows_with_gaps": problem.dropped,
        "components": _model.components(fitted, names),
        "estimates": [
            {
                "component": line.component + 1,
                "name": line.name,
                "estimate": line.estimate,
                "error": line.error,
                "lower": line.lower,
                "upper": line.upper,
            }
            for _, lines in summary.components
            for line in lines
        ],
        "level": summary.level,
        "log_likelihood": float(fitted.log_likelihood_),
        "n_parameters": fitted.n_parameters_,
        "aic": aic,
        "bic": bic,
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_) and summary.strict,
        "search": _model.search(fitted),
    }
