"""``wmlr report``: a saved model and the rows it was fitted to, on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _data, _report, _stream
from wmlr.cli._console import say, working
from wmlr.cli.predict import _grouping, _wanted
from wmlr.io import tables
from wmlr.options import data
from wmlr.options.model import load_model

EXAMPLE = "wmlr fit tone --target tuned --out m.json && wmlr report m.json tone --target tuned --out report.html"


def report(
    model: Annotated[Path, typer.Argument(help="A model that wmlr fit --out wrote.", metavar="MODEL")],
    file: _data.File,
    out: Annotated[Path, typer.Option(help="Write the page here (.html).", callback=_report.checked)],
    target: Annotated[
        str | None, typer.Option(help="The column the model explains; a formula names its own.", metavar="COLUMN")
    ] = None,
    groups: _data.Groups = None,
    weights: _data.Weights = None,
    delimiter: _data.Delimiter = None,
    stream: _stream.Stream = None,
) -> None:
    """Write a page about a model: intervals, lines over the rows, responsibilities, residuals and convergence.

    The page is one file that needs no network; give it the rows that the model was fitted to.
    """
    fitted = load_model(model)
    formula = getattr(fitted, "formula_", None)
    if formula is None and target is None:
        raise ValueError("say which column the model explains, by --target COLUMN: its file does not")
    if formula is not None and target is not None:
        raise ValueError(f"the model's formula names its own target ({formula.text}): leave out --target")
    source = _stream.wanted(file, stream, delimiter)
    problem: Any
    if source is None:
        problem = _loaded(fitted, tables.read(file, delimiter), target, groups, weights)
        with working(f"looking at {len(problem):,} rows"):
            _report.write(out, fitted, problem, file, target)
    else:
        with _stream.rows_bar("looking") as progress:
            problem = _opened(fitted, source, target, groups, weights, progress)
            _report.write(out, fitted, problem, file, target)
        problem.remark()
    say(f"wrote {out}")


def _loaded(fitted: Any, table: tables.Table, target: str | None, groups: str | None, weights: str | None) -> Any:
    """The rows in memory, as they were fitted."""
    names, grouping = _wanted(fitted, table), _grouping(fitted, table, groups)
    for name, role in ((target, "--target"), (weights, "--weights")):
        if name is not None:
            table.require(name, role)
    whole = target is None
    return data.Problem(
        table.content.to_pandas() if whole else table.numbers(names),
        None if target is None else table.numbers([target])[target],
        None if grouping is None else table.labels(grouping),
        None if weights is None else table.weights(weights),
        formula=fitted.formula_.text if whole else None,
    )


def _opened(
    fitted: Any, source: Any, target: str | None, groups: str | None, weights: str | None, progress: Any
) -> _stream.StreamedProblem:
    """The rows in their file."""
    from wmlr.engines.files import ColumnRows
    from wmlr.engines.formulas import FormulaRows
    from wmlr.engines.streamed import MEMORY

    names = _wanted(fitted, source.head)
    rows: Any
    if target is None:
        text = data.grouped(source.head, fitted.formula_.text, None, groups, weights)
        rows = FormulaRows(source, replace(fitted.formula_, text=text), weight=weights, progress=progress)
    else:
        rows = ColumnRows(source, target, names, weights, groups, None, None, MEMORY, progress)
    return _stream.StreamedProblem(rows)
