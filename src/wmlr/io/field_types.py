"""Whether values are of the types that a dataclass declares for its fields: what comes from outside may not be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np


@cache
def hints(cls: type) -> dict[str, Any]:
    """The declared types of a dataclass's fields."""
    return get_type_hints(cls)


@cache
def _origin_and_arguments(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def check_fields(cls: type, content: Mapping[str, Any]) -> Any:
    """A dataclass of values that came from a file.

    Raises
    ------
    ValueError
        When a field is unknown, or of another type than declared.
    """
    declared = hints(cls)
    for name, value in content.items():
        if name not in declared:
            raise ValueError(f"{cls.__name__} has no field {name!r}")
        if not fits(value, declared[name]):
            raise ValueError(f"{name} of {cls.__name__} is of the wrong type ({type(value).__name__})")
    return cls(**content)


def fits(value: Any, hint: Any, stands_for: Mapping[Any, tuple[type, ...]] | None = None) -> bool:
    """Whether a value is of a declared type.

    ``stands_for`` names, for a type that no object has, the classes that are meant by it.
    """
    origin, inner = _origin_and_arguments(hint)
    if hint is Any:
        return True
    if stands_for is not None and hint in stands_for:
        return isinstance(value, stands_for[hint])
    if origin in (Union, UnionType):
        return any(fits(value, option, stands_for) for option in inner)
    if origin is np.ndarray:
        scalar = get_args(inner[1])[0]
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype == np.dtype(scalar))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        of_each = [inner[0]] * len(value) if inner[1:] == (...,) else list(inner)
        return len(of_each) == len(value) and all(fits(item, one, stands_for) for item, one in zip(value, of_each))
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1], stands_for) for item in value.values())
    if hint is float:
        return isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    return isinstance(value, NoneType if hint is None else hint)
