"""Only what is needed of an answer: where every number costs noise, the fewer the better."""

from __future__ import annotations

from dataclasses import dataclass

from wmlr.core.round import Query, Rows
from wmlr.numerics.arrays import Sums


@dataclass(frozen=True)
class Chosen:
    """Some parts of another query's answer; parts that the answer does not have are passed over."""

    query: Query
    names: tuple[str, ...]

    def answer(self, rows: Rows) -> Sums:
        found = self.query.answer(rows)
        return {name: found[name] for name in self.names if name in found}
