"""``wmlr fit``: fit a mixture of regressions to the columns of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _data, _json, _model, _places, _report, _stream
from wmlr.cli._console import say, working
from wmlr.estimator.summary import feature_names
from wmlr.io.printable import note
from wmlr.options import data, model

EXAMPLE = "wmlr fit tone --target tuned --separate-sigma"


def fit(
    file: _data.File,
    target: _data.Target = None,
    features: _data.Features = None,
    formula: _data.Formula = None,
    components: Annotated[str, typer.Option(help="How many, or auto: the best of 1 to 5 by BIC.")] = "2",
    symmetric: _model.Symmetric = False,
    method: _model.Method = "wmlr",
    solver: _model.Solver = "auto",
    groups: _data.Groups = None,
    weights: _data.Weights = None,
    no_intercept: _model.NoIntercept = False,
    equal_weights: _model.EqualWeights = False,
    separate_sigma: _model.SeparateSigma = False,
    sigma: _model.Sigma = None,
    start: _model.Start = "auto",
    robust: _model.Robust = False,
    alpha: _model.Alpha = 0.0,
    shared: _model.Shared = None,
    search: _model.Search = "auto",
    n_init: _model.NInit = 1,
    max_iter: _model.MaxIter = 300,
    seed: _model.Seed = 0,
    delimiter: _data.Delimiter = None,
    stream: _stream.Stream = None,
    out: _places.Model = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the rows and the lines into this picture.", metavar="FILE", callback=_places.file),
    ] = None,
    report: _report.Report = None,
    as_json: _json.Json = False,
) -> None:
    """Fit a mixture of linear regressions to the columns of a file, and print it as a table."""
    count = counted(components, symmetric)
    if plot is not None:
        from wmlr import plots

        plots.check_format(plot)
    if formula is not None and no_intercept:
        raise ValueError("--formula says itself whether there is an intercept: write - 1 into it for none")
    wanted = model.estimator(
        count or 2,
        symmetric=symmetric,
        method=method,
        solver=solver,
        no_intercept=no_intercept,
        equal_weights=equal_weights,
        separate_sigma=separate_sigma,
        sigma=sigma,
        start=start,
        seed=seed,
        max_iter=max_iter,
        robust=robust,
        alpha=alpha,
        shared=shared,
        search=search,
        n_init=n_init,
    )
    columns = (target, features, groups, weights, formula)
    source = _stream.wanted(file, stream, delimiter)
    problem: Any
    if source is None:
        problem = data.load(file, *columns, delimiter=delimiter)
        with working(f"fitting {len(problem):,} rows"):
            fitted, selection = _fitted(problem, wanted, count)
            summary = problem.summary(fitted)
    else:
        if plot is not None:
            raise ValueError(
                f"--plot draws rows in memory, and {file} is read block by block: plot a sample of its rows, "
                "or read it whole with --no-stream"
            )
        with _stream.rows_bar("fitting") as progress:
            problem = _stream.load(source, *columns, symmetric, progress)
            fitted, selection = _fitted(problem, wanted, count)
            summary = problem.summary(fitted)
    if out is not None:
        fitted.save(out)
    if plot is not None:
        plots.save(plots.fitted_lines(fitted, problem.X, problem.y, groups=problem.groups), plot)
    if report is not None:
        _report.write(report, fitted, problem, file, target, summary=summary, selection=selection)
    if as_json:
        chosen = {} if selection is None else {"choice": _model.choice(selection)}
        _json.put(described(fitted, problem, file, target or formula or "") | chosen)
    else:
        print(summary)
    problem.remark()
    if count is None and len(fitted.weights_) == data.MOST_COMPONENTS:
        note(f"{data.MOST_COMPONENTS} components are the most that auto tries: wmlr select looks further")
    if not fitted.converged_:
        note(f"stopped after {fitted.n_iter_} iterations without converging: raise --max-iter")
    for path in (out, plot, report):
        if path is not None:
            say(f"wrote {path}")


def _fitted(problem: Any, wanted: Any, count: int | None) -> tuple[Any, Any]:
    """The fit, and the choice of the number of components where there was one."""
    if count is not None:
        return problem.fitted(wanted, count), None
    selection = problem.chosen(wanted)
    return selection.estimator, selection


def counted(components: str, symmetric: bool) -> int | None:
    """The number of components, or None for auto."""
    if components == "auto":
        if symmetric:
            raise ValueError("--symmetric means two components: leave out --components auto")
        return None
    if not components.isdigit() or int(components) < 1:
        raise ValueError(f"--components must be a whole number of at least 1, or auto (got {components!r})")
    return int(components)


def described(fitted: Any, problem: Any, file: str, target: str) -> dict[str, Any]:
    """A fit as plain data, for ``--json``."""
    names = feature_names(fitted)
    aic, bic = problem.criteria(fitted)
    return {
        "file": file,
        "target": target,
        "features": names,
        "n_rows": len(problem),
        "components": _model.components(fitted, names),
        "log_likelihood": float(fitted.log_likelihood_),
        "n_parameters": fitted.n_parameters_,
        "aic": aic,
        "bic": bic,
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_),
        "search": _model.search(fitted),
    }
