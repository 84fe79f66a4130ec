"""Columns as options name them: by number, by name, or as a term of the formula."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

LEVEL = re.compile(r"\[[^\[\]]*\](?=:|$)")  # of a column, as in kind[T.mid]


def columns_of(option: str, given: Any, columns: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the columns that an option names.

    Parameters
    ----------
    option : what it is called.
    given : names and numbers; a term of a formula stands for all of its columns, as ``kind`` for ``kind[T.mid]``. Or
        terms in one text, ``"~ a + b"``. None for none.
    columns : the names of all columns.
    """
    if isinstance(given, str):
        if not given.lstrip().startswith("~"):
            raise ValueError(f"{option} must be a list of columns, or terms such as '~ a + b' (got {given!r})")
        given = [term.strip() for term in given.lstrip()[1:].split("+")]
    return tuple(sorted({place for item in given or () for place in places_of(option, item, columns)}))


def places_of(option: str, item: Any, columns: Sequence[str]) -> list[int]:
    """Numbers of the columns that one name, number or term stands for."""
    if str(item) in columns:
        return [columns.index(str(item))]
    if isinstance(item, str):
        found = [place for place, name in enumerate(columns) if LEVEL.sub("", name) == item]
    else:
        found = [int(item)] if 0 <= int(item) < len(columns) else []
    if not found:
        raise ValueError(f"{option} names a column that is not there (got {item!r}; columns: {', '.join(columns)})")
    return found
