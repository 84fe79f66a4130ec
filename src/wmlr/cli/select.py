"""``wmlr select``: how many components do the data ask for?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _json, _model, _places, _report
from wmlr.cli._console import say, show, working
from wmlr.cli._words import in_options
from wmlr.io.notes import notes

EXAMPLE = "wmlr select tone --target tuned --max-components 4"


def select(
    ctx: typer.Context,
    file: _data.File,
    target: _data.Target = None,
    features: _data.Features = None,
    formula: _data.Formula = None,
    categorical: _data.Categorical = None,
    exclude: _data.Exclude = None,
    ids: _data.Ids = None,
    groups: _data.Groups = None,
    weights: _data.Weights = None,
    offset: _data.Offset = None,
    exposure: _data.Exposure = None,
    trials: _data.Trials = None,
    missing: _data.Missing = "drop",
    na: _data.Na = None,
    delimiter: _data.Delimiter = None,
    decimal: _data.Decimal = ".",
    encoding: _data.Encoding = "utf-8",
    max_components: Annotated[
        int, typer.Option("--max-components", "-k", help="Try 1 up to this many.", min=1, rich_help_panel=_model.PANEL)
    ] = 5,
    criterion: Annotated[
        str,
        typer.Option(help="bic, aic, icl or cv (cross-validation); smaller is better.", rich_help_panel=_model.PANEL),
    ] = "bic",
    family: _model.Family = "normal",
    gate: _model.Gate = None,
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    robust: _model.Robust = False,
    outliers: _model.Outliers = False,
    alpha: _model.Alpha = 0.0,
    shared: _model.Shared = None,
    only: _model.Only = None,
    fixed: _model.Fixed = None,
    method: _model.Method = "wmlr",
    solver: _model.Solver = "auto",
    search: _model.Search = "auto",
    n_init: _model.NInit = 1,
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    out: _places.Model = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the criterion into this picture.",
            metavar="FILE",
            callback=_places.file,
            rich_help_panel=_places.PANEL,
        ),
    ] = None,
    report: _report.Report = None,
    as_json: _json.Json = False,
) -> None:
    """Fit one component, two, and so on, and say which number a criterion prefers."""
    options = _data.options(ctx)
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
    from wmlr.options.problem import load

    problem = load(file, options, intercept=not no_intercept)
    base = _model.estimator(ctx, 2)
    with working(f"fitting 1 to {max_components} components to {len(problem):,} rows"):
        chosen = problem.chosen(base, max_components, criterion)
    problem.remark()
    _model.remark_size(chosen.estimator, len(problem), max_components)
    _model.remark_end(chosen.estimator)
    if out is not None:
        chosen.estimator.save(out)
    if plot is not None:
        plots.save(plots.criterion(chosen), plot)
    if report is not None:
        _report.write(report, chosen.estimator, problem, file, target, selection=chosen)
    if as_json:
        told = {"file": file, "target": target or formula or "", "n_rows": len(problem)}
        _json.print_json(told | {"rows_with_gaps": problem.dropped} | _model.choice(chosen) | {"notes": list(notes())})
    else:
        headers, rows = chosen.cells()
        show(headers, [[in_options(cell) for cell in row] for row in rows])
    for path in (out, plot, report):
        if path is not None:
            say(f"wrote {path}")
