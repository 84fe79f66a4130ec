"""The distribution of an amount that is no predictor plus noise, given x: its quantiles and regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.families import Family
from wmlr.model.counts import CountPredictive
from wmlr.model.predictive import Predictive, Region
from wmlr.numerics.arrays import NOTHING_BESIDE, Array, Beside
from wmlr.numerics.roots import roots

CELLS = 400  # of equal probability, from which a region is put together
TOLERANCE = 1e-12  # of a quantile, relative


@dataclass(frozen=True, eq=False)
class AmountPredictive(CountPredictive):
    """Mixtures of k laws of amounts or shares, one mixture per row."""

    def quantile(self, q: Array) -> Array:
        """Quantiles (n, m) for probabilities q (m,), each between the least and the greatest of the components'."""
        each = self.family.of_rows(self.beside).quantiles(q[:, None], self.predictors[:, None, :], self.sigma)
        live = np.broadcast_to(self.weights[:, None, :] > 0, each.shape)
        low, high = np.where(live, each, np.inf).min(axis=-1), np.where(live, each, -np.inf).max(axis=-1)
        return roots(lambda y, rows: self.take(rows).cdf(y) - q, low, high, TOLERANCE)

    def highest_density(self, level: float) -> Region:
        """The smallest region of that probability, made of the narrowest among cells of equal probability."""
        inner = self.quantile(np.arange(1, CELLS) / CELLS)
        ends = self.quantile(np.array([0.01, CELLS - 0.01]) / CELLS)
        edges = np.column_stack([ends[:, :1], inner, ends[:, 1:]])
        wanted = int(np.ceil(level * CELLS))
        chosen = np.zeros((len(edges), CELLS + 2), dtype=bool)
        narrow = np.argsort(np.diff(edges, axis=1), axis=1, kind="stable")[:, :wanted]
        np.put_along_axis(chosen, narrow + 1, True, axis=1)
        turns = np.diff(chosen.astype(np.int64), axis=1) != 0
        return Region(tuple(row[turn].reshape(-1, 2) for row, turn in zip(edges, turns)), level, "hdr")


def predictive(
    predictors: Array, weights: Array, sigma: Array, family: Family, beside: Beside = NOTHING_BESIDE
) -> Predictive | CountPredictive:
    """The distribution of y at rows with these linear predictors and weights (n, k) of the components."""
    if family.linear and family.one_law:
        return Predictive(predictors, weights, sigma, family.noise)
    kind = CountPredictive if family.discrete else AmountPredictive
    return kind(predictors, weights, sigma, family, beside)
