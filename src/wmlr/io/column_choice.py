"""Which columns of a file a fit explains by, and as what: numbers, or levels of text.

What is not meant to explain anything is left out by itself and said: numbers of rows, names, dates, columns that are
empty or always the same. Whoever names a column gets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.io.doubts import alike_levels, doubts_of
from wmlr.io.table import Table, list_names

MOST_LEVELS = 30
"""A text with more levels is not taken by itself: most of its dummies would rest on a handful of rows."""

ROWS_PER_LEVEL = 5
"""Fewer rows than this for a level, on average, and the column is not taken by itself."""

MOSTLY_EMPTY = 0.5
"""A column with a larger share of gaps is not taken by itself: its rows would have to go."""

MANY_GAPS = 0.25
"""Where gaps cost a larger share of the rows, the columns that have most of these gaps are named."""

LARGEST_FACTOR = 1000
"""The most levels a column may have where it is asked for by name."""

FEW_NUMBERS = 10
"""So many different numbers in a text may be names of levels, such as numbers of cylinders; more are numbers."""

NAMED_LIKE_AN_ID = re.compile(
    r"(?i:(?:^|[\s_.-])(?:id|uuid|guid)$|^id[\s_.-]|^row[\s_.]?(?:names?|id|number|num|nr)$|^unnamed: ?\d+$|^$)"
    r"|[a-z]I[dD]$|^[A-Z]{0,3}ID$"
)
NEARLY_NUMBERS = re.compile(r"\s*[-+−]?[$€£]?\s*[-+−]?(?:\d[\d,' ]*\.?\d*|\.\d+)\s*(?:[%kKmM]|[a-zA-Z]{1,3})?\s*")


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """The columns to explain by.

    Attributes
    ----------
    names : in their order.
    levels : what stands in each of those that are levels; the first is the reference.
    kept : the rows without a gap in any column that is used.
    gaps : for each column with gaps, how many there are.
    left_out : columns that were not taken, and why.
    doubts : remarks on columns that were taken.
    """

    names: tuple[str, ...]
    levels: Mapping[str, list[Any]]
    kept: NDArray[np.bool_]
    gaps: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def dropped(self) -> int:
        """How many rows have a gap."""
        return int((~self.kept).sum())

    def notes(self, gaps: bool = True) -> list[str]:
        """What a person should know of the choice, a sentence each; of gaps where those are known."""
        found = []
        if self.levels:
            references = (f"{name} (against {known[0]})" for name, known in self.levels.items())
            found.append(f"as levels: {', '.join(references)}")
        if self.dropped and gaps:
            found.append(gaps_sentence(self.dropped, len(self.kept), self.gaps))
        if self.left_out:
            words = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            found.append(f"left out: {words}")
        return [*found, *self.doubts]


def gaps_sentence(dropped: int, rows: int, gaps: Mapping[str, int]) -> str:
    """How many rows were left out for their gaps, and in which columns those are."""
    worst = sorted(gaps.items(), key=lambda pair: -pair[1])
    where = list_names([f"{name} {count:,}" for name, count in worst if count], 6)
    return f"{dropped:,} of {rows:,} rows have gaps and are left out ({where})"


def choose_columns(
    table: Table,
    taken: Mapping[str, str],
    *,
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    levels: Callable[[str], list[Any]] | None = None,
    text: bool = True,
    constants: bool = False,
) -> ColumnChoice:
    """Choose the columns to explain by.

    Parameters
    ----------
    table : the rows, or the first of them.
    taken : columns that have another part, and which; their gaps count too.
    features : the columns wanted; None takes all that may explain something.
    categorical : columns of numbers to be taken for levels; of text, whatever they look like.
    exclude : columns to leave out.
    levels : finds all levels of a column, where ``table`` is only the beginning of a file.
    text : whether text may be taken for levels; else it is left out.
    constants : whether columns are taken that are the same in every row.

    Raises
    ------
    ValueError
        Where a column is not there, or is named for two parts, or nothing is left.
    """
    wanted = _candidates(table, taken, features, categorical, exclude)
    named = {*(features or ()), *categorical}
    left_out: dict[str, str] = {}
    doubts: list[str] = []
    for name in wanted:
        if name in named:
            _refuse_unusable(table, name, name in categorical, text)
        elif reason := _objection(table, name, text):
            left_out[name] = reason
        else:
            doubts += doubts_of(table, name, explains=True)
    for name in taken:
        doubts += doubts_of(table, name, explains=False)
    names = [name for name in wanted if name not in left_out]
    gaps = {name: table.gaps(name) for name in (*names, *taken)}
    constants = constants or levels is not None
    find = levels or (lambda name: table.levels(name, kept))
    while True:
        kept = ~np.any([gaps[name] for name in (*names, *taken)], axis=0)
        same = [name for name in names if not constants and not _varies(table, name, kept, named)]
        constant = {
            name: "the same in every row" + (" without gaps" if table.distinct(name) > 1 else "") for name in same
        }
        if not constant or not kept.any():
            break
        left_out |= constant
        names = [name for name in names if name not in constant]
    counts = {name: int(gaps[name].sum()) for name in (*names, *taken) if gaps[name].any()}
    _refuse_nothing(table, names, kept, counts, left_out)
    if levels is None:
        doubts += _costly_gaps({name: gaps[name] for name in counts}, [name for name in names if name not in named])
    found = {name: find(name) for name in names if name in categorical or not table.is_numeric(name)}
    for name, known in found.items():
        doubts += alike_levels(name, known)
        if len(known) > LARGEST_FACTOR:
            raise ValueError(
                f"column {name!r} of {table.source} has {len(known):,} levels, and at most {LARGEST_FACTOR:,} can have "
                f"a coefficient each: --exclude {quote(name)}, or --groups {quote(name)}"
            )
    return ColumnChoice(tuple(names), found, kept, counts, left_out, tuple(doubts))


def _candidates(
    table: Table,
    taken: Mapping[str, str],
    features: Sequence[str] | None,
    categorical: Sequence[str],
    exclude: Sequence[str],
) -> list[str]:
    """The columns that may explain, every name looked at."""
    for name, part in taken.items():
        table.require(name, part)
    for role, names in (("--features", features or ()), ("--categorical", categorical), ("--exclude", exclude)):
        for place, name in enumerate(names):
            table.require(name, role)
            if name in names[:place]:
                raise ValueError(f"{role} names {name!r} twice")
            if name in taken and role != "--exclude":
                raise ValueError(f"column {name!r} is the one of {taken[name]}: leave it out of {role}")
            if name in taken and taken[name] not in ("--id", "--agent-column"):
                raise ValueError(f"column {name!r} is the one of {taken[name]}: it cannot be left out by --exclude")
            if role != "--exclude" and name in exclude:
                raise ValueError(f"column {name!r} is in {role} and in --exclude: leave it out of one")
    if features is not None:
        return [*features, *(name for name in categorical if name not in features)]
    return [name for name in table.names if name not in taken and name not in exclude]


def _refuse_unusable(table: Table, name: str, categorical: bool, text: bool) -> None:
    """Raise where a column that was asked for cannot be what it should be."""
    if table.is_empty(name):
        raise ValueError(f"column {name!r} of {table.source} is empty: leave it out")
    if table.is_numeric(name) or categorical:
        return
    table.refuse_commas(name)
    if table.is_nested(name):
        raise ValueError(f"column {name!r} of {table.source} holds {table.type_name(name)}: write it as plain columns")
    if not text:
        table.refuse_text(name)
    if found := _nearly_numbers(table, name):
        raise ValueError(_as_gap(table, name, *found))


def _objection(table: Table, name: str, text: bool) -> str:
    """Why a column that nobody named is left out; nothing where it is taken."""
    if table.is_empty(name):
        return "empty"
    if table.is_nested(name):
        return f"holds {table.type_name(name)}"
    share = float(table.gaps(name).mean())
    if share > MOSTLY_EMPTY:
        return f"empty in {share:.0%} of the rows"
    if table.is_numeric(name):
        return _id_of_numbers(table, name)
    table.refuse_commas(name)
    if not text:
        return table.describe(name)
    if found := _nearly_numbers(table, name):
        raise ValueError(_as_gap(table, name, *found))
    return _too_many(table, name)


def _id_of_numbers(table: Table, name: str) -> str:
    if not NAMED_LIKE_AN_ID.search(name) or not table.is_whole(name):
        return ""
    distinct = table.distinct(name)
    if distinct == len(table):
        return f"named like an id, another in every row (--id {quote(name)} carries it to predictions)"
    return f"named like an id, {distinct:,} of them (--groups {quote(name)} or --categorical {quote(name)} uses it)"


def _too_many(table: Table, name: str) -> str:
    """Why a text is not taken for levels by itself."""
    distinct, rows = table.distinct(name), len(table) - int(table.gaps(name).sum())
    what = "dates" if table.is_date(name) else "texts"
    if distinct > 0.9 * rows and distinct > 2:
        return f"{distinct:,} different {what} in {rows:,} rows{_advice(name, what)}"
    if distinct > MOST_LEVELS or distinct * ROWS_PER_LEVEL > rows:
        return f"{distinct:,} different {what} in {rows:,} rows (--categorical {quote(name)} takes them)"
    return ""


def _advice(name: str, what: str) -> str:
    if what == "dates":
        return " (write what matters of it, year or days, into a column of numbers)"
    return f" (--id {quote(name)} carries it to predictions)"


def _nearly_numbers(table: Table, name: str) -> tuple[str, str] | None:
    """In a text that is mostly numbers, or numbers with signs: the first entry that is none, and its kind."""
    entries = [] if table.is_date(name) else table.texts(name)
    others = [entry for entry in entries if not table.reads_number(entry)]
    numbers = len(entries) - len(others)
    if numbers > 0.5 * len(entries) and numbers > FEW_NUMBERS:
        if not others:
            table.refuse_text(name)
        return others[0], "gap"
    nearly = [entry for entry in entries if NEARLY_NUMBERS.fullmatch(entry)]
    if len(nearly) > 0.9 * len(entries) and len(nearly) > FEW_NUMBERS:
        return nearly[0], "sign"
    return None


def _as_gap(table: Table, name: str, entry: str, kind: str) -> str:
    row = table.first_text(name)
    where = "" if row is None else f" in row {row[0]}"
    if kind == "gap":
        return (
            f"column {name!r} of {table.source} holds numbers but for {entry!r}{where}: --na {quote(entry)} reads that "
            f"as a gap, --categorical {quote(name)} takes all as levels, --exclude {quote(name)} leaves the column out"
        )
    return (
        f"column {name!r} of {table.source} holds numbers with other signs ({entry!r}{where}): write bare numbers"
        f"{table.without_sign(entry)}, or --exclude {quote(name)}, or --categorical {quote(name)}"
    )


def _costly_gaps(gaps: Mapping[str, NDArray[np.bool_]], names: Sequence[str]) -> list[str]:
    """Where gaps cost many rows: the fewest columns that could be left out, and how many of the rows that keeps."""
    lost = np.any(list(gaps.values()), axis=0) if gaps else np.zeros(1, dtype=bool)
    if lost.mean() <= MANY_GAPS:
        return []
    worst = sorted((name for name in names if name in gaps), key=lambda name: -int(gaps[name].sum()))
    for most in range(1, len(worst) + 1):
        others = [found for name, found in gaps.items() if name not in worst[:most]]
        saved = int(lost.sum()) - int(np.any(others, axis=0).sum() if others else 0)
        if 2 * saved > lost.sum():
            columns = quote(",".join(worst[:most]))
            return [f"gaps cost {lost.mean():.0%} of the rows: --exclude {columns} keeps {saved:,} of those"]
    return []


def _varies(table: Table, name: str, kept: NDArray[np.bool_], named: set[str]) -> bool:
    return name in named or table.varies(name, kept)


def _refuse_nothing(
    table: Table, names: list[str], kept: NDArray[np.bool_], gaps: Mapping[str, int], left_out: Mapping[str, str]
) -> None:
    if not names:
        also = "; ".join(f"{name}: {reason}" for name, reason in list(left_out.items())[:6])
        raise ValueError(
            f"{table.source} has no column to explain by{f' ({also})' if also else ''}: name some by --features a,b"
        )
    refuse_no_rows(table, kept, gaps)


def refuse_no_rows(table: Table, kept: NDArray[np.bool_], gaps: Mapping[str, int]) -> None:
    """Raise where every row has a gap."""
    if not kept.any():
        worst = max(gaps, key=lambda name: gaps[name])
        raise ValueError(
            f"every row of {table.source} has a gap, most of them in {worst!r} ({gaps[worst]:,} of {len(table):,}): "
            f"leave it out by --exclude {quote(worst)}"
        )
