"""What a target leaves behind: numbers, and tables and figures made from the numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.experiments.plan import Plan
from wmlr.experiments.store import Cell, Store

Numbers = dict[str, Any]


@dataclass(frozen=True)
class ResultTable:
    """A table of text, ready for Markdown, HTML or CSV."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Target:
    """One table or figure of the paper, or one measurement of its theory.

    Attributes
    ----------
    name, title : what it is called on the command line and in the report.
    cells : the computations it needs under a plan.
    numbers : the result, from the finished cells.
    tables, figures : what is shown, from the result alone; figures by file name.
    """

    name: str
    title: str
    cells: Callable[[Plan], list[Cell]]
    numbers: Callable[[Plan, Store], Numbers]
    tables: Callable[[Numbers], list[ResultTable]]
    figures: Callable[[Numbers], dict[str, Any]] = lambda numbers: {}


def exponent(value: float | None) -> str:
    """3.79e-2, as the paper writes errors."""
    if value is None or not np.isfinite(value):
        return "-"
    mantissa, power = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(power)}"


def interval(pair: Iterable[float], form: Callable[[float], str]) -> str:
    """[low, high]."""
    low, high = pair
    return f"[{form(low)}, {form(high)}]"


def format_fixed(value: float | None) -> str:
    """2.115, or a dash."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.3f}"


def count(value: float | None) -> str:
    """12,948, or d.n.c. where there is no number."""
    return "d.n.c." if value is None else f"{value:,.0f}"


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
