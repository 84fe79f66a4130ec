"""Files of named columns, read by Arrow in batches: Parquet, one or a folder of them, and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wmlr.engines.streamed import Stamp
from wmlr.io.delimited import PLAIN_CSV, CsvFormat
from wmlr.io.table import Table, arrow, is_number
from wmlr.io.tables import check_table, is_parquet, one_line_refusals, refuse_bytes, refuse_missing

HEAD_ROWS = 1000
READ_BYTES = 2**23  # for all columns of a Parquet file together
CSV_BYTES = 2**23
WHOLE_BYTES = 2**26 + 2**25  # row groups up to here are decoded at once, which is faster; larger ones page by page


class Source(Protocol):
    """A file of named columns.

    ``head`` holds its first rows, ``n_rows`` is None where only reading tells, ``expected_rows`` is a guess then.
    """

    name: str
    head: Table
    n_rows: int | None
    expected_rows: int
    stamps: list[Stamp]

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Arrow record batches of these columns, of at most so many rows."""
        ...


def open_source(path: str | Path, csv_format: CsvFormat = PLAIN_CSV, text: Sequence[str] = ()) -> Source:
    """The source for a path, by its name; a folder is one of Parquet files."""
    place = Path(path)
    return ParquetSource(place) if place.is_dir() or is_parquet(place) else CsvSource(place, csv_format, text)


class ParquetSource:
    """A Parquet file, or all Parquet files in a folder and below, in the order of their names.

    Columns are read page by page, so that the size of row groups does not matter.
    """

    def __init__(self, path: str | Path) -> None:
        place = Path(path)
        arrow()
        refuse_missing(place)
        paths = [place] if place.is_file() else sorted(_parquet_files(place))
        if not paths:
            raise ValueError(f"{path} is a folder without Parquet files")
        for file in paths:
            refuse_missing(file)
        self.name = str(path)
        self.stamps = [Stamp.of(file) for file in paths]
        self._counts = []
        schema = None
        for file in paths:
            with self._open(file) as parquet:
                self._counts.append(int(parquet.metadata.num_rows))
                schema = parquet.schema_arrow if schema is None else schema
                _refuse_other_columns(schema, parquet.schema_arrow, paths[0], file)
        assert schema is not None
        self.n_rows: int | None = sum(self._counts)
        self.expected_rows = sum(self._counts)
        first = list(islice(self.batches(schema.names, HEAD_ROWS), 1))
        self.head = check_table(Table(self.name, arrow().Table.from_batches(first) if first else schema.empty_table()))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        for stamp, count in zip(self.stamps, self._counts):
            with one_line_refusals(str(stamp.path), stamp.path), self._open(stamp.path, len(columns)) as parquet:
                if parquet.metadata.num_rows != count:
                    raise ValueError(f"{stamp.path} had {count:,} rows and now has {parquet.metadata.num_rows:,}")
                yield from _read_batches(parquet, list(columns), rows)

    def _open(self, path: Path, columns: int = 1) -> Any:
        with one_line_refusals(str(path), path):
            size = int(np.clip(READ_BYTES // columns, 2**16, 2**20))
            return import_module("pyarrow.parquet").ParquetFile(path, pre_buffer=False, buffer_size=size)


def _parquet_files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if is_parquet(file) and not file.is_dir())


def _read_batches(parquet: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Batches of a Parquet file; small row groups are read at once, each while the one before is in use."""
    count = parquet.num_row_groups
    sizes = [8 * len(columns) * parquet.metadata.row_group(group).num_rows for group in range(count)]
    if rows <= HEAD_ROWS or max(sizes, default=0) > WHOLE_BYTES:
        yield from parquet.iter_batches(rows, columns=columns)
        return
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(parquet.read_row_group, group, columns=columns) for group in range(min(1, count))]
        for group in range(count):
            table = coming.pop().result()
            if group + 1 < count:
                coming.append(reader.submit(parquet.read_row_group, group + 1, columns=columns))
            yield from table.to_batches(max_chunksize=rows)


def _refuse_other_columns(wanted: Any, found: Any, first: Path, path: Path) -> None:
    """Files of a folder must have the same columns, of numbers where the first has numbers."""
    for field in wanted:
        if field.name not in found.names:
            raise ValueError(f"{path} has no column {field.name!r}, which {first} has: they are not parts of one table")
        kind = found.field(field.name).type
        if is_number(field.type) != is_number(kind):
            raise ValueError(f"column {field.name!r} is {kind} in {path} and {field.type} in {first}")


class CsvSource:
    """A CSV file with a header line. Its numbers are parsed again in every pass, which Parquet's need not be.

    Parameters
    ----------
    path : the file, which may be compressed (``.csv.gz``).
    csv_format, text : as for :func:`wmlr.io.tables.read`.
    """

    def __init__(self, path: str | Path, csv_format: CsvFormat = PLAIN_CSV, text: Sequence[str] = ()) -> None:
        place = Path(path)
        arrow()
        refuse_missing(place)
        self._format, self._text = csv_format, text
        self._written: dict[str, str] = {}  # names as the file has them, blanks and all
        self.name = str(path)
        self.n_rows: int | None = None
        self.stamps = [Stamp.of(place)]
        with one_line_refusals(self.name, place), self._open(dict.fromkeys(text, arrow().string()), ()) as reader:
            refuse_bytes(place, reader.schema)
            content = arrow().Table.from_batches(list(islice(reader, 1)), reader.schema)
        self._written = {name.strip(): name for name in content.column_names}
        content = content.rename_columns([name.strip() for name in content.column_names])
        self.head = check_table(Table(self.name, content, decimal=csv_format.decimal))
        self.expected_rows = max(1, self.stamps[0].size * len(content) // max(1, min(CSV_BYTES, self.stamps[0].size)))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        wanted = {name: self._kind(name) for name in columns}
        try:
            with self._open(wanted, columns) as reader:
                for found in reader:
                    batch = arrow().RecordBatch.from_arrays(found.columns, names=list(columns))
                    for first in range(0, len(batch), rows):
                        yield batch.slice(first, rows)
        except arrow().ArrowInvalid as error:
            self.stamps[0].check()
            self._find_text([name for name, kind in wanted.items() if is_number(kind)])
            with one_line_refusals(self.name, self.stamps[0].path):
                raise error

    def _kind(self, name: str) -> Any:
        """Numbers as floats, as later rows may have what the first ones have not; everything else as text."""
        types = arrow()
        kind = self.head.content.schema.field(name).type
        if types.types.is_boolean(kind) and name not in self._text:
            return kind
        numbers = (is_number(kind) or types.types.is_null(kind)) and name not in self._text
        return types.float64() if numbers else types.string()

    def _find_text(self, names: list[str]) -> None:
        """Raise with the first entry that is not a number, where Arrow stopped at one."""
        types, first = arrow(), 0
        with self._open(dict.fromkeys(names, types.string()), names) as reader:
            for batch in reader:
                content = types.Table.from_batches([batch]).rename_columns(names)
                table = Table(self.name, content, first, self._format.decimal)
                for name in names:
                    if table.first_text(name) is not None:
                        table.column(name)
                first += len(batch)

    def _open(self, types: dict[str, Any], columns: Sequence[str]) -> Any:
        path = self.stamps[0].path
        types = {self._written.get(name, name): kind for name, kind in types.items()}
        wanted = [self._written.get(name, name) for name in columns]
        options = self._format.options(path, CSV_BYTES, types, include_columns=wanted)
        return import_module("pyarrow.csv").open_csv(path, *options)
