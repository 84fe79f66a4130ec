"""Who is in each component: its size, and what its rows look like, weighted by responsibility."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.inference.intervals import number
from wmlr.io.text_table import ShownAsTable
from wmlr.numerics.arrays import Array

MOST_LEVELS = 20
"""Levels of a category that are described one by one; the others, by size, are taken together."""

OTHERS = "(others)"
DAY = 86_400e9
"""Nanoseconds."""


@dataclass(frozen=True, eq=False)
class ColumnProfile:
    """What a column looks like in each component.

    Attributes
    ----------
    name : of the column.
    kind : "number", "date" (in days since 1970) or "category".
    levels : of a category; empty for numbers and dates.
    overall : the mean of all rows, in one entry; or the share of each level.
    by_component : (k, 1) the mean in each component; or (k, levels) the share of each level.
    deviations : (k + 1,) standard deviations of a column of numbers, the last of all rows; None for a category.
    difference : from 0, where components are alike, to 1, where the column alone tells them apart: the correlation
        ratio of numbers, Cramer's V of a category; the two agree where there are two levels and two components.
    missing : how many rows have no value.
    """

    name: str
    kind: str
    levels: tuple[Any, ...]
    overall: Array
    by_component: Array
    deviations: Array | None
    difference: float
    missing: int = 0

    @property
    def labels(self) -> list[str]:
        """A name for each entry: the column's, or one for each level."""
        return [f"{self.name}: {level}" for level in self.levels] if self.kind == "category" else [self.name]

    @property
    def standardised(self) -> Array:
        """How far each entry of ``by_component`` lies from all rows', in their standard deviations."""
        every = self.overall
        spread = np.sqrt(every * (1 - every)) if self.deviations is None else self.deviations[-1:]
        apart = np.asarray(self.by_component - every)
        return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)

    def cell(self, value: float) -> str:
        """A mean or a share as text."""
        if np.isnan(value):
            return ""
        if self.kind == "category":
            return f"{100 * value:.1f}%"
        return number(value) if self.kind == "number" else str(np.datetime64(0, "D") + round(value))


@dataclass(frozen=True, eq=False, repr=False)
class Profile(ShownAsTable):
    """The components of a fit, described by every column of some data.

    Attributes
    ----------
    sizes : (k,) rows by responsibility; a row counts by its weight.
    shares : (k,) the same as shares of all.
    assigned : (k,) rows by their likeliest component.
    certainty : the mean responsibility of each row's likeliest component.
    columns : the columns, those that differ most between components first.
    left_out : columns that are as good as different in every row, such as names or numbers of rows.
    """

    sizes: Array
    shares: Array
    assigned: Array
    certainty: float
    columns: tuple[ColumnProfile, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: Any, responsibilities: Array, weight: Array | None = None) -> Profile:
        """Describe rows.

        Parameters
        ----------
        frame : a pandas DataFrame.
        responsibilities : (n, k) of its rows.
        weight : of the rows; None where each counts once.
        """
        weights = np.ones(len(responsibilities)) if weight is None else weight
        members = responsibilities * weights[:, None]
        sizes = members.sum(axis=0)
        likeliest = responsibilities.argmax(axis=1)
        found = {str(name): _column_profile(str(name), frame[name], members) for name in frame.columns}
        known = sorted((one for one in found.values() if one is not None), key=lambda one: -one.difference)
        return cls(
            sizes,
            sizes / sizes.sum(),
            np.bincount(likeliest, weights, minlength=len(sizes)).astype(np.float64),
            float(np.average(responsibilities.max(axis=1), weights=weights)),
            tuple(known),
            tuple(name for name, one in found.items() if one is None),
        )

    def __getitem__(self, name: str) -> ColumnProfile:
        """The profile of one column."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"there is no column {name!r}; there are {', '.join(one.name for one in self.columns)}")

    def table(self) -> list[dict[str, Any]]:
        """A dict per column, or per level of a category: column, level, kind, difference, overall, components."""
        return [
            {
                "column": column.name,
                "level": None if column.kind != "category" else column.levels[place],
                "kind": column.kind,
                "difference": column.difference,
                "overall": float(column.overall[place]),
                "components": column.by_component[:, place].tolist(),
                "missing": column.missing,
            }
            for column in self.columns
            for place in range(len(column.overall))
        ]

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, with a column for each component."""
        lines = [
            {name: value for name, value in line.items() if name != "components"}
            | {f"component {j + 1}": value for j, value in enumerate(line["components"])}
            for line in self.table()
        ]
        return import_module("pandas").DataFrame(lines)

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        rows = [["rows", *(f"{size:.1f} ({share:.1%})" for size, share in zip(self.sizes, self.shares)), "", ""]]
        for column in self.columns:
            for place, label in enumerate(column.labels):
                values = [*column.by_component[:, place], column.overall[place]]
                rows.append([label, *map(column.cell, values), f"{column.difference:.2f}"])
        header = ["", *(f"component {j + 1}" for j in range(len(self.sizes))), "all", "difference"]
        return header, rows, "means, and shares of levels, by component"


