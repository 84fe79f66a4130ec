"""Columns that are no features: an offset, say, or what mixing weights depend on, kept in the same table as x.

An engine that reads a table knows columns and nothing of roles. A query is asked inside :class:`InRoles`, which travels
with it, so that whoever holds the rows takes the columns apart.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from wmlr.core.capabilities import Capabilities, capabilities_of
from wmlr.core.query import Query, Wrapper
from wmlr.core.round import Engine, Rows
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Sums

Columns = tuple[int, ...]
ASSIGNABLE = ("offset", "exposure", "trials", "gate")
"""The roles that whoever asks may give a column; others, as the component a row is known to have, are the rows' own."""


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are features, and which have another role.

    Attributes
    ----------
    features : numbers of the columns that are X.
    beside : numbers of the columns of each role; a role of one number per row has one column. An "exposure" is the
        exponential of an offset.
    single : the roles of one number per row, which are vectors and not matrices of one column.
    takes_off : whether an offset is taken off y, as where y is the linear predictor and noise.
    """

    features: Columns
    beside: dict[str, Columns] = field(default_factory=dict)
    single: tuple[str, ...] = ()
    takes_off: bool = False

    def split_columns(self, rows: Rows) -> Rows:
        """The rows with their columns taken apart; features that stand first are not copied."""
        found = dict(rows.beside)
        for role, columns in self.beside.items():
            values = np.column_stack([np.asarray(rows.X[:, column], dtype=np.float64) for column in columns])
            found[role] = values[:, 0] if role in self.single else values
        if "exposure" in found:
            exposure = found.pop("exposure")
            if not np.all(exposure > 0):  # an agent's error may be read by others, so it names no value
                raise ValueError("exposure must be positive in every row: leave out rows without any")
            found["offset"] = np.log(exposure) + found.get("offset", 0.0)
        trials = found.get("trials", np.zeros(0))
        if np.any((trials < 0) | (trials != np.floor(trials))):
            raise ValueError("trials must be whole numbers in every row: another column may have them")
        y = rows.y - found.pop("offset") if self.takes_off and "offset" in found else rows.y
        first = self.features == tuple(range(len(self.features)))
        X = rows.X[:, : len(self.features)] if first else rows.X[:, list(self.features)]
        if first and len(self.features) == rows.X.shape[1]:
            X = rows.X
        return replace(rows, X=X, y=y, beside=found)


@dataclass(frozen=True)
class InRoles(Wrapper):
    """A query about rows whose columns have roles, asked of those who hold the table."""

    roles: Roles
    query: Query

    def view(self, rows: Rows) -> Rows:
        roles, seen = rows.memo.get(InRoles, (None, rows))
        if roles != self.roles:
            seen = self.roles.split_columns(rows)
            rows.memo[InRoles] = self.roles, seen
        found: Rows = seen
        return found

    def check(self) -> None:
        for role, places in (("features", self.roles.features), *self.roles.beside.items()):
            if role != "features" and role not in ASSIGNABLE:
                raise ValueError(f"{role!r} is no role that a server gives: these are {', '.join(ASSIGNABLE)}")
            if len(set(places)) < len(places):
                raise ValueError(f"a column is named twice among the {role}")

    def width(self, columns: int) -> int:
        named = [*self.roles.features, *(place for places in self.roles.beside.values() for place in places)]
        if not all(0 <= place < columns for place in named):
            raise ValueError(f"there are roles for columns that are not there (columns: {columns})")
        return len(self.roles.features)


class RoleRows:
    """An engine's rows with their columns in roles; everything else of the engine is as it was."""

    def __init__(self, rows: Engine, roles: Roles) -> None:
        self.rows = rows
        self.roles = roles
        self.n_features = len(roles.features)

    def total(self, query: Query) -> Sums:
        return self.rows.total(query.wrap(lambda inner: InRoles(self.roles, inner)))

    def answers(self, query: Query) -> dict[Hashable, Sums]:
        """Each agent's own answer, where the engine has agents."""
        found: dict[Hashable, Sums] = self.rows.answers(InRoles(self.roles, query))  # type: ignore[attr-defined]
        return found

    @property
    def capabilities(self) -> Capabilities:
        engine = capabilities_of(self.rows)
        engine = replace(engine, labelled=engine.labelled or KNOWN in self.roles.beside)
        names = engine.feature_names
        return (
            engine
            if names is None
            else replace(engine, feature_names=[names[column] for column in self.roles.features])
        )
