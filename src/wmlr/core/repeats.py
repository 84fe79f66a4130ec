"""Rows that occur several times, as one row that weighs as much as all of them.

Whole numbers and levels repeat rows: a search that looks at each content once is as right, and quicker; and a draw of
few rows is one of different rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import Query, Wrapper
from wmlr.core.round import Rows, SampleQuestion
from wmlr.numerics.arrays import Array, Integers, Sums, mix

REPEATS = "repeats"  # the role of how often a row occurs
MOST_MERGED = 0.8  # of the rows: where more are different, nothing is gained
PREVIEW_ROWS = 8_000  # rows by which it is first judged whether many may be copies
RARE = 0.97  # of these are different: copies are not sought
LEVELS, CELLS = 32, 1024  # of a sketch: some 3% from the number of different rows
LEAST_EMPTY = 0.05  # of a level's cells: where fewer are, it says nothing


@dataclass(frozen=True)
class DifferentRows(Query):
    """How many rows there are if those with the same content are one; it is about all rows in one place, and no sum.

    It looks at rows as they are, whatever others make of their columns.
    """

    of_each_agent = True
    is_sampled = True
    travels = False

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return self

    def answer(self, rows: Rows) -> Sums:
        found = first_and_copies(rows)
        return {"rows": np.array(float(len(rows) if found is None else len(found[0])))}


@dataclass(frozen=True)
class ContentSketch(Query):
    """A sketch that adds up, from which the number of distinct rows can be estimated (:func:`count_different`).

    Each content has one cell of one level; half of all contents are on the first level, half of the others on the next.
    Rows remember what of it they have seen.
    """

    travels = False

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return self

    def answer(self, rows: Rows) -> Sums:
        if ContentSketch not in rows.memo:
            codes = _codes(_contents(rows))
            leading = 64 - np.frexp(codes.astype(np.float64))[1]
            seen = np.zeros((LEVELS, CELLS), dtype=np.bool_)
            seen[np.clip(leading, 0, LEVELS - 1), codes % np.uint64(CELLS)] = True
            rows.memo[ContentSketch] = seen
        return {"seen": rows.memo[ContentSketch].astype(np.float64)}


def count_different(seen: Array) -> float:
    """The number of distinct rows, estimated from the first level of a sketch that is not full, and those beyond."""
    empty = np.mean(seen == 0.0, axis=1)
    level = int(np.argmax(empty >= LEAST_EMPTY))
    return float(-(2.0**level) * CELLS * np.log(np.maximum(empty[level:], 1.0 / CELLS)).sum())


@dataclass(frozen=True)
class Merged(Wrapper):
    """A query asked of the distinct rows, about this ``part`` of all, each as heavy as all its copies."""

    query: Query
    part: float = 1.0
    travels = False
    is_sampled = True

    def view(self, rows: Rows) -> Rows:
        return merge(rows)

    @property
    def sample(self) -> SampleQuestion | None:
        found = self.query.sample
        return None if found is None else replace(found, kind=found.kind._replace(merged=True), part=self.part)

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return replace(self, query=self.query.wrap(wrapper))


def merge(rows: Rows) -> Rows:
    """The different rows, with the weight of all their copies, and how many these are beside them."""
    found = first_and_copies(rows)
    if found is None:
        return rows
    first, copies = found
    weight = np.bincount(copies, rows.weight, len(first)).astype(np.float64)
    chosen = np.zeros(len(rows), dtype=np.bool_)
    chosen[first] = True
    kept = rows.take(chosen)
    count = np.bincount(copies, np.broadcast_to(repeats(rows), len(rows)), len(first))
    return replace(kept, weight=weight, beside={**kept.beside, REPEATS: count.astype(np.float64)})


def with_repeats(rows: Rows) -> Rows:
    """The rows, merged where many are copies, each with how often it occurs: so they can be joined with others."""
    rows = merge(rows)
    return replace(rows, weight=rows.counts, beside={**rows.beside, REPEATS: np.ones(len(rows)) * repeats(rows)})


def repeats(rows: Rows) -> Array | float:
    """How often each row occurs: once, unless they are merged."""
    return rows.beside.get(REPEATS, 1.0)


def first_and_copies(rows: Rows) -> tuple[Integers, Integers] | None:
    """The first row of each content, in their order, and for every row which of these it is a copy of.

    None where hardly any row is a copy, and where rows belong to groups.
    """
    n = len(rows)
    plain = rows.starts is None and isinstance(rows.X, np.ndarray)
    step = max(-(-n // PREVIEW_ROWS), 1)
    if not plain or _are_mostly_different(rows.y[::step]):
        return None
    columns = _contents(rows)
    if _are_mostly_different(_codes([column[::step] for column in columns])):
        return None
    _, first, copies = np.unique(_codes(columns), return_index=True, return_inverse=True)
    if len(first) > MOST_MERGED * n:
        return None
    if not all(np.array_equal(column, column[first][copies]) for column in columns):
        return None  # two contents with one code
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[copies]


def _contents(rows: Rows) -> list[Array]:
    """The columns by which rows are told apart."""
    columns = [rows.y, *rows.X.T]
    for role, values in rows.beside.items():
        if role != REPEATS:
            columns += [values] if values.ndim == 1 else [*values.T]
    return columns


def _are_mostly_different(values: NDArray[Any]) -> bool:
    return len(np.unique(values)) >= RARE * len(values)


def _codes(columns: list[Array]) -> NDArray[np.uint64]:
    """A scrambled number of each row's whole content."""
    code = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        code = mix(code ^ np.add(column, 0.0, dtype=np.float64).view(np.uint64))
    return code
