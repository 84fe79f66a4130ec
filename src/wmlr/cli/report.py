"""``wmlr report``: a saved model and the rows it was fitted to, on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlr.cli import _data, _places, _report, _stream
from wmlr.cli._console import print_line, status_line

if TYPE_CHECKING:
    from wmlr.options.data import DataOptions

EXAMPLE = "wmlr fit tone --target tuned --out m.json && wmlr report m.json tone --target tuned --out report.html"


def report(
    ctx: typer.Context,
    *,
    model: Annotated[Path, typer.Argument(help="A model that wmlr fit --out wrote.", metavar="MODEL")],
    file: _data.File,
    out: Annotated[Path, _places.option("Write the page here (.html).", "--out", "-o", callback=_report.check_place)],
    target: Annotated[
        str | None,
        _data.option("The column the model explains, where its file does not say.", "--target", "-t", metavar="COLUMN"),
    ] = None,
    row_columns: _data.RowColumns,
    role_columns: _data.RoleOptions,
    missing: _data.Missing = "drop",
    form: _data.Format,
    stream: _stream.Stream = None,
) -> None:
    """Write a page about a model: in words, then intervals, lines over the rows, responsibilities and residuals.

    The page is one file that needs no network; give it the rows that the model was fitted to.
    """
    options = _data.options(ctx)
    from wmlr.cli._predictions import refuse_other_target, text_columns
    from wmlr.options.model import load_model

    fitted = load_model(model)
    formula = fitted.fitted_.inputs.formula
    refuse_other_target(fitted, target)
    if formula is None and target is None:
        target = fitted.fitted_.inputs.target
        if target is None:
            raise ValueError("say which column the model explains, by --target COLUMN: its file does not")
        options = replace(options, target=target)
    text = text_columns(fitted)
    source = _stream.streamed_source(file, stream, options, text)
    problem: Any
    if source is None:
        problem = _load_rows(fitted, file, options, text)
        problem.remark()
        with status_line(f"looking at {len(problem):,} rows"):
            _report.write(out, fitted, problem, file, target)
    else:
        options.refuse_roles(f"{file} is read block by block")
        with _stream.rows_bar("looking") as progress:
            problem = _open_rows(fitted, source, options, progress)
            _report.write(out, fitted, problem, file, target)
        problem.remark()
    print_line(f"wrote {out}")


def _load_rows(fitted: Any, file: str, options: DataOptions, text: tuple[str, ...]) -> Any:
    """The rows in memory, as they were fitted."""
    from wmlr.cli._predictions import groups_column, model_columns, reads_frames, response_columns
    from wmlr.options.problem import predictable_rows

    table = options.read(file, text)
    names, groups = model_columns(fitted, table), groups_column(fitted, table, options.groups)
    formula = fitted.fitted_.inputs.formula
    target = response_columns(fitted, options.target or "" if formula is None else formula.target_name)
    return predictable_rows(table, options, names, target, groups, formula, reads_frames(fitted))


def _open_rows(fitted: Any, source: Any, options: DataOptions, progress: Any) -> _stream.StreamedProblem:
    """The rows in their file."""
    from wmlr.cli._predictions import model_columns

    names = model_columns(fitted, source.head)
    formula = fitted.fitted_.inputs.formula
    if formula is None:
        assert options.target is not None
        return _stream.by_columns(source, options, names, progress)
    text = replace(options, formula=formula.text).grouped_formula(source.head)
    return _stream.by_formula(source, options, replace(formula, text=text), False, progress)
