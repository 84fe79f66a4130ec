"""Who holds which rows: many agents' arrays seen as one, never copied when they already are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from wmlr.engines.validation import refuse_sizes
from wmlr.numerics.arrays import Array, Integers


@dataclass(frozen=True)
class AgentRoster:
    """Every agent's rows, one agent after the other.

    Attributes
    ----------
    X, y : the rows of all agents.
    order : the rows' places in X, agent by agent; None when X holds them so already.
    edges : (M + 1,) where each agent's rows begin in that order, and the end.
    ids : (M,) the agents' names, in the order in which they first appear.
    feature_names : of the columns of X, where it came as a data frame.
    """

    X: Any
    y: Array
    order: Integers | None
    edges: Integers
    ids: NDArray[Any]
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def gather(cls, agents: Iterable[tuple[Any, Any]]) -> AgentRoster:
        """From a list of (X, y), copied once into one array unless they are successive parts of one."""
        given = list(agents)
        parts = [_check_agent(number, agent) for number, agent in enumerate(given)]
        if not parts:
            raise ValueError("a federation needs at least one agent (got an empty list)")
        width = parts[0][0].shape[1]
        for number, (X, _) in enumerate(parts):
            if X.shape[1] != width:
                raise ValueError(
                    f"agent {number} has {X.shape[1]} features where agent 0 has {width}: "
                    "give every agent the same columns"
                )
        X, y = _end_to_end([X for X, _ in parts]), _end_to_end([y for _, y in parts])
        edges = np.cumsum([0, *(len(y) for _, y in parts)], dtype=np.int64)
        return cls(X, y, None, edges, np.arange(len(parts)), _names(given[0][0]))._finite()

    @classmethod
    def split(cls, X: Any, y: Any, agent_ids: Any) -> AgentRoster:
        """From rows and the agent each belongs to; X is shared, not copied."""
        feature_names = _names(X)
        X, y, ids = _features(X, "X"), _response(y, "y"), np.asarray(agent_ids)
        if len(y) != len(X) or ids.shape != (len(X),):
            raise ValueError(f"X, y and agent_ids must have one entry per row (got {len(X)}, {len(y)} and {ids.shape})")
        if len(X) == 0:
            raise ValueError("a federation needs at least one agent (got no rows)")
        _refuse_nameless(ids)
        runs = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        names, first, codes = np.unique(ids[runs], return_index=True, return_inverse=True)
        rank = np.empty(len(names), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(names))
        order: Integers | None = None
        if len(runs) == len(names):
            edges = np.append(runs, len(ids)).astype(np.int64)
        else:
            of_row = np.repeat(rank[codes], np.diff(np.append(runs, len(ids))))
            order = np.argsort(of_row, kind="stable")
            edges = np.concatenate([[0], np.cumsum(np.bincount(of_row))]).astype(np.int64)
        return cls(X, y, order, edges, ids[runs[np.sort(first)]], feature_names)._finite()

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def sizes(self) -> Integers:
        """The number of rows of each agent."""
        return np.diff(self.edges)

    def places(self, agents: Integers) -> Integers:
        """The places in X of the rows of these agents, one agent after the other."""
        sizes = self.sizes[agents]
        ends = np.cumsum(sizes)
        within = np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)
        line = np.repeat(self.edges[agents], sizes) + within
        return line if self.order is None else self.order[line]

    def _finite(self) -> AgentRoster:
        for name, values in (("X", self.X), ("y", self.y)):
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(values.sum(dtype=np.float64)) or np.all(np.isfinite(values)):
                    continue
            place = tuple(int(index) for index in np.argwhere(~np.isfinite(values))[0])
            row = place[0] if self.order is None else int(np.flatnonzero(self.order == place[0])[0])
            agent = int(np.searchsorted(self.edges, row, side="right")) - 1
            what = "NaN" if np.isnan(values[place]) else "infinity"
            where = f"row {row - int(self.edges[agent])}" + (f", column {place[1]}" if name == "X" else "")
            called = "" if self.ids[agent] == agent else f" ({self.ids[agent]!s})"
            raise ValueError(f"{name} of agent {agent}{called} contains {what} ({where}): drop or fill such rows")
        refuse_sizes(self.X, self.y, self.feature_names)
        return self


def _names(X: Any) -> tuple[str, ...] | None:
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def _check_agent(number: int, agent: Any) -> tuple[Any, Array]:
    try:
        X, y = agent
    except (TypeError, ValueError):
        raise ValueError(f"agent {number} must be a pair (X, y) (got {type(agent).__name__})") from None
    X, y = _features(X, f"X of agent {number}"), _response(y, f"y of agent {number}")
    if len(X) != len(y):
        raise ValueError(f"agent {number} has {len(X)} rows of X but {len(y)} of y")
    if len(X) == 0:
        raise ValueError(f"agent {number} has no rows: leave it out")
    return X, y


def _end_to_end(parts: list[Any]) -> Any:
    """The parts as one array: a view where they lie behind each other in memory, else a copy."""
    first = parts[0]
    alike = first.base is not None and all(
        part.base is first.base and part.flags.c_contiguous and part.dtype == first.dtype for part in parts
    )
    if alike:
        places = np.array([part.__array_interface__["data"][0] for part in parts])
        lengths = np.array([part.nbytes for part in parts])
        if np.all(places[:-1] + lengths[:-1] == places[1:]):
            rows = sum(len(part) for part in parts)
            return as_strided(first, (rows, *first.shape[1:]), first.strides, writeable=False)
    return np.concatenate(parts) if len(parts) > 1 else first


def _features(X: Any, name: str) -> Any:
    values = X if isinstance(X, np.ndarray) else np.asarray(X)
    if values.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional (got shape {values.shape})")
    if values.dtype not in (np.float64, np.float32):
        values = _numbers(values, name)
    return values


def _response(y: Any, name: str) -> Array:
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional (got shape {values.shape})")
    return values if values.dtype == np.float64 else _numbers(values, name)


def _numbers(values: Any, name: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None


def _refuse_nameless(ids: NDArray[Any]) -> None:
    missing = ids != ids if ids.dtype.kind in "fcO" else np.zeros(0, dtype=bool)
    if ids.dtype.kind == "O":
        missing = missing | np.array([value is None for value in ids], dtype=bool)
    if missing.any():
        raise ValueError(f"agent_ids has no value in row {int(np.flatnonzero(missing)[0])}: every row needs an agent")
