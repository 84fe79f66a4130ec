"""Rows of a data frame as a formula reads them for a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wmlr.estimator.gaps import Gaps
from wmlr.estimator.gate_columns import ROLE, GateColumns, columns_of_gate, is_gate_formula
from wmlr.estimator.inputs import ModelRows, complete_roles, read_rows
from wmlr.estimator.row_roles import RowRoles, with_offset
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.split import with_terms
from wmlr.io.frames import as_frame, missing_in_columns, require_columns


def read_training_frame(
    estimator: Any, data: Any, y: Any, sample_weight: Any, groups: Any, roles: RowRoles
) -> tuple[ModelRows, ModelFormula, GateColumns | None]:
    """The rows that an estimator's formula makes of a data frame, and the formula with what it learned from them.

    Where ``gate`` is a formula as well, its columns are beside the rows, and what makes them is the third.

    Parameters
    ----------
    estimator : whose ``formula``, ``symmetric`` and ``missing`` are looked at.
    data : a data frame of any make.
    y : None; or the target's column, where scikit-learn hands it on by itself.
    sample_weight : one number per row, or the name of a column.
    groups : labels; None for those of the formula.
    roles : what else is given of each row, beside what the formula says.
    """
    text, frame = with_terms(estimator.formula, estimator.shared), as_frame(data)
    frame = _with_target(frame, text, y)
    if isinstance(sample_weight, str):
        require_columns(frame, [sample_weight], text, gaps=True)
        sample_weight = frame[sample_weight].to_numpy()
    gaps = Gaps(len(frame))
    if estimator.missing == "drop":
        needed = ModelFormula.columns_of(text, frame, estimator.symmetric)
        if is_gate_formula(estimator.gate):
            needed += columns_of_gate(estimator.gate, frame)
        gaps = Gaps.of(missing_in_columns(frame, needed), len(frame))
        gaps.refuse_nothing_left()
        frame = gaps.complete(frame)
    formula = ModelFormula.read(text, frame, estimator.symmetric)
    target = formula.resolve_target(frame, gaps.complete(y))
    labels = formula.groups(frame) if groups is None else gaps.complete(groups)
    weight = gaps.complete(sample_weight)
    design, given = formula.design(frame), with_offset(complete_roles(roles, gaps), formula.offset(frame))
    rows = read_rows(estimator, design, target, weight, labels, missing=estimator.missing, reset=True, roles=given)
    rows, gate = replace(rows, gaps=gaps.compose(rows.gaps)), None
    if is_gate_formula(estimator.gate):
        gate = GateColumns.by_formula(estimator.gate, frame)
        rows = replace(rows, beside={**rows.beside, ROLE: gate.of_frame(rows.gaps.complete(as_frame(data)))})
    return rows, formula, gate


def _with_target(frame: Any, text: str, y: Any) -> Any:
    """The frame with y as the target's column, where the frame has none of that name."""
    name = text.partition("~")[0].strip().strip("`")
    if y is None or name in frame.columns or not name.isidentifier():
        return frame
    return frame.assign(**{name: np.asarray(y)})
