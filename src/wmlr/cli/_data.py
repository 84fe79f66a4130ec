"""From the columns of a file to the arguments of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from wmlr import tables
from wmlr.cli._console import note
from wmlr.model import Array

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


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a fit.

    ``X`` is a DataFrame, so that names travel with the numbers; ``left_out`` are columns that hold no
    numbers, each with what it holds instead. With a formula ``X`` is the whole table, and y and the groups
    are what the formula takes from it.
    """

    X: Any
    y: Any
    groups: NDArray[Any] | None
    weight: Array | None
    left_out: tuple[str, ...] = ()
    formula: str | None = None

    def __len__(self) -> int:
        return len(self.X)

    def remark(self) -> None:
        """Say on stderr which columns were not used."""
        if self.left_out:
            note(f"left out, as not numeric: {', '.join(self.left_out)}")


def load(
    file: str,
    target: str | None,
    features: str | None = None,
    groups: str | None = None,
    weights: str | None = None,
    formula: str | None = None,
) -> Problem:
    """Read a file and take its columns apart, by name or by formula."""
    if (target is None) == (formula is None):
        raise ValueError("say what to explain, by --target COLUMN or by --formula 'y ~ x' (one of the two)")
    table = tables.read(file)
    if formula is not None:
        return _by_formula(table, formula, features, groups, weights)
    assert target is not None
    taken = {name: role for name, role in ((target, "--target"), (groups, "--groups"), (weights, "--weights")) if name}
    for name, role in taken.items():
        table.require(str(name), role)
    left_out: list[str] = []
    if features is not None:
        names = chosen(table, features, taken)
    else:
        others = [name for name in table.names if name not in taken]
        names = [name for name in others if table.is_numeric(name)]
        left_out = [_described(table, name) for name in others if not table.is_numeric(name)]
        if not names:
            also = f" ({', '.join(left_out)})" if left_out else ""
            raise ValueError(f"{file} has no numeric column besides those named{also}: there is nothing to fit by")
    y = table.numbers([target])[target]
    return Problem(
        table.numbers(names),
        y,
        None if groups is None else table.labels(groups),
        None if weights is None else table.column(weights),
        tuple(left_out),
    )


def _by_formula(
    table: tables.Table, formula: str, features: str | None, groups: str | None, weights: str | None
) -> Problem:
    if features is not None:
        raise ValueError("--formula names the features itself: leave out --features")
    for name, role in ((groups, "--groups"), (weights, "--weights")):
        if name is not None:
            table.require(name, role)
    if groups is not None:
        formula = f"{formula} | {groups}"
    weight = None if weights is None else table.column(weights)
    return Problem(table.content.to_pandas(), None, None, weight, formula=formula)


def chosen(table: tables.Table, features: str, taken: dict[Any, str]) -> list[str]:
    """The columns of ``--features``: there, not named twice, and not taken for something else."""
    names = [name.strip() for name in features.split(",") if name.strip()]
    if not names:
        raise ValueError(f"--features names no column (got {features!r}): write them as a,b,c")
    for place, name in enumerate(names):
        table.require(name, "--features")
        if name in names[:place]:
            raise ValueError(f"--features names {name!r} twice")
        if name in taken:
            raise ValueError(f"column {name!r} is the one of {taken[name]}: leave it out of --features")
    return names


def _described(table: tables.Table, name: str) -> str:
    found = table.first_text(name)
    return f"{name} (empty)" if found is None else f"{name} ({found[1]!r} in row {found[0]})"
