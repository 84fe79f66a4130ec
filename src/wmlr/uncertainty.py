"""Standard errors: the covariance of what was estimated, from the observed information."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from wmlr.model import Mixture
from wmlr.round import Array, Engine, Query
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.student_information import StudentInformation

INTERCEPT, SIGMA, WEIGHT = "(intercept)", "(sigma)", "(weight)"  # in brackets, as no column is called
NULL = 1e-12  # eigenvalues of the scaled information below this share of the largest are directions not seen


@dataclass(frozen=True)
class Constraints:
    """Which parameters of a mixture are free.

    Attributes
    ----------
    intercept : each component has an intercept.
    symmetric : the second component is minus the first.
    equal_weights, shared_sigma, sigma_known : what is held equal, common or fixed.
    shared : columns whose coefficient is common to all components; column ``d`` is the intercept.
    """

    intercept: bool = True
    symmetric: bool = False
    equal_weights: bool = False
    shared_sigma: bool = True
    sigma_known: bool = False
    shared: tuple[int, ...] = ()

    def embedding(self, k: int, d: int) -> Array:
        """The matrix from free parameters to (b_1 ... b_k, log sigma_1 ... log sigma_k, logits)."""
        return np.asarray(block_diag(self._coefficients(k, d), self._deviations(k), self._logits(k)))

    def count(self, k: int, d: int) -> int:
        """The number of free parameters."""
        lines, own = d + int(self.intercept), 1 if self.symmetric else k
        coefficients = own * lines - (own - 1) * len(self.shared)
        return int(coefficients + self._deviations(k).shape[1] + self._logits(k).shape[1])

    def names(self, columns: Sequence[str], k: int) -> tuple[str, ...]:
        """The free parameters' names: ``x1[2]`` is the coefficient of x1 in the second component."""
        lines = [*columns, INTERCEPT] if self.intercept else list(columns)
        own = 1 if self.symmetric else k
        coefficients = [
            name if c in self.shared else f"{name}[{j + 1}]"
            for j in range(own)
            for c, name in enumerate(lines)
            if j == 0 or c not in self.shared
        ]
        return (
            *coefficients,
            *(f"log {name}" for name in self.sigma_names(k)),
            *(f"logit {WEIGHT}[{j + 1}]" for j in range(self._logits(k).shape[1])),
        )

    def sigma_names(self, k: int) -> list[str]:
        """The estimated noise deviations' names."""
        count = self._deviations(k).shape[1]
        return [SIGMA] if count == 1 else [f"{SIGMA}[{j + 1}]" for j in range(count)]

    def _coefficients(self, k: int, d: int) -> Array:
        p = d + int(self.intercept)
        if self.symmetric:
            return np.vstack([np.eye(p), -np.eye(p)])
        common = np.isin(np.arange(p), self.shared)
        columns = [np.eye(k * p)[:, :p]]
        columns[0][:, common] = np.tile(np.eye(p)[:, common], (k, 1))
        columns += [np.eye(k * p)[:, j * p : (j + 1) * p][:, ~common] for j in range(1, k)]
        return np.hstack(columns)

    def _deviations(self, k: int) -> Array:
        if self.sigma_known:
            return np.empty((k, 0))
        return np.ones((k, 1)) if self.shared_sigma or self.symmetric else np.eye(k)

    def _logits(self, k: int) -> Array:
        return np.empty((k - 1, 0)) if self.equal_weights or self.symmetric else np.eye(k - 1)


def covariance(
    mixture: Mixture, rows: Engine, constraints: Constraints, robust: bool = False, ridge: float = 0.0
) -> Array:
    """The covariance of the free parameters: the inverse observed information, or the sandwich.

    Order: coefficients component by component with the intercept last in each (only the first component's
    when symmetric, and shared ones only with the first), then log sigma (one, or one per component), then
    the logits of the first k-1 weights against the last.

    Parameters
    ----------
    mixture : where the likelihood was maximised.
    rows : any engine that holds the data. Where it has groups, a group is the unit of the sandwich.
    constraints : which parameters were free.
    robust : the sandwich, which stays right when the noise is not as the model has it.
    ridge : the penalty on squared coefficients of the fit. What comes back is then the covariance around
        the penalised estimate's own expectation.
    """
    free = constraints.embedding(mixture.n_components, mixture.n_features)
    sums = rows.total(_query(mixture, constraints.intercept))
    information = free.T @ sums["information"] @ free
    inverse = _inverse(information + free.T @ _penalty(mixture, constraints.intercept, ridge) @ free)
    if robust or ridge > 0:
        inverse = inverse @ (free.T @ sums["outer"] @ free if robust else information) @ inverse
    return np.asarray((inverse + inverse.T) / 2)


