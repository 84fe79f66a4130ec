"""Columns of an engine's rows that are no features: an offset, an exposure, trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from wmlr.core.capabilities import capabilities_of
from wmlr.core.roles import Columns, RoleRows, Roles
from wmlr.core.round import Engine
from wmlr.estimator.row_roles import refuse_both_offsets
from wmlr.families import Family


class RoleColumns(TypedDict, total=False):
    """Further keywords of ``fit_on`` and of whatever looks at an engine's rows again: names or numbers of columns.

    Attributes
    ----------
    offset : what is added to the linear predictor of every component.
    exposure : positive numbers whose logarithm is such an offset.
    trials : of a binomial, where y has the successes alone.
    """

    offset: Any
    exposure: Any
    trials: Any


def roles_of(rows: Engine, given: RoleColumns, takes_off: bool = False) -> Roles | None:
    """Which of an engine's columns are features, and which have another role; None where none is named."""
    named = {role: column for role, column in given.items() if column is not None}
    refuse_both_offsets(named)
    if not named:
        return None
    names = capabilities_of(rows).feature_names
    columns = [str(name) for name in names] if names is not None else [f"x{place}" for place in range(rows.n_features)]
    beside: dict[str, Columns] = {role: (_place(role, one, columns),) for role, one in named.items()}
    taken = {place for places in beside.values() for place in places}
    features = tuple(place for place in range(rows.n_features) if place not in taken)
    if len(taken) < len(beside):
        raise ValueError(f"offset, exposure and trials are columns of their own (got {named})")
    return Roles(features, beside, tuple(beside), takes_off)


def in_roles(rows: Engine, given: RoleColumns, family: Family) -> Engine:
    """The engine with some of its columns in their roles, as sums of a family see them."""
    roles = roles_of(rows, given, family.linear)
    return rows if roles is None else RoleRows(rows, roles)


def _place(role: str, column: Any, columns: Sequence[str]) -> int:
    place = columns.index(column) if column in columns else -1 if isinstance(column, str) else int(column)
    if not 0 <= place < len(columns):
        raise ValueError(f"{role}= names a column that is not there (got {column!r}; columns: {', '.join(columns)})")
    return place
