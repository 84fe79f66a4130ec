"""Only what is needed of an answer: where every number costs noise, the fewer the better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from wmlr.core.query import Parts, Query, Wrapper
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Integers, Sums

Value = TypeVar("Value")


@dataclass(frozen=True)
class Chosen(Wrapper):
    """Some parts of another query's answer; parts that the answer does not have are passed over."""

    query: Query
    names: tuple[str, ...]

    def answer(self, rows: Rows) -> Sums:
        return self._select(self.query.answer(rows))

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        return self._select(self.query.answer_each(rows, firsts))

    def parts(self, columns: int, grouped: bool) -> Parts:
        return self._select(self.query.parts(columns, grouped))

    def _select(self, found: Mapping[str, Value]) -> dict[str, Value]:
        return {name: found[name] for name in self.names if name in found}
