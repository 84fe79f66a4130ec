"""What a worker of a cluster holds: checked partitions as contiguous arrays, which answer queries together."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from wmlr.core.query import Query
from wmlr.core.round import Rows, SampleQuestion, Together, add, join
from wmlr.engines.arrays import ArrayRows, rows_per_block
from wmlr.engines.sample_cache import SampleCache
from wmlr.engines.samples import gather, put_together
from wmlr.engines.validation import refuse_infinite
from wmlr.numerics.arrays import Array, Integers, Sums

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of the C library's mallopt
KEPT_BYTES = 2**26  # freed memory that a worker keeps


@dataclass(frozen=True)
class PartitionColumns:
    """Which columns of a frame are what."""

    target: str
    features: tuple[str, ...]
    weight: str | None = None
    groups: str | None = None

    @property
    def all(self) -> list[str]:
        """Every column that is read, once."""
        return list(dict.fromkeys([*self.features, self.target, *filter(None, [self.weight, self.groups])]))


@dataclass(frozen=True, eq=False)
class Partition:
    """One partition, checked. Rows of a group lie together: ``order`` says where they were, if elsewhere."""

    X: Any
    y: Array
    weight: Array | None = None
    codes: Integers | None = None
    labels: NDArray[Any] | None = None
    order: Integers | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes([self.X, self.y, self.weight, self.codes, self.order])

    def blocks(self, first: int) -> list[Rows]:
        """Views of the rows in blocks that fit the cache; ``first`` is the first row's number in the whole data."""
        numbers = first + (np.arange(len(self)) if self.order is None else self.order)
        cut = ArrayRows(self.X, self.y, self.weight, self.codes, n_jobs=1)
        return [replace(block, index=numbers[block.index]) for block in cut if len(block)]


@dataclass(frozen=True)
class Facts:
    """What the client learns of a partition: how many rows, which groups, and whether any row counts."""

    rows: int
    labels: NDArray[Any] | None
    counts: bool


def facts(part: Partition) -> Facts:
    return Facts(len(part), part.labels, part.weight is None or bool(np.any(part.weight > 0)))


def from_frame(frame: Any, columns: PartitionColumns, number: int) -> Partition:
    """A partition of a data frame."""
    chosen = frame[list(columns.features)]
    single = all(str(kind).lower() in ("float32", "float[pyarrow]") for kind in chosen.dtypes)
    X = chosen.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    return _part(
        X,
        frame[columns.target].to_numpy(dtype=np.float64, na_value=np.nan),
        None if columns.weight is None else frame[columns.weight].to_numpy(dtype=np.float64, na_value=np.nan),
        None if columns.groups is None else frame[columns.groups],
        number,
        columns.features,
    )


