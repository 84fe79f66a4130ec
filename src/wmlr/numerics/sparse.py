"""Sparse features: rows of a CSR matrix, cut and multiplied without ever being made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from wmlr.numerics.arrays import Array

BLOCK_BYTES = 2**21  # what a processor keeps near
ROW_BYTES = 64  # that a row takes besides its entries
ENTRY_BYTES = 12  # a float and its column
LARGEST_BLOCK = 2**16  # rows
FEWEST_BLOCKS = 16  # so that threads have something to share out


class Csr:
    """Features as the queries see them, held row by row with their zeros left out.

    Rows that lie together are cut out without copying, a column comes out dense, and so do products with
    arrays. Nothing else of an array is offered, so that nobody makes it dense by accident.
    """

    def __init__(self, indptr: Any, indices: Any, data: Any, columns: int) -> None:
        self.indptr = indptr
        self.indices = indices
        self.data = data
        self.shape = (len(indptr) - 1, columns)
        self.T = Columns(self)

    @classmethod
    def of(cls, matrix: Any) -> Csr:
        """Any scipy.sparse matrix; a CSR one without repeated entries is not copied."""
        given = csr_array(matrix)
        rows = csr_array((given.data, given.indices, given.indptr), shape=given.shape)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return cls(rows.indptr, rows.indices, rows.data, int(rows.shape[1]))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"Csr({self.shape[0]} rows, {self.shape[1]} columns, {self.nnz} entries)"

    @property
    def nnz(self) -> int:
        """The number of entries that are held."""
        return int(self.indptr[-1] - self.indptr[0])

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """indptr, indices and data; row i has the entries from indptr[i] to indptr[i + 1]."""
        return self.indptr, self.indices, self.data

    @property
    def matrix(self) -> Any:
        """The same as a scipy.sparse CSR array."""
        first, last = int(self.indptr[0]), int(self.indptr[-1])
        indptr = self.indptr - self.indptr[0] if first else self.indptr
        return csr_array((self.data[first:last], self.indices[first:last], indptr), shape=self.shape)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, tuple):
            _, column = chosen
            return self._column(int(column))
        if isinstance(chosen, slice):
            first, last, step = chosen.indices(len(self))
            if step == 1:
                return Csr(self.indptr[first : max(first, last) + 1], self.indices, self.data, self.shape[1])
        return Csr.of(self.matrix[chosen])

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.matrix @ B)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self!r} is not made dense: use its rows, columns and products")

    def __array_function__(self, function: Any, _types: Any, args: Any, _kwargs: Any) -> Any:
        return stack(args[0]) if function is np.concatenate else NotImplemented

    def _column(self, column: int) -> Array:
        X = self.matrix
        there = X.indices == column
        values = np.zeros(len(self))
        values[np.searchsorted(X.indptr, np.flatnonzero(there), side="right") - 1] = X.data[there]
        return values

    def dense(self) -> Array:
        """All of it as an array: for a few rows."""
        return np.asarray(self.matrix.toarray())

    def gram(self, weight: Array | None) -> Array:
        """``X' diag(weight) X`` as an array."""
        from wmlr.numerics import compiled

        square = compiled.sparse_gram(self, weight)
        if square is not None:
            return square
        X = self.matrix
        scaled = X if weight is None else X * weight[:, None]
        return np.asarray((X.T @ scaled).toarray(), dtype=np.float64)

    def square_sums(self, weight: Array) -> Array:
        """The weighted sum of squares of each column."""
        X = self.matrix
        return np.asarray(csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape).T @ weight)

    def sum_runs(self, weight: Array, starts: NDArray[np.int64]) -> Csr:
        """Weighted sums over runs of rows, each beginning where ``starts`` says: a row for each run."""
        n = len(self)
        runs = csr_array((weight, np.arange(n), np.append(starts, n)), shape=(len(starts), n))
        return Csr.of(runs @ self.matrix)


class Columns:
    """The transpose of sparse features, for products from the left."""

    def __init__(self, rows: Csr) -> None:
        self.rows = rows

    def __matmul__(self, W: Array) -> Array:
        return np.asarray(self.rows.matrix.T @ W)


def stack(pieces: Sequence[Csr]) -> Csr:
    """Rows below rows."""
    return Csr.of(vstack([piece.matrix for piece in pieces], format="csr"))


def dense(X: Any) -> Any:
    """Sparse rows as an array; others as they are."""
    if isinstance(X, Csr):
        return X.dense()
    return X.toarray() if hasattr(X, "toarray") else X


def unwrap(X: Any) -> Any:
    """Features as the rest of the world knows them."""
    return X.matrix if isinstance(X, Csr) else X


def block_rows(X: Any) -> int | None:
    """Rows of a block, by what each holds and what is computed for it; None where X is dense."""
    if not isinstance(X, Csr):
        return None
    n = max(len(X), 1)
    return max(256, BLOCK_BYTES // (ROW_BYTES + ENTRY_BYTES * X.nnz // n), min(n // FEWEST_BLOCKS, LARGEST_BLOCK))