def _column_profile(name: str, column: Any, members: Array) -> ColumnProfile | None:
    """The profile of one column of a pandas frame; None where every row is as good as different."""
    there = column.notna().to_numpy()
    missing = int((~there).sum())
    values, members = column[there], members[there]
    if not len(values):
        return None
    if values.dtype.kind in "mM":
        kind = "date" if values.dtype.kind == "M" else "number"
        exact = values.to_numpy(dtype="datetime64[ns]" if kind == "date" else "timedelta64[ns]")
        return _of_numbers(name, kind, exact.astype(np.int64) / DAY, members, missing)
    if values.dtype.kind in "iuf":
        return _of_numbers(name, "number", values.to_numpy(dtype=np.float64), members, missing)
    return _of_levels(name, np.array([str(value) for value in values], dtype=object), members, missing)


def _of_numbers(name: str, kind: str, values: Array, members: Array, missing: int) -> ColumnProfile:
    sizes = members.sum(axis=0)
    every = members.sum(axis=1)
    mean = float(np.average(values, weights=every))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (members * (values - mean)[:, None]).sum(axis=0) / sizes
        squares = (members * ((values - mean)[:, None] - means) ** 2).sum(axis=0) / sizes
    total = float(np.average((values - mean) ** 2, weights=every))
    between = float(np.nansum(sizes * means**2) / sizes.sum())
    ratio = np.sqrt(between / total) if total > 0 else 0.0
    deviations = np.sqrt(np.append(squares, total))
    return ColumnProfile(name, kind, (), np.array([mean]), (mean + means)[:, None], deviations, float(ratio), missing)


def _of_levels(name: str, values: NDArray[Any], members: Array, missing: int) -> ColumnProfile | None:
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) > max(MOST_LEVELS, len(values) // 2):
        return None
    counts = np.array([np.bincount(codes, members[:, j], len(levels)) for j in range(members.shape[1])])
    ratio = _cramers_v(counts)
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    shown, rest = order[:MOST_LEVELS], order[MOST_LEVELS:]
    names = [str(levels[place]) for place in shown]
    counts = np.column_stack([counts[:, shown], *([counts[:, rest].sum(axis=1)] if len(rest) else [])])
    names += [OTHERS] if len(rest) else []
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = counts / counts.sum(axis=1, keepdims=True)
    overall = counts.sum(axis=0) / counts.sum()
    return ColumnProfile(name, "category", tuple(names), overall, shares, None, ratio, missing)


def _cramers_v(counts: Array) -> float:
    """Cramer's V of a table of components by levels."""
    counts = counts[counts.sum(axis=1) > 0]
    smaller = min(counts.shape) - 1
    if smaller < 1:
        return 0.0
    total = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / (total * smaller)))
