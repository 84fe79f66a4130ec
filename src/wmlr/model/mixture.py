"""The parameters of a mixture of linear regressions, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from wmlr.families import NORMAL, Family, Noise
from wmlr.model.gates import column_log_weights
from wmlr.model.known import with_known_components
from wmlr.numerics.arrays import NOTHING_BESIDE, Array, Beside


@dataclass(frozen=True)
class Mixture:
    """``y = x'coef[j] + intercept[j] + sigma[j] * noise`` with probability ``weights[j]``.

    Where more is known of each row than x and y, an offset say, methods are given it as ``beside``.

    Attributes
    ----------
    coef : (k, d); intercept, weights, sigma : (k,).
    symmetric : whether the two components are ``beta`` and ``-beta``.
    family : the law of y given the linear predictor; ``sigma`` is its scale.
    gate : (k, g + 1), coefficients of g columns and a constant in the logits of the weights against the last
        component's, which has zeros; ``weights`` are then means over the units of the fit. None where weights are the
        same for all rows.
    prior : (k,), the Dirichlet law of the weights of groups that have weights of their own, of which ``weights`` are
        the means; None where they have none.
    """

    coef: Array
    intercept: Array
    weights: Array
    sigma: Array
    symmetric: bool = False
    family: Family = NORMAL
    gate: Array | None = None
    prior: Array | None = None

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
    def lines(self) -> Array:
        """(k, d + 1): the coefficients, with the intercept last."""
        return np.column_stack([self.coef, self.intercept])

    @property
    def noise(self) -> Noise:
        """The family, where it is noise around the predictor."""
        return self.family.noise

    def predictors(self, X: Any, beside: Beside = NOTHING_BESIDE) -> Array:
        """The linear predictors at X: (n, k)."""
        with np.errstate(over="ignore", invalid="ignore"):
            lines = np.asarray(X @ self.coef.T + self.intercept, dtype=np.float64)
            if "offset" in beside:
                lines = lines + beside["offset"][:, None]
        if not np.isfinite(lines).all():
            row, component = (int(place) for place in np.argwhere(~np.isfinite(lines))[0])
            raise ValueError(
                f"the line of component {component + 1} leaves the range of floating point in row {row}: X and the "
                "model's coefficients are too large for each other"
            )
        return lines

    def means(self, X: Any, beside: Beside = NOTHING_BESIDE) -> Array:
        """Each component's mean at X: (n, k)."""
        return self.family.mean(self.predictors(X, beside))

    def predict(self, X: Any, beside: Beside = NOTHING_BESIDE) -> Array:
        """E[y|x]."""
        if self.constant_weights(beside):
            return np.asarray(self.means(X, beside) @ self.weights)
        return np.asarray((self.means(X, beside) * np.exp(self.log_weights(beside))).sum(axis=1))

    def constant_weights(self, beside: Beside) -> bool:
        """Whether all units have the same weights."""
        return self.gate is None and "weights" not in beside

    def log_weights(
        self, beside: Beside, groups: NDArray[np.int64] | None = None, row_weight: Array | None = None
    ) -> Array:
        """Logarithms of the weights: (k,), or (n, k) where they differ from row to row, one line for each group code.

        Where they depend on columns, those are ``beside["gate"]``, and a group has the mean of its rows'. Weights that
        are known to be others are ``beside["weights"]`` (n, k).
        """
        with np.errstate(divide="ignore"):
            if "weights" in beside:
                return np.asarray(np.log(beside["weights"]))
            if self.gate is None:
                return np.asarray(np.log(self.weights))
        if "gate" not in beside:
            raise ValueError("the weights of this model depend on columns, and these rows do not have them")
        columns = beside["gate"]
        if groups is not None:
            amount = np.ones(len(groups)) if row_weight is None else row_weight
            total = np.maximum(np.bincount(groups, amount), 1e-300)
            columns = np.column_stack([np.bincount(groups, amount * column) / total for column in columns.T])
        return column_log_weights(self.gate, columns)

    def log_densities(self, X: Any, y: Array, beside: Beside = NOTHING_BESIDE) -> Array:
        """The log-density of y in each component: (n, k), without the weights."""
        found = self.family.of_rows(beside).log_likelihood(y[:, None], self.predictors(X, beside), self.sigma)
        return with_known_components(found, beside)

    def clean_probabilities(self, X: Any, y: Array, beside: Beside = NOTHING_BESIDE) -> Array:
        """P(no outlier | y, component): (n, k), 1 but for families with outliers of their own."""
        return self.family.clean_probability(y[:, None], self.predictors(X, beside), self.sigma)

    def joint(
        self,
        X: Any,
        y: Array,
        groups: NDArray[np.int64] | None = None,
        row_weight: Array | None = None,
        beside: Beside = NOTHING_BESIDE,
    ) -> Array:
        """``log weights_j + log density``: one line per row, or per group code 0 ... G-1.

        In a group, a row of weight 2 counts as two rows.
        """
        densities = self.log_densities(X, y, beside)
        if groups is not None:
            densities = densities if row_weight is None else densities * row_weight[:, None]
            summed = np.zeros((int(groups.max()) + 1, self.n_components))
            np.add.at(summed, groups, densities)
            densities = summed
        return np.asarray(densities + self.log_weights(beside, groups, row_weight))

    def log_likelihood(
        self, X: Any, y: Array, groups: NDArray[np.int64] | None = None, beside: Beside = NOTHING_BESIDE
    ) -> Array:
        """One log-likelihood per row, or per group."""
        return np.asarray(logsumexp(self.joint(X, y, groups, beside=beside), axis=1))

    def responsibilities(
        self, X: Any, y: Array, groups: NDArray[np.int64] | None = None, beside: Beside = NOTHING_BESIDE
    ) -> Array:
        """P(component | x, y): (n, k); rows of a group share theirs."""
        shares = self.unit_responsibilities(X, y, groups, beside=beside)
        return shares if groups is None else shares[groups]

    def unit_responsibilities(
        self,
        X: Any,
        y: Array,
        groups: NDArray[np.int64] | None = None,
        row_weight: Array | None = None,
        beside: Beside = NOTHING_BESIDE,
    ) -> Array:
        """The same, one line per row or, where there are groups, per group code."""
        joint = self.joint(X, y, groups, row_weight, beside)
        far = np.isneginf(joint).all(axis=1)
        if far.any():
            joint[far] = self._far_out(X, y, groups, beside)[far]
        return np.asarray(softmax(joint, axis=1))

    def _far_out(self, X: Any, y: Array, groups: NDArray[np.int64] | None, beside: Beside) -> Array:
        """Log-weights of the components that are nearest, where a row is so far out that every density is zero.

        The nearest line, in its own sigma, has all of the probability there; among lines at the same distance to
        rounding it is the one on the row's side.
        """
        means = self.means(X, beside)
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
        self,
        X: Any,
        generator: np.random.Generator,
        groups: NDArray[np.int64] | None = None,
        beside: Beside = NOTHING_BESIDE,
    ) -> tuple[Array, NDArray[np.int64]]:
        """Draw ``y`` and the component of each row; rows of a group share theirs."""
        n = X.shape[0]
        units = n if groups is None else int(groups.max()) + 1
        if self.constant_weights(beside):
            labels = generator.choice(self.n_components, size=units, p=self.weights / self.weights.sum())
        else:
            edges = np.cumsum(np.exp(self.log_weights(beside, groups)), axis=1)
            labels = (generator.random(units)[:, None] * edges[:, -1:] > edges[:, :-1]).sum(axis=1)
        labels = labels if groups is None else labels[groups]
        predictors = self.predictors(X, beside)[np.arange(n), labels]
        drawn = self.family.of_rows(beside).sample_of(labels, generator, predictors, self.sigma[labels])
        return drawn, labels.astype(np.int64)

    def ordered(self, classes: NDArray[np.int64] | None = None) -> Mixture:
        """Components by falling weight, equal weights by falling coefficients; a symmetric pair leads
        with the vector whose largest entry is positive. Only components of the same class change places."""
        if self.symmetric:
            lead = self.coef[0]
            flip = bool(lead[np.argmax(np.abs(lead))] < 0) if lead.size else False
            order = np.array([1, 0] if flip else [0, 1])
        else:
            keys = [-self.coef[:, column] for column in range(self.n_features - 1, -1, -1)]
            order = np.lexsort([-self.intercept, *keys, -np.round(self.weights, 9)])
        if classes is not None:
            own = [np.flatnonzero(classes == number) for number in np.unique(classes)]
            places = np.empty_like(order)
            for members in own:
                places[members] = order[np.isin(order, members)]
            order = places
        return self.permuted(order)

    def permuted(self, order: NDArray[np.int64]) -> Mixture:
        """The components in another order."""
        return replace(
            self,
            coef=self.coef[order],
            intercept=self.intercept[order],
            weights=self.weights[order],
            sigma=self.sigma[order],
            family=self.family.permuted(order),
            gate=None if self.gate is None else self.gate[order] - self.gate[order[-1]],
            prior=None if self.prior is None else self.prior[order],
        )
