"""The families that are known by name: to ``family=``, to messages and to model files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from wmlr.families.base import Family
from wmlr.families.beta import Beta
from wmlr.families.binomial import Binomial
from wmlr.families.by_component import ComponentFamilies
from wmlr.families.gamma import Gamma
from wmlr.families.laplace import Laplace
from wmlr.families.negative_binomial import NegativeBinomial
from wmlr.families.normal import Normal
from wmlr.families.outliers import NormalWithOutliers
from wmlr.families.point_mass import PointMass
from wmlr.families.poisson import Poisson
from wmlr.families.student import Student

NUMBERS = (int, float)
PLAIN: dict[Any, Any] = {"float": NUMBERS, "int": NUMBERS, "str": str, float: NUMBERS, int: NUMBERS, str: str}
"""What a family's fields may be, and what then stands in a message or a model file."""

_KNOWN: dict[str, type[Family]] = {}

FamilyLike = str | Family | Sequence[str | Family]
Plain = dict[str, Any] | list[dict[str, Any]]
Kind = TypeVar("Kind", bound=type[Family])


def register(kind: Kind) -> Kind:
    """Make a family known by its name; also a decorator.

    Parameters
    ----------
    kind : a frozen dataclass derived from :class:`Family` or :class:`Noise`, with a ``name`` and with fields that are
        numbers, or words such as a link's name, with defaults. Whoever answers queries about it, or reads its model
        files, must register it too.

    Raises
    ------
    ValueError
        When it is no such class, or its name is taken by another.
    """
    if not (isinstance(kind, type) and issubclass(kind, Family) and is_dataclass(kind)):
        raise ValueError(f"a family is a frozen dataclass derived from wmlr.families.Family (got {kind!r})")
    if kind.__hash__ is None or any(one.type not in PLAIN for one in fields(kind)):
        raise ValueError(
            f"{kind.__name__} must be frozen, and its fields numbers (float or int), or words (str), with defaults"
        )
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


def family(given: FamilyLike) -> Family:
    """A family by its name, with its usual numbers; or the family that was given; or, of a list, one per component."""
    if isinstance(given, (list, tuple)):
        return _join([family(one) for one in given])
    if isinstance(given, ComponentFamilies):
        return _join([family(one) for one in given.members])
    if isinstance(given, Family):
        if _KNOWN.get(given.name) is not type(given):
            raise ValueError(f"{type(given).__name__} is not a registered family: wmlr.families.register makes it one")
        return given
    if not isinstance(given, str) or given not in _KNOWN:
        names = ", ".join(map(repr, _KNOWN))
        raise ValueError(f"family must be one of {names}, or an object such as Student(dof=5) (got {given!r})")
    return _KNOWN[given]()


def _join(members: Sequence[Family]) -> Family:
    """One family for all components where they have the same, else one for each."""
    if members and all(one == members[0] and one.has_predictor for one in members):
        return members[0]
    return ComponentFamilies(tuple(members))


def of_components(given: FamilyLike, k: int) -> FamilyLike:
    """What stands for a list of families where there are k components; one family is the same for any number.

    They are the first k of the list, and where there are more of them its last family that has a predictor again. A
    point mass is no model by itself, and gives way where no other family would be left.
    """
    if isinstance(given, ComponentFamilies):
        given = given.members
    if isinstance(given, (str, Family)):
        return given
    lines = [one for one in given if family(one).has_predictor]
    chosen = [*given[:k], *lines[-1:] * (k - len(given))]
    return chosen if any(family(one).has_predictor for one in chosen) else [*chosen[: k - 1], *lines[:1]]


def to_plain(given: Family) -> Plain:
    """A family as its name and numbers; families of components as a list of such."""
    if isinstance(given, ComponentFamilies):
        return [_with_name(one) for one in given.members]
    return _with_name(given)


def _with_name(given: Family) -> dict[str, Any]:
    return {"name": family(given).name, **{key: getattr(given, key) for key in _fields(type(given))}}


def from_plain(plain: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Family:
    """The family that :func:`to_plain` wrote.

    Raises
    ------
    ValueError
        When the name is not known, or the numbers are not those of that family.
    """
    if not isinstance(plain, Mapping):
        return ComponentFamilies(tuple(_from_named(one) for one in plain))
    return _from_named(plain)


def _from_named(plain: Mapping[str, Any]) -> Family:
    name = plain.get("name")
    if not isinstance(name, str) or name not in _KNOWN:
        raise ValueError(f"the family {str(name)[:80]!r} is not known here: wmlr.families.register makes it known")
    given = {key: value for key, value in plain.items() if key != "name"}
    wanted = _fields(_KNOWN[name])
    proper = {key for key, kind in wanted.items() if kind is not str} <= set(given) <= set(wanted) and all(
        isinstance(value, wanted[key]) and not isinstance(value, bool) for key, value in given.items()
    )
    if not proper:
        named = ", ".join(wanted) or "none"
        raise ValueError(f"the family {name!r} has the fields {named} (got {str(given)[:80]})")
    return _KNOWN[name](**given)


def _fields(kind: Any) -> dict[str, Any]:
    """The names of a family's fields, and what they may be."""
    return {one.name: PLAIN[one.type] for one in fields(kind)}


_NOISE, _OTHERS = (Normal, NormalWithOutliers, Student, Laplace), (Poisson, NegativeBinomial, Binomial, Gamma, Beta)
for _kind in (*_NOISE, *_OTHERS, PointMass):
    register(_kind)
