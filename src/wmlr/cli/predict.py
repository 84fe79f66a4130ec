"""``wmlr predict``: what a saved model says about the rows of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlr.cli import _data, _json, _places, _stream
from wmlr.cli._console import print_line
from wmlr.cli._options import option_under
from wmlr.io.notes import note

if TYPE_CHECKING:
    from wmlr.cli._predictions import Request
    from wmlr.io.table import Table

EXAMPLE = "wmlr fit tone --target tuned --out m.json && wmlr predict m.json tone --interval 0.9"
option = option_under("What to say of each row")


def predict(
    ctx: typer.Context,
    *,
    model: Annotated[Path, typer.Argument(help="A model that wmlr fit --out wrote.", metavar="MODEL")],
    file: _data.File,
    target: Annotated[
        str | None,
        option("Where y is known: also say each row's component.", "--target", "-t", metavar="COLUMN"),
    ] = None,
    interval: Annotated[float | None, option("Also where y is with this probability, such as 0.9.")] = None,
    density: Annotated[bool, option("With --target: also the density of y.", "--density")] = False,
    keep: Annotated[
        str | None,
        option(
            "Columns of the file to write beside, as a,b; the fit's --id is written anyhow.",
            "--keep",
            "--id",
            metavar="COLUMNS",
        ),
    ] = None,
    groups: _data.Groups = None,
    role_columns: _data.RoleOptions,
    missing: Annotated[str, _data.option("drop: a row with gaps has a blank line; fail refuses it.")] = "drop",
    form: _data.Format,
    stream: _stream.Stream = None,
    out: Annotated[
        Path | None, _places.to_file("Write here (.csv or .parquet) in place of stdout.", "--out", "-o")
    ] = None,
    as_json: _json.Json = False,
) -> None:
    """Predict: the mean of y, and of each component; with --target, also whose row it seems to be.

    A row with gaps, or with a level that the fit has not seen, has a blank line. With --groups, the mean of a group
    that the model was fitted to is the mean given that group's rows. What is printed is CSV, or with --json a list with
    an object for each row.
    """
    if as_json and out is not None:
        raise ValueError(f"--json prints, and --out writes CSV or Parquet into {out}: leave one of them out")
    if interval is not None and not 0.0 < interval < 1.0:
        raise ValueError(f"--interval is a probability between 0 and 1, such as 0.9 (got {interval:g})")
    if density and target is None:
        raise ValueError("--density is that of y: name its column by --target")
    options = _data.options(ctx)
    from wmlr.cli._predictions import Blanks, Request, predictions, refuse_other_target, text_columns
    from wmlr.io import tables
    from wmlr.options.data import parse_names
    from wmlr.options.model import load_model

    fitted = load_model(model)
    refuse_other_target(fitted, target)
    text = text_columns(fitted)
    source = _stream.streamed_source(file, stream, options, text)
    head = options.read(file, text) if source is None else source.head
    kept = parse_names(keep, head.names, "--keep") or []
    own = fitted.fitted_.inputs.ids
    kept = [own, *kept] if own in head.names and own not in kept else kept
    _refuse_repeated(fitted, head, kept)
    wanted = Request(target, groups, interval, density, tuple(kept), missing == "fail", options.roles())
    total = len(head) if source is None else source.n_rows
    blanks = Blanks()
    writing = _json.json_list() if as_json else tables.table_writer(out)
    with _stream.rows_bar("predicting") as progress, writing as put:
        for table in [head] if source is None else _parts(source, fitted, wanted):
            put(predictions(fitted, table, wanted, blanks))
            if progress is not None:
                progress(blanks.rows, total, 1)
    if blanks.blank:
        note(blanks.sentence())
    if out is not None:
        print_line(f"wrote {blanks.rows:,} rows to {out}")
    if source is not None:
        note(f"{file} was read block by block (--no-stream reads it whole)")


def _refuse_repeated(fitted: Any, table: Table, keep: list[str]) -> None:
    k = len(fitted.weights_)
    made = ["mean", "lower", "upper", "assigned", "density"]
    made += [f"{word}_{j + 1}" for j in range(k) for word in ("component", "responsibility")]
    for name in keep:
        table.require(name, "--keep")
        if name in made:
            raise ValueError(f"--keep names {name!r}, which is also what predict writes: rename the file's column")


def _parts(source: Any, fitted: Any, wanted: Request) -> Iterator[Table]:
    """The columns of a file that predictions need, some rows after others."""
    from wmlr.cli._predictions import groups_column, model_columns, response_columns

    groups = groups_column(fitted, source.head, wanted.groups)
    explaining = response_columns(fitted, wanted.target)
    columns = [*model_columns(fitted, source.head), *explaining, *wanted.keep, *wanted.roles.values()]
    columns += [] if groups is None else [groups]
    for name in explaining:
        source.head.require(name, "--target")
    return _stream.blocks(source, columns, groups if wanted.target is not None else None)
