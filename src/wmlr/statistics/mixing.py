"""Mixing weights that differ from unit to unit, as queries carry them, and the sums that their step needs.

A *unit* is what has a component of its own: a row, or a group of rows. Weights that are the same for all units are the
``log_weights`` of a query alone; where they are not, the query also has a ``gate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, linear_factors, unit
from wmlr.core.round import Rows
from wmlr.model.gates import log_softmax
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.own_weights import GroupGate
from wmlr.statistics.posterior import ConstantMixing, Mixing, Responsibilities

GATE = "gate"  # the role of the columns that weights depend on


@dataclass(frozen=True)
class LogitGate(Mixing):
    """Logits of the weights: (columns, 1) @ basis @ coef.

    Attributes
    ----------
    basis : (g + 1, r), from g columns and a constant to the coordinates of the coefficients.
    coef : (r, k), that of the last component nil; or those (s, r, k) of s candidates.
    """

    basis: Array
    coef: Array

    @classmethod
    def plain(cls, coef: Array) -> LogitGate:
        """Of coefficients (k, g + 1) on the columns' own scale, the constant's last."""
        return cls(np.eye(coef.shape[1]), np.ascontiguousarray(coef.T))

    def check(self, k: int) -> None:
        finite = np.isfinite(self.basis).all() and np.isfinite(self.coef).all()
        if self.basis.ndim != 2 or self.coef.shape[-2:] != (self.basis.shape[1], k) or not finite:
            raise ValueError(f"a gate of shape {self.basis.shape} and {self.coef.shape} is none of {k} components")

    @property
    def size(self) -> int:
        return int(self.coef.shape[-2])

    def logit_scores(self, rows: Rows, residual: Array) -> Array:
        Z = self.coordinates(rows)
        return np.asarray((residual[:, :, None] * Z[:, None, :]).reshape(len(Z), -1))

    def move(self, step: Array) -> LogitGate:
        """The gate a step away in the coefficients of all but the last component, one after the other."""
        r, k = self.coef.shape
        return LogitGate(self.basis, self.coef + np.column_stack([step.reshape(k - 1, r).T, np.zeros(r)]))

    def some(self, candidates: slice) -> LogitGate:
        """Those of some candidates."""
        return LogitGate(self.basis, self.coef[candidates])

    def each(self) -> list[LogitGate]:
        """Those of each candidate."""
        return [LogitGate(self.basis, coef) for coef in self.coef]

    def coordinates(self, rows: Rows) -> Array:
        """(units, r); kept with the rows, since many queries in succession ask for them."""
        key = self.basis.shape, self.basis.tobytes()
        if rows.memo.get(LogitGate, (None,))[0] != key:
            columns = unit_columns(rows)
            if columns.shape[1] + 1 != len(self.basis):
                raise ValueError(f"the weights depend on {len(self.basis) - 1} columns, not on {columns.shape[1]}")
            rows.memo[LogitGate] = key, np.asarray(columns @ self.basis[:-1] + self.basis[-1])
        found: Array = rows.memo[LogitGate][1]
        return found

    def log_weights(self, rows: Rows) -> Array:
        """(units, k)."""
        return log_softmax(self.coordinates(rows) @ self.coef)

    def responsibilities(self, rows: Rows, densities: Array) -> Responsibilities:
        logs = self.log_weights(rows)
        found = kernels.responsibilities(densities, logs, rows.weight, rows.starts)
        weights = np.exp(logs).T[:, None, :]
        sums = {name: value[0] for name, value in self._sums(rows, found[3].T[:, None, :], weights).items()}
        return Responsibilities(*found, logs, sums)

    def shares(self, rows: Rows, found: Responsibilities) -> Array:
        weights, k = np.exp(found.log_weights), self.coef.shape[-1]
        bends = [weights[:, i] * ((i == j) - weights[:, j]) for i in range(k - 1) for j in range(i + 1)]
        columns = np.column_stack([(found.shares - weights)[:, : k - 1], *bends])
        return kernels.to_rows(columns, None, rows.starts, len(rows))

    def candidate_log_weights(self, rows: Rows) -> Array:
        """(k, s, units) of candidates."""
        s, r, k = self.coef.shape
        logits = self.coef.transpose(2, 0, 1).reshape(k * s, r) @ self.coordinates(rows).T
        return log_softmax(logits.reshape(k, s, -1), axis=0)

    def information(self, found: Responsibilities) -> Array | float:
        return found.sums["gate_information"]

    def parts(self) -> Parts:
        *candidates, r, k = self.coef.shape
        size = r * (k - 1)
        return {
            "gate_score": Part((*candidates, size), unit(rows=0.5)),
            "gate_information": Part((*candidates, size, size), unit(), Kind.GRAM),
        }

    def candidate_sums(self, rows: Rows, shares: Array, log_weights: Array) -> Sums:
        """What the steps of candidates need, whose posterior shares and log-weights are (k, s, units)."""
        return self._sums(rows, shares, np.exp(log_weights))

    def _sums(self, rows: Rows, shares: Array, weights: Array) -> Sums:
        """The score in the coefficients of all but the last component, one after the other, and their information.

        Both are those of a multinomial logit whose responses are the posterior ``shares`` (k, s, units).
        """
        Z = self.coordinates(rows)
        count = kernels.unit_counts(len(rows), rows.weight, rows.starts)
        k, s, n = shares.shape
        r, free = Z.shape[1], k - 1
        score = (((shares - weights)[:free] * count).reshape(free * s, n) @ Z).reshape(free, s, r)
        information = np.empty((s, free, r, free, r))
        counted = weights[:free] * count
        products = (Z[:, :, None] * Z[:, None, :]).reshape(n, r * r)
        for i in range(free):
            for j in range(i + 1):
                bend = counted[i] * ((i == j) - weights[j])
                block = (bend @ products).reshape(s, r, r)
                information[:, i, :, j, :] = block
                information[:, j, :, i, :] = block
        return {
            "gate_score": score.transpose(1, 0, 2).reshape(s, free * r),
            "gate_information": information.reshape(s, free * r, free * r),
        }


UnitGate = LogitGate | GroupGate


def mixing(log_weights: Array, gate: UnitGate | None) -> Mixing:
    """The gate or, where there is none, the weights that all units have."""
    return ConstantMixing(log_weights) if gate is None else gate


@dataclass(frozen=True)
class GateMoments(Query):
    """Second moments of the columns that weights depend on, and a constant, over the units."""

    columns: Annotated[int, Field(least=1)]

    def parts(self, columns: int, grouped: bool) -> Parts:
        p = self.columns + 1
        counts = {name: Part((), unit(), Kind.UNITS) for name in ("weight", "rows")}
        return counts | {"gram": Part((p, p), unit(x=2), Kind.GRAM)}

    shares = all_alike
    factors = linear_factors

    def answer(self, rows: Rows) -> Sums:
        count = kernels.unit_counts(len(rows), rows.weight, rows.starts)
        return {
            "weight": np.array(float(count.sum())),
            "rows": np.array(float(np.count_nonzero(count))),
            "gram": kernels.gram(unit_columns(rows), count, True),
        }


def unit_columns(rows: Rows) -> Array:
    """What the weights of each unit depend on; a group has the mean of its rows."""
    if GATE not in rows.beside:
        raise ValueError("the weights depend on columns that these rows do not have: gate= names them")
    columns = np.asarray(rows.beside[GATE], dtype=np.float64)
    if rows.starts is None:
        return columns
    amount = kernels.unit_sums(np.ones(len(rows)), rows.weight, rows.starts)
    sums = kernels.unit_sums(columns, rows.weight, rows.starts)
    return np.asarray(sums / np.where(amount > 0, amount, 1.0)[:, None])
