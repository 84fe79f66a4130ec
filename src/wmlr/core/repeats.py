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
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Integers, Sums, mix

REPEATS = "repeats"  # the role of how often a row occurs
MOST_MERGED = 0.8  # of the rows: where more are different, nothing is gained
GLANCED_AT = 8_000  # rows by which it is first judged whether many may be copies
RARE = 0.97  # of these are different: copies are not sought


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
class Merged(Wrapper):
    """A query asked of different rows, each of which weighs as much as all its copies."""

    query: Query
    travels = False
    is_sampled = True

    def view(self, rows: Rows) -> Rows:
        return merge(rows)

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return Merged(self.query.wrap(wrapper))


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
    return replace(kept, weight=weight, beside={**kept.beside, REPEATS: np.bincount(copies).astype(np.float64)})


def repeats(rows: Rows) -> Array | float:
    """How often each row occurs: once, unless they are merged."""
    return rows.beside.get(REPEATS, 1.0)


def first_and_copies(rows: Rows) -> tuple[Integers, Integers] | None:
    """The first row of each content, in their order, and for every row which of these it is a copy of.

    None where hardly any row is a copy, and where rows belong to groups.
    """
    n = len(rows)
    plain = rows.starts is None and isinstance(rows.X, np.ndarray) and REPEATS not in rows.beside
    step = max(-(-n // GLANCED_AT), 1)
    if not plain or _are_mostly_different(rows.y[::step]):
        return None
    columns = [rows.y, *rows.X.T]
    for values in rows.beside.values():
        columns += [values] if values.ndim == 1 else [*values.T]
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


def _are_mostly_different(values: NDArray[Any]) -> bool:
    return len(np.unique(values)) >= RARE * len(values)


def _codes(columns: list[Array]) -> NDArray[np.uint64]:
    """A scrambled number of each row's whole content."""
    code = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        code = mix(code ^ np.add(column, 0.0, dtype=np.float64).view(np.uint64))
    return code
