"""A mixture of regressions once more, in plain NumPy: parameters as one vector, likelihood, derivatives.

Nothing here comes from the library. Derivatives are numerical: by complex steps, which lose no digits, and by
central differences of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from audit.families import NOISES, WITHOUT_SCALE, log_densities

Array = Any
TINY = 1e-30
NEVER = -1e200  # the log-density of a row in a component that it is known not to be of
STEP = 1e-5  # of a parameter's scale; complex steps leave digits enough for it


@dataclass(frozen=True)
class Model:
    """Which parameters are free: coefficients (intercept last) of each component in turn, those of ``shared`` columns
    with the first only, without those ``held`` at a value by component and column; log sigma, one or k; logits of the
    first k-1 weights against the last, each a linear function of the ``gate`` columns (the constant last), or none if
    the ``weights`` are known; where rows may be outliers, uniform over a ``span`` of y, the logit of their share unless
    that ``share`` is known."""

    k: int
    d: int
    intercept: bool = True
    symmetric: bool = False
    equal_weights: bool = False
    shared_sigma: bool = True
    sigma: float | None = None
    shared: tuple[int, ...] = ()
    held: Mapping[tuple[int, int], float] = field(default_factory=dict)
    family: str = "normal"
    dof: float | None = None
    alpha: float = 0.0
    span: float | None = None
    share: float | None = None
    gate: tuple[int, ...] = ()
    weights: tuple[float, ...] | None = None

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
        known = self.sigma is not None or self.family in WITHOUT_SCALE
        sigmas = 0 if known else 1 if self.shared_sigma or self.symmetric else self.k
        fixed = self.equal_weights or self.symmetric or self.weights is not None
        logits = 0 if fixed else (self.k - 1) * (len(self.gate) + 1)
        return coefficients, sigmas, logits, int(self.span is not None and self.share is None)

    def pack(self, coef: Array, intercept: Array, logits: Array, sigma: Array, share: float = 0.5) -> Array:
        """One vector, from logits (k, g + 1) among others: of weights alone, their logarithms (k, 1)."""
        lines = np.column_stack([coef, intercept]) if self.intercept else coef
        free = [lines[j, column] for j, column in self.places]
        _, sigmas, size, outliers = self.counts
        odds = np.log(np.full(outliers, share / (1 - share)))
        return np.concatenate([free, np.log(sigma)[:sigmas], (logits[:-1] - logits[-1]).ravel()[:size], odds])

    def unpack(self, thetas: Array) -> tuple[Array, Array, Array]:
        """Lines (B, k, width), sigmas (B, k) and the logits' coefficients (B, k, g + 1) from B vectors."""
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
        slopes = np.zeros((B, self.k, len(self.gate) + 1), dtype=thetas.dtype)
        if logits:
            free = thetas[:, coefficients + sigmas : coefficients + sigmas + logits]
            slopes[:, :-1] = free.reshape(B, self.k - 1, -1)
        elif self.weights is not None:
            slopes[:, :, 0] = np.log(self.weights)
        return lines, sigma, slopes

    def log_weights(self, data: Data, slopes: Array) -> Array:
        """(B, units, k), or (B, 1, k) where they are the same for all."""
        if self.gate:
            columns = data.unit_means(data.X[:, list(self.gate)])
            logits = np.einsum("ug,bkg->buk", np.column_stack([columns, np.ones(len(columns))]), slopes)
        else:
            logits = slopes[:, :, 0][:, None]
        logits = logits - logits.real.max(axis=2, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))

    def mean_weights(self, data: Data, slopes: Array) -> Array:
        """(B, k): over the units."""
        weights = np.exp(self.log_weights(data, slopes))
        return np.einsum("buk,u->bk", weights, data.units) / data.units.sum() if self.gate else weights[:, 0]


@dataclass(frozen=True)
class Data:
    """Rows, their weights, codes of the groups that share a component, and what else is known of each row."""

    X: Array
    y: Array
    weight: Array | None = None
    groups: Array | None = None
    offset: Array | None = None
    trials: Array | None = None
    labels: Array | None = None

    @property
    def roles(self) -> dict[str, Array]:
        """What is known of each row besides its weight and group."""
        given = {"offset": self.offset, "trials": self.trials, "labels": self.labels}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def weights(self) -> Array:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def units(self) -> Array:
        """How often each row, or group, counts."""
        if self.groups is None:
            return self.weights
        return (np.bincount(self.groups, self.weights) > 0).astype(float)

    def unit_means(self, columns: Array) -> Array:
        """Of each row itself, or of the rows of a group by their weights."""
        if self.groups is None:
            return columns
        amount = np.bincount(self.groups, self.weights)
        sums = [np.bincount(self.groups, self.weights * column) for column in columns.T]
        return np.stack(sums, axis=1) / np.where(amount > 0, amount, 1.0)[:, None]


