"""``wmlr select``: how many components do the data ask for?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _data, _model, _report
from wmlr.cli._console import note, say, show, working

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
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    seed: _model.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the best model here, as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the criterion into this picture.")] = None,
    report: _report.Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of the table.")] = False,
) -> None:
    """Fit 1, 2, 3 ... components and say which number a criterion prefers."""
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
    problem = _data.load(file, target, features, groups, weights, formula)
    base = _model.estimator(
        2,
        method=method,
        no_intercept=no_intercept,
        equal_weights=equal_weights,
        separate_sigma=separate_sigma,
        sigma=sigma,
        seed=seed,
    )
    from wmlr import select_components

    with working(f"fitting 1 to {max_components} components to {len(problem):,} rows"):
        chosen = select_components(
            problem.X,
            problem.y,
            range(1, max_components + 1),
            criterion,
            estimator=base,
            groups=problem.groups,
            formula=problem.formula,
            sample_weight=problem.weight,
        )
    if out is not None:
        chosen.estimator.save(out)
    if plot is not None:
        plots.save(plots.criterion(chosen), plot)
    if report is not None:
        _report.write(report, chosen.estimator, problem, file, target, selection=chosen)
    values = {k: float(value) for k, value in zip(chosen.n_components, chosen.values)}
    if as_json:
        print(json.dumps({"criterion": criterion, "values": values, "best": chosen.best}, indent=1))
    else:
        rows = [(str(k), f"{value:.4f}", "best" if k == chosen.best else "") for k, value in values.items()]
        show(("components", criterion, ""), rows)
    problem.remark()
    if chosen.best == max_components > 1:
        note(f"{chosen.best} is the most that was tried: raise --max-components to look further")
    for path in (out, plot, report):
        if path is not None:
            say(f"wrote {path}")
