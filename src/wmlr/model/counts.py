"""The distribution of a count given x: its probabilities, quantiles and regions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from wmlr.families import Family
from wmlr.model.predictive import Region
from wmlr.numerics.arrays import Array, Beside

TAIL = 1e-9  # probability of the counts that a region does not look at


@dataclass(frozen=True, eq=False)
class CountPredictive:
    """Mixtures of k laws of counts, one mixture per row; the names are those of :class:`Predictive`."""

    predictors: Array
    weights: Array
    sigma: Array
    family: Family
    beside: Beside = field(default_factory=dict)

    def take(self, rows: Any) -> CountPredictive:
        """Some of the rows."""
        beside = {role: values[rows] for role, values in self.beside.items()}
        return replace(self, predictors=self.predictors[rows], weights=self.weights[rows], beside=beside)

    def log_density(self, y: Array) -> Array:
        """The log-probability of y (n, m)."""
        each = self.family.of_rows(self.beside).log_likelihood(y[..., None], self.predictors[:, None, :], self.sigma)
        return np.asarray(logsumexp(each, axis=-1, b=self.weights[:, None, :]))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y) at y (n, m)."""
        each = self.family.of_rows(self.beside).probability(y[..., None], self.predictors[:, None, :], self.sigma)
        return np.asarray((each * self.weights[:, None, :]).sum(axis=-1))

    def quantile(self, q: Array) -> Array:
        """The least counts (n, m) that have at least the probabilities q (m,) up to them, found by halving."""
        each = self.family.of_rows(self.beside).quantiles(q[:, None], self.predictors[:, None, :], self.sigma)
        below, at = each.min(axis=-1) - 1.0, each.max(axis=-1)
        while True:
            middle = np.floor(0.5 * (below + at))
            between = (below < middle) & (middle < at)
            if not between.any():
                return np.asarray(at)
            enough = self.cdf(middle) >= q
            below, at = np.where(between & ~enough, middle, below), np.where(between & enough, middle, at)

    def central(self, level: float) -> Region:
        """The interval that leaves at most the same probability on either side."""
        ends = self.quantile(np.array([(1 - level) / 2, (1 + level) / 2]))
        return Region(tuple(pair[None] for pair in ends), level, "central")

    def highest_density(self, level: float) -> Region:
        """The fewest counts of at least that probability, as intervals of counts in succession."""
        ends = self.quantile(np.array([TAIL, 1.0 - TAIL]))
        found = []
        for row, (first, last) in enumerate(ends):
            counts = np.arange(first, last + 1.0)
            chance = np.exp(self.take([row]).log_density(counts[None])[0])
            order = np.argsort(-chance, kind="stable")
            enough = int(np.searchsorted(np.cumsum(chance[order]), level)) + 1
            chosen = np.sort(counts[order[:enough]])
            breaks = np.flatnonzero(np.diff(chosen) > 1.0) + 1
            runs = [chosen[a:b] for a, b in pairwise([0, *breaks.tolist(), len(chosen)])]
            found.append(np.array([[run[0], run[-1]] for run in runs]))
        return Region(tuple(found), level, "hdr")
