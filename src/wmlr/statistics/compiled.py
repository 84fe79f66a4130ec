"""Answers by compiled loops, where the rows are many enough to repay them.

Each function here gives the sums of the statistic it is named after, or None when the statistic must
compute them itself with NumPy: numba is missing, ``X`` is of an unusual type, the block is
small, the loop is still being compiled, or the environment says ``WMLR_KERNELS=numpy``. The two agree to rounding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.compiled import (
    EXPONENTIAL,
    REPAID,
    WORTHWHILE,
    WritableMemory,
    compiled_form_exists,
    load_loops,
    repays_loading,
    writable_floats,
    writable_parts,
)
from wmlr.numerics.compiling import call
from wmlr.numerics.expectations import Expectation, nodes_and_shares
from wmlr.numerics.kernels import LOG_2PI
from wmlr.numerics.sparse import Csr

TILE_BYTES = 256 * 1024
LONGEST_TILE = 256
COLUMNS_TILE_BYTES = 1024 * 1024
LONGEST_COLUMNS_TILE = 1024  # where rows lie by columns, a tile has a stretch of each, which must be worth a jump
ROOM_BYTES = 256 * 1024
SPARE_ROWS = 4
LINE = 8  # numbers in a cache line
UNGROUPED = np.empty(0, dtype=np.int64)
ONES = np.ones(2**15)


def symmetric_scores(rows: Rows, betas: Sequence[Array], s2: Sequence[float], mean: Array | None) -> list[Sums] | None:
    """Several of :class:`wmlr.statistics.symmetric_score.SymmetricScore` that take the same regression off y."""
    found = _symmetric_sums(rows, betas, s2, mean, less=0.0)
    return None if found is None else [{"h": h, **sums} for h, _, sums in found]


def symmetric_residuals(rows: Rows, beta: Array, s2: float, mean: Array | None) -> Sums | None:
    """See :class:`wmlr.statistics.symmetric_score.SymmetricResiduals`."""
    found = _symmetric_sums(rows, [beta], [s2], mean, less=1.0)
    if found is None:
        return None
    m, yy, sums = found[0]
    return {"m": m, "squares": yy - 2.0 * sums.pop("tyu") + sums["uu"], **sums}


def _symmetric_sums(
    rows: Rows, betas: Sequence[Array], s2: Sequence[float], mean: Array | None, less: float
) -> list[tuple[Array, float, Sums]] | None:
    """Of each state the gradient, the sum of y^2, and what both statistics have."""
    loops = _loops_for(rows, exponentials=len(betas))
    if loops is None:
        return None
    block = _Block.of(rows, [*betas] if mean is None else [*betas, mean])
    H, sums = block.gradients(len(betas)), np.zeros((len(betas), 7))
    variances = np.array(s2, dtype=np.float64)
    if not call(loops.symmetric_score, *block.data, variances, less, *block.room(W=len(betas), S=6), H, sums):
        return None
    found = []
    for beta, variance, h, summed in zip(betas, variances.tolist(), H, sums.tolist()):
        log_cosh, missing, missing_along, tyu, uu, yy, weight = summed
        constants = weight * (LOG_2PI + math.log(variance))
        numbers = {
            "log_likelihood": log_cosh - 0.5 * ((yy + uu) / variance + constants),
            "tyu": tyu,
            "uu": uu,
            "missing": missing,
            "missing_along": missing_along,
        }
        found.append((h[: len(beta)], yy, {name: np.asarray(value) for name, value in numbers.items()}))
    return found


def symmetric_minimax(
    rows: Rows, beta: Array, gamma: Array, s2: float, expectation: Expectation, unit: float, mean: Array | None
) -> Sums | None:
    """See :class:`wmlr.statistics.minimax.SymmetricMinimax`."""
    if expectation.is_drawn and expectation.size > 1:
        return None
    loops = _loops_for(rows, exponentials=2 * expectation.size + 3)
    if loops is None:
        return None
    block = _Block.of(rows, [beta, gamma] if mean is None else [beta, gamma, mean])
    H, sums = block.gradients(3), np.zeros(3)
    if expectation.is_drawn:
        noise = [writable_floats(expectation.offsets(rows.index, len(rows))[0][:, 0])]
        loop, room = loops.symmetric_minimax_drawn, block.room(W=3, S=8)
    else:
        noise = [*_not_negative(*nodes_and_shares(expectation.size))]
        loop, room = loops.symmetric_minimax, block.room(W=3, S=9)
    if not call(loop, *block.data, float(s2), float(unit), *noise, *room, H, sums):
        return None
    return {
        "value": np.array(sums[0]),
        "gradients": H[:, : len(beta)].T,
        "log_cosh": np.array(sums[1]),
        "tyu": np.array(sums[2]),
    }


def mixture_score(rows: Rows, coef: Array, log_weights: Array, s2: Array) -> Sums | None:
    """See :class:`wmlr.statistics.score.MixtureScore`; without Grams."""
    k = len(log_weights)
    loops = _loops_for(rows, exponentials=k)
    if loops is None:
        return None
    block = _Block.of(rows, [coef])
    H, sums = block.gradients(k), np.zeros(1)
    squares, mass, units = np.zeros((3, k))
    mixture = writable_floats(log_weights), writable_floats(s2)
    room = block.room(W=k, S=5)
    if not call(loops.mixture_score, *block.data, *mixture, *room, H, squares, mass, units, sums):
        return None
    return {
        "score": H[:, : len(coef)].T,
        "squares": squares,
        "mass": mass,
        "units": units,
        "log_likelihood": np.array(sums[0]),
    }


def minimax(
    rows: Rows, beta: Array, gamma: Array, log_weights: Array, s2: Array, tau2: float, expectation: Expectation,
    unit: float,
) -> Sums | None:  # fmt: skip
    """See :class:`wmlr.statistics.minimax.Minimax`; for rows that are units of their own."""
    if expectation.is_drawn or rows.starts is not None:
        return None
    k = len(log_weights)
    loops = _loops_for(rows, exponentials=2 * k * (k * expectation.size + 1) + k)
    if loops is None:
        return None
    nodes = _not_negative(*nodes_and_shares(expectation.size))
    block = _Block.of(rows, [beta, gamma])
    H, sums = block.gradients(3 * k), np.zeros(2)
    squares, mass, units = np.zeros((3, k))
    mixture = writable_floats(log_weights), writable_floats(s2), float(tau2), float(unit)
    room = block.room(W=3 * k + 1, S=9 + 8 * k + 2 * k * len(nodes[0]))
    if not call(loops.minimax, *block.data, *mixture, *nodes, *room, H, squares, mass, units, sums):
        return None
    return {
        "value": np.array(sums[0]),
        "gradients": H[:, : len(beta)].T,
        "squares": squares,
        "mass": mass,
        "units": units,
        "log_likelihood": np.array(sums[1]),
    }


def candidate_shares(Z: Array, y: Array, coef: Array, factors: Array, constants: Array) -> tuple[Array, Array] | None:
    """Responsibilities (k, s, n) of candidates, and their log-likelihoods; see :mod:`wmlr.statistics.candidates`.

    Z is (q, n), coef (k, s, q), the squared residuals' factors and the constants of the log-densities (k, s).
    """
    k, s, _ = coef.shape
    loops = load_loops() if compiled_form_exists(Z) and repays_loading(EXPONENTIAL * k * s * len(y)) else None
    if loops is None:
        return None
    R, values = np.empty((k, s, len(y))), np.empty(s)
    mixtures = [writable_floats(part) for part in (coef, factors, constants)]
    room = np.empty((2, LONGEST_TILE))
    if not call(loops.candidate_shares, writable_floats(Z), writable_floats(y), *mixtures, room, R, values):
        return None
    return R, values


@dataclass(frozen=True)
class _Block:
    """A block of rows and the coefficients P (columns, d + 1) as the loops want them.

    ``lies`` says how the features lie in memory: by rows, by columns (X is then their transpose, in a tuple, by which
    loops tell the two apart), or sparse. There the columns of P lie side by side: an entry of X meets all at once.
    """

    lies: Literal["by rows", "by columns", "sparse"]
    X: Any
    d: int
    y: Array
    weight: Array
    starts: Integers
    P: Array

    @classmethod
    def of(cls, rows: Rows, columns: list[Array]) -> _Block:
        lies: Literal["by rows", "by columns", "sparse"]
        X = rows.X
        n, d = X.shape
        if isinstance(X, Csr):
            lies, X = "sparse", writable_parts(X)
        elif _lies_by_rows(X):
            lies, X = "by rows", X if X.flags.c_contiguous and X.flags.writeable else np.asarray(WritableMemory(X))
        else:
            lies, X = "by columns", (np.asarray(WritableMemory(X.T)),)
        weight = _ones(n) if rows.weight is None else writable_floats(rows.weight)
        starts = UNGROUPED if rows.starts is None else np.require(rows.starts, np.int64, ["C", "W"])
        tall = [column.reshape(len(column), -1) for column in columns]
        P = _zeros(sum(column.shape[1] for column in tall), d + 1, lies)
        row = 0
        for column in tall:
            P[row : row + column.shape[1], : len(column)] = column.T
            row += column.shape[1]
        return cls(lies, X, d, writable_floats(rows.y), weight, starts, P)

    @property
    def data(self) -> tuple[Any, ...]:
        return self.X, self.d, self.y, self.weight, self.starts, self.P

    def gradients(self, columns: int) -> Array:
        """Room for the gradients."""
        return _zeros(columns, self.d + 1, self.lies)

    def room(self, W: int, S: int) -> tuple[int, Array, Array, Array, Integers]:
        """The rows of a tile, and arrays for the longest one to work in; a group is never cut."""
        longest = tile = self._tile(len(self.P) + W + S)
        if len(self.starts):
            longest = max(tile, int(np.diff(self.starts, append=len(self.y)).max()))
        longest += SPARE_ROWS
        columns = len(self.P)
        room = _aligned_room(columns + W + S, longest)
        U, V, T = room[:columns], room[columns : columns + W], room[columns + W :]
        return tile, U, V, T, np.empty(longest, dtype=np.int64)

    def _tile(self, arrays: int) -> int:
        """The rows of a tile that so many arrays are to work on."""
        if self.lies == "sparse":
            return LONGEST_TILE
        features = self.X[0] if self.lies == "by columns" else self.X
        row = int(features.itemsize) * max(self.d, 1)
        if self.lies == "by rows":
            return max(16, min(LONGEST_TILE, TILE_BYTES // row // 4 * 4))
        return max(LONGEST_TILE, min(LONGEST_COLUMNS_TILE, COLUMNS_TILE_BYTES // row, ROOM_BYTES // (8 * arrays)))


def _loops_for(rows: Rows, exponentials: int) -> Any | None:
    """The compiled loops if they can and should answer for these rows, with so many exponentials in each."""
    X = rows.X
    if not isinstance(X, (Csr, np.ndarray)):
        return None
    entries = (X.nnz if isinstance(X, Csr) else X.size) + EXPONENTIAL * exponentials * len(rows)
    if entries < (min(REPAID, WORTHWHILE) if load_loops.cache_info().currsize else WORTHWHILE):
        return None
    if isinstance(X, Csr):
        return load_loops() if compiled_form_exists(X) else None
    if X.ndim != 2 or X.dtype not in (np.float64, np.float32) or not X.flags.aligned:
        return None
    if not (_lies_by_rows(X) or _lies_by_rows(X.T)) or os.environ.get("WMLR_KERNELS") == "numpy":
        return None
    return load_loops()


def _lies_by_rows(X: Any) -> bool:
    """Whether the entries of each row lie side by side, and the rows one behind the other."""
    apart, within = X.strides
    side_by_side = within == X.itemsize and apart % X.itemsize == 0 and apart >= X.shape[1] * X.itemsize
    return bool(X.flags.c_contiguous or side_by_side)


def _ones(n: int) -> Array:
    return ONES[:n] if n <= len(ONES) else np.ones(n)


def _zeros(rows: int, columns: int, lies: str) -> Array:
    if lies == "sparse":
        return np.zeros((rows, columns), order="F")
    room = _aligned_room(rows, columns)
    room[:] = 0.0
    return room


def _aligned_room(rows: int, columns: int) -> Array:
    """Room whose rows begin at cache lines, and are as long as whole ones: no load or store is split between two."""
    width = -(-columns // LINE) * LINE
    flat = np.empty(rows * width + LINE)
    first = -flat.ctypes.data // flat.itemsize % LINE
    return flat[first : first + rows * width].reshape(rows, width)


def _not_negative(points: Array, shares: Array) -> tuple[Array, Array]:
    """The nodes that are not negative; one at zero, which is its own mirror image, has half its share."""
    half = len(points) // 2
    kept = shares[half:].copy()
    if len(points) % 2:
        kept[0] /= 2.0
    return points[half:].copy(), kept
