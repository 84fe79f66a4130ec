"""Rows in Parquet and CSV files, however large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Rows
from wmlr.engines.arrays import rows_per_block
from wmlr.engines.arrow import CsvSource, ParquetSource, Source
from wmlr.engines.groups import Runs
from wmlr.engines.pieces import Piece, pieces, whole_groups
from wmlr.engines.streamed import MEMORY, Progress, StreamedRows
from wmlr.io.delimited import CsvFormat
from wmlr.io.table import Table, arrow
from wmlr.numerics.arrays import Integers

TILE_BYTES = 2**20
PADDING = 8  # so that the columns of a tile do not fall on the same places of the cache


class TableRows(StreamedRows[Piece]):
    """Rows in a file of named columns, from which ``rows`` takes what is wanted.

    Parameters
    ----------
    source : the file.
    columns : the columns to read, besides the weight's and the groups'.
    feature_names : what the features are called.
    weight, groups, n_jobs, block_rows, memory, progress : see :class:`ParquetRows`.
    """

    feature_names: list[str]

    def __init__(
        self,
        source: Source,
        columns: Sequence[str],
        feature_names: Sequence[str],
        weight: str | None,
        groups: str | None,
        n_jobs: int | None,
        block_rows: int | None,
        memory: int,
        progress: Progress | None,
    ) -> None:
        super().__init__(source.stamps, n_jobs=n_jobs, memory=memory, progress=progress)
        if weight is not None:
            source.head.weights(weight)
        self.source, self.weight, self.groups = source, weight, groups
        self.feature_names = list(feature_names)
        self.n_features = len(self.feature_names)
        self.n_rows = source.n_rows
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self.block_rows = block_rows or rows_per_block(source.expected_rows, self.n_features)
        self._columns = list(dict.fromkeys([*columns, *(name for name in (weight, groups) if name is not None)]))

    @property
    def _name(self) -> str:
        return self.source.name

    @property
    def nbytes(self) -> int:
        rows = self.source.expected_rows if self.n_rows is None else self.n_rows
        return rows * self.n_features * self.dtype.itemsize

    def columns(self, piece: Piece) -> Mapping[str, NDArray[Any]]:
        return {name: np.asarray(piece.table.content[name]) for name in self._columns}

    def pieces(self) -> Iterator[Piece]:
        found = pieces(self.source, self._columns, self.block_rows)
        if self.groups is None:
            yield from found
            return
        runs = Runs(f"{self.source.name} by column {self.groups!r}", self.memory)
        yield from whole_groups(found, self.groups, runs)
        self.n_groups = runs.finish()


class ColumnRows(TableRows):
    """Rows in which columns of a file are the features; see :class:`ParquetRows` and :class:`CsvRows`.

    Attributes
    ----------
    feature_names : the columns y is explained by.
    left_out : columns that were not used, as they hold no numbers, with what they hold.
    """

    def __init__(
        self,
        source: Source,
        target: str,
        features: Sequence[str] | None,
        weight: str | None,
        groups: str | None,
        n_jobs: int | None,
        block_rows: int | None,
        memory: int,
        progress: Progress | None,
    ) -> None:
        head = source.head
        named = ((target, "target"), (weight, "weight"), (groups, "groups"))
        names, self.left_out = head.choose_features(features, {name: role for name, role in named if name is not None})
        for name in (target, *names):
            head.column(name)
        columns = [*names, target]
        super().__init__(source, columns, names, weight, groups, n_jobs, block_rows, memory, progress)
        self.target = target
        if {head.content.schema.field(name).type for name in names} == {arrow().float32()}:
            self.dtype = np.dtype(np.float32)

    def rows(self, piece: Piece) -> Rows:
        table = piece.table
        X = self._matrix(table)
        y = table.column(self.target)
        weight = None if self.weight is None else table.weights(self.weight)
        return Rows(X, y, weight, piece.starts, span(table))

    def _matrix(self, table: Table) -> NDArray[Any]:
        """The features row by row, by way of tiles that stay in the cache while they are turned."""
        columns = [_values(table.content[name]) for name in self.feature_names]
        X = np.empty((len(table), self.n_features), self.dtype)
        rows = min(len(table), max(256, TILE_BYTES // (self.n_features * X.itemsize)))
        tile = np.empty((self.n_features, rows + PADDING), self.dtype)[:, :rows]
        for first in range(0, len(table), rows):
            part = tile[:, : len(table) - first]
            for place, column in enumerate(columns):
                part[place] = column[first : first + rows]
            X[first : first + rows] = part.T
        if not self._sound:
            refuse_infinite(X, table, self.feature_names)
        return X


def span(table: Table) -> Integers:
    """The numbers of a table's rows."""
    return np.arange(table.first, table.first + len(table))


def refuse_infinite(X: NDArray[Any], table: Table, names: Sequence[str]) -> None:
    """Raise with the first row and the column of X that is not a finite number."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return
    for name, values in zip(names, X.T):
        table.refuse_infinite(name, values)


def _values(column: Any) -> NDArray[Any]:
    """A column's numbers, without a copy where they lie together and none is missing; NaN where one is."""
    types = arrow().types
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    plain = types.is_float32(column.type) or types.is_float64(column.type) or types.is_integer(column.type)
    return np.asarray((whole if plain else whole.cast(arrow().float64())).to_numpy(zero_copy_only=False))


class ParquetRows(ColumnRows):
    """Rows in a Parquet file, or in all Parquet files of a folder.

    The file is read in every pass, one block after the other, and is never in memory as a whole.

    Parameters
    ----------
    path : a file, or a folder whose files are read in the order of their names.
    target : the column to explain.
    features : the columns to explain it by; None takes every other numeric one.
    weight : a column that says how often each row counts.
    groups : a column of labels; rows of one group share their component, and must follow each other.
    n_jobs : threads; None uses what the linear algebra library would.
    block_rows : rows per block; None chooses by the cache.
    memory : bytes that kept samples, or the rows of one group, may take.
    progress : called as ``progress(rows done, rows in all, pass)`` after every block.

    Notes
    -----
    Columns of 32-bit floats stay what they are. A page of each column is in memory at a time, so that writers'
    page sizes (1 MB, usually) times columns bound the memory from below.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import load_tone
    >>> from wmlr.engines import ParquetRows
    >>> from wmlr.io import tables
    >>> tone = load_tone()
    >>> with TemporaryDirectory() as folder:
    ...     tables.write(Path(folder, "tone.parquet"), {"stretch": tone.data[:, 0], "tuned": tone.target})
    ...     rows = ParquetRows(Path(folder, "tone.parquet"), target="tuned")
    ...     fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit_on(rows)
    >>> fit.coef_.round(2).tolist()
    [[0.04], [0.99]]
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        groups: str | None = None,
        n_jobs: int | None = None,
        *,
        block_rows: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(ParquetSource(path), target, features, weight, groups, n_jobs, block_rows, memory, progress)


class CsvRows(ColumnRows):
    """Rows in a CSV file with a header line, parsed anew in every pass: Parquet is several times faster.

    Parameters
    ----------
    path : a file, which may be compressed (``.csv.gz``).
    target, features, weight, groups, n_jobs, block_rows, memory, progress : as for :class:`ParquetRows`.
    delimiter : what separates the columns; None for commas, or tabs in a ``.tsv``.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        groups: str | None = None,
        n_jobs: int | None = None,
        *,
        delimiter: str | None = None,
        block_rows: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        source = CsvSource(path, CsvFormat(delimiter))
        super().__init__(source, target, features, weight, groups, n_jobs, block_rows, memory, progress)