def from_arrays(X: Any, y: Any, weight: Any, groups: Any, number: int) -> Partition:
    """Chunks of arrays."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"partition {number}: chunks of X must be dense arrays of numbers (got {type(X).__name__})")
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    y = np.asarray(y, dtype=np.float64)
    weight = None if weight is None else np.asarray(weight, dtype=np.float64)
    for name, values in (("y", y), ("weight", weight), ("groups", groups)):
        if values is not None and len(values) != len(X):
            raise ValueError(f"partition {number}: X has {len(X)} rows and {name} {len(values)}: cut both alike")
    return _part(X, y, weight, groups, number, None)


def _part(X: Any, y: Array, weight: Array | None, groups: Any, number: int, names: Sequence[str] | None) -> Partition:
    try:
        refuse_infinite(X, "X", names)
        refuse_infinite(y[:, None], "y", None)
    except ValueError as error:
        raise ValueError(f"partition {number}: {error}") from None
    if weight is not None:
        _refuse_weight(weight, number)
    codes = labels = order = None
    if groups is not None:
        codes, labels = import_module("pandas").factorize(groups)
        if np.any(codes < 0):
            row = int(np.flatnonzero(codes < 0)[0])
            raise ValueError(f"partition {number}: row {row} has no group: every row needs one")
        codes, labels = np.asarray(codes, dtype=np.int64), np.asarray(labels)
        if np.any(np.diff(codes) < 0):
            order = np.argsort(codes, kind="stable")
            X, y, codes = X[order], y[order], codes[order]
            weight = None if weight is None else weight[order]
    return Partition(np.ascontiguousarray(X), np.ascontiguousarray(y), weight, codes, labels, order)


def _refuse_weight(weight: Array, number: int) -> None:
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if bad.size:
        raise ValueError(
            f"partition {number}: weights must be finite and not negative (got {weight[bad[0]]} in row {bad[0]})"
        )


class Shard:
    """Neighbouring partitions, as one thread of a worker answers for them.

    Blocks too small to be worth a call of their own are joined; the others stay views of their partition.
    A sample is kept, because a method asks it many times.
    """

    def __init__(self, parts: Sequence[Partition], firsts: Sequence[int]) -> None:
        keep_freed_memory()
        blocks = [block for part, first in zip(parts, firsts) for block in part.blocks(first)]
        self.blocks = list(_pack(blocks))
        self._samples: SampleCache[Rows] = SampleCache()

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __sizeof__(self) -> int:
        kept = [*self.blocks, *self._samples.kept.values()]
        return object.__sizeof__(self) + sum(_bytes([rows.X, rows.y, rows.weight, rows.index]) for rows in kept)

    def total(self, query: Query) -> Sums:
        """The sum of the answers of all blocks, in their order; samples answer from what is kept of them."""
        parts = dict(enumerate(query.members))
        found: dict[int, Sums] = {}
        for place, part in parts.items():
            asked = part.sample
            if asked is not None and asked.of_some:
                sample = self._sample(asked)
                found[place] = asked.query.query.answer(sample) if len(sample) else {}
        rest = {place: part for place, part in parts.items() if place not in found}
        shared = Together(tuple(rest.values()))
        found |= zip(rest, shared.split_sums(add(shared.answer(block) for block in self.blocks) if rest else {}))
        return query.join_answers([found[place] for place in parts])

    def _sample(self, asked: SampleQuestion) -> Rows:
        kind, share = asked.kind, asked.query.share
        return self._samples.get(
            (share, *kind), lambda: put_together(kind, [gather(kind, share, rows) for rows in self.blocks])
        )


def answer(shard: Shard, query: Query) -> Sums:
    """A shard's answer, with one BLAS thread."""
    with one_blas_thread:
        return shard.total(query) if shard.blocks else {}


def score_shard(shard: Shard, score: Callable[[Rows], dict[str, Any]], names: Sequence[str]) -> Any:
    """A frame of what a function makes of a shard's rows, by the rows' numbers."""
    pandas = import_module("pandas")
    with one_blas_thread:
        frames = [pandas.DataFrame(score(block), index=block.index, columns=list(names)) for block in shard.blocks]
    empty = pandas.DataFrame({name: np.empty(0) for name in names}, index=np.empty(0, dtype=np.int64))
    return pandas.concat(frames).sort_index() if frames else empty


def keep_freed_memory() -> None:
    """Let a worker that was told to give all freed memory back at once, as Dask's are, keep some for the next block.

    Else each array of a block is made of new pages of memory, which take as long as what is done with it.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ and sys.platform == "linux":
        with suppress(AttributeError, OSError):  # where the C library is another
            library = ctypes.CDLL(None)
            library.mallopt(TRIM_THRESHOLD, KEPT_BYTES)
            library.mallopt(MMAP_THRESHOLD, KEPT_BYTES // 2)


def _pack(blocks: Iterable[Rows]) -> Iterable[Rows]:
    waiting: list[Rows] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= rows_per_block(0, block.X.shape[1]) // 2:
            yield join(waiting) if len(waiting) > 1 else block
            waiting = []
    if waiting:
        yield join(waiting) if len(waiting) > 1 else waiting[0]


def _bytes(arrays: Iterable[Any]) -> int:
    return sum(int(array.nbytes) for array in arrays if array is not None)


class _OneBlasThread:
    """Holds the process to one BLAS thread as long as any task is inside: each task has a thread already.

    A limit can be lifted only by the thread that set it, and the last task to leave may run on another than the
    first. So a thread of its own does both.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                _keeper().submit(self._set).result()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _keeper().submit(self._limit.close).result()

    def _set(self) -> None:
        self._limit.enter_context(_libraries().limit(limits=1, user_api="blas"))


@cache
def _keeper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


one_blas_thread = _OneBlasThread()
