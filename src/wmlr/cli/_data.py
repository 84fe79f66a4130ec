"""The options that say which rows and columns to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wmlr.options.data import DataOptions

PANEL = "Rows and columns"

File = Annotated[str, typer.Argument(help="CSV or Parquet; tone, co2 and no are built in.", metavar="FILE")]
TheTarget = Annotated[
    str, typer.Option("--target", "-t", help="The column to explain.", metavar="COLUMN", rich_help_panel=PANEL)
]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="The column to explain.", metavar="COLUMN", rich_help_panel=PANEL)
]
Formula = Annotated[
    str | None,
    typer.Option(
        help="In place of --target and --features: 'y ~ x + I(x**2) | group'.", metavar="FORMULA", rich_help_panel=PANEL
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to explain it by, as a,b,c; else all others that may.", metavar="COLUMNS", rich_help_panel=PANEL
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option(
        help="Columns to take for levels, as a,b: numbers that are codes, or long lists of texts.",
        metavar="COLUMNS",
        rich_help_panel=PANEL,
    ),
]
Exclude = Annotated[
    str | None, typer.Option(help="Columns to leave out, as a,b.", metavar="COLUMNS", rich_help_panel=PANEL)
]
Ids = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="What the rows are called: on the page and beside predictions, never a feature.",
        metavar="COLUMN",
        rich_help_panel=PANEL,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Rows with the same entry in this column share their component.", metavar="COLUMN", rich_help_panel=PANEL
    ),
]
Weights = Annotated[
    str | None, typer.Option(help="How often each row counts.", metavar="COLUMN", rich_help_panel=PANEL)
]
Offset = Annotated[
    str | None,
    typer.Option(help="Added to the linear predictor of each row.", metavar="COLUMN", rich_help_panel=PANEL),
]
Exposure = Annotated[
    str | None,
    typer.Option(
        help="Hours watched, people at risk: its logarithm is added to the predictor.",
        metavar="COLUMN",
        rich_help_panel=PANEL,
    ),
]
Trials = Annotated[
    str | None,
    typer.Option(
        help="For --family binomial: of how many trials --target has the successes.",
        metavar="COLUMN",
        rich_help_panel=PANEL,
    ),
]
Missing = Annotated[
    str, typer.Option(help="drop leaves out rows with gaps and counts them; fail refuses them.", rich_help_panel=PANEL)
]
Na = Annotated[
    str | None,
    typer.Option(
        "--na", help="What else stands for a gap, as '?,-'; NA and its kin do.", metavar="SIGNS", rich_help_panel=PANEL
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What separates a CSV's columns; else its first line tells.", metavar="SIGN", rich_help_panel=PANEL
    ),
]
Decimal = Annotated[
    str, typer.Option(help="The sign before a CSV's decimals: . or ,", metavar="SIGN", rich_help_panel=PANEL)
]
Encoding = Annotated[str, typer.Option(help="Of a CSV's text, such as latin-1.", metavar="NAME", rich_help_panel=PANEL)]


def options(ctx: typer.Context) -> DataOptions:
    """What the options of a command say of rows and columns; those it does not have are as they are by default."""
    from dataclasses import fields

    from wmlr.options.data import DataOptions

    known = {one.name for one in fields(DataOptions)}
    return DataOptions(**{name: value for name, value in ctx.params.items() if name in known})
