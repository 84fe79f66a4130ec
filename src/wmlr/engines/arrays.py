"""Rows in memory: blocks answered by threads, added in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query, join_pieces
from wmlr.core.repeats import merge
from wmlr.core.round import Rows, Sampled, add
from wmlr.engines.sample_cache import SampleCache, drop_oldest
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Array, Integers, Sums

BLOCK_BYTES = 2**21
SMALL_MATRIX = 512
LARGEST_BLOCK_BYTES = 2**23
LARGEST_BLOCK_ROWS = 2**15
FEWEST_BLOCKS = 12
LEAST_COSTLY_ROWS = 1024  # of a block, where a row takes long
SAMPLE_POOL = 4.0
LEAST_POOL, LARGEST_POOL = 0.1, 0.3
KEPT_ROWS, KEPT_BYTES = 2**14, 2**25  # the most, in all, of which blocks are kept with what queries remember
KEPT_COLUMNS = 64  # the fewest: of narrow rows queries remember much more than the rows themselves
MOST_SAMPLES = 16  # that are kept: whoever asks could name ever new ones

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Codes:
    """The rows with the lowest content codes, a ``share`` of all: their places in the order of the blocks."""

    share: float
    places: Integers
    codes: NDArray[np.uint64]


NO_CODES = Codes(0.0, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64))


class ArrayRows:
    """Rows held as arrays.

    X is cut into blocks that fit the processor's cache; each thread answers for its blocks with one BLAS
    thread, and answers are added in the order of the blocks, so that the number of threads changes
    nothing at all and the block size only the last digits. X is never copied.

    Parameters
    ----------
    X, y : arrays of the same length.
    sample_weight : a non-negative number per row, or None.
    groups : integer codes 0 ... G-1 per row, or None. Rows of a group are kept in one block; groups need
        not be contiguous.
    beside : further arrays with a line per row, by their role (:class:`wmlr.core.round.Rows`).
    n_jobs : threads; None is 1 unless joblib says otherwise, -1 all processors.
    block_rows : rows per block; None chooses by the cache.
    index : the rows' numbers in the whole data, where these are a sample of it; None where they are all.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        sample_weight: Array | None = None,
        groups: Integers | None = None,
        *,
        beside: Mapping[str, Array] | None = None,
        n_jobs: int | None = None,
        block_rows: int | None = None,
        index: Integers | None = None,
    ) -> None:
        self.X = X
        self.y = np.asarray(y, dtype=np.float64)
        self.weight = sample_weight
        self.beside = {} if beside is None else beside
        self.threads = effective_n_jobs(n_jobs)
        n, d = X.shape
        self.block_rows = block_rows or rows_per_block(n, d)
        self._order: Integers | None = None
        self._starts: Integers | None = None
        if groups is not None:
            if np.any(np.diff(groups) < 0):
                self._order = np.argsort(groups, kind="stable")
                groups = groups[self._order]
            self._starts = np.flatnonzero(np.diff(groups, prepend=-1))
        self._index = index
        self._edges = self._cut(n, self.block_rows)
        self._samples: SampleCache[ArrayRows] = SampleCache(MOST_SAMPLES)
        self._lowest: dict[int, Codes] = {}
        self._keeps_blocks = d >= KEPT_COLUMNS and n <= KEPT_ROWS and 8 * n * d <= KEPT_BYTES
        self._kept: dict[tuple[int, int], Rows] = {}
        self._different: ArrayRows | None = None

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def total(self, query: Query) -> Sums:
        """The sum of the answers of all blocks."""
        asked = query.sample
        if asked is not None and asked.kind.merged:
            return self._different_rows().total(asked.query)
        if asked is not None and asked.of_some:
            return self._sample(asked.query).total(asked.query.query)
        n = len(self.y)
        shared_out = min(self.block_rows, max(LEAST_COSTLY_ROWS, n // FEWEST_BLOCKS))
        edges = self._cut(n, shared_out) if query.is_costly else self._edges
        if len(edges) == 2 or query.of_each_agent:
            return answer_in_pieces(query, self._all(), self.threads)
        blocks = list(pairwise(edges.tolist()))
        return add_answers(lambda number: query.answer(self._rows(*blocks[number])), len(blocks), self.threads)

    def _different_rows(self) -> ArrayRows:
        """The different rows, each as heavy as all its copies."""
        if self._different is None:
            rows = merge(self._all())
            self._different = ArrayRows(
                rows.X, rows.y, rows.weight, beside=rows.beside, n_jobs=self.threads, index=rows.index
            )
        return self._different

    def _sample(self, query: Sampled) -> ArrayRows:
        return self._samples.get(query.choice, lambda: self._draw(query))

    def _draw(self, query: Sampled) -> ArrayRows:
        """The rows that a query looks at, copied by threads."""
        places = self._places(query)
        chosen = places if self._order is None else self._order[places]
        return ArrayRows(
            self._copy_rows(chosen),
            self.y[chosen],
            None if self.weight is None else self.weight[chosen],
            self._codes(places),
            beside={role: values[chosen] for role, values in self.beside.items()},
            n_jobs=self.threads,
            index=chosen if self._index is None else self._index[chosen],
        )

    def _places(self, query: Sampled) -> Integers:
        """Where a sample's rows stand in the order of the blocks; those of larger samples to come are noted too."""
        if self._lowest.get(query.seed, NO_CODES).share < query.share:
            pool = min(max(SAMPLE_POOL * query.share, LEAST_POOL), LARGEST_POOL)
            wide = replace(query, share=max(query.share, pool))
            blocks = len(self._edges) - 1
            found = collect_answers(lambda number: wide.lowest_codes(self._block(number)), blocks, self.threads)
            places = np.concatenate([first + places for first, (places, _) in zip(self._edges, found)])
            drop_oldest(self._lowest, MOST_SAMPLES - 1)
            self._lowest[query.seed] = Codes(wide.share, places, np.concatenate([codes for _, codes in found]))
        known = self._lowest[query.seed]
        return known.places[query.chooses(known.codes)]

    def with_features(self, X: Any) -> ArrayRows:
        """A sample with other features: those that the rows of its numbers have in X."""
        groups = self._codes(np.arange(len(self.y)))
        return ArrayRows(
            X[self._index],
            self.y,
            self.weight,
            groups,
            beside=self.beside,
            n_jobs=self.threads,
            index=self._index,
        )

    def _codes(self, places: Integers) -> Integers | None:
        """The groups of rows, by the places of these in the order of the blocks."""
        return None if self._starts is None else np.searchsorted(self._starts, places, side="right")

    def _copy_rows(self, chosen: Integers) -> Any:
        """Some rows of X, row by row in memory."""
        if not isinstance(self.X, np.ndarray):
            return self.X[chosen]
        X = np.empty((len(chosen), self.X.shape[1]), dtype=self.X.dtype)
        pieces = np.linspace(0, len(chosen), self.threads + 1).astype(np.int64)

        def copy(number: int) -> None:
            piece = slice(pieces[number], pieces[number + 1])
            self.X.take(chosen[piece], axis=0, out=X[piece], mode="clip")

        collect_answers(copy, self.threads, self.threads)
        return X

    def _cut(self, n: int, rows: int) -> Integers:
        """Where blocks of so many rows begin and end."""
        if self._starts is None:
            blocks = max(1, round(n / rows))
            return np.linspace(0, n, blocks + 1).astype(np.int64)
        wanted = np.arange(rows, n, rows)
        places = np.searchsorted(self._starts, wanted)
        places = places[places < len(self._starts)]
        return np.unique(np.concatenate([[0], self._starts[places], [n]])).astype(np.int64)

    def _block(self, number: int) -> Rows:
        return self._rows(int(self._edges[number]), int(self._edges[number + 1]))

    def _all(self) -> Rows:
        return self._rows(0, len(self.y))

    def _rows(self, first: int, last: int) -> Rows:
        """A block, with what queries remember of it where it is the only one or all take little memory."""
        if not (self._keeps_blocks or last - first == len(self.y)):
            return self._cut_out(first, last)
        if (first, last) not in self._kept:
            self._kept[first, last] = self._cut_out(first, last)
        return self._kept[first, last]

    def _cut_out(self, first: int, last: int) -> Rows:
        chosen: Any = slice(first, last) if self._order is None else self._order[first:last]
        starts = None
        if self._starts is not None:
            low, high = np.searchsorted(self._starts, [first, last])
            starts = self._starts[low:high] - first
        numbers = self._order if self._index is None else self._index
        return Rows(
            X=self.X[chosen],
            y=self.y[chosen],
            weight=None if self.weight is None else self.weight[chosen],
            starts=starts,
            index=np.arange(first, last) if numbers is None else numbers[first:last],
            beside={role: values[chosen] for role, values in self.beside.items()},
        )

    def __iter__(self) -> Iterator[Rows]:
        return (self._block(number) for number in range(len(self._edges) - 1))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            blocks=lambda: (({}, block) for block in self),
            labelled=KNOWN in self.beside,
            in_one_place=True,
            in_memory=True,
        )


def rows_per_block(n: int, d: int) -> int:
    """Rows that fit the processor's cache; more of them in large data, so that blocks do not get too many."""
    row = 8 * max(d, 1)
    return max(256, BLOCK_BYTES // row, min(n // FEWEST_BLOCKS, LARGEST_BLOCK_BYTES // row, LARGEST_BLOCK_ROWS))


def add_answers(answer: Callable[[int], Sums], blocks: int, threads: int) -> Sums:
    """Add the answers for blocks 0, 1, ... in their order, whichever thread is done first."""
    if threads == 1 or blocks == 1:
        return add(map(answer, range(blocks)))
    return add(collect_answers(answer, blocks, threads))


def answer_in_pieces(query: Query, rows: Rows, threads: int) -> Sums:
    """The answer for one block: threads share out the query's pieces."""
    pieces = query.pieces(len(rows)) if threads > 1 else ()
    if len(pieces) < 2:
        return query.answer(rows)
    return join_pieces(collect_answers(lambda number: pieces[number].answer(rows), len(pieces), threads))


def collect_answers(answer: Callable[[int], Answer], count: int, threads: int) -> list[Answer]:
    """The answers with the numbers 0, 1, ..., found by threads."""
    if threads == 1 or count == 1:
        return list(map(answer, range(count)))
    answers: list[Any] = [None] * count
    left = iter(range(count))

    def work() -> None:
        for number in left:
            answers[number] = answer(number)

    with _blas().limit(limits=1, user_api="blas"):
        helpers = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
        try:
            work()
        finally:
            list(left)
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()
    return answers


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def single_blas(d: int) -> AbstractContextManager[Any]:
    """One BLAS thread for the small matrices between passes; several for large ones, which repay them."""
    return _blas().limit(limits=1, user_api="blas") if d <= SMALL_MATRIX else nullcontext()


def default_threads() -> int:
    """As many threads as the linear algebra library may use here, and joblib would."""
    allowed = [library["num_threads"] for library in _blas().info() if library["user_api"] == "blas"]
    return max(1, min(int(count) for count in [effective_n_jobs(-1), *allowed]))
