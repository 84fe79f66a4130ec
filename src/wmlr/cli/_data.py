"""The options that say which rows and columns to fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from wmlr.cli._options import option_under

if TYPE_CHECKING:
    from wmlr.options.data import DataOptions

PANEL = "Rows and columns"
option = option_under(PANEL)

File = Annotated[str, typer.Argument(help="CSV or Parquet; tone, co2 and no are built in.", metavar="FILE")]
TheTarget = Annotated[str, option("The column to explain.", "--target", "-t", metavar="COLUMN")]
Features = Annotated[
    str | None, option("Columns to explain it by, as a,b,c; else all others that may.", metavar="COLUMNS")
]
Categorical = Annotated[
    str | None,
    option("Columns to take for levels, as a,b: numbers that are codes, or long lists of texts.", metavar="COLUMNS"),
]
Exclude = Annotated[str | None, option("Columns to leave out, as a,b.", metavar="COLUMNS")]
Groups = Annotated[
    str | None, option("Rows with the same entry in this column share their component.", metavar="COLUMN")
]
Missing = Annotated[str, option("drop leaves out rows with gaps and counts them; fail refuses them.")]


@dataclass(frozen=True)
class ColumnOptions:
    """What is explained, and by what."""

    target: Annotated[str | None, option("The column to explain.", "--target", "-t", metavar="COLUMN")] = None
    features: Features = None
    formula: Annotated[
        str | None,
        option("In place of --target and --features: 'y ~ x + I(x**2) | group'.", metavar="FORMULA"),
    ] = None
    categorical: Categorical = None
    exclude: Exclude = None


@dataclass(frozen=True)
class RowColumns:
    """Columns that are no features: what rows are called, which belong together, how often each counts."""

    ids: Annotated[
        str | None,
        option(
            "What the rows are called: on the page and beside predictions, never a feature.", "--id", metavar="COLUMN"
        ),
    ] = None
    groups: Groups = None
    weights: Annotated[str | None, option("How often each row counts.", metavar="COLUMN")] = None


@dataclass(frozen=True)
class RoleOptions:
    """Columns of what else is known of each row."""

    offset: Annotated[str | None, option("Added to the linear predictor of each row.", metavar="COLUMN")] = None
    exposure: Annotated[
        str | None,
        option("Hours watched, people at risk: its logarithm is added to the predictor.", metavar="COLUMN"),
    ] = None
    trials: Annotated[
        str | None,
        option("For --family binomial: of how many trials --target has the successes.", metavar="COLUMN"),
    ] = None


@dataclass(frozen=True)
class Format:
    """How a CSV is written."""

    na: Annotated[
        str | None, option("What else stands for a gap, as '?,-'; NA and its kin do.", "--na", metavar="SIGNS")
    ] = None
    delimiter: Annotated[
        str | None, option("What separates a CSV's columns; else its first line tells.", metavar="SIGN")
    ] = None
    decimal: Annotated[str, option("The sign before a CSV's decimals: . or ,", metavar="SIGN")] = "."
    encoding: Annotated[str, option("Of a CSV's text, such as latin-1.", metavar="NAME")] = "utf-8"


def options(ctx: typer.Context) -> DataOptions:
    """What the options of a command say of rows and columns; those it does not have are as they are by default."""
    from dataclasses import fields

    from wmlr.options.data import DataOptions

    known = {one.name for one in fields(DataOptions)}
    return DataOptions(**{name: value for name, value in ctx.params.items() if name in known})
