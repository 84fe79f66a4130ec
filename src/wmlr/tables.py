"""Data files for the command line: CSV and Parquet in, CSV and Parquet out."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.files import write_bytes
from wmlr.model import Array

BUILT_IN = ("tone", "co2", "no")
PARQUET = (".parquet", ".pq")


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to get it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns read from a file.

    Attributes
    ----------
    source : str
        The file as the user named it, for messages.
    content : pyarrow.Table
    """

    source: str
    content: Any

    def __len__(self) -> int:
        return int(self.content.num_rows)

    @property
    def names(self) -> list[str]:
        """The columns, in the file's order."""
        return list(self.content.column_names)

    def require(self, name: str, role: str) -> None:
        """Raise unless there is a column of that name; the message lists those there are."""
        if name not in self.names:
            raise ValueError(f"{self.source} has no column {name!r} for {role}; it has {_listed(self.names)}")

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers or truth values throughout."""
        types = _pyarrow().types
        kind = self.content.schema.field(name).type
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        return any(test(kind) for test in tests)

    def first_text(self, name: str) -> tuple[int, str] | None:
        """The first entry of a column that is not a number, with its row counted from 1."""
        for row, value in enumerate(self.content[name].to_pylist(), start=1):
            try:
                if value is not None:
                    float(value)
            except (TypeError, ValueError):
                return row, str(value)
        return None

    def numbers(self, names: Sequence[str]) -> Any:
        """Columns as a pandas DataFrame of finite floats.

        Raises
        ------
        ValueError
            Naming the column and the row of the first entry that is text, missing or infinite.
        """
        values = np.empty((len(self), len(names)))
        for place, name in enumerate(names):
            values[:, place] = self.column(name)
        return _pandas().DataFrame(values, columns=list(names), copy=False)

    def column(self, name: str) -> Array:
        """One column of finite floats."""
        if not self.is_numeric(name):
            found = self.first_text(name)
            holds = "is empty" if found is None else f"holds text ({found[1]!r} in row {found[0]})"
            raise ValueError(f"column {name!r} of {self.source} {holds}: encode it as numbers, or leave it out")
        pyarrow = _pyarrow()
        values = np.asarray(self.content[name].cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            what = "no number" if np.isnan(values[bad[0]]) else "an infinite number"
            rest = f" and {bad.size - 1:,} more" if bad.size > 1 else ""
            raise ValueError(
                f"column {name!r} of {self.source} has {what} in row {bad[0] + 1}{rest}: drop or fill such rows first"
            )
        return values

    def labels(self, name: str) -> NDArray[Any]:
        """One column of any kind, to tell rows of one group from another's."""
        column = self.content[name]
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1
            raise ValueError(f"column {name!r} of {self.source} has no label in row {row}: every row needs a group")
        return np.asarray(column.to_numpy())


def read(file: str | Path) -> Table:
    """Read a CSV or Parquet file, or one of the data sets that come with the package.

    Parameters
    ----------
    file : str or Path
        Names ending in ``.parquet`` or ``.pq`` are Parquet, ``.tsv`` is separated by tabs, anything else is
        CSV with a header line. Where there is no such file, ``tone``, ``co2`` and ``no`` are the built-in data.

    Raises
    ------
    ValueError
        When there is no such file, or it cannot be read, or holds no rows.
    MissingExtraError
        When pyarrow or pandas is not installed.
    """
    path = Path(file)
    _pyarrow()
    _pandas()
    if not path.exists() and str(file) in BUILT_IN:
        with as_file(files("wmlr").joinpath("data", f"{file}.csv")) as own:
            return _checked(str(file), _parsed(str(file), own))
    if not path.exists():
        raise ValueError(f"there is no file {file} (the built-in data are {', '.join(BUILT_IN)})")
    if path.is_dir():
        raise ValueError(f"{file} is a directory: name a CSV or Parquet file in it")
    if path.stat().st_size == 0:
        raise ValueError(f"{file} is empty: a header line and rows are wanted")
    return _checked(str(file), _parsed(str(file), path))


def write(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns as CSV, or as Parquet where the name says so."""
    if path.suffix.lower() in PARQUET:
        sink = io.BytesIO()
        import_module("pyarrow.parquet").write_table(_pyarrow().table(dict(columns)), sink)
        write_bytes(path, sink.getvalue())
    else:
        write_bytes(path, csv_text(columns).encode())


def csv_text(columns: Mapping[str, NDArray[Any]]) -> str:
    """Columns as CSV with a header line; floats keep every digit."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values())))
    return sink.getvalue()


def _parsed(source: str, path: Path) -> Any:
    pyarrow = _pyarrow()
    parquet = path.suffix.lower() in PARQUET
    try:
        if parquet:
            return import_module("pyarrow.parquet").read_table(path)
        reader = import_module("pyarrow.csv")
        options = reader.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        return reader.read_csv(path, parse_options=options)
    except (pyarrow.ArrowException, OSError) as error:
        reason = "".join(letter if letter.isprintable() else "?" for letter in str(error).splitlines()[0])
        raise ValueError(f"{source} cannot be read as {'Parquet' if parquet else 'CSV'}: {reason[:120]}") from None


def _checked(source: str, content: Any) -> Table:
    table = Table(source, content)
    twice = sorted({name for name in table.names if table.names.count(name) > 1})
    if twice:
        raise ValueError(f"{source} has more than one column named {_listed(twice)}: rename them")
    if len(table) == 0:
        raise ValueError(f"{source} has columns {_listed(table.names)} but no rows")
    return table


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _pyarrow() -> Any:
    return _extra("pyarrow")


def _pandas() -> Any:
    return _extra("pandas")


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"reading CSV and Parquet needs {name}: pip install 'wmlr[io]'") from None
