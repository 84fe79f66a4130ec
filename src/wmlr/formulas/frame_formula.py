"""The formula that explains one column of a data frame by the others: numbers as they are, the rest as levels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from wmlr.formulas.columns import quote
from wmlr.io.frames import as_frame

MOST_LEVELS = 50
"""Levels from which a column of text that has one for every other row is taken for a name or number of the rows."""


def formula_of_frame(
    data: Any,
    target: str,
    features: Sequence[str] | None = None,
    *,
    exclude: Collection[str] = (),
    categorical: Collection[str] = (),
    groups: str | None = None,
) -> str:
    """The formula ``target ~ a + b + C(c) | groups`` for the columns of a data frame.

    Parameters
    ----------
    data : a data frame of any make.
    target : the column to explain.
    features : the columns to explain it by; None for all others.
    exclude : columns to leave out.
    categorical : columns of numbers that are to be taken for levels; text and categories are so by themselves.
    groups : the column whose rows share their component.

    Raises
    ------
    ValueError
        When a column is not there, holds dates, or looks like a name or number of the rows.
    """
    frame = as_frame(data)
    there = [str(name) for name in frame.columns]
    named = [target, *(features or ()), *exclude, *categorical, *([groups] if groups is not None else [])]
    for name in named:
        if name not in there:
            raise ValueError(f"the data have no column {name!r}; they have {', '.join(there[:50])}")
    left_out = {target, groups, *exclude}
    chosen = list(features) if features is not None else [name for name in there if name not in left_out]
    if not chosen:
        raise ValueError(f"there is no column left to explain {target!r} by: name some in features=")
    terms = [_term(frame, name, name in categorical) for name in chosen]
    for name in (target, *chosen, *([] if groups is None else [groups])):
        if "`" in name:
            raise ValueError(f"the column {name!r} has a backquote in its name, which no formula can name: rename it")
    return f"{quote(target)} ~ {' + '.join(terms)}" + ("" if groups is None else f" | {quote(groups)}")


def _term(frame: Any, name: str, categorical: bool) -> str:
    column = frame[name]
    kind = column.dtype.kind
    if kind in "mM":
        raise ValueError(
            f"column {name!r} holds dates: give what matters of them as a number, such as the year or the days since "
            f"the first, or exclude=[{name!r}]"
        )
    if kind in "biuf" and not categorical:
        return quote(name)
    levels = int(column.nunique())
    if kind not in "biuf" and levels > max(MOST_LEVELS, len(frame) // 2):
        raise ValueError(
            f"column {name!r} has {levels:,} different entries in {len(frame):,} rows, as a name or number of the rows "
            f"has: exclude=[{name!r}], or groups={name!r} where rows with the same entry belong together"
        )
    return f"C({quote(name)})" if kind in "biuf" else quote(name)
