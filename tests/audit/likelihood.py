"""A mixture of regressions once more, in plain NumPy: parameters as one vector, likelihood, derivatives.

Nothing here comes from the library. Derivatives are numerical: by complex steps, which lose no digits, and by
central differences of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

Array = Any
TINY = 1e-30
STEP = 1e-5  # of a parameter's scale; complex steps leave digits enough for it


@dataclass(frozen=True)
class Model:
    """Which parameters are free: coefficients (intercept last) of each component in turn, those of ``shared`` columns
    with the first only, without those ``held`` at a value by component and column; log sigma, one or k; logits of the
    first k-1 weights against the last; where rows may be outliers, uniform over a ``span`` of y, the logit of their
    share."""

    k: int
    d: int
    intercept: bool = True
    symmetric: bool = False
    equal_weights: bool = False
    shared_sigma: bool = True
    sigma: float | None = None
    shared: tuple[int, ...] = ()
    held: Mapping[tuple[int, int], float] = field(default_factory=dict)
    dof: float | None = None
    alpha: float = 0.0
    span: float | None = None

    @property
    def width(self) -> int:
        return self.d + self.intercept

    @property
    def places(self) -> list[tuple[int, int]]:
        """(component, column) of each free coefficient; of a shared one the first component's."""
        free: list[tuple[int, int]] = []
        for j in range(1 if self.symmetric else self.k):
            for column in range(self.width):
                there = column in self.shared and any(column == other for _, other in free)
                if (j, column) not in self.held and not there:
                    free.append((j, column))
        return free

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many coefficients, log sigmas, logits of weights and of a share of outliers are free."""
        coefficients = len(self.places)
        sigmas = 0 if self.sigma is not None else 1 if self.shared_sigma or self.symmetric else self.k
        logits = 0 if self.equal_weights or self.symmetric else self.k - 1
        return coefficients, sigmas, logits, int(self.span is not None)

    def pack(self, coef: Array, intercept: Array, weights: Array, sigma: Array, share: float = 0.5) -> Array:
        lines = np.column_stack([coef, intercept]) if self.intercept else coef
        free = [lines[j, column] for j, column in self.places]
        logs = np.log(weights)
        _, sigmas, logits, outliers = self.counts
        odds = np.log(np.full(outliers, share / (1 - share)))
        return np.concatenate([free, np.log(sigma)[:sigmas], (logs[:-1] - logs[-1])[:logits], odds])

    def unpack(self, thetas: Array) -> tuple[Array, Array, Array]:
        """Lines (B, k, width), sigmas (B, k) and weights (B, k) from B vectors."""
        coefficients, sigmas, logits, _ = self.counts
        B = len(thetas)
        lines = np.zeros((B, self.k, self.width), dtype=thetas.dtype)
        for place, (j, column) in enumerate(self.places):
            having = range(self.k) if column in self.shared else [j]
            lines[:, having, column] = thetas[:, [place]]
        for (j, column), value in self.held.items():
            lines[:, j, column] = value
        if self.symmetric:
            lines[:, 1] = -lines[:, 0]
        logs = thetas[:, coefficients : coefficients + sigmas]
        given = np.full((B, self.k), 0.0 if self.sigma is None else np.log(self.sigma)) + 0 * thetas[:, :1]
        sigma = np.exp(logs + 0 * given if sigmas else given)
        free = (
            thetas[:, coefficients + sigmas : coefficients + sigmas + logits] if logits else np.zeros((B, self.k - 1))
        )
        exponents = np.exp(np.concatenate([free + 0 * given[:, : self.k - 1], 0 * given[:, :1]], axis=1))
        return lines, sigma, exponents / exponents.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Data:
    """Rows, their weights, and codes of the groups that share a component."""

    X: Array
    y: Array
    weight: Array | None = None
    groups: Array | None = None

    @property
    def weights(self) -> Array:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def units(self) -> Array:
        """How often each row, or group, counts."""
        if self.groups is None:
            return self.weights
        return (np.bincount(self.groups, self.weights) > 0).astype(float)


def joint(model: Model, data: Data, thetas: Array) -> Array:
    """log weight + log density of each unit under each component: (B, units, k)."""
    lines, sigma, weights = model.unpack(thetas)
    design = np.column_stack([data.X, np.ones(len(data.y))]) if model.intercept else data.X
    z = (data.y[:, None] - np.einsum("nw,bkw->bnk", design, lines)) / sigma[:, None]
    if model.dof is None:
        densities = -0.5 * np.log(2 * np.pi) - 0.5 * z * z
    else:
        half = (model.dof + 1) / 2
        constant = gammaln(half) - gammaln(model.dof / 2) - 0.5 * np.log(model.dof * np.pi)
        densities = constant - half * np.log(1 + z * z / model.dof)
    densities = densities - np.log(sigma)[:, None]
    if model.span is not None:
        odds = np.exp(thetas[:, -1])[:, None, None]
        top = np.maximum(densities.real, 0.0)
        both = np.exp(densities - top) + odds / model.span * np.exp(-top)
        densities = top + np.log(both) - np.log(1 + odds)
    if data.groups is not None:
        densities = densities * data.weights[:, None]
        member = np.arange(data.groups.max() + 1)[:, None] == data.groups
        densities = np.einsum("gn,bnk->bgk", member.astype(float), densities)
    return densities + np.log(weights)[:, None]


def unit_likelihoods(model: Model, data: Data, thetas: Array) -> Array:
    """The log-likelihood of each unit, without its weight: (B, units)."""
    lines = joint(model, data, thetas)
    top = lines.real.max(axis=2, keepdims=True)
    return (top + np.log(np.exp(lines - top).sum(axis=2, keepdims=True)))[:, :, 0]


def log_likelihoods(model: Model, data: Data, thetas: Array) -> Array:
    return unit_likelihoods(model, data, thetas) @ data.units


def log_likelihood(model: Model, data: Data, theta: Array) -> float:
    return float(log_likelihoods(model, data, theta[None])[0])


def posterior(model: Model, data: Data, theta: Array) -> Array:
    """P(component | unit): (units, k)."""
    lines = joint(model, data, theta[None])[0]
    shares = np.exp(lines - lines.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def penalties(model: Model, thetas: Array, at: Array) -> Array:
    """Half of alpha b^2 / sigma^2 over all slopes, sigma (and the weights, for shared columns) held as they are ``at``.

    A slope that components share counts once, by the mean of 1 / sigma^2 over their weights.
    """
    lines, _, _ = model.unpack(thetas)
    _, sigma, weights = model.unpack(at)
    slopes = [column for column in range(model.d) if column not in model.shared]
    rate = 1 / sigma**2
    if model.symmetric:
        return 0.5 * model.alpha * (lines[:, 0] ** 2).sum(axis=1) * rate[:, 0]
    own = (lines[:, :, slopes] ** 2).sum(axis=2)
    common = (lines[:, 0, list(model.shared)] ** 2).sum(axis=1)
    return 0.5 * model.alpha * ((own * rate).sum(axis=1) + common * (weights * rate).sum(axis=1))


def gradients(model: Model, data: Data, thetas: Array, ridge: bool = True) -> Array:
    """The score at each theta (B, p): of the likelihood, less the ridge's pull."""
    B, p = thetas.shape
    moved = (thetas[:, None] + 1j * TINY * np.eye(p)).reshape(B * p, p)
    values = log_likelihoods(model, data, moved)
    if ridge and model.alpha:
        values = values - penalties(model, moved, np.repeat(thetas, p, axis=0))
    return (values.imag / TINY).reshape(B, p)


