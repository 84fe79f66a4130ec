"""Statistics that starts are made of, where y and the linear predictor are not on the same scale."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wmlr.core.query import Query, Wrapper
from wmlr.core.round import Rows
from wmlr.families import Family


@dataclass(frozen=True)
class StartScale(Wrapper):
    """A query asked of the rows with y as the family's starts look at it: on the scale of the predictor."""

    query: Query
    family: Family

    def view(self, rows: Rows) -> Rows:
        key = StartScale, self.family
        if key not in rows.memo:
            y = self.family.of_rows(rows.beside).start_response(rows.y)
            rows.memo[key] = replace(rows, y=y - rows.beside["offset"] if "offset" in rows.beside else y)
        seen: Rows = rows.memo[key]
        return seen


def on_start_scale(family: Family, query: Query) -> Query:
    """The query on the scale of the predictor, which is y's own where the family is linear."""
    return query if family.linear else StartScale(query, family)
