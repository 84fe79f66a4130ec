"""The options that say what to fit, and a fit as plain data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

PANEL, SEARCHING = "Model", "Search"
FEW_ROWS = 5  # a parameter

Symmetric = Annotated[
    bool,
    typer.Option("--symmetric", help="Two components, beta and -beta, without intercept.", rich_help_panel=PANEL),
]
Components = Annotated[
    str,
    typer.Option(
        "--components",
        "-k",
        help="How many, or auto: the best of 1 to 5 (--max-components) by BIC.",
        rich_help_panel=PANEL,
    ),
]
MaxComponents = Annotated[
    int | None,
    typer.Option("--max-components", help="With -k auto: the most to try (5).", min=1, rich_help_panel=PANEL),
]
Count = Annotated[int, typer.Option("--components", "-k", help="How many.", min=1, rich_help_panel=PANEL)]
Method = Annotated[
    str, typer.Option(help="wmlr, em or gem; mix-irls or altmin for comparison.", rich_help_panel=SEARCHING)
]
Solver = Annotated[
    str,
    typer.Option(help="For wmlr: auto, gda (the paper's Algorithm 1) or reduction.", rich_help_panel=SEARCHING),
]
NoIntercept = Annotated[bool, typer.Option("--no-intercept", help="Lines through the origin.", rich_help_panel=PANEL)]
EqualWeights = Annotated[bool, typer.Option("--equal-weights", help="Hold the weights at 1/k.", rich_help_panel=PANEL)]
SeparateSigma = Annotated[
    bool, typer.Option("--separate-sigma", help="A noise deviation for each component.", rich_help_panel=PANEL)
]
Sigma = Annotated[float | None, typer.Option(help="The noise deviation, where it is known.", rich_help_panel=PANEL)]
Start = Annotated[
    str, typer.Option(help="auto, spectral, random, or a model file to begin from.", rich_help_panel=SEARCHING)
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same fit.", min=0, rich_help_panel=SEARCHING)]
Robust = Annotated[bool, typer.Option("--robust", help="Bound the influence of gross outliers.", rich_help_panel=PANEL)]
Outliers = Annotated[
    bool,
    typer.Option("--outliers", help="Leave out gross errors, whose share is estimated.", rich_help_panel=PANEL),
]
Family = Annotated[
    str,
    typer.Option(
        help="What y is: normal, student, laplace; poisson, negative-binomial, binomial; gamma, beta. One for each "
        "component as poisson,point-mass; a link or degrees of freedom as binomial:probit.",
        metavar="FAMILY",
        rich_help_panel=PANEL,
    ),
]
Gate = Annotated[
    str | None,
    typer.Option(
        help="Mixing weights: columns they depend on, as a,b or '~ a + b'; equal; group, each group's own; or numbers.",
        metavar="GATE",
        rich_help_panel=PANEL,
    ),
]
Alpha = Annotated[float, typer.Option(help="Ridge penalty on the squared coefficients.", rich_help_panel=PANEL)]
Shared = Annotated[
    str | None,
    typer.Option(
        help="Columns with one coefficient for all components, as a,b.", metavar="COLUMNS", rich_help_panel=PANEL
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        help="Components, counted from 1, that alone have a column: 'income=1,3; age=2'.",
        metavar="COLUMN=COMPONENTS",
        rich_help_panel=PANEL,
    ),
]
Fixed = Annotated[
    str | None,
    typer.Option(
        help="Known coefficients by component: 'income=1:0.5,2:0'.",
        metavar="COLUMN=COMPONENT:VALUE",
        rich_help_panel=PANEL,
    ),
]
Search = Annotated[
    str,
    typer.Option(
        help="How hard to look for the likeliest fit: auto, quick, thorough, or a number of EM steps.",
        rich_help_panel=SEARCHING,
    ),
]
NInit = Annotated[int, typer.Option(help="Independent searches, or starts.", min=1, rich_help_panel=SEARCHING)]
MaxIter = Annotated[int, typer.Option(help="Iterations at most.", rich_help_panel=SEARCHING)]
Errors = Annotated[
    str,
    typer.Option(
        help="Standard errors: observed; sandwich, which hold where the noise is otherwise; clustered, by --groups.",
        rich_help_panel=PANEL,
    ),
]


def estimator(ctx: typer.Context, count: int) -> Any:
    """The estimator that the options of a command describe; those it does not have are as they are by default."""
    from inspect import signature

    from wmlr.options import model

    known = set(signature(model.estimator).parameters) - {"n_components"}
    return model.estimator(count, **{name: value for name, value in ctx.params.items() if name in known})


def remark_size(fitted: Any, rows: int, most: int | None) -> None:
    """Say where rows are few for so many parameters; else, where the most components that were tried won."""
    from wmlr.io.notes import note

    k, parameters = len(fitted.weights_), float(fitted.n_parameters_)
    if rows < FEW_ROWS * parameters:
        fewer = ["fewer columns by --features"] if fitted.mixture_.n_features > 1 else []
        fewer += ["fewer components by -k"] if k > 1 else []
        remedy = " or ".join(fewer) or "more rows"
        note(f"{rows:,} rows for {parameters:.0f} parameters are few: take {remedy} before this is relied on")
    elif most is not None and k == most > 1:
        note(f"{most} components are the most that were tried: raise --max-components to look further")


def remark_end(fitted: Any) -> None:
    """Say why a fit has not converged, and what to do, where it has not."""
    from wmlr.cli._words import in_options
    from wmlr.io.notes import note

    if found := fitted.fitted_.record.unconverged:
        note(in_options(found))


def choice(selection: Any) -> dict[str, Any]:
    """The choice of a number of components as plain data, for ``--json``."""
    values = {k: float(value) for k, value in zip(selection.n_components, selection.values)}
    told = {"criterion": selection.criterion, "values": values, "best": selection.best}
    from wmlr.cli._words import in_options

    return told | {"table": [line | {"remark": in_options(str(line.get("remark", "")))} for line in selection.table()]}


def search(fitted: Any) -> dict[str, Any] | None:
    """How a fit's maximum was found as plain data, for ``--json``."""
    return None if fitted.search_ is None else fitted.search_.to_plain()


def components(fitted: Any, names: list[str]) -> list[dict[str, Any]]:
    """A fit's components as plain data, for ``--json``."""
    return [
        {
            "component": j + 1,
            "weight": float(fitted.weights_[j]),
            "sigma": float(fitted.sigma_[j]),
            "intercept": float(fitted.intercept_[j]),
            "coef": dict(zip(names, fitted.coef_[j].tolist())),
        }
        for j in range(len(fitted.weights_))
    ]
