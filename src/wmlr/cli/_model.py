"""The options that say what to fit, and a fit as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from wmlr.cli._options import option_under

PANEL, SEARCHING = "Model", "Search"
FEW_ROWS = 5  # a parameter
option, searching = option_under(PANEL), option_under(SEARCHING)

Symmetric = Annotated[bool, option("Two components, beta and -beta, without intercept.", "--symmetric")]
Components = Annotated[
    str, option("How many, or auto: the best of 1 to 5 (--max-components) by BIC.", "--components", "-k")
]
MaxComponents = Annotated[int | None, option("With -k auto: the most to try (5).", "--max-components", min=1)]
Count = Annotated[int, option("How many.", "--components", "-k", min=1)]
Start = Annotated[str, searching("auto, spectral, random, or a model file to begin from.")]
MaxIter = Annotated[int, searching("Iterations at most.")]
Seed = Annotated[int, searching("The same seed gives the same fit.", min=0)]
Errors = Annotated[
    str,
    option("Standard errors: observed; sandwich, which hold where the noise is otherwise; clustered, by --groups."),
]


@dataclass(frozen=True)
class Law:
    """The law of y in each component, and the weights."""

    family: Annotated[
        str,
        option(
            "What y is: normal, student, laplace; poisson, negative-binomial, binomial; gamma, beta. One for each "
            "component as poisson,point-mass; a link or degrees of freedom as binomial:probit.",
            metavar="FAMILY",
        ),
    ] = "normal"
    gate: Annotated[
        str | None,
        option(
            "Mixing weights: columns they depend on, as a,b or '~ a + b'; equal; group, each group's own; or numbers.",
            metavar="GATE",
        ),
    ] = None
    no_intercept: Annotated[bool, option("Lines through the origin.", "--no-intercept")] = False
    equal_weights: Annotated[bool, option("Hold the weights at 1/k.", "--equal-weights")] = False
    separate_sigma: Annotated[bool, option("A noise deviation for each component.", "--separate-sigma")] = False
    sigma: Annotated[float | None, option("The noise deviation, where it is known.")] = None


@dataclass(frozen=True)
class Safeguards:
    """What a fit is to bear."""

    robust: Annotated[bool, option("Bound the influence of gross outliers.", "--robust")] = False
    outliers: Annotated[bool, option("Leave out gross errors, whose share is estimated.", "--outliers")] = False
    alpha: Annotated[float, option("Ridge penalty on the squared coefficients.")] = 0.0


@dataclass(frozen=True)
class CoefficientRules:
    """Coefficients that are not each component's own to find."""

    shared: Annotated[
        str | None, option("Columns with one coefficient for all components, as a,b.", metavar="COLUMNS")
    ] = None
    only: Annotated[
        str | None,
        option(
            "Components, counted from 1, that alone have a column: 'income=1,3; age=2'.", metavar="COLUMN=COMPONENTS"
        ),
    ] = None
    fixed: Annotated[
        str | None, option("Known coefficients by component: 'income=1:0.5,2:0'.", metavar="COLUMN=COMPONENT:VALUE")
    ] = None


@dataclass(frozen=True)
class Solving:
    """By what method."""

    method: Annotated[str, searching("wmlr, em or gem; mix-irls or altmin for comparison.")] = "wmlr"
    solver: Annotated[str, searching("For wmlr: auto, gda (the paper's Algorithm 1) or reduction.")] = "auto"


@dataclass(frozen=True)
class Searching:
    """How long to look for the likeliest fit."""

    search: Annotated[
        str, searching("How hard to look for the likeliest fit: auto, quick, thorough, or a number of EM steps.")
    ] = "auto"
    n_init: Annotated[int, searching("Independent searches, or starts.", min=1)] = 1
    max_iter: MaxIter = 300
    seed: Seed = 0


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

    if found := fitted.fitted_.record.convergence_advice:
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
