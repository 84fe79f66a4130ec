"""Named columns, and what is said of entries that are not as they should be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.numerics.arrays import Array

GROUPED_DIGITS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
SIGNS = "%$€£"
MARKS = frozenset("\"'`\\\n\r")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to get it."""


def import_extra(name: str, needed: str) -> Any:
    """A module that not everybody has; where it is missing, ``needed`` says what for, and how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(needed) from None


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns read from a file.

    Attributes
    ----------
    source : str
        The file as the user named it, for messages.
    content : pyarrow.Table
    first : int
        How many rows of the file come before these.
    decimal : str
        The sign before the decimals of the file's numbers.
    """

    source: str
    content: Any
    first: int = 0
    decimal: str = "."

    def __len__(self) -> int:
        return int(self.content.num_rows)

    @cached_property
    def names(self) -> list[str]:
        """The columns, in the file's order."""
        return list(self.content.column_names)

    def require(self, name: str, role: str) -> None:
        """Raise unless there is a column of that name; the message lists those there are."""
        if name not in self.names:
            numbers = all(name.replace(".", "").lstrip("-").isdecimal() for name in self.names)
            first = ": the first line must name the columns" if numbers else ""
            raise ValueError(f"{self.source} has no column {name!r} for {role}; it has {list_names(self.names)}{first}")

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers or truth values throughout."""
        return is_number(self.content.schema.field(name).type)

    def is_empty(self, name: str) -> bool:
        """Whether a column has no entry at all."""
        return bool(self.content[name].null_count == len(self))

    def is_nested(self, name: str) -> bool:
        """Whether a column's entries are lists, records or bytes: nothing that could be a number or a level."""
        return not (self.is_numeric(name) or self.is_date(name) or is_text(self._type(name)) or self.is_empty(name))

    def is_date(self, name: str) -> bool:
        """Whether a column holds dates or times."""
        return bool(arrow().types.is_temporal(self._type(name)))

    def is_whole(self, name: str) -> bool:
        """Whether a column holds whole numbers."""
        return bool(arrow().types.is_integer(self._type(name)))

    def type_name(self, name: str) -> str:
        """What Arrow calls a column's type."""
        return str(self._type(name))

    def _type(self, name: str) -> Any:
        return self.content.schema.field(name).type

    def gaps(self, name: str) -> NDArray[np.bool_]:
        """The rows in which a column has no value."""
        if self.is_numeric(name):
            return np.isnan(self.values(name))
        return _nulls(self.content[name])

    def values(self, name: str) -> Array:
        """One column of floats, NaN where there is none; refused where one is infinite, or the column is text."""
        if self.is_empty(name):
            return np.full(len(self), np.nan)
        if not self.is_numeric(name):
            self.refuse_text(name)
        column = self.content[name].cast(arrow().float64())
        found = np.where(_nulls(column), np.nan, _numbers(column, np.float64))
        self.refuse_infinite(name, np.where(np.isnan(found), 0.0, found))
        return found

    def refuse_text(self, name: str) -> None:
        """Raise with the first entry of a column that should be numbers."""
        self.refuse_commas(name)
        found = self.first_text(name)
        if found is not None and any(sign.isdecimal() for sign in found[1]):
            where = f"({found[1]!r} in row {found[0]})"
            how = self.without_sign(found[1]) or f", or --na {quote(found[1])} where it stands for a gap"
            raise ValueError(
                f"column {name!r} of {self.source} holds text {where}: write bare numbers, without signs, units or "
                f"commas{how}"
            )
        raise ValueError(
            f"column {name!r} of {self.source} {self._holds(name)}: numbers are wanted there, so write it as numbers "
            f"or name another column{self._as_zeros_and_ones(name)}"
        )

    def _as_zeros_and_ones(self, name: str) -> str:
        """How a text of two values becomes the outcome of a binomial; nothing where it has more."""
        if self.distinct(name) != 2:
            return ""
        level = str(self.levels(name)[1])
        if MARKS.intersection(name + level):  # or what is copied from here would be a formula of the file's making
            return ""
        written = name if name.isidentifier() else f"`{name}`"
        formula = f'I({written} == "{level}") ~ ...'
        return f"; its two values become 0 and 1 by --formula {quote(formula)}, with --family binomial"

    def without_sign(self, entry: str) -> str:
        """How to take the sign of a number such as 23% out of the file; nothing where it has none."""
        sign = next((letter for letter in entry if letter in SIGNS), None)
        return "" if sign is None else f", as by sed 's/[{sign}]//g' {quote(self.source)} > bare.csv"

    def distinct(self, name: str) -> int:
        """How many different entries a column has."""
        return len(self._entries(name))

    def varies(self, name: str, kept: NDArray[np.bool_]) -> bool:
        """Whether a column has two different entries among some rows."""
        return len(self._entries(name, kept)) > 1

    def levels(self, name: str, kept: NDArray[np.bool_] | None = None) -> list[Any]:
        """The different entries of a column: in the order of its categories where it has some, else sorted."""
        found = self._entries(name, kept)
        if arrow().types.is_dictionary(self._type(name)):
            order = self.content[name].combine_chunks().dictionary.to_pylist()
            return [level for level in order if level in set(found)]
        return sorted(found)

    def texts(self, name: str) -> list[str]:
        """The different entries of a column of text."""
        return [str(entry) for entry in self._entries(name)]

    def _entries(self, name: str, kept: NDArray[np.bool_] | None = None) -> list[Any]:
        column = _plain(self.content[name])
        if kept is not None:
            column = column.filter(arrow().array(kept))
        return [entry for entry in column.unique().to_pylist() if entry is not None and entry == entry]

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """Columns as a pandas DataFrame: categories and dates as text, so that the same entry is always the same."""
        pandas()
        content = self.content if names is None else self.content.select(list(names))
        return arrow().table({name: _plain(content[name]) for name in content.column_names}).to_pandas()

    def first_text(self, name: str) -> tuple[int, str] | None:
        """The first entry of a column that is not a number, with its row counted from 1."""
        for row, value in enumerate(self.content[name].to_pylist(), start=self.first + 1):
            if value is not None and not self.reads_number(value):
                return row, str(value)
        return None

    def reads_number(self, entry: Any) -> bool:
        """Whether an entry is a number, or text that is one."""
        try:
            float(entry.replace(self.decimal, ".") if isinstance(entry, str) else entry)
        except (TypeError, ValueError):
            return False
        return True

    def numbers_where(self, names: Sequence[str], kept: NDArray[np.bool_]) -> Any:
        """Columns as a pandas DataFrame of floats, in some rows; NaN for gaps."""
        return pandas().DataFrame({name: self.values(name)[kept] for name in names})

    def column(self, name: str) -> Array:
        """One column of finite floats."""
        if self.is_empty(name):
            self.refuse_text(name)
        values = self.values(name)
        self.refuse_infinite(name, values)
        return values

    def refuse_gaps(self, names: Sequence[str]) -> None:
        """Raise with the first gap in some columns."""
        for name in names:
            bad = np.flatnonzero(self.gaps(name))
            if bad.size:
                rest = f" and {bad.size - 1:,} more" if bad.size > 1 else ""
                raise ValueError(
                    f"column {name!r} of {self.source} has a gap in row {self.first + bad[0] + 1}{rest}: "
                    "--missing drop leaves such rows out"
                )

    def entries(self, name: str) -> NDArray[Any]:
        """One column of any kind, None where there is no entry."""
        found = np.empty(len(self), dtype=object)
        found[:] = _plain(self.content[name]).to_pylist()
        return found

    def refuse_commas(self, name: str) -> None:
        """Raise where a column's numbers are text for their decimal commas alone."""
        found = self.first_text(name)
        if found is not None and GROUPED_DIGITS.fullmatch(found[1]):
            bare, point = found[1].replace(",", ""), found[1].replace(",", ".")
            raise ValueError(
                f"column {name!r} of {self.source} has commas in its numbers ({found[1]!r} in row {found[0]}): write "
                f"{bare} where they part thousands (pandas.read_csv(..., thousands=',') reads them), or {point} where "
                "they are decimal commas, which --decimal , reads"
            )
        if found is not None and DECIMAL_COMMA.fullmatch(found[1]):
            raise ValueError(
                f"column {name!r} of {self.source} has decimal commas ({found[1]!r} in row {found[0]}): --decimal , "
                "reads them"
            )

    def refuse_infinite(self, name: str, values: NDArray[Any]) -> None:
        """Raise with the first row in which a column, or what was made of columns, is not a finite number."""
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            what = "no number" if np.isnan(values[bad[0]]) else "an infinite number"
            rest = f" and {bad.size - 1:,} more" if bad.size > 1 else ""
            raise ValueError(
                f"column {name!r} of {self.source} has {what} in row {self.first + bad[0] + 1}{rest}: "
                "drop or fill such rows first"
            )

    def weights(self, name: str, kept: NDArray[np.bool_] | None = None) -> Array:
        """One column of numbers that are not negative, in some rows."""
        values = self.column(name) if kept is None else np.where(kept, self.values(name), 0.0)
        bad = np.flatnonzero(values < 0)
        if bad.size:
            raise ValueError(
                f"column {name!r} of {self.source} has the weight {values[bad[0]]} in row {self.first + bad[0] + 1}: "
                "weights must not be negative"
            )
        return values if kept is None else values[kept]

    def labels(self, name: str, kept: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """One column of any kind, to tell rows of one group from another's, in some rows."""
        table = self if kept is None else replace(self, content=self.content.select([name]).filter(arrow().array(kept)))
        table.refuse_unlabelled(name)
        return np.asarray(_plain(table.content[name]).to_numpy())

    def refuse_unlabelled(self, name: str) -> None:
        """Raise with the first row that has no label."""
        column = self.content[name]
        if column.null_count:
            row = self.first + int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1
            raise ValueError(f"column {name!r} of {self.source} has no label in row {row}: every row needs a group")

    def choose_features(self, features: Sequence[str] | None, taken: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """The names of the columns to explain by, and a word on each that is left out as it holds no numbers.

        Parameters
        ----------
        features : their names; None takes every numeric column that has no other part.
        taken : columns that have another part, and which.
        """
        for name, part in taken.items():
            self.require(name, part)
        if features is None:
            others = [name for name in self.names if name not in taken]
            left_out = [self._describe_omitted(name) for name in others if not self.is_numeric(name)]
            names = [name for name in others if self.is_numeric(name)]
            if not names:
                also = f" ({', '.join(left_out)})" if left_out else ""
                raise ValueError(
                    f"{self.source} has no numeric column besides those named{also}: there is nothing to fit by"
                )
            return names, left_out
        for place, name in enumerate(features):
            self.require(name, "features")
            if name in features[:place]:
                raise ValueError(f"features names {name!r} twice")
            if name in taken:
                raise ValueError(f"column {name!r} is the one of {taken[name]}: leave it out of features")
        return list(features), []

    def _describe_omitted(self, name: str) -> str:
        self.refuse_commas(name)
        return self.describe(name)

    def describe(self, name: str) -> str:
        """A column that is not numeric, with its first entry."""
        found = self.first_text(name)
        return f"{name} (empty)" if found is None else f"{name} ({found[1]!r} in row {found[0]})"

    def _holds(self, name: str) -> str:
        """What a column that is not numeric holds instead."""
        found = self.first_text(name)
        if found is not None:
            return f"holds text ({found[1]!r} in row {found[0]})"
        return "is empty" if self.content[name].null_count == len(self) else "holds numbers written as text"


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text, or of categories of text."""
    types = arrow().types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))


def _plain(column: Any) -> Any:
    """A column without Arrow's dictionary, dates as text and decimals as floats."""
    types = arrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_temporal(column.type):
        column = column.cast(arrow().string())
    return column.cast(arrow().float64()) if types.is_decimal(column.type) else column


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
    types = arrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def list_names(names: Sequence[str], most: int = 12) -> str:
    """Names one after the other, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def arrow() -> Any:
    """pyarrow, or how to get it."""
    return _extra("pyarrow")


def _nulls(column: Any) -> NDArray[np.bool_]:
    return _numbers(column.is_null().cast(arrow().uint8()), np.uint8).astype(bool)


def _numbers(column: Any, kind: type[np.generic]) -> NDArray[Any]:
    """A column of numbers as an array, with anything where it is null; pyarrow's own way there would load pandas."""
    size = np.dtype(kind).itemsize
    parts = [
        np.frombuffer(part.buffers()[1], kind, len(part), part.offset * size) for part in column.chunks if len(part)
    ]
    return np.concatenate(parts) if parts else np.empty(0, kind)


def pandas() -> Any:
    """pandas, or how to get it."""
    return _extra("pandas")


def _extra(name: str) -> Any:
    return import_extra(name, f"reading CSV and Parquet needs {name}: pip install 'wmlr[io]'")
