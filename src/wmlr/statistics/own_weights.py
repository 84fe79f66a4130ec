"""Weights of each group's own, estimated where its rows are: they never leave, and nor does what they follow from.

Rows of a group have components of their own, drawn with the group's weights, which are drawn from a Dirichlet law that
all groups share. Given that law and the components' densities, a group's weights follow from its own rows by
variational Bayes: their law is taken to be a Dirichlet, beside the rows' posteriors. The log-likelihood is then a lower
bound of the marginal one, which EM climbs. What leaves is the sum over the groups of the expected log-weights.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from wmlr.core.capabilities import Capabilities, capabilities_of
from wmlr.core.query import Kind, Part, Parts, Query, Wrapper, unit
from wmlr.core.round import Engine, Rows
from wmlr.model.own_weights import expected_logs, group_counts
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.statistics.posterior import Mixing, Responsibilities

OWN = "own"  # the role of the numbers of groups that have weights of their own


@dataclass(frozen=True)
class GroupGate(Mixing):
    """The Dirichlet law of the groups' weights: ``prior`` (k,)."""

    prior: Array

    def check(self, k: int) -> None:
        if self.prior.shape != (k,) or not np.all(np.isfinite(self.prior) & (self.prior > 0)):
            raise ValueError(f"a prior of shape {self.prior.shape} is none of {k} components, or not positive")

    def logit_scores(self, rows: Rows, residual: Array) -> Array:
        """Nil: the weights are taken as known."""
        return np.zeros_like(residual)

    def information(self, found: Responsibilities) -> Array | float:
        return 0.0

    def move(self, step: Array) -> GroupGate:
        """Itself: the law is taken as known."""
        return self

    def parts(self) -> Parts:
        return {
            "group_log_weights": Part(self.prior.shape, unit()),
            "groups": Part((), unit(), Kind.UNITS),
        }

    def counts(self, rows: Rows, densities: Array) -> Array:
        """(G, k): the Dirichlet law of each group's weights, given its rows' log-densities (n, k)."""
        return group_counts(self.prior, densities, group_starts(rows), rows.weight)

    def responsibilities(self, rows: Rows, densities: Array) -> Responsibilities:
        counts = self.counts(rows, densities)
        logs = expected_logs(counts)
        starts = group_starts(rows)
        each = np.repeat(logs, np.diff(np.append(starts, len(rows))), axis=0)
        R, units, bound, shares = kernels.responsibilities(densities, each, rows.weight, None)
        bound -= float(_divergence(counts, self.prior, logs).sum())
        live = np.ones(len(starts)) if rows.weight is None else np.add.reduceat(rows.weight, starts) > 0
        sums = {"group_log_weights": live @ logs, "groups": np.array(float(live.sum()))}
        return Responsibilities(R, units, bound, shares, each, sums)


def _divergence(counts: Array, prior: Array, logs: Array) -> Array:
    """(G,): Kullback and Leibler's, of each group's law from the common one."""
    own = gammaln(counts.sum(axis=1)) - gammaln(counts).sum(axis=1)
    common = gammaln(prior.sum()) - gammaln(prior).sum()
    return np.asarray(own - common + ((counts - prior) * logs).sum(axis=1))


def group_starts(rows: Rows) -> Integers:
    """The first row of each group that has weights of its own."""
    if OWN not in rows.beside:
        raise ValueError("groups have weights of their own (gate='group'), and these rows have no groups")
    return np.flatnonzero(np.diff(rows.beside[OWN], prepend=-1.0))


@dataclass(frozen=True)
class ByRow(Wrapper):
    """A query asked of rows that have a component each, whose groups are kept beside them."""

    query: Query

    def view(self, rows: Rows) -> Rows:
        if ByRow not in rows.memo:
            starts = np.zeros(1, dtype=np.int64) if rows.starts is None else rows.starts
            numbers = np.repeat(np.arange(len(starts), dtype=np.float64), np.diff(np.append(starts, len(rows))))
            rows.memo[ByRow] = replace(rows, starts=None, beside={**rows.beside, OWN: numbers})
        seen: Rows = rows.memo[ByRow]
        return seen


class OwnWeightRows:
    """An engine's rows, each with a component of its own; their groups have weights of their own."""

    def __init__(self, rows: Engine) -> None:
        self.rows = rows

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    def total(self, query: Query) -> Sums:
        return self.rows.total(query.wrap(ByRow))

    def answers(self, query: Query) -> dict[Hashable, Sums]:
        """Each agent's own answer, where the engine has agents."""
        found: dict[Hashable, Sums] = self.rows.answers(ByRow(query))  # type: ignore[attr-defined]
        return found

    @property
    def capabilities(self) -> Capabilities:
        return replace(capabilities_of(self.rows), grouped=False)
