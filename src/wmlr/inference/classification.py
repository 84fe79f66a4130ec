"""How well components can be told apart: entropy, the table of classification, and Kullback-Leibler distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from wmlr.io.text_table import html_table, text_table
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

REACH, STEPS = 8.2, 411  # of the grid, in normal quantiles, over which an expectation is taken
MOST_ROWS = 1_000  # over which distances are averaged: as many more would change no digit that is shown


@dataclass(frozen=True, eq=False)
class Classification:
    """What assigning each unit (a row, or a group) to its likeliest component would do.

    Attributes
    ----------
    sizes : (k,) the units that are assigned to each component, by their weight.
    probabilities : (k, k) of the units assigned to component i, the mean probability of component j; NaN where none
        are.
    entropy : the mean entropy of the posterior probabilities, in nats.
    """

    sizes: Array
    probabilities: Array
    entropy: float

    @classmethod
    def of(cls, shares: Array, weight: Array | None = None) -> Classification:
        """From posterior probabilities (n, k)."""
        count = np.ones(len(shares)) if weight is None else weight
        k = shares.shape[1]
        chosen = np.eye(k)[shares.argmax(axis=1)] * count[:, None]
        sizes = chosen.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            probabilities = chosen.T @ shares / sizes[:, None]
        each = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1)
        return cls(sizes, probabilities, float(count @ each / count.sum()))

    @property
    def relative_entropy(self) -> float:
        """1 less the entropy in units of the largest there can be: 1 where every unit's component is certain."""
        k = len(self.sizes)
        return 1.0 if k == 1 else 1.0 - self.entropy / float(np.log(k))

    @property
    def error(self) -> float:
        """The expected share of units whose likeliest component is not theirs."""
        right = np.where(self.sizes > 0, np.diag(self.probabilities), 0.0)
        return float(1.0 - self.sizes @ right / self.sizes.sum())

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        k = len(self.sizes)
        header = ["assigned to", "units", *(f"P({j + 1})" for j in range(k))]
        rows = [
            [f"component {i + 1}", f"{self.sizes[i]:.6g}", *(f"{value:.4f}" for value in self.probabilities[i])]
            for i in range(k)
        ]
        said = f"relative entropy {self.relative_entropy:.4f}, expected error of assignment {self.error:.4f}"
        return header, rows, said

    def __str__(self) -> str:
        return text_table(*self._cells())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self._cells())


def component_distances(mixture: Mixture, X: Any) -> Array:
    """(k, k): the Kullback-Leibler distance of component j from component i, E_i[log f_i(y) - log f_j(y)], over rows.

    An expectation under component i is taken over its quantiles at ``STEPS`` normal ones.
    """
    n = X.shape[0]
    some = X[np.linspace(0, n - 1, MOST_ROWS).astype(np.int64)] if n > MOST_ROWS else X
    predictors, family, k = mixture.predictors(some), mixture.family, mixture.n_components
    nodes = np.linspace(-REACH, REACH, STEPS)
    shares = np.exp(-0.5 * nodes**2)
    shares /= shares.sum()
    found = np.zeros((k, k))
    for i in range(k):
        y = family.quantiles(ndtr(nodes), predictors[:, i, None], mixture.sigma[i])
        own = family.log_likelihood(y, predictors[:, i, None], mixture.sigma[i])
        for j in range(k):
            if i != j:
                other = family.log_likelihood(y, predictors[:, j, None], mixture.sigma[j])
                found[i, j] = float(((own - other) @ shares).mean())
    return found
