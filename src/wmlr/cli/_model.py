"""The options that say what to fit, and a fit as plain data."""

from __future__ import annotations

from typing import Annotated, Any

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
