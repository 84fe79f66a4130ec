"""Mixtures of curves to try non-linear models on, with the truth they were drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI


@dataclass(frozen=True)
class Curves:
    """Rows, and the curves they follow.

    Attributes
    ----------
    X, y : the rows.
    labels : the curve of each row.
    groups : agents, whose rows follow one curve; None where each row has its own.
    means : from X to the k curves there, (n, k).
    weights, sigma : how often each curve comes, and the noise around it.
    """

    X: Array
    y: Array
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    means: Callable[[Array], Array]
    weights: Array
    sigma: float

    def log_likelihood(self) -> float:
        """The truth's mean log-likelihood per row."""
        gaps = (self.y[:, None] - self.means(self.X)) / self.sigma
        densities = -0.5 * (gaps**2 + LOG_2PI) - np.log(self.sigma)
        if self.groups is not None:
            densities = np.stack([np.bincount(self.groups, column) for column in densities.T], axis=1)
        return float(logsumexp(densities + np.log(self.weights), axis=1).sum() / len(self.y))


def _sines(X: Array) -> Array:
    x = X[:, 0]
    return np.stack([np.sin(2 * x) + 0.2 * x, -np.sin(2 * x) + 0.2 * x], axis=1)


def _surfaces(X: Array) -> Array:
    a, b = X[:, 0], X[:, 1]
    return np.stack([2 * np.sin(1.5 * a) * np.cos(b), 0.5 * (a**2 + b**2) - 2, 1 - a * b], axis=1)


def _responses(X: Array) -> Array:
    x = X[:, 0]
    return np.stack([2 / (1 + np.exp(-3 * x)) - 1, x * np.exp(1 - np.abs(x)), -0.5 * np.sin(2.5 * x)], axis=1)


SHAPES: dict[str, tuple[Callable[[Array], Array], int, float, tuple[float, ...], float]] = {
    "sines": (_sines, 1, 3.0, (0.6, 0.4), 0.2),
    "surfaces": (_surfaces, 2, 2.0, (0.4, 0.35, 0.25), 0.25),
    "responses": (_responses, 1, 3.0, (0.5, 0.3, 0.2), 0.3),
}


def make_curves(shape: str, n_samples: int, *, groups: int | None = None, random_state: Any = None) -> Curves:
    """Draw rows from a mixture of curves.

    Parameters
    ----------
    shape : "sines", two intertwined branches over a line; "surfaces", three over a plane; "responses", three
        response curves.
    n_samples : the number of rows.
    groups : rows per agent, when an agent's rows follow one curve.
    random_state : an int, or a generator.

    Examples
    --------
    >>> from wmlr.curves import make_curves
    >>> rows = make_curves("surfaces", 100, random_state=0)
    >>> rows.X.shape, rows.means(rows.X).shape
    ((100, 2), (100, 3))
    """
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(map(repr, SHAPES))} (got {shape!r})")
    means, d, reach, weights, sigma = SHAPES[shape]
    generator = np.random.default_rng(random_state)
    X = generator.uniform(-reach, reach, (n_samples, d))
    agents = None if groups is None else np.arange(n_samples) // groups
    labels = generator.choice(len(weights), n_samples if agents is None else int(agents[-1]) + 1, p=weights)
    labels = (labels if agents is None else labels[agents]).astype(np.int64)
    y = means(X)[np.arange(n_samples), labels] + sigma * generator.standard_normal(n_samples)
    return Curves(X, y, labels, agents, means, np.array(weights), sigma)
