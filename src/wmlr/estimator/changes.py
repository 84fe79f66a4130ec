"""Changes of the columns that a user gave, as the design of a fitted mixture sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wmlr.estimator.inputs import Inputs, ModelRows
from wmlr.formulas.bases import Levels, Numeric
from wmlr.inference.effects import ColumnChange
from wmlr.io.frames import as_frame
from wmlr.numerics.arrays import Array
from wmlr.numerics.sparse import dense

STEP = 1e-5  # of a column's range: what a derivative is taken over, within the range


def column_changes(inputs: Inputs, rows: ModelRows, data: Any, linear: bool) -> Iterator[ColumnChange]:
    """A unit's change of each column of numbers, and the change from the reference to each level of the others.

    Parameters
    ----------
    inputs : how rows are read.
    rows : the complete rows, before ``features``.
    data : what the user gave for them: looked at where a formula makes columns of it.
    linear : whether means are linear in the design, so that a change of one of its own columns is alike everywhere.
    """
    if inputs.formula is not None and inputs.by_formula(data):
        yield from _by_formula(inputs, rows.gaps.complete(as_frame(data)))
    elif inputs.features is None and inputs.gate is None and linear:
        yield from design_changes(inputs)
    else:
        yield from _by_columns(inputs, rows.X)


def design_changes(inputs: Inputs) -> Iterator[ColumnChange]:
    """Changes of the design's own columns."""
    for column, name in enumerate(inputs.column_names):
        yield ColumnChange.unit(name, column, inputs.width)


def refuse_without_data(inputs: Inputs) -> None:
    """Raise where a column's effect depends on the rows, since design or weights are not linear in it."""
    plain = inputs.features is None and inputs.gate is None
    if plain and inputs.formula is not None:
        design = inputs.formula.right
        plain = design is not None and all(len(parts) == 1 for parts in design.products)
        for factor in design.factors if plain and design is not None else ():
            plain = plain and isinstance(factor, (Numeric, Levels)) and factor.of.column is not None
    if not plain:
        raise ValueError("the effects of these columns differ from row to row: give the data, as effects(X, y)")


def _by_columns(inputs: Inputs, X: Any) -> Iterator[ColumnChange]:
    X = np.asarray(dense(X), dtype=np.float64)
    names = [f"x{place}" for place in range(X.shape[1])] if inputs.names is None else list(map(str, inputs.names))
    for column, name in enumerate(names):
        low, high = _values_around(X[:, column])
        designs, gates = [], []
        for values in (high, low):
            changed = X.copy()
            changed[:, column] = values
            designs.append(np.asarray(dense(inputs.map_features(changed)), dtype=np.float64))
            gates.append(None if inputs.gate is None else inputs.gate.of_rows(changed))
        yield ColumnChange(name, designs[0], designs[1], high - low, *gates)


def _by_formula(inputs: Inputs, frame: Any) -> Iterator[ColumnChange]:
    formula = inputs.formula
    assert formula is not None

    def change(name: str, high: Any, low: Any, width: Array, called: str) -> ColumnChange:
        frames = [frame.assign(**{name: values}) for values in (high, low)]
        designs = [np.asarray(formula.design(one), dtype=np.float64) for one in frames]
        gates = [None if inputs.gate is None else inputs.gate.of_frame(one) for one in frames]
        return ColumnChange(called, designs[0], designs[1], width, *gates)

    ones = np.ones(len(frame))
    gate = inputs.gate_formula
    for name in dict.fromkeys([*formula.variables, *(() if gate is None else gate.variables)]):
        levels = formula.levels_of(name) if name in formula.variables or gate is None else gate.levels_of(name)
        if levels is None and frame[name].dtype.kind == "b":
            levels = [False, True]
        if levels is None:
            low, high = _values_around(frame[name].to_numpy(dtype=np.float64))
            yield change(name, high, low, high - low, name)
            continue
        for level in levels[1:]:
            yield change(name, level, levels[0], ones, f"{name}: {level} - {levels[0]}")


def _values_around(values: Array) -> tuple[Array, Array]:
    """Values a little lower and a little higher, within their range; of two values, the one and the other."""
    least, most = float(values.min()), float(values.max())
    if least == most:
        return values - STEP, values + STEP
    if np.all((values == least) | (values == most)):
        return np.full(len(values), least), np.full(len(values), most)
    step = STEP * (most - least)
    return np.maximum(values - step, least), np.minimum(values + step, most)