def scales(model: Model, data: Data, theta: Array) -> Array:
    """What changes residuals by about a standard deviation, or a sigma or an odds by a factor of e."""
    sizes = np.append(np.sqrt(np.mean(data.X**2, axis=0)), 1.0)
    columns = [column for _, column in model.places]
    least = model.unpack(theta[None])[1].min()
    return np.concatenate([least / sizes[columns], np.ones(len(theta) - len(columns))])


def information(model: Model, data: Data, theta: Array, ridge: bool = True) -> Array:
    """Minus the derivative of the score (p, p)."""
    p = len(theta)
    steps = STEP * scales(model, data, theta)
    ends = np.concatenate([theta + np.diag(steps), theta - np.diag(steps)])
    slopes = gradients(model, data, ends, ridge)
    return -((slopes[:p] - slopes[p:]) / (2 * steps[:, None])).T


def unit_scores(model: Model, data: Data, theta: Array) -> Array:
    """Each unit's score (units, p), without its weight."""
    moved = theta + 1j * TINY * np.eye(len(theta))
    return (unit_likelihoods(model, data, moved).imag / TINY).T


def covariance(model: Model, data: Data, theta: Array, robust: bool = False) -> Array:
    """The inverse information, or the sandwich; with a ridge, around the penalised estimate's own expectation.

    With a ridge the score's mean is the pull: it is taken off the units' scores, and from the information what it adds
    between coefficients and sigma, twice the pull, which is minus the pull's own derivative.
    """
    slope = information(model, data, theta)
    bread = np.linalg.inv(slope)
    pull = gradients(model, data, theta[None], ridge=False)[0] * bool(model.alpha)
    if robust:
        scores = unit_scores(model, data, theta)
        middle = scores.T @ (scores * data.units[:, None]) - np.outer(pull, pull) / data.units.sum()
    elif model.alpha:
        middle = information(model, data, theta, ridge=False)
        coefficients, sigmas, _, _ = model.counts
        between = np.s_[:coefficients, coefficients : coefficients + sigmas]
        moving = np.zeros_like(middle)
        moving[between] = (slope - middle)[between]
        middle = middle + moving + moving.T
    else:
        return bread
    return bread @ middle @ bread.T


def gain_left(model: Model, data: Data, theta: Array) -> tuple[float, float]:
    """What Newton's step promises at theta, and the least eigenvalue of the information per unit, in ``scales``."""
    score, curvature = gradients(model, data, theta[None])[0], information(model, data, theta)
    per_unit = curvature * np.multiply.outer(*[scales(model, data, theta)] * 2) / data.units.sum()
    least = float(np.linalg.eigvals(per_unit).real.min())  # a ridge's equations have no symmetric derivative
    return 0.5 * abs(float(score @ np.linalg.solve(curvature, score))), least


def moved(data: Data, order: Array) -> Data:
    """The rows in another order."""
    return replace(
        data,
        X=data.X[order],
        y=data.y[order],
        weight=None if data.weight is None else data.weight[order],
        groups=None if data.groups is None else data.groups[order],
    )
