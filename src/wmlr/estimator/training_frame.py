"""Rows of a data frame as a formula reads them for a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wmlr.estimator.gaps import Gaps
from wmlr.estimator.inputs import ModelRows, read_rows
from wmlr.formulas.formula import ModelFormula
from wmlr.io.frames import as_frame, missing_in_columns, require_columns


def read_training_frame(
    estimator: Any, data: Any, y: Any, sample_weight: Any, groups: Any
) -> tuple[ModelRows, ModelFormula]:
    """The rows that an estimator's formula makes of a data frame, and the formula with what it learned from them.

    Parameters
    ----------
    estimator : whose ``formula``, ``symmetric`` and ``missing`` are looked at.
    data : a data frame of any make.
    y : None; or the target's column, where scikit-learn hands it on by itself.
    sample_weight : one number per row, or the name of a column.
    groups : labels; None for those of the formula.
    """
    text, frame = estimator.formula, as_frame(data)
    frame = _with_target(frame, text, y)
    if isinstance(sample_weight, str):
        require_columns(frame, [sample_weight], text, gaps=True)
        sample_weight = frame[sample_weight].to_numpy()
    gaps = Gaps(len(frame))
    if estimator.missing == "drop":
        needed = ModelFormula.columns_of(text, frame, estimator.symmetric)
        gaps = Gaps.of(missing_in_columns(frame, needed), len(frame))
        gaps.refuse_nothing_left()
        frame = gaps.complete(frame)
    formula = ModelFormula.read(text, frame, estimator.symmetric)
    target = formula.given_target(frame, gaps.complete(y))
    labels = formula.groups(frame) if groups is None else gaps.complete(groups)
    weight = gaps.complete(sample_weight)
    rows = read_rows(estimator, formula.design(frame), target, weight, labels, missing=estimator.missing, reset=True)
    return replace(rows, gaps=gaps.then(rows.gaps)), formula


def _with_target(frame: Any, text: str, y: Any) -> Any:
    """The frame with y as the target's column, where the frame has none of that name."""
    name = text.partition("~")[0].strip().strip("`")
    if y is None or name in frame.columns or not name.isidentifier():
        return frame
    return frame.assign(**{name: np.asarray(y)})
