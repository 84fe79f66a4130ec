"""Data as JSON holds it: dicts, lists, texts, numbers and None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 5
"""Digits that remain of an array's span where numbers are made short."""


def plain(data: Any, short: bool = False) -> Any:
    """Data as JSON holds it, None for what is no finite number; a dataclass is a dict that begins with its name.

    Parameters
    ----------
    data : dicts, lists, arrays, dataclasses, numbers, texts.
    short : a number of its own keeps ten digits, those of an array a hundred-thousandth of what the array spans.
    """
    if isinstance(data, Mapping):
        return {str(name): plain(value, short) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value, short) for value in data]
    if isinstance(data, (np.ndarray, np.generic)):
        return _list_values(np.asarray(data), short)
    if is_dataclass(data) and not isinstance(data, type):
        given = {one.name: plain(getattr(data, one.name), short) for one in fields(data)}
        return {"is": type(data).__name__, **given}
    if isinstance(data, float):
        return (float(f"{data:.10g}") if short else data) if np.isfinite(data) else None
    return data


def _list_values(values: NDArray[Any], short: bool) -> Any:
    if values.dtype.kind != "f":
        return values.tolist()
    finite = np.isfinite(values)
    if not short and finite.all():
        return values.tolist()
    span = float(np.ptp(values[finite])) if short and finite.any() else 0.0
    kept = (values if span == 0 else np.round(values, DIGITS - int(np.floor(np.log10(span))))).astype(object)
    kept[~finite] = None
    return kept.tolist()
