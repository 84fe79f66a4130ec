"""The parameters of a mixture of linear regressions, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from wmlr.families import NORMAL, Family, Noise
from wmlr.numerics.arrays import Array


@dataclass(frozen=True)
class Mixture:
    """``y = x'coef[j] + intercept[j] + sigma[j] * noise`` with probability ``weights[j]``.

    Attributes
    ----------
    coef : (k, d); intercept, weights, sigma : (k,).
    symmetric : whether the two components are ``beta`` and ``-beta``.
    family : the law of y given the linear predictor; ``sigma`` is its scale.
    """

    coef: Array
    intercept: Array
    weights: Array
    sigma: Array
    symmetric: bool = False
    family: Family = NORMAL

    @classmethod
    def of(cls, coef: ArrayLike, sigma: ArrayLike = 1.0, weights: ArrayLike | None = None) -> Mixture:
        """A mixture without intercepts; ``sigma`` a number or one per component."""
        coefficients = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        k = len(coefficients)
        shares = np.full(k, 1.0 / k) if weights is None else np.asarray(weights, dtype=np.float64)
        scale = np.broadcast_to(np.asarray(sigma, dtype=np.float64), (k,)).copy()
        return cls(coefficients, np.zeros(k), shares, scale)

    @classmethod
    def symmetric_pair(cls, beta: ArrayLike, sigma: float) -> Mixture:
        """The paper's two-component model: ``beta`` and ``-beta``, equally likely, one sigma."""
        b = np.asarray(beta, dtype=np.float64)
        return cls(np.stack([b, -b]), np.zeros(2), np.full(2, 0.5), np.full(2, float(sigma)), symmetric=True)

    @property
    def n_components(self) -> int:
        return int(self.coef.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def noise(self) -> Noise:
        """The family, where it is noise around the predictor."""
        return self.family.noise

    def predictors(self, X: Any) -> Array:
        """The linear predictors at X: (n, k)."""
        with np.errstate(over="ignore", invalid="ignore"):
            lines = np.asarray(X @ self.coef.T + self.intercept, dtype=np.float64)
        if not np.isfinite(lines).all():
            row, component = (int(place) for place in np.argwhere(~np.isfinite(lines))[0])
            raise ValueError(
                f"the line of component {component + 1} leaves the range of floating point in row {row}: X and the "
                "model's coefficients are too large for each other"
            )
        return lines

    def means(self, X: Any) -> Array:
        """Each component's mean at X: (n, k)."""
        return self.family.mean(self.predictors(X))

    def predict(self, X: Any) -> Array:
        """E[y|x]."""
        return np.asarray(self.means(X) @ self.weights)

    def log_densities(self, X: Any, y: Array) -> Array:
        """The log-density of y in each component: (n, k), without the weights."""
        return self.family.log_likelihood(y[:, None], self.predictors(X), self.sigma)

    def clean_probabilities(self, X: Any, y: Array) -> Array:
        """P(no outlier | y, component): (n, k), 1 but for families with outliers of their own."""
        return self.family.clean_probability(y[:, None], self.predictors(X), self.sigma)

    def joint(
        self, X: Any, y: Array, groups: NDArray[np.int64] | None = None, row_weight: Array | None = None
    ) -> Array:
        """``log weights_j + log density``: one line per row, or per group code 0 ... G-1.

        In a group, a row of weight 2 counts as two rows.
        """
        densities = self.log_densities(X, y)
        if groups is not None:
            densities = densities if row_weight is None else densities * row_weight[:, None]
            summed = np.zeros((int(groups.max()) + 1, self.n_components))
            np.add.at(summed, groups, densities)
            densities = summed
        with np.errstate(divide="ignore"):
            return np.asarray(densities + np.log(self.weights))

    def log_likelihood(self, X: Any, y: Array, groups: NDArray[np.int64] | None = None) -> Array:
        """One log-likelihood per row, or per group."""
        return np.asarray(logsumexp(self.joint(X, y, groups), axis=1))

    def responsibilities(self, X: Any, y: Array, groups: NDArray[np.int64] | None = None) -> Array:
        """P(component | x, y): (n, k); rows of a group share theirs."""
        shares = self.unit_responsibilities(X, y, groups)
        return shares if groups is None else shares[groups]

    def posterior(self, log_densities: Array) -> Array:
        """P(component | what has these log-densities): (n, k), by the weights."""
        with np.errstate(divide="ignore"):
            return np.asarray(softmax(log_densities + np.log(self.weights), axis=1))

    def unit_responsibilities(
        self, X: Any, y: Array, groups: NDArray[np.int64] | None = None, row_weight: Array | None = None
    ) -> Array:
        """The same, one line per row or, where there are groups, per group code."""
        joint = self.joint(X, y, groups, row_weight)
        far = np.isneginf(joint).all(axis=1)
        if far.any():
            joint[far] = self._far_out(X, y, groups)[far]
        return np.asarray(softmax(joint, axis=1))

    def _far_out(self, X: Any, y: Array, groups: NDArray[np.int64] | None) -> Array:
        """Log-weights of the components that are nearest, where a row is so far out that every density is zero.

        The nearest line, in its own sigma, has all of the probability there; among lines at the same distance to
        rounding it is the one on the row's side.
        """
        means = self.means(X)
        with np.errstate(over="ignore"):
            distances = np.abs(y[:, None] - means) / self.sigma
        if groups is not None:
            farthest = np.zeros((int(groups.max()) + 1, self.n_components))
            np.maximum.at(farthest, groups, distances)
            distances, sides = farthest, np.zeros_like(farthest)
        else:
            sides = np.sign(y)[:, None] * means
        near = (distances == distances.min(axis=1, keepdims=True)) & (self.weights > 0)
        near[~near.any(axis=1)] = self.weights > 0
        sides = np.where(near, sides, -np.inf)
        near &= sides == sides.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.where(near, np.log(self.weights), -np.inf)

    def sample(
        self, X: Any, generator: np.random.Generator, groups: NDArray[np.int64] | None = None
    ) -> tuple[Array, NDArray[np.int64]]:
        """Draw ``y`` and the component of each row; rows of a group share theirs."""
        n = X.shape[0]
        units = n if groups is None else int(groups.max()) + 1
        labels = generator.choice(self.n_components, size=units, p=self.weights / self.weights.sum())
        labels = labels if groups is None else labels[groups]
        predictors = self.predictors(X)[np.arange(n), labels]
        return self.family.sample(generator, predictors, self.sigma[labels]), labels.astype(np.int64)

    def ordered(self) -> Mixture:
        """Components by falling weight, equal weights by falling coefficients; a symmetric pair leads
        with the vector whose largest entry is positive."""
        if self.symmetric:
            lead = self.coef[0]
            flip = bool(lead[np.argmax(np.abs(lead))] < 0) if lead.size else False
            order = np.array([1, 0] if flip else [0, 1])
        else:
            keys = [-self.coef[:, column] for column in range(self.n_features - 1, -1, -1)]
            order = np.lexsort([-self.intercept, *keys, -np.round(self.weights, 9)])
        return replace(
            self,
            coef=self.coef[order],
            intercept=self.intercept[order],
            weights=self.weights[order],
            sigma=self.sigma[order],
        )
