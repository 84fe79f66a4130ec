"""How well components can be told apart: entropy, the table of classification, and Kullback-Leibler distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from wmlr.families import Family
from wmlr.families.point_mass import NEVER
from wmlr.io.text_table import ShownAsTable
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import NOTHING_BESIDE, Array, Beside

REACH, STEPS = 8.2, 411  # of the grid, in normal quantiles, over which an expectation is taken
TAIL, MOST_COUNTS = 1e-13, 5_000
MOST_ROWS = 1_000  # over which distances are averaged: as many more would change no digit that is shown


@dataclass(frozen=True, eq=False, repr=False)
class Classification(ShownAsTable):
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
        note = f"relative entropy {self.relative_entropy:.4f}, expected error of assignment {self.error:.4f}"
        return header, rows, note


def component_distances(mixture: Mixture, X: Any, beside: Beside = NOTHING_BESIDE) -> Array:
    """(k, k): the Kullback-Leibler distance of component j from component i, E_i[log f_i(y) - log f_j(y)], over rows.

    An expectation over counts is a sum of them, up to a probability of ``TAIL``; else, and where counts are more than
    ``MOST_COUNTS``, it is taken over the quantiles at ``STEPS`` normal ones. It is infinite where component i has
    values that component j never has, as a point mass has none but one.
    """
    n = X.shape[0]
    some = np.linspace(0, n - 1, MOST_ROWS).astype(np.int64) if n > MOST_ROWS else np.arange(n)
    predictors = mixture.predictors(X, beside)[some]
    rows = {role: values[some] for role, values in beside.items()}
    laws = [mixture.family.of_component(j).of_rows(rows) for j in range(mixture.n_components)]
    found = np.zeros((len(laws), len(laws)))
    for i, law in enumerate(laws):
        y, shares = _values_of(law, predictors[:, i, None], mixture.sigma[i])
        own = law.log_likelihood(y, predictors[:, i, None], mixture.sigma[i])
        for j, other in enumerate(laws):
            if i != j:
                theirs = other.log_likelihood(y, predictors[:, j, None], mixture.sigma[j])
                with np.errstate(invalid="ignore"):
                    gaps = np.where(shares > 0, shares * (own - np.where(theirs <= NEVER, -np.inf, theirs)), 0.0)
                found[i, j] = float(gaps.sum(axis=1).mean())
    return found


def _values_of(family: Family, predictor: Array, sigma: float) -> tuple[Array, Array]:
    """Values of y (n, m) at predictors (n, 1), and the probability of each under the family."""
    scale = np.full(1, sigma)
    if family.discrete:
        least, most = (family.quantiles(np.full(1, level), predictor, scale) for level in (TAIL, 1.0 - TAIL))
        count = int(most.max() - least.min()) + 1
        if count <= MOST_COUNTS:
            y = np.broadcast_to(least.min() + np.arange(float(count)), (len(predictor), count))
            chance = np.exp(family.log_likelihood(y, predictor, scale))
            return y, np.asarray(chance / chance.sum(axis=1, keepdims=True))
    nodes = np.linspace(-REACH, REACH, STEPS)
    shares = np.exp(-0.5 * nodes**2)
    y = family.quantiles(ndtr(nodes), predictor, scale)
    return y, np.broadcast_to(shares / shares.sum(), y.shape)
