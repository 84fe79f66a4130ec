"""Queries and sums as bytes, and back to the last bit.

A query may be of the kinds that the package's own statistics are, no others. Numbers must be finite: a state
that is not has diverged, and is refused with the name of the field rather than sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, cast, get_args, get_type_hints

import numpy as np

from wmlr import statistics
from wmlr.core import roles
from wmlr.core import round as rounds
from wmlr.core.query import Query
from wmlr.families import ComponentFamilies, Family, registered
from wmlr.features import maps
from wmlr.features.transformers import Described
from wmlr.federated.wire import Codec, MessageError
from wmlr.numerics.arrays import Sums

__all__ = ["MessageError", "digest", "pack", "pack_sums", "query_kinds", "unpack", "unpack_answer", "unpack_sums"]

SUMS = Codec("sums")


def pack(query: Query) -> bytes:
    """A query as bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from wmlr.federated.messages import pack, unpack
    >>> from wmlr.statistics.symmetric_score import SymmetricScore
    >>> unpack(pack(SymmetricScore(np.array([0.1, 0.2]), 1.5)))
    SymmetricScore(beta=array([0.1, 0.2]), s2=1.5, mean=None)
    """
    if type(query) not in query_kinds().values():
        raise MessageError(f"{type(query).__name__} is not a known query")
    return query_codec().encode(query)


def unpack(data: bytes) -> Query:
    """The query that :func:`pack` wrote."""
    query = query_codec().decode(data)
    if type(query) not in query_kinds().values():
        raise MessageError(f"a query is wanted (got {type(query).__name__})")
    return cast(Query, query)


def pack_sums(sums: Sums) -> bytes:
    """An answer, or a sum of answers, as bytes."""
    plain = {name: np.asarray(value) for name, value in sums.items()}
    _check_sums(plain)
    return SUMS.encode(plain)


def unpack_sums(data: bytes) -> Sums:
    """The sums that :func:`pack_sums` wrote."""
    sums = SUMS.decode(data)
    _check_sums(sums)
    return cast(Sums, sums)


def unpack_answer(data: bytes, query: Query, columns: int, grouped: bool, beside: Sequence[str] = ()) -> Sums:
    """The sums in bytes, which must be those that a query declares of so many columns, and what may be beside them."""
    sums = unpack_sums(data)
    wanted = {name: part.shape for name, part in query.parts(columns, grouped).items()}
    if {name: value.shape for name, value in sums.items() if name not in beside} != wanted:
        raise MessageError(f"its sums are not those of {query.label}")
    return sums


def digest(query: Query) -> str:
    """A fingerprint of a query: the same for the same kind and the same numbers, to the last bit."""
    return sha256(pack(query)).hexdigest()


@cache
def query_kinds() -> dict[str, type]:
    """The queries that may travel, by name: of the round, of the package's statistics, about features and roles."""
    names = [f"{statistics.__name__}.{one.name}" for one in iter_modules(statistics.__path__)]
    modules = [rounds, roles, maps, *map(import_module, names)]
    return {cls.__name__: cls for module in modules for cls in _queries_in(module)}


def _queries_in(module: ModuleType) -> Iterator[type]:
    for cls in vars(module).values():
        own = isinstance(cls, type) and cls.__module__ == module.__name__ and is_dataclass(cls)
        if own and issubclass(cls, Query) and cls.travels:
            yield cls


def query_codec() -> Codec:
    """How queries become bytes, with the families that are known now."""
    return _codec((ComponentFamilies, *registered().values()))


@cache
def _codec(families: tuple[type[Family], ...]) -> Codec:
    queries = query_kinds()
    parts = {cls.__name__: cls for query in queries.values() for cls in _field_kinds(query)}
    parts |= {cls.__name__: cls for cls in families}
    stands_for = {Query: tuple(queries.values()), maps.Phi: (Described,)}
    return Codec("query", {**parts, **queries, Described.__name__: Described}, stands_for)


def _field_kinds(cls: type) -> Iterator[type]:
    """The dataclasses that a dataclass's fields may hold."""
    left: list[Any] = list(get_type_hints(cls).values())
    while left:
        hint = left.pop()
        left += get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            yield hint
            yield from _field_kinds(hint)


def _check_sums(sums: Any) -> None:
    if not isinstance(sums, dict):
        raise MessageError(f"sums are wanted (got {type(sums).__name__})")
    for name, value in sums.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray) or value.dtype != np.float64:
            raise MessageError(f"sums[{name!r}] must be an array of numbers")
