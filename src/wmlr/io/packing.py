"""Numbers, text, arrays, lists and dictionaries as JSON, and back with their types."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

DTYPE = re.compile(r"[<>|=]?(?:[biuf][1248]|U\d{1,7}|O|[mM]8(?:\[(?:Y|M|W|D|h|m|s|ms|us|ns)\])?)")


def pack(value: Any) -> Any:
    """A value as JSON that :func:`unpacked` reads back with its type.

    Raises
    ------
    ValueError
        When it is not made of numbers, text, arrays, lists and dictionaries.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return {"array": [pack(item) for item in value], "dtype": "O"}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {"array": value.astype(np.int64).tolist(), "dtype": value.dtype.str}
    if isinstance(value, (list, tuple)):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        return {"pairs": [[pack(key), pack(item)] for key, item in value.items()]}
    raise ValueError(f"a model file cannot hold {type(value).__name__} {value!r}")


def unpack(value: Any) -> Any:
    """The value that :func:`packed` wrote."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, dict) and "array" in value:
        kind = dtype(value["dtype"])
        if kind.kind == "U":
            return _texts(value["array"])
        return np.array(value["array"], np.int64 if kind.kind in "mM" else kind).astype(kind)
    if isinstance(value, dict):
        return {unpack(key): unpack(item) for key, item in value["pairs"]}
    return value


def dtype(name: Any) -> np.dtype[Any]:
    """The type of an array's entries; only numbers, short text, objects and times have names here."""
    if not isinstance(name, str) or not DTYPE.fullmatch(name):
        raise ValueError(f"a file may not hold an array of type {str(name)[:80]!r}")
    return np.dtype(name)


def _texts(items: Any) -> Any:
    """An array of texts, as wide as the longest of them and no wider."""
    found = np.array(items, dtype=object)
    if not all(isinstance(item, str) for item in found.flat):
        raise ValueError("an array of texts holds something else")
    return found.astype(np.str_)
