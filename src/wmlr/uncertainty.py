"""Standard errors: the covariance of what was estimated, from the observed information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.model import Mixture
from wmlr.round import Array, Engine
from wmlr.statistics.information import ObservedInformation


@dataclass(frozen=True)
class Constraints:
    """Which parameters of a mixture are free."""

    intercept: bool = True
    symmetric: bool = False
    equal_weights: bool = False
    shared_sigma: bool = True
    sigma_known: bool = False

    def embedding(self, k: int, d: int) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits)."""
        p = d + int(self.intercept)
        columns = [np.vstack([np.eye(p), -np.eye(p)]) if self.symmetric else np.eye(k * p)]
        if not self.sigma_known:
            columns.append(np.ones((k, 1)) if self.shared_sigma or self.symmetric else np.eye(k))
        if not self.equal_weights and not self.symmetric and k > 1:
            columns.append(np.eye(k - 1))
        heights = [k * p, k, k - 1]
        offsets = [0]
        if not self.sigma_known:
            offsets.append(k * p)
        if not self.equal_weights and not self.symmetric and k > 1:
            offsets.append(k * p + k)
        total = np.zeros((sum(heights), sum(column.shape[1] for column in columns)))
        place = 0
        for offset, column in zip(offsets, columns):
            total[offset : offset + len(column), place : place + column.shape[1]] = column
            place += column.shape[1]
        return total

    def count(self, k: int, d: int) -> int:
        """The number of free parameters."""
        return int(self.embedding(k, d).shape[1])


def covariance(mixture: Mixture, rows: Engine, constraints: Constraints, robust: bool = False) -> Array:
    """The covariance of the free parameters: the inverse observed information, or the sandwich.

    Order: coefficients component by component with the intercept last in each (only the first component's
    when symmetric), then log sigma (one, or one per component), then the logits of the first k-1 weights
    against the last.
    """
    coef = mixture.coef.T
    if constraints.intercept:
        coef = np.vstack([coef, mixture.intercept])
    sums = rows.total(ObservedInformation(coef, mixture.weights, mixture.sigma**2))
    free = constraints.embedding(mixture.n_components, mixture.n_features)
    information = free.T @ sums["information"] @ free
    inverse = _inverse(information)
    if robust:
        inverse = inverse @ (free.T @ sums["outer"] @ free) @ inverse
    return np.asarray((inverse + inverse.T) / 2)


def _inverse(information: Array) -> Array:
    scale = np.sqrt(np.abs(np.diag(information)))
    scale[scale == 0] = 1.0
    return np.asarray(np.linalg.pinv(information / np.outer(scale, scale), hermitian=True) / np.outer(scale, scale))