def _query(mixture: Mixture, intercept: bool) -> Query:
    coef = np.vstack([mixture.coef.T, mixture.intercept]) if intercept else mixture.coef.T
    if mixture.dof is None:
        return ObservedInformation(coef, mixture.weights, mixture.sigma**2)
    return StudentInformation(coef, mixture.weights, mixture.sigma**2, mixture.dof)


def _penalty(mixture: Mixture, intercept: bool, ridge: float) -> Array:
    k, d = mixture.coef.shape
    one = np.append(np.full(d, ridge), [0.0] * intercept)
    return np.diag(np.concatenate([np.outer(mixture.sigma**-2.0, one).ravel(), np.zeros(2 * k - 1)]))


def _inverse(information: Array) -> Array:
    scale = np.sqrt(np.abs(np.diag(information)))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    largest = float(np.abs(values).max(initial=0.0))
    if values.min(initial=0.0) < -1e-8 * largest:
        warnings.warn(
            "the likelihood is not at a maximum here, so standard errors are not to be relied on: "
            "fit with a smaller tol or a larger max_iter, or with fewer components",
            UserWarning,
            stacklevel=3,
        )
    seen = np.abs(values) > NULL * largest
    inner = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return np.asarray(inner / np.outer(scale, scale))


def standard_errors(covariance: Array) -> Array:
    """Roots of the variances; NaN where a parameter has none."""
    variances = np.diag(covariance)
    return np.sqrt(np.where(variances > 0, variances, np.nan))


def free_parameters(mixture: Mixture, constraints: Constraints) -> Array:
    """The free parameters of a mixture, in the order of :func:`covariance`."""
    columns = [mixture.coef]
    if constraints.intercept:
        columns.append(mixture.intercept[:, None])
    logs = np.log(np.maximum(mixture.weights, 1e-300))
    whole = np.concatenate([np.hstack(columns).ravel(), np.log(mixture.sigma), logs[:-1] - logs[-1]])
    free = constraints.embedding(mixture.n_components, mixture.n_features)
    return np.asarray(whole[free.argmax(axis=0)])


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a reader looks at: coefficients, sigma and weights, each on its own scale.

    Attributes
    ----------
    names, values : one of each per estimate.
    jacobian : their derivatives in the free parameters, for the delta method.
    scales : "linear", "log" (sigma) or "logit" (weights): where intervals are symmetric.
    """

    names: tuple[str, ...]
    values: Array
    jacobian: Array
    scales: tuple[str, ...]

    @classmethod
    def of(cls, mixture: Mixture, constraints: Constraints, columns: Sequence[str]) -> Estimates:
        """The estimated quantities of a mixture; what was held fixed is left out."""
        k = mixture.n_components
        theta = free_parameters(mixture, constraints)
        sigmas = constraints.sigma_names(k)
        logits = 0 if constraints.equal_weights or constraints.symmetric else k - 1
        plain = len(theta) - len(sigmas) - logits
        deviations, shares = mixture.sigma[: len(sigmas)], mixture.weights if logits else np.empty(0)
        slopes = [np.eye(plain), np.diag(deviations)]
        slopes.append((np.diag(shares) - np.outer(shares, shares))[:, :logits])
        return cls(
            names=(
                *constraints.names(columns, k)[:plain],
                *sigmas,
                *(f"{WEIGHT}[{j + 1}]" for j in range(len(shares))),
            ),
            values=np.concatenate([theta[:plain], deviations, shares]),
            jacobian=np.asarray(block_diag(*slopes)),
            scales=("linear",) * plain + ("log",) * len(sigmas) + ("logit",) * len(shares),
        )

    def covariance(self, free: Array) -> Array:
        """Their covariance by the delta method, from that of the free parameters."""
        return np.asarray(self.jacobian @ free @ self.jacobian.T)
