"""``wmlr predict``: what a saved model says about the rows of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wmlr.cli import _data, _json, _places, _stream
from wmlr.cli._console import say
from wmlr.io import tables
from wmlr.io.printable import note
from wmlr.options.model import load_model

EXAMPLE = "wmlr fit tone --target tuned --out m.json && wmlr predict m.json tone"


def predict(
    model: Annotated[Path, typer.Argument(help="A model that wmlr fit --out wrote.", metavar="MODEL")],
    file: _data.File,
    out: Annotated[
        Path | None,
        typer.Option(help="Write here (.csv or .parquet) in place of stdout.", metavar="FILE", callback=_places.file),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Where y is known: also say each row's component.", metavar="COLUMN")
    ] = None,
    groups: _data.Groups = None,
    delimiter: _data.Delimiter = None,
    stream: _stream.Stream = None,
    as_json: _json.Json = False,
) -> None:
    """Predict: the mean of y, and of each component; with --target, also whose row it seems to be.

    With --groups, the mean of a group that the model was fitted to is the mean given that group's rows. What is
    printed is CSV, or with --json a list with an object for each row.
    """
    if as_json and out is not None:
        raise ValueError(f"--json prints, and --out writes CSV or Parquet into {out}: leave one of them out")
    fitted = load_model(model)
    _refuse_other_target(fitted, target)
    source = _stream.wanted(file, stream, delimiter)
    head = tables.read(file, delimiter) if source is None else source.head
    total = len(head) if source is None else source.n_rows
    done = 0
    writing = _json.listing() if as_json else tables.writing(out)
    with _stream.rows_bar("predicting") as progress, writing as put:
        for table in [head] if source is None else _parts(source, fitted, target, groups):
            put(predictions(fitted, table, target, groups))
            done += len(table)
            if progress is not None:
                progress(done, total, 1)
    if out is not None:
        say(f"wrote {done:,} rows to {out}")
    if source is not None:
        note(f"{file} was read block by block (--no-stream reads it whole)")


def _parts(source: Any, fitted: Any, target: str | None, groups: str | None) -> Iterator[tables.Table]:
    """The columns of a file that predictions need, some rows after others."""
    groups = _grouping(fitted, source.head, groups)
    explained = _explained(fitted, target)
    columns = [*_wanted(fitted, source.head), *explained, *(() if groups is None else (groups,))]
    for name in explained:
        source.head.require(name, "--target")
    return _stream.blocks(source, columns, groups if target is not None else None)


def predictions(
    fitted: Any, table: tables.Table, target: str | None = None, groups: str | None = None
) -> dict[str, NDArray[Any]]:
    """The columns to write; components are numbered from 1, as in the table of the fit."""
    names = _wanted(fitted, table)
    formula = getattr(fitted, "formula_", None)
    for name in names:
        if formula is None or table.is_numeric(name):
            table.column(name)
    X = table.numbers(names) if formula is None else table.content.to_pandas()
    means = fitted.predict_components(X)
    grouping = _grouping(fitted, table, groups)
    labels = None if grouping is None else table.labels(grouping)
    known = labels is not None and getattr(fitted, "group_labels_", None) is not None
    columns: dict[str, NDArray[Any]] = {"mean": fitted.predict(X, labels if known else None)}
    columns |= {f"component_{j + 1}": means[:, j] for j in range(means.shape[1])}
    if target is None:
        if labels is not None and not known:
            raise ValueError("the model was fitted without groups: give --target to share out rows of known y by them")
        return columns
    for name in _explained(fitted, target):
        table.require(name, "--target")
        table.column(name)
    shares = fitted.responsibilities(X, None if formula is not None else table.column(target), labels)
    columns |= {f"responsibility_{j + 1}": shares[:, j] for j in range(shares.shape[1])}
    return columns | {"assigned": np.asarray(shares.argmax(axis=1) + 1)}


def _explained(fitted: Any, target: str | None) -> list[str]:
    """The columns that y is made of, where it was asked for."""
    if target is None:
        return []
    formula = getattr(fitted, "formula_", None)
    return [target] if formula is None else list(formula.explained)


def _refuse_other_target(fitted: Any, target: str | None) -> None:
    """Raise where ``--target`` is not what the model's formula explains."""
    formula = getattr(fitted, "formula_", None)
    if formula is None or target is None or target == formula.target_name or [target] == formula.explained:
        return
    raise ValueError(
        f"the model explains {formula.target_name} ({formula.text}), and not --target {target}: write "
        f"--target '{formula.target_name}', which is then taken from the file by the formula"
    )


def _grouping(fitted: Any, table: tables.Table, groups: str | None) -> str | None:
    """The groups' column, named or as the model's own formula has it."""
    if groups is not None:
        table.require(groups, "--groups")
        return groups
    own = getattr(getattr(fitted, "formula_", None), "group", None)
    return own if own in table.names else None


def _wanted(fitted: Any, table: tables.Table) -> list[str]:
    formula = getattr(fitted, "formula_", None)
    names = getattr(fitted, "feature_names_in_", None) if formula is None else formula.variables
    if names is None:
        raise ValueError(
            "the model was fitted to an array without column names: fit it with wmlr fit, or to a DataFrame"
        )
    for name in names:
        table.require(str(name), "the model")
    return [str(name) for name in names]
