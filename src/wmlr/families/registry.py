"""The families that are known by name: to ``family=``, to messages and to model files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from wmlr.families.base import Family
from wmlr.families.laplace import Laplace
from wmlr.families.normal import Normal
from wmlr.families.outliers import NormalWithOutliers
from wmlr.families.poisson import Poisson
from wmlr.families.student import Student

_KNOWN: dict[str, type[Family]] = {}

Kind = TypeVar("Kind", bound=type[Family])


def register(kind: Kind) -> Kind:
    """Make a family known by its name; also a decorator.

    Parameters
    ----------
    kind : a frozen dataclass derived from :class:`Family` or :class:`Noise`, with a ``name`` and with fields that are
        numbers with defaults. Whoever answers queries about it, or reads its model files, must register it too.

    Raises
    ------
    ValueError
        When it is no such class, or its name is taken by another.
    """
    if not (isinstance(kind, type) and issubclass(kind, Family) and is_dataclass(kind)):
        raise ValueError(f"a family is a frozen dataclass derived from wmlr.families.Family (got {kind!r})")
    if kind.__hash__ is None or any(one.type not in ("float", "int", float, int) for one in fields(kind)):
        raise ValueError(f"{kind.__name__} must be frozen, and its fields numbers (float or int) with defaults")
    kind()
    for other in _KNOWN.values():
        same = (other.__module__, other.__qualname__) == (kind.__module__, kind.__qualname__)
        if not same and (kind.name == other.name or kind.__name__ == other.__name__):
            taken = f"{other.__name__}, called {other.name!r}"
            raise ValueError(f"there is a family {taken}, already: choose another name (got {kind.__name__})")
    _KNOWN[kind.name] = kind
    return kind


def registered() -> dict[str, type[Family]]:
    """The families there are, by name."""
    return dict(_KNOWN)


def family(given: str | Family) -> Family:
    """A family by its name, with its usual numbers; or the family that was given."""
    if isinstance(given, Family):
        if _KNOWN.get(given.name) is not type(given):
            raise ValueError(f"{type(given).__name__} is not a registered family: wmlr.families.register makes it one")
        return given
    if not isinstance(given, str) or given not in _KNOWN:
        names = ", ".join(map(repr, _KNOWN))
        raise ValueError(f"family must be one of {names}, or an object such as Student(dof=5) (got {given!r})")
    return _KNOWN[given]()


def to_plain(given: Family) -> dict[str, Any]:
    """A family as its name and numbers."""
    return {"name": family(given).name, **{name: getattr(given, name) for name in _numbers(type(given))}}


def from_plain(plain: Mapping[str, Any]) -> Family:
    """The family that :func:`to_plain` wrote.

    Raises
    ------
    ValueError
        When the name is not known, or the numbers are not those of that family.
    """
    name = plain.get("name")
    if not isinstance(name, str) or name not in _KNOWN:
        raise ValueError(f"the family {str(name)[:80]!r} is not known here: wmlr.families.register makes it known")
    numbers = {key: value for key, value in plain.items() if key != "name"}
    wanted = _numbers(_KNOWN[name])
    proper = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers.values())
    if sorted(numbers) != sorted(wanted) or not proper:
        named = ", ".join(wanted) or "none"
        raise ValueError(f"the family {name!r} has the numbers {named} (got {str(numbers)[:80]})")
    return _KNOWN[name](**numbers)


def _numbers(kind: Any) -> list[str]:
    return [one.name for one in fields(kind)]


for _kind in (Normal, NormalWithOutliers, Student, Laplace, Poisson):
    register(_kind)
