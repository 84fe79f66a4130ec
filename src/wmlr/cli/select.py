"""``wmlr select``: how many components do the data ask for?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _json, _model, _places, _report
from wmlr.cli._console import print_written, show, status_line
from wmlr.cli._words import in_options
from wmlr.io.notes import notes

EXAMPLE = "wmlr select tone --target tuned --max-components 4"


def select(
    ctx: typer.Context,
    *,
    file: _data.File,
    columns: _data.ColumnOptions,
    row_columns: _data.RowColumns,
    role_columns: _data.RoleOptions,
    missing: _data.Missing = "drop",
    form: _data.Format,
    max_components: Annotated[int, _model.option("Try 1 up to this many.", "--max-components", "-k", min=1)] = 5,
    criterion: Annotated[str, _model.option("bic, aic, icl or cv (cross-validation); smaller is better.")] = "bic",
    law: _model.Law,
    safeguards: _model.Safeguards,
    coefficients: _model.CoefficientRules,
    solving: _model.Solving,
    searching: _model.Searching,
    out: _places.Model = None,
    plot: Annotated[Path | None, _places.to_file("Draw the criterion into this picture.")] = None,
    report: _report.Report = None,
    as_json: _json.Json = False,
) -> None:
    """Fit one component, two, and so on, and say which number a criterion prefers."""
    options = _data.options(ctx)
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
    from wmlr.options.problem import load

    problem = load(file, options, intercept=not law.no_intercept)
    base = _model.estimator(ctx, 2)
    with status_line(f"fitting 1 to {max_components} components to {len(problem):,} rows"):
        chosen = problem.choose(base, max_components, criterion)
    problem.remark()
    _model.remark_size(chosen.estimator, len(problem), max_components)
    _model.remark_end(chosen.estimator)
    if out is not None:
        chosen.estimator.save(out)
    if plot is not None:
        plots.save(plots.criterion(chosen), plot)
    if report is not None:
        _report.write(report, chosen.estimator, problem, file, columns.target, selection=chosen)
    if as_json:
        told = {"file": file, "target": columns.target or columns.formula or "", "n_rows": len(problem)}
        _json.print_json(told | {"rows_with_gaps": problem.dropped} | _model.choice(chosen) | {"notes": list(notes())})
    else:
        headers, rows = chosen.cells()
        show(headers, [[in_options(cell) for cell in row] for row in rows])
    print_written(out, plot, report)
