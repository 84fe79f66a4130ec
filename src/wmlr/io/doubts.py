"""Columns of numbers that may not mean what they look like: what a person should be told of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np

from wmlr.io.table import Table

GAP_NUMBERS = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0, 999.9, 9999.9)
CODE_NAMES = re.compile(r"(?i)(?:.*[_. -])?(?:zip|zipcode|postcode|code|region|category)")
FEWEST = 2  # times that a number stands where a gap is meant
APART = 2.0  # how far such a number lies from all others, in lengths of their range


def doubts_of(table: Table, name: str, explains: bool) -> list[str]:
    """What is doubtful in a column of numbers, a sentence each; ``explains`` says whether it is not the target."""
    if not table.is_numeric(name):
        return []
    found = []
    if explains and _counts_rows(table, name):
        found.append(f"{name} counts the rows 1, 2, 3 ...: if it means nothing, --exclude {quote(name)}")
    elif explains and CODE_NAMES.fullmatch(name) and table.is_whole(name):
        levels = f"--categorical {quote(name)} takes its {table.distinct(name):,} values as levels"
        found.append(f"{name} is taken as a number, though it is named like a code: {levels}")
    if (gap := _number_for_gaps(table, name)) is not None:
        number, times = gap
        found.append(
            f"{name} is {number:g} in {times:,} rows and far from that in all others: if no number was known there, "
            f"--na={number:g} reads it as a gap"
        )
    return found


def alike_levels(name: str, levels: Sequence[Any]) -> list[str]:
    """A sentence on levels that differ by blanks or capitals alone; nothing where none do."""
    seen: dict[str, str] = {}
    for level in map(str, levels):
        first = seen.setdefault(" ".join(level.casefold().split()), level)
        if first != level:
            return [
                f"{name} has levels that differ by blanks or capitals alone ({first!r} and {level!r}): write them "
                "alike in the file where they mean the same"
            ]
    return []


def _number_for_gaps(table: Table, name: str) -> tuple[float, int] | None:
    """A number of nines at an end of a column, far from all others, and how often it is there."""
    values = table.values(name)
    values = values[np.isfinite(values)]
    for number in {float(values.min()), float(values.max())} if values.size else ():
        others = values[values != number]
        if abs(number) not in GAP_NUMBERS or len(values) - len(others) < FEWEST or not others.size:
            continue
        if np.abs(others - number).min() > APART * max(np.ptp(others), np.finfo(float).tiny):
            return number, len(values) - len(others)
    return None


def _counts_rows(table: Table, name: str) -> bool:
    """Whether a column of whole numbers is 1, 2, 3 ... or 0, 1, 2 ..."""
    if not table.is_whole(name) or len(table) < 3:
        return False
    values = table.values(name)
    return bool(values[0] in (0.0, 1.0) and np.array_equal(np.diff(values), np.ones(len(values) - 1)))
