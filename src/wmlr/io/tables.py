"""Data files for the command line: CSV and Parquet in, CSV and Parquet out."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from wmlr.io.delimited import DELIMITERS, PLAIN_CSV, CsvFormat, other_encoding, refuse_wide
from wmlr.io.files import atomic_write
from wmlr.io.printable import printable
from wmlr.io.table import MissingExtraError, Table, arrow, list_names

__all__ = ["CsvFormat", "MissingExtraError", "Table", "check_table", "read", "table_writer", "write"]

BUILT_IN = ("tone", "co2", "no")
PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")

UNEVEN = re.compile(r"Expected (\d+) columns, got (\d+):(.*)", re.DOTALL)

Put = Callable[[Mapping[str, NDArray[Any]]], None]


def read(file: str | Path, csv_format: CsvFormat = PLAIN_CSV, text: Sequence[str] = ()) -> Table:
    """Read a CSV or Parquet file, or one of the data sets that come with the package.

    Parameters
    ----------
    file : str or Path
        Names ending in ``.parquet`` or ``.pq`` are Parquet, anything else is CSV with a header line. Where there is
        no such file, ``tone``, ``co2`` and ``no`` are the built-in data.
    csv_format : CsvFormat
        How a CSV file is written.
    text : sequence of str
        Columns of a CSV file that are text, whatever they look like.

    Raises
    ------
    ValueError
        When there is no such file, or it cannot be read, or holds no rows.
    MissingExtraError
        When pyarrow or pandas is not installed.
    """
    path = Path(file)
    arrow()
    if not path.exists() and str(file) in BUILT_IN:
        with as_file(files("wmlr").joinpath("data", f"{file}.csv")) as own:
            return check_table(
                Table(str(file), _parse(str(file), own, CsvFormat(gap_signs=csv_format.gap_signs), text))
            )
    refuse_missing(path)
    if path.is_dir():
        raise ValueError(f"{file} is a directory: name a CSV or Parquet file in it")
    return check_table(Table(str(file), _parse(str(file), path, csv_format, text), decimal=csv_format.decimal))


def refuse_missing(path: Path) -> None:
    """Raise where there is no such file, or nothing in it."""
    if not path.exists():
        raise ValueError(f"there is no file {path} (the built-in data are {', '.join(BUILT_IN)})")
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{path} has no names for its columns: fit it in Python, by wmlr.engines.NpyRows")
    if path.suffix.lower() in WORKBOOKS:
        raise ValueError(
            f"{path} is a workbook: save the sheet as CSV, or by Python "
            f"pandas.read_excel({path.name!r}).to_csv({path.stem + '.csv'!r}, index=False)"
        )
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a pipe or a device, and is read more than once: write it into a file first")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{path} may not be read by you: chmod u+r {quote(str(path))}, or ask its owner")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: a header line and rows are wanted")


def is_parquet(path: Path) -> bool:
    """Whether a name is a Parquet file's."""
    return path.suffix.lower() in PARQUET


