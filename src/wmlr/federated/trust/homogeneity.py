"""Whether an agent's rows can come from the same regressions as the others'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from wmlr.federated.trust.contributions import Contributions, symmetric, whitening
from wmlr.numerics.arrays import Array, Integers

LEVEL = 1e-5
"""How likely one honest agent of a homogeneous federation is to fail the test, where its rows are many."""

CAUTION = 1.5
"""The limit is so many times chi-square's: with few rows for each parameter the statistic's tail is longer."""

LARGEST_SHARE = 0.99


@dataclass(frozen=True)
class Homogeneity:
    """Each agent against the others.

    The statistic is the score test of whether the agent's coefficients and sigmas, given its own shares of the
    components, are those of the reference agents: chi-square with ``dof`` degrees of freedom where they are, whatever
    the agent's features are. An agent's information is averaged with what its rows' share of all would be, so that
    neither a few rows nor what a liar says of its own information hide anything. Agents that honestly differ a little
    more than chance allows make ``spread`` larger than 1.

    Attributes
    ----------
    statistic : (M,).
    dof : its degrees of freedom.
    spread : the median agent's statistic over that of chi-square, and at least 1.
    """

    statistic: Array
    dof: int
    spread: float

    @classmethod
    def of(cls, found: Contributions, reference: Integers) -> Homogeneity:
        """Of all agents, where the mixture is the fit of the agents at the places ``reference``."""
        scores, information = found.of_lines(reference)
        white = whitening(information[reference].sum(axis=0))
        own = white.T @ symmetric(information) @ white
        part = np.minimum(found.rows / found.rows[reference].sum(), 1.0)[:, None, None]
        shares, turn = np.linalg.eigh((_positive(own) + part * np.eye(white.shape[1])) / 2)
        along = np.einsum("mij,mi->mj", turn, scores @ white) ** 2
        inside = np.zeros(len(found.rows), dtype=bool)
        inside[reference] = len(reference) > 1
        within = np.where(inside[:, None], np.minimum(shares, LARGEST_SHARE), 0.5)
        terms = np.where(inside[:, None], along / within / (1.0 - within), along / shares / (1.0 + shares))
        statistic, dof = terms.sum(axis=1), white.shape[1]
        spread = float(np.median(statistic) / chdtri(dof, 0.5)) if dof else 1.0
        return cls(statistic, dof, max(1.0, spread))

    @property
    def outliers(self) -> NDArray[np.bool_]:
        """Who differs from the others by more than chance and what is usual among them explain."""
        if not self.dof:
            return np.zeros(len(self.statistic), dtype=bool)
        return np.asarray(~(self.excess <= 1.0))

    @property
    def excess(self) -> Array:
        """The statistic over its limit: above 1 for an outlier."""
        limit = CAUTION * float(chdtri(max(self.dof, 1), LEVEL / len(self.statistic)))
        return np.asarray(self.statistic / (limit * self.spread))


def _positive(matrices: Array) -> Array:
    """Symmetric matrices without their negative directions."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
