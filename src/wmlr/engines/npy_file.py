"""One ``.npy`` file: where its numbers lie, and some of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NpyFile:
    """Where the numbers of a ``.npy`` file lie; always two-dimensional, a vector being one column."""

    path: Path
    offset: int
    rows: int
    columns: int
    dtype: Any
    by_columns: bool

    @classmethod
    def of(cls, path: str | Path, vector: bool = False) -> NpyFile:
        """Look at a file's header, and at whether it is all there."""
        place = Path(path)
        if not place.is_file():
            raise ValueError(f"there is no file {path}")
        try:
            found = np.load(place, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # forged bytes make the readers of headers and archives raise anything
            short = "mmap length" in str(error)
            reason = "it is shorter than its header says" if short else "it is no such file, or holds objects"
            raise ValueError(f"{path} cannot be read as .npy: {reason}") from None
        if not isinstance(found, np.memmap):
            raise ValueError(f"{path} holds several arrays or none: save the one that is wanted with numpy.save")
        if found.dtype.kind not in "biuf":
            raise ValueError(f"{path} must hold real numbers (got {found.dtype})")
        wanted = (1, 2) if vector else (2,)
        if found.ndim not in wanted or (vector and found.ndim == 2 and found.shape[1] != 1):
            what = "one column" if vector else "a matrix with a row per observation"
            raise ValueError(f"{path} must hold {what} (got shape {found.shape})")
        rows, columns = found.shape if found.ndim == 2 else (len(found), 1)
        if rows == 0:
            raise ValueError(f"{path} has no rows (shape {found.shape})")
        return cls(place, int(found.offset), rows, columns, found.dtype, not found.flags.c_contiguous)

    def read(self, file: FileIO, first: int, last: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows ``first`` to ``last``, into a buffer if there is one; what comes back is a view of it."""
        size = (last - first) * self.columns
        whole = np.empty(size, self.dtype) if out is None else out[:size]
        if not self.by_columns:
            self._fill(file, first * self.columns, whole)
            return whole.reshape(last - first, self.columns)
        columns = whole.reshape(self.columns, last - first)
        for place, column in enumerate(columns):
            self._fill(file, place * self.rows + first, column)
        return columns.T

    def _fill(self, file: FileIO, entry: int, out: NDArray[Any]) -> None:
        file.seek(self.offset + entry * self.dtype.itemsize)
        left = out.view(np.uint8).data
        while left:
            count = file.readinto(left)
            if not count:
                raise ValueError(f"{self.path} ends short: its {self.rows:,} rows are not all there")
            left = left[count:]
