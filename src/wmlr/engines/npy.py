"""Rows in ``.npy`` files, read block by block into buffers that are used again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Rows
from wmlr.engines.arrays import rows_per_block
from wmlr.engines.groups import Runs, changes
from wmlr.engines.npy_file import NpyFile
from wmlr.engines.streamed import AHEAD, MEMORY, Progress, Stamp, StreamedRows
from wmlr.numerics.arrays import Integers

Files = dict[str, tuple[NpyFile, FileIO]]


@dataclass(frozen=True)
class RoleSource:
    """Where a role's numbers are: a column of the matrix, or, ``apart``, a file of their own."""

    file: NpyFile
    column: int = 0
    apart: bool = False


@dataclass(frozen=True, eq=False)
class NpyPiece:
    """Rows as they lie in the matrix, from number ``first`` on, and the vectors beside it."""

    first: int
    raw: NDArray[Any]
    beside: dict[str, NDArray[Any]]
    starts: Integers | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.raw)

    def cut(self, length: int, starts: Integers) -> NpyPiece:
        """The first rows of it, in groups."""
        beside = {role: values[:length] for role, values in self.beside.items()}
        return NpyPiece(self.first, self.raw[:length], beside, starts)


class NpyRows(StreamedRows[NpyPiece]):
    """Rows in a ``.npy`` file, however large.

    Parameters
    ----------
    X : a file with a matrix, one row per observation; saved by rows (C order), or more slowly by columns.
    y : a file with one number per row; or the number of a column of X, which then is no feature.
    features : the numbers of X's columns to explain y by; None takes all that have no other part.
    weight, groups : like ``y``. The rows of a group must follow each other.
    n_jobs : threads; None uses what the linear algebra library would.
    block_rows : rows per block; None chooses by the cache.
    memory : bytes that kept samples, or the rows of one group, may take.
    progress : called as ``progress(rows done, rows in all, pass)``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.engines import NpyRows
    >>> data = make_mixed_regression(2000, 3, snr=5, symmetric=True, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "all.npy"), np.column_stack([data.X, data.y]))
    ...     rows = NpyRows(Path(folder, "all.npy"), -1)
    ...     fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(rows)
    >>> rows.n_rows, rows.n_features, fit.converged_
    (2000, 3, True)
    """

    def __init__(
        self,
        X: str | Path,
        y: str | Path | int,
        features: Sequence[int] | None = None,
        weight: str | Path | int | None = None,
        groups: str | Path | int | None = None,
        n_jobs: int | None = None,
        *,
        block_rows: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        self._matrix = NpyFile.of(X)
        given = {"y": y, "weight": weight, "groups": groups}
        self._sources = {role: self._source(role, what) for role, what in given.items() if what is not None}
        self._files = {role: source.file for role, source in self._sources.items() if source.apart}
        stamps = [Stamp.of(file.path) for file in (self._matrix, *self._files.values())]
        super().__init__(stamps, n_jobs=n_jobs, memory=memory, progress=progress)
        self._numbers = self._choose_features(features)
        self._features = _as_slice(self._numbers)
        self.n_features = len(self._numbers)
        self.n_rows = self._matrix.rows
        self.block_rows = block_rows or rows_per_block(self.n_rows, self._matrix.columns)

    @property
    def nbytes(self) -> int:
        itemsize = 4 if self._matrix.dtype == np.float32 else 8
        return self._matrix.rows * self.n_features * itemsize

    def pieces(self) -> Iterator[NpyPiece]:
        step = min(self.block_rows, self._matrix.rows)
        ring = [np.empty(step * self._matrix.columns, self._matrix.dtype) for _ in range(self.threads + AHEAD)]
        runs = Runs(self._place_of("groups")[0], self.memory, counted_from=0) if "groups" in self._sources else None
        with ExitStack() as stack:
            files = {
                role: (file, stack.enter_context(FileIO(file.path)))
                for role, file in (self._files | {"X": self._matrix}).items()
            }
            first = 0
            for room in cycle(ring):
                piece = _read_rows(files, first, min(first + step, self._matrix.rows), room)
                if runs is not None:
                    piece = self._in_groups(files, piece, runs)
                yield piece
                first = piece.last
                if first == self._matrix.rows:
                    break
        if runs is not None:
            self.n_groups = runs.finish()

    def rows(self, piece: NpyPiece) -> Rows:
        X = (
            piece.raw[:, self._features]
            if isinstance(self._features, slice)
            else piece.raw.take(self._features, axis=1)
        )
        if X.dtype not in (np.float64, np.float32):
            X = X.astype(np.float64)
        y = self._column(piece, "y").astype(np.float64)
        weight = self._column(piece, "weight").astype(np.float64) if "weight" in self._sources else None
        if not self._sound:
            _refuse(X, piece.first, self._matrix.path, self._numbers)
            _refuse(y[:, None], piece.first, *self._place_of("y"))
            if weight is not None:
                _refuse(weight[:, None], piece.first, *self._place_of("weight"), negative=True)
        return Rows(X, y, weight, piece.starts, np.arange(piece.first, piece.last))

    def _in_groups(self, files: Files, piece: NpyPiece, runs: Runs) -> NpyPiece:
        """A piece that ends with a group: shorter than was read, or longer where one group is all of it."""
        labels = self._column(piece, "groups")
        starts = changes(labels)
        while piece.last < self._matrix.rows and len(starts) == 1:
            last = min(piece.last + len(piece.raw), self._matrix.rows)
            runs.check_size(2 * piece.raw.nbytes, piece.first)
            piece = _read_rows(files, piece.first, last, None)
            labels = self._column(piece, "groups")
            starts = changes(labels)
        length = len(labels)
        if piece.last < self._matrix.rows:
            length, starts = int(starts[-1]), starts[:-1]
        runs.note(labels[starts], piece.first + starts)
        return piece.cut(length, starts)

    def _column(self, piece: NpyPiece, role: str) -> NDArray[Any]:
        source = self._sources[role]
        return piece.beside[role] if source.apart else piece.raw[:, source.column]

    def _source(self, role: str, what: str | Path | int) -> RoleSource:
        if isinstance(what, (int, np.integer)):
            return RoleSource(self._matrix, self._column_number(int(what), role))
        file = NpyFile.of(what, vector=True)
        if file.rows != self._matrix.rows:
            raise ValueError(f"{what} has {file.rows:,} rows and {self._matrix.path} has {self._matrix.rows:,}")
        return RoleSource(file, apart=True)

    def _column_number(self, number: int, role: str) -> int:
        columns = self._matrix.columns
        if not -columns <= number < columns:
            raise ValueError(f"{self._matrix.path} has no column {number} for {role}; it has 0 to {columns - 1}")
        return number % columns

    def _choose_features(self, features: Sequence[int] | None) -> list[int]:
        taken = {source.column: role for role, source in self._sources.items() if not source.apart}
        if features is None:
            found = [number for number in range(self._matrix.columns) if number not in taken]
        else:
            found = [self._column_number(int(number), "features") for number in features]
        for place, number in enumerate(found):
            if number in taken:
                raise ValueError(f"column {number} of {self._matrix.path} is {taken[number]}: leave it out of features")
            if number in found[:place]:
                raise ValueError(f"features names column {number} twice")
        if not found:
            raise ValueError(f"{self._matrix.path} has no column left to explain y by")
        return found

    def _place_of(self, role: str) -> tuple[Path, list[int]]:
        """The file a role's numbers are in, and their column there."""
        source = self._sources[role]
        return source.file.path, [source.column]


def _read_rows(files: Files, first: int, last: int, room: NDArray[Any] | None) -> NpyPiece:
    matrix, file = files["X"]
    raw = matrix.read(file, first, last, room)
    beside = {role: source.read(file, first, last)[:, 0] for role, (source, file) in files.items() if role != "X"}
    return NpyPiece(first, raw, beside)


def _as_slice(numbers: list[int]) -> slice | list[int]:
    """Columns that lie together as a slice, which needs no copy."""
    together = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return slice(numbers[0], numbers[-1] + 1) if together else numbers


def _refuse(values: NDArray[Any], first: int, path: Path, columns: list[int], negative: bool = False) -> None:
    """Raise with the row, counted from 0 as NumPy does, and the column that no fit can take."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) and not (negative and values.min() < 0):
            return
    bad = ~np.isfinite(values) | (values < 0 if negative else False)
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        value = values[row, column]
        kind = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"the negative weight {value}"
        raise ValueError(
            f"{path} contains {kind} (row {first + row}, column {columns[column]}): "
            "drop or fill such rows before fitting"
        )