def write(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns as CSV, or as Parquet where the name says so."""
    with table_writer(path) as put:
        put(columns)


@contextmanager
def table_writer(path: Path | None) -> Iterator[Put]:
    """A function that writes one part of a table after the other: CSV, or Parquet where the name says so.

    The file appears under its name once all is written, or not at all. Without a path, CSV goes to stdout.
    """
    if path is None:
        yield _csv_to(sys.stdout)
        return
    with atomic_write(path) as part:
        if is_parquet(path):
            with ExitStack() as stack:
                yield _parquet_to(part, stack)
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                yield _csv_to(file)


def _csv_to(file: TextIO) -> Put:
    """Columns with a header line before the first part; floats keep every digit."""
    writer = csv.writer(file, lineterminator="\n")
    begun: list[bool] = []

    def put(columns: Mapping[str, NDArray[Any]]) -> None:
        if not begun:
            writer.writerow(columns)
            begun.append(True)
        writer.writerows(zip(*(values.tolist() for values in columns.values())))

    return put


def _arrow_column(values: NDArray[Any]) -> Any:
    """Values as Arrow has them; what is masked is null."""
    return arrow().array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))


def _parquet_to(path: Path, stack: ExitStack) -> Put:
    parquet = import_module("pyarrow.parquet")
    writers: list[Any] = []

    def put(columns: Mapping[str, NDArray[Any]]) -> None:
        table = arrow().table({name: _arrow_column(values) for name, values in columns.items()})
        if not writers:
            writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
        writers[0].write_table(table)

    return put


def _parse(source: str, path: Path, csv_format: CsvFormat, text: Sequence[str]) -> Any:
    with one_line_refusals(source, path):
        if is_parquet(path):
            return import_module("pyarrow.parquet").read_table(path)
        reader = import_module("pyarrow.csv")
        options = csv_format.options(path, 2**20, dict.fromkeys(text, arrow().string()))
        try:
            content = reader.read_csv(path, *options)
        except arrow().ArrowInvalid as error:
            uneven = UNEVEN.search(str(error))
            if uneven is None or uneven[3].strip():
                raise
            content = reader.read_csv(arrow().BufferReader(_without_blank_lines(path)), *options)
        refuse_bytes(path, content.schema)
        return content.rename_columns([name.strip() for name in content.column_names])


def refuse_bytes(path: Path, schema: Any) -> None:
    """Raise where Arrow took a column of a CSV file for bytes, as its text is not in the encoding told."""
    for field in schema:
        if arrow().types.is_binary(field.type):
            raise other_encoding(path, f"column {field.name!r}")


def _without_blank_lines(path: Path) -> bytes:
    with arrow().input_stream(str(path)) as stream:
        return b"\n".join(line for line in stream.read().split(b"\n") if line.strip())


@contextmanager
def one_line_refusals(source: str, path: Path) -> Iterator[None]:
    """Say in one line why a file cannot be read."""
    try:
        yield
    except (arrow().ArrowException, OSError) as error:
        reason = printable(str(error).splitlines()[0])
        if "Empty CSV" in reason:
            raise ValueError(f"{source} has no rows: a header line and a line for each row are wanted") from None
        if found := UNEVEN.search(reason):
            raise ValueError(
                f"{source} cannot be read as CSV: its first line names {found[1]} column{'s' * (found[1] != '1')} and "
                f"the line {found[3].strip()[:60]!r} has {found[2]}: no line may stand before that of the names"
            ) from None
        if "invalid UTF8" in reason:
            raise other_encoding(path, "its text") from None
        kind = "Parquet" if is_parquet(path) else "CSV"
        raise ValueError(f"{source} cannot be read as {kind}: {reason[:120]}") from None


def check_table(table: Table) -> Table:
    """A table with columns that can be told apart, and rows; columns without a name or an entry are no part of it."""
    refuse_wide(table.source, len(table.names))
    content = table.content
    named = [place for place, name in enumerate(table.names) if name or content.column(place).null_count < len(table)]
    table = replace(table, content=content.select(named)) if named and len(named) < len(table.names) else table
    twice = sorted(name for name, count in Counter(table.names).items() if count > 1)
    if twice:
        shown = list_names([name or "''" for name in twice])
        raise ValueError(f"{table.source} has more than one column named {shown}: rename them")
    others = [sign for sign in DELIMITERS if len(table.names) == 1 and sign in table.names[0]]
    if others:
        raise ValueError(
            f"{table.source} has the one column {table.names[0]!r}: it seems to be separated by {others[0]!r}, so set "
            f"delimiter={others[0]!r} (on the command line --delimiter), or write it with commas"
        )
    if len(table) == 0:
        raise ValueError(f"{table.source} has columns {list_names(table.names)} but no rows: add a line for each")
    return table