def joint(model: Model, data: Data, thetas: Array) -> Array:
    """log weight + log density of each unit under each component: (B, units, k)."""
    lines, sigma, slopes = model.unpack(thetas)
    trials = np.ones(1) if data.trials is None else data.trials[:, None]
    eta = predictors(model, data, lines)
    densities = log_densities(model.family, model.dof, data.y[:, None], eta, sigma[:, None], trials)
    if model.span is not None:
        known = model.share is not None
        odds = model.share / (1 - model.share) if known else np.exp(thetas[:, -1])[:, None, None]
        top = np.maximum(densities.real, 0.0)
        both = np.exp(densities - top) + odds / model.span * np.exp(-top)
        densities = top + np.log(both) - np.log(1 + odds)
    if data.labels is not None:
        other = (data.labels[:, None] >= 0) & (data.labels[:, None] != np.arange(model.k))
        densities = np.where(other, NEVER, densities)
    if data.groups is not None:
        densities = densities * data.weights[:, None]
        member = np.arange(data.groups.max() + 1)[:, None] == data.groups
        densities = np.einsum("gn,bnk->bgk", member.astype(float), densities)
    return densities + model.log_weights(data, slopes)


def predictors(model: Model, data: Data, lines: Array) -> Array:
    """(B, n, k) from lines (B, k, width)."""
    design = np.column_stack([data.X, np.ones(len(data.y))]) if model.intercept else data.X
    eta = np.einsum("nw,bkw->bnk", design, lines)
    return eta if data.offset is None else eta + data.offset[:, None]


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


def row_weights(model: Model, rows: Data, theta: Array) -> Array:
    """The weights of the components at each row, before y is seen: (n, k)."""
    weights = np.exp(model.log_weights(rows, model.unpack(theta[None])[2]))[0]
    return np.broadcast_to(weights, (len(rows.y), model.k))


def penalties(model: Model, data: Data, thetas: Array, at: Array) -> Array:
    """Half of alpha b^2 / sigma^2 over all slopes, sigma (and the weights, for shared columns) held as they are ``at``.

    A slope that components share counts once, by the mean of 1 / sigma^2 over their weights.
    """
    lines, _, _ = model.unpack(thetas)
    _, sigma, logits = model.unpack(at)
    weights = model.mean_weights(data, logits)
    slopes = [column for column in range(model.d) if column not in model.shared]
    rate = 1 / sigma**2
    if model.symmetric:
        return 0.5 * model.alpha * (lines[:, 0] ** 2).sum(axis=1) * rate[:, 0]
    own = (lines[:, :, slopes] ** 2).sum(axis=2)
    common = (lines[:, :, list(model.shared)] ** 2).sum(axis=2)
    return 0.5 * model.alpha * (own * rate + common * weights * rate).sum(axis=1)


def gradients(model: Model, data: Data, thetas: Array, ridge: bool = True) -> Array:
    """The score at each theta (B, p): of the likelihood, less the ridge's pull."""
    B, p = thetas.shape
    moved = (thetas[:, None] + 1j * TINY * np.eye(p)).reshape(B * p, p)
    values = log_likelihoods(model, data, moved)
    if ridge and model.alpha:
        values = values - penalties(model, data, moved, np.repeat(thetas, p, axis=0))
    return (values.imag / TINY).reshape(B, p)


def scales(model: Model, data: Data, theta: Array) -> Array:
    """What changes residuals by about a standard deviation, or a sigma or an odds by a factor of e."""
    sizes = np.append(np.sqrt(np.mean(data.X**2, axis=0)), 1.0)
    columns = [column for _, column in model.places]
    least = model.unpack(theta[None])[1].min()
    least = least if model.family in NOISES else min(least, 1.0)
    _, sigmas, logits, outliers = model.counts
    gate = np.tile(1 / sizes[[*model.gate, -1]], model.k)[:logits]
    return np.concatenate([least / sizes[columns], np.ones(sigmas), gate, np.ones(outliers)])


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
    given = {field.name: getattr(data, field.name) for field in fields(data)}
    return Data(**{name: None if values is None else values[order] for name, values in given.items()})
