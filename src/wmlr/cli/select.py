"""``wmlr select``: how many components do the data ask for?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _json, _model, _places, _report
from wmlr.cli._console import say, show, working
from wmlr.io.printable import note
from wmlr.options import data, model

EXAMPLE = "wmlr select tone --target tuned --max-components 4"


def select(
    file: _data.File,
    target: _data.Target = None,
    formula: _data.Formula = None,
    max_components: Annotated[int, typer.Option(help="Try 1 up to this many.", min=1)] = 5,
    criterion: Annotated[str, typer.Option(help="bic, aic, icl or cv (cross-validation); smaller is better.")] = "bic",
    features: _data.Features = None,
    groups: _data.Groups = None,
    weights: _data.Weights = None,
    method: _model.Method = "wmlr",
    solver: _model.Solver = "auto",
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    robust: _model.Robust = False,
    alpha: _model.Alpha = 0.0,
    shared: _model.Shared = None,
    search: _model.Search = "auto",
    n_init: _model.NInit = 1,
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    delimiter: _data.Delimiter = None,
    out: _places.Model = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the criterion into this picture.", metavar="FILE", callback=_places.file)
    ] = None,
    report: _report.Report = None,
    as_json: _json.Json = False,
) -> None:
    """Fit 1, 2, 3 ... components and say which number a criterion prefers."""
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
    problem = data.load(file, target, features, groups, weights, formula, delimiter)
    base = model.estimator(
        2,
        method=method,
        solver=solver,
        no_intercept=no_intercept,
        equal_weights=equal_weights,
        separate_sigma=separate_sigma,
        sigma=sigma,
        seed=seed,
        max_iter=max_iter,
        robust=robust,
        alpha=alpha,
        shared=shared,
        search=search,
        n_init=n_init,
    )
    with working(f"fitting 1 to {max_components} components to {len(problem):,} rows"):
        chosen = problem.chosen(base, max_components, criterion)
    if out is not None:
        chosen.estimator.save(out)
    if plot is not None:
        plots.save(plots.criterion(chosen), plot)
    if report is not None:
        _report.write(report, chosen.estimator, problem, file, target, selection=chosen)
    told = _model.choice(chosen)
    if as_json:
        _json.put({"file": file, "target": target or formula or "", **told})
    else:
        show(*chosen.cells())
    problem.remark()
    if chosen.best == max_components > 1:
        note(f"{chosen.best} is the most that was tried: raise --max-components to look further")
    for path in (out, plot, report):
        if path is not None:
            say(f"wrote {path}")
