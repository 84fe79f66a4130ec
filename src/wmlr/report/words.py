"""A fit in sentences: how large each component is, what moves y in it, whose rows it has, and how sure all that is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from wmlr.families import Family
from wmlr.formulas.bases import Levels
from wmlr.inference.profile import Profile
from wmlr.inference.uncertainty import INTERCEPT
from wmlr.io.frames import is_frame
from wmlr.report.row_sample import RowSample

if TYPE_CHECKING:
    from wmlr.estimator.summary import Line, Summary

MOST_EFFECTS = 3
MOST_TRAITS = 3
TELLING = 0.2  # deviations by which a component's mean must differ from all rows' to be worth a word
MOST_COLUMNS = 200
WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Dummy:
    """What a column of zeros and ones stands for: a level of a column, against another."""

    column: str
    level: str
    reference: str


@dataclass(frozen=True)
class ComponentWords:
    """One component in words: its share, what moves y in it, and what its rows are like."""

    share: float
    effects: tuple[str, ...]
    traits: tuple[str, ...]


def kinds(
    fitted: Any, summary: Summary, deviations: Mapping[str, float], target: str, profile: Profile | None
) -> list[ComponentWords]:
    """Each component in words.

    Parameters
    ----------
    fitted, summary : the model and its table.
    deviations : each column's standard deviation, where rows are known.
    target : what coefficients add to.
    profile : who is in each component, where there are several and rows are known.
    """
    dummies = dummy_columns(fitted)
    found = []
    for j, (_, lines) in enumerate(summary.components):
        strongest = _strongest(lines, deviations, dummies)
        effects = tuple(_effect(line, deviations, dummies, target) for line in strongest)
        traits = () if profile is None else tuple(_traits(profile, j))
        found.append(ComponentWords(float(fitted.mixture_.weights[j]), effects, traits))
    return found


def predictor_name(family: Family, target: str) -> str:
    """What coefficients add to, in words: y itself, or a function of its mean."""
    return target if family.predictor_scale == "identity" else f"{family.predictor_scale}(mean of {target})"


def dummy_columns(fitted: Any) -> dict[str, Dummy]:
    """The columns of the design that stand for one level of one column, by their names."""
    formula = fitted.fitted_.inputs.formula
    if formula is None or formula.right is None:
        return {}
    design = formula.right
    found = {}
    for name, product in zip(formula.names, design.products):
        factor = design.factors[product[0][0]]
        column = factor.of.column
        if len(product) == 1 and isinstance(factor, Levels) and column is not None:
            others = [place for place in range(len(factor.levels)) if place not in factor.kept]
            reference = str(factor.levels[others[0]]) if others else ""
            found[name] = Dummy(column, str(factor.levels[factor.kept[product[0][1]]]), reference)
    return found


def column_labels(fitted: Any) -> dict[str, str]:
    """What to call columns that stand for a level, where that cannot be taken for another column: "sex: male"."""
    found = {name: f"{dummy.column}: {dummy.level}" for name, dummy in dummy_columns(fitted).items()}
    others = set(fitted.fitted_.inputs.column_names) - set(found)
    repeated = len(set(found.values())) < len(found) or others & set(found.values())
    return {} if repeated else found


def with_labels(summary: Summary, labels: Mapping[str, str]) -> Summary:
    """The table of a fit with other names for some columns."""
    components = tuple(
        (header, tuple(replace(line, name=labels.get(line.name, line.name)) for line in lines))
        for header, lines in summary.components
    )
    return replace(summary, components=components)


def _strongest(lines: Sequence[Line], deviations: Mapping[str, float], dummies: Mapping[str, Dummy]) -> list[Line]:
    """The coefficients that move y most, one for each column, of those whose interval leaves out zero."""
    clear = [line for line in lines if line.name in deviations or not deviations]
    clear = [line for line in clear if isfinite(line.estimate) and line.name != INTERCEPT and _is_clear(line)]
    found: dict[str, Line] = {}
    for line in sorted(clear, key=lambda line: -abs(line.estimate) * deviations.get(line.name, 1.0)):
        found.setdefault(dummies[line.name].column if line.name in dummies else line.name, line)
    return list(found.values())[:MOST_EFFECTS]


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
        than = f" than with {_quote(dummy.reference)}" if dummy.reference else ""
        return f"{target} is {few_digits(abs(line.estimate))} {more} with {dummy.column} {_quote(dummy.level)}{than}"
    step = _step(deviations.get(line.name, 1.0))
    verb = "rises" if line.estimate > 0 else "falls"
    return f"{target} {verb} by {few_digits(abs(line.estimate) * step)} for each {few_digits(step)} more of {line.name}"


def _quote(level: str) -> str:
    """A level in quotation marks, unless it is one word."""
    return level if WORD.fullmatch(level) else f"“{level}”"


def _step(deviation: float) -> float:
    """1 where the column moves by about that much, else a power of ten that it does move by."""
    if not isfinite(deviation) or deviation <= 0 or 0.5 <= deviation < 100:
        return 1.0
    return float(10.0 ** floor(log10(deviation)))


def rows_profile(fitted: Any, sample: RowSample, target: str) -> Profile | None:
    """Who is in each component, by the columns that the model reads and by y; None with one component."""
    if sample.shares.shape[1] == 1:
        return None
    pandas = import_module("pandas")
    formula = fitted.fitted_.inputs.formula
    if is_frame(sample.X):
        own = [] if formula is None else formula.explained
        known = sample.X.columns if formula is None else [name for name in sample.X if name in formula.variables]
        frame = sample.X[[name for name in known[:MOST_COLUMNS] if name not in own]]
    else:
        frame = pandas.DataFrame(sample.X[:, :MOST_COLUMNS]).rename(columns=lambda place: f"x{place}")
    frame = frame.drop(columns=target, errors="ignore")
    y = pandas.Series(sample.y, index=frame.index, name=target)
    return Profile.of(pandas.concat([y, frame], axis=1), sample.shares, sample.weight)


def _traits(profile: Profile, j: int) -> Iterator[str]:
    """In what the rows of a component differ most from all rows."""
    found = sorted(_differences(profile, j), key=lambda pair: -abs(pair[0]))
    for size, text in found[:MOST_TRAITS]:
        if abs(size) >= TELLING:
            yield text


def _differences(profile: Profile, j: int) -> Iterator[tuple[float, str]]:
    """For each column, how far a component's rows are from all rows, in deviations, and that in words."""
    for column in profile.columns:
        mine, every = column.by_component[j], column.overall
        sizes = column.standardised[j]
        place = int(np.abs(sizes).argmax())
        if column.deviations is None:
            level = _quote(str(column.levels[place]))
            yield float(sizes[place]), f"{column.name} {level} {mine[place]:.0%} ({every[place]:.0%})"
        else:
            yield float(sizes[place]), f"{column.name} {few_digits(mine[place])} ({few_digits(every[place])})"


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
