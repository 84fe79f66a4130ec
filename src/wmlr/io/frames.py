"""Data frames of any make, as pandas frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np


def is_frame(data: Any) -> bool:
    """Whether data have named columns."""
    return isinstance(data, Mapping) or type(data).__name__ == "LazyFrame" or hasattr(data, "columns")


def as_frame(data: Any) -> Any:
    """A pandas DataFrame: as it is, or from a mapping, or from any frame that narwhals knows (polars, Arrow ...)."""
    pandas = import_module("pandas")
    if isinstance(data, pandas.DataFrame):
        return data
    if isinstance(data, Mapping):
        return pandas.DataFrame(dict(data))
    narwhals = import_module("narwhals.stable.v1")
    try:
        frame = narwhals.from_native(data)
    except TypeError:
        raise ValueError(
            f"a formula needs a data frame with named columns (got {type(data).__name__}): in a Pipeline, let the step "
            "before it hand one on by set_output(transform='pandas')"
        ) from None
    frame = frame.collect() if isinstance(frame, narwhals.LazyFrame) else frame
    return pandas.DataFrame({name: _column(frame[name], pandas, narwhals) for name in frame.columns})


def _column(series: Any, pandas: Any, narwhals: Any) -> Any:
    if series.dtype in (narwhals.Categorical, narwhals.Enum):
        return pandas.Categorical(series.to_list(), categories=series.cat.get_categories().to_list())
    return series.to_numpy()


def missing_in_columns(frame: Any, names: Iterable[str]) -> dict[str, Any]:
    """Where each of some columns of a pandas frame has no value."""
    return {name: frame[name].isna().to_numpy() for name in names}


def require_columns(frame: Any, names: Iterable[str], formula: str, gaps: bool = False) -> None:
    """Raise unless a frame has the columns of a formula, each once and, unless ``gaps`` are allowed, without one."""
    there = [str(name) for name in frame.columns]
    for name in names:
        if name not in there:
            raise ValueError(
                f"the data have no column {name[:200]!r} for the formula {formula!r}; they have {_few(there)}"
            )
        if there.count(name) > 1:
            raise ValueError(f"the data have {there.count(name)} columns named {name!r}: rename them, or leave one out")
    if not gaps:
        refuse_gaps(frame, names)


def _few(names: list[str]) -> str:
    return ", ".join(names[:50]) + (f" and {len(names) - 50:,} more" if len(names) > 50 else "")


def refuse_gaps(frame: Any, names: Iterable[str]) -> None:
    """Raise with the column and row of the first missing value."""
    for name in names:
        gaps = np.flatnonzero(frame[name].isna().to_numpy())
        if gaps.size:
            raise ValueError(
                f"column {name!r} has no value in row {gaps[0]}: drop or fill such rows, or set missing='drop'"
            )


def text_as_objects(frame: Any, names: Iterable[str]) -> Any:
    """The frame with pandas' own text columns as plain objects, which every version of formulaic takes for levels."""
    is_text = import_module("pandas").api.types.is_string_dtype
    text = {name: frame[name].astype(object) for name in names if is_text(frame[name].dtype)}
    return frame.assign(**text) if text else frame
