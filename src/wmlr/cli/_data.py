"""The options that say which rows and columns to fit."""

from __future__ import annotations

from typing import Annotated

import typer

File = Annotated[str, typer.Argument(help="CSV or Parquet; tone, co2 and no are built in.", metavar="FILE")]
TheTarget = Annotated[str, typer.Option("--target", help="The column to explain.", metavar="COLUMN")]
Target = Annotated[str | None, typer.Option(help="The column to explain.", metavar="COLUMN")]
Formula = Annotated[
    str | None, typer.Option(help="In place of --target and --features: 'y ~ x + I(x**2) | group'.", metavar="FORMULA")
]
Features = Annotated[
    str | None,
    typer.Option(help="Columns to explain it by, as a,b,c; else every other numeric one.", metavar="COLUMNS"),
]
Groups = Annotated[
    str | None, typer.Option(help="Rows with the same entry in this column share their component.", metavar="COLUMN")
]
Weights = Annotated[str | None, typer.Option(help="How often each row counts.", metavar="COLUMN")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates a CSV's columns; else its first line tells.", metavar="SIGN")
]
