"""``wmlr predict``: what a saved model says about the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wmlr import tables
from wmlr.cli import _data, _model
from wmlr.cli._console import say, working

EXAMPLE = "wmlr fit tone --target tuned --out m.json && wmlr predict m.json tone"


def predict(
    model: Annotated[Path, typer.Argument(help="A model that wmlr fit --out wrote.", metavar="MODEL")],
    file: _data.File,
    out: Annotated[Path | None, typer.Option(help="Write here (.csv or .parquet) in place of stdout.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Where y is known: also say each row's component.", metavar="COLUMN")
    ] = None,
    groups: _data.Groups = None,
) -> None:
    """Predict: the mean of y, and of each component; with --target, also whose row it seems to be."""
    fitted = _model.load_model(model)
    table = tables.read(file)
    with working(f"predicting {len(table):,} rows"):
        columns = predictions(fitted, table, target, groups)
    if out is None:
        print(tables.csv_text(columns), end="")
    else:
        tables.write(out, columns)
        say(f"wrote {len(table):,} rows to {out}")


def predictions(
    fitted: Any, table: tables.Table, target: str | None = None, groups: str | None = None
) -> dict[str, NDArray[Any]]:
    """The columns to write; components are numbered from 1, as in the table of the fit."""
    by_formula = getattr(fitted, "formula_", None) is not None
    X = table.content.to_pandas() if by_formula else table.numbers(_wanted(fitted, table))
    means = fitted.predict_components(X)
    columns: dict[str, NDArray[Any]] = {"mean": means @ fitted.weights_}
    columns |= {f"component_{j + 1}": means[:, j] for j in range(means.shape[1])}
    if target is None:
        if groups is not None:
            raise ValueError("--groups shares out rows of known y: give --target as well")
        return columns
    table.require(target, "--target")
    if groups is not None:
        table.require(groups, "--groups")
    labels = None if groups is None else table.labels(groups)
    shares = fitted.responsibilities(X, table.column(target), labels)
    columns |= {f"responsibility_{j + 1}": shares[:, j] for j in range(shares.shape[1])}
    return columns | {"assigned": np.asarray(shares.argmax(axis=1) + 1)}


def _wanted(fitted: Any, table: tables.Table) -> list[str]:
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "the model was fitted to an array without column names: fit it with wmlr fit, or to a DataFrame"
        )
    for name in names:
        table.require(str(name), "the model")
    return [str(name) for name in names]
