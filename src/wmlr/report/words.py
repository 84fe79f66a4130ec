"""A fit in sentences: how large each component is, what moves y in it, whose rows it has, and how sure all that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from wmlr.formulas.bases import Levels
from wmlr.inference.uncertainty import INTERCEPT
from wmlr.io.frames import is_frame
from wmlr.numerics.arrays import Array
from wmlr.report.row_sample import Looked

if TYPE_CHECKING:
    from wmlr.estimator.summary import Line, Summary

MOST_EFFECTS = 3
MOST_TRAITS = 3
TELLING = 0.2  # deviations by which a component's mean must differ from all rows' to be worth a word
MOST_COLUMNS = 500
MOST_LEVELS = 50


@dataclass(frozen=True)
class Dummy:
    """What a column of zeros and ones stands for: a level of a column, against another."""

    column: str
    level: str
    reference: str


@dataclass(frozen=True)
class Kind:
    """One component in words: its share, what moves y in it, and what its rows are like."""

    share: float
    effects: tuple[str, ...]
    traits: tuple[str, ...]


def kinds(
    fitted: Any, summary: Summary, deviations: Mapping[str, float], target: str, looked: Looked | None
) -> list[Kind]:
    """Each component in words.

    Parameters
    ----------
    fitted, summary : the model and its table.
    deviations : each column's standard deviation, where rows are known.
    target : what y is called.
    looked : rows and their responsibilities, where there are some.
    """
    dummies = dummy_columns(fitted)
    found = []
    for j, (_, lines) in enumerate(summary.components):
        effects = tuple(_effect(line, deviations, dummies, target) for line in _strongest(lines, deviations))
        traits = () if looked is None else tuple(_traits(looked, j))
        found.append(Kind(float(fitted.mixture_.weights[j]), effects, traits))
    return found


def dummy_columns(fitted: Any) -> dict[str, Dummy]:
    """The columns of the design that stand for one level of one column, by their names."""
    formula = getattr(fitted, "formula_", None)
    if formula is None or formula.right is None:
        return {}
    design = formula.right
    found = {}
    for name, product in zip(formula.names, design.products):
        factor = design.factors[product[0][0]]
        column = getattr(factor.inside(), "name", None)
        if len(product) == 1 and isinstance(factor, Levels) and column is not None:
            others = [place for place in range(len(factor.levels)) if place not in factor.kept]
            reference = str(factor.levels[others[0]]) if others else ""
            found[name] = Dummy(column, str(factor.levels[factor.kept[product[0][1]]]), reference)
    return found


def _strongest(lines: Sequence[Line], deviations: Mapping[str, float]) -> list[Line]:
    """The coefficients that move y most, of those whose interval leaves out zero."""
    clear = [line for line in lines if line.name in deviations or not deviations]
    clear = [line for line in clear if isfinite(line.estimate) and line.name != INTERCEPT and _is_clear(line)]
    size = {line.name: abs(line.estimate) * deviations.get(line.name, 1.0) for line in clear}
    return sorted(clear, key=lambda line: -size[line.name])[:MOST_EFFECTS]


def _is_clear(line: Line) -> bool:
    if line.name.startswith("("):
        return False
    if line.error is None or not isfinite(line.error):
        return line.estimate != 0
    return not line.lower <= 0.0 <= line.upper


def _effect(line: Line, deviations: Mapping[str, float], dummies: Mapping[str, Dummy], target: str) -> str:
    dummy = dummies.get(line.name)
    if dummy is not None:
        more = "higher" if line.estimate > 0 else "lower"
        than = f" than with {dummy.reference}" if dummy.reference else ""
        return f"{target} is {few_digits(abs(line.estimate))} {more} with {dummy.column} {dummy.level}{than}"
    step = _step(deviations.get(line.name, 1.0))
    verb = "rises" if line.estimate > 0 else "falls"
    return f"{target} {verb} by {few_digits(abs(line.estimate) * step)} for each {few_digits(step)} more of {line.name}"


def _step(deviation: float) -> float:
    """1 where the column moves by about that much, else a power of ten that it does move by."""
    if not isfinite(deviation) or deviation <= 0 or 0.5 <= deviation < 100:
        return 1.0
    return float(10.0 ** floor(log10(deviation)))


def _traits(looked: Looked, j: int) -> Iterator[str]:
    """In what the rows of a component differ most from all rows."""
    shares = looked.shares[:, j] if looked.weight is None else looked.shares[:, j] * looked.weight
    every = np.ones(len(looked)) if looked.weight is None else looked.weight
    if looked.shares.shape[1] == 1 or not shares.sum() > 0:
        return
    found = sorted(_differences(looked, shares, every), key=lambda pair: -abs(pair[0]))
    for size, text in found[:MOST_TRAITS]:
        if abs(size) >= TELLING:
            yield text


def _differences(looked: Looked, shares: Array, every: Array) -> Iterator[tuple[float, str]]:
    """For each column, how far a component's rows are from all rows, in deviations, and that in words."""
    for name, values in _columns(looked):
        if values.dtype.kind in "biuf":
            numbers = values.astype(np.float64)
            mean = float(np.average(numbers, weights=every))
            mine = float(np.average(numbers, weights=shares))
            spread = float(np.sqrt(np.average((numbers - mean) ** 2, weights=every)))
            if spread > 0:
                yield (mine - mean) / spread, f"{name} {few_digits(mine)} (all rows {few_digits(mean)})"
            continue
        levels = sorted({str(value) for value in values})
        if len(levels) > MOST_LEVELS:
            continue
        texts = values.astype(str)
        for level in levels:
            share = float(np.average(texts == level, weights=every))
            mine = float(np.average(texts == level, weights=shares))
            if 0 < share < 1:
                size = (mine - share) / np.sqrt(share * (1 - share))
                yield float(size), f"{name} {level} {mine:.0%} (all rows {share:.0%})"


def _columns(looked: Looked) -> Iterator[tuple[str, Any]]:
    yield "the target", looked.y
    X = looked.X
    names = [str(name) for name in X.columns] if is_frame(X) else [f"x{place}" for place in range(X.shape[1])]
    for place, name in enumerate(names[:MOST_COLUMNS]):
        values = X.iloc[:, place].to_numpy() if is_frame(X) else np.asarray(X[:, place])
        yield name, values if values.dtype.kind in "biuf" else values.astype(object)


def few_digits(value: float) -> str:
    """A number with three digits that matter, as a person writes it."""
    if value == 0 or not isfinite(value):
        return f"{value:g}"
    digits = 2 - floor(log10(abs(value)))
    if digits > 8:
        return f"{value:.2e}"
    rounded = round(value, digits)
    text = f"{rounded:,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
