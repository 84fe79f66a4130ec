"""The options that say what to fit, and the estimator they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

Symmetric = Annotated[bool, typer.Option("--symmetric", help="Two components, beta and -beta, without intercept.")]
Method = Annotated[str, typer.Option(help="wmlr, em or gem; mix-irls or altmin for comparison.")]
Solver = Annotated[str, typer.Option(help="For wmlr: auto, gda (the paper's Algorithm 1) or reduction.")]
NoIntercept = Annotated[bool, typer.Option("--no-intercept", help="Lines through the origin.")]
EqualWeights = Annotated[bool, typer.Option("--equal-weights", help="Hold the weights at 1/k.")]
SeparateSigma = Annotated[bool, typer.Option("--separate-sigma", help="A noise deviation for each component.")]
Sigma = Annotated[float | None, typer.Option(help="The noise deviation, where it is known.")]
Start = Annotated[str, typer.Option(help="auto, spectral, random, or a model file to begin from.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same fit.", min=0)]
Robust = Annotated[bool, typer.Option("--robust", help="Bound the influence of gross outliers.")]
Alpha = Annotated[float, typer.Option(help="Ridge penalty on the squared coefficients.")]
Shared = Annotated[
    str | None, typer.Option(help="Columns with one coefficient for all components, as a,b.", metavar="COLUMNS")
]
Search = Annotated[
    str, typer.Option(help="How hard to look for the likeliest fit: auto, quick, thorough, or a number of EM steps.")
]
NInit = Annotated[int, typer.Option(help="Independent searches, or starts.", min=1)]
MaxIter = Annotated[int, typer.Option(help="Iterations at most.")]


def estimator(
    n_components: int,
    *,
    symmetric: bool = False,
    method: str = "wmlr",
    solver: str = "auto",
    no_intercept: bool = False,
    equal_weights: bool = False,
    separate_sigma: bool = False,
    sigma: float | None = None,
    start: str = "auto",
    seed: int = 0,
    max_iter: int = 300,
    robust: bool = False,
    alpha: float = 0.0,
    shared: str | None = None,
    search: str = "auto",
    n_init: int = 1,
) -> Any:
    """An estimator with these settings, not yet fitted."""
    from wmlr import MixedLinearRegression

    return MixedLinearRegression(
        n_components,
        method=method,
        solver=solver,
        symmetric=symmetric,
        fit_intercept=not no_intercept,
        equal_weights=equal_weights,
        shared_sigma=not separate_sigma,
        sigma=sigma,
        start=begun(start),
        random_state=seed,
        max_iter=max_iter,
        robust=robust,
        alpha=alpha,
        shared=None if shared is None else [name.strip() for name in shared.split(",")],
        search=_effort(search),
        n_init=n_init,
    )


def _effort(search: str) -> str | float:
    """``--search`` as the estimator wants it."""
    try:
        return float(search)
    except ValueError:
        return search


def begun(start: str) -> Any:
    """``--start`` as the estimator wants it: a word, or the coefficients of a saved model."""
    if not start.endswith(".json"):
        return start
    fitted = load_model(Path(start))
    return np.column_stack([fitted.coef_, fitted.intercept_])


def load_model(path: Path) -> Any:
    """Read a model file, or say why not."""
    from wmlr import MixedLinearRegression

    if not path.is_file():
        raise ValueError(f"there is no model file {path}: wmlr fit ... --out {path} writes one")
    return MixedLinearRegression.load(path)


def choice(selection: Any) -> dict[str, Any]:
    """The choice of a number of components as plain data, for ``--json``."""
    values = {k: float(value) for k, value in zip(selection.n_components, selection.values)}
    told = {"criterion": selection.criterion, "values": values, "best": selection.best}
    return told | {"table": selection.table()}


def search(fitted: Any) -> dict[str, Any] | None:
    """How a fit's maximum was found as plain data, for ``--json``."""
    return None if fitted.search_ is None else fitted.search_.to_plain()


def components(fitted: Any, names: list[str]) -> list[dict[str, Any]]:
    """A fit's components as plain data, for ``--json``."""
    return [
        {
            "weight": float(fitted.weights_[j]),
            "sigma": float(fitted.sigma_[j]),
            "intercept": float(fitted.intercept_[j]),
            "coef": dict(zip(names, fitted.coef_[j].tolist())),
        }
        for j in range(len(fitted.weights_))
    ]
