"""Posterior probabilities of the components, and what goes with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wmlr.core.query import Parts
from wmlr.core.round import Rows
from wmlr.model.known import with_known_components
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums


class Responsibilities(NamedTuple):
    """Posterior probabilities of the components.

    ``rows`` are w r per row (n, k), ``units`` the expected number of units per component, ``shares`` the posterior of
    each unit, ``log_weights`` the prior of all of them (k,), or of each; ``sums`` what the gate's step needs.
    """

    rows: Array
    units: Array
    log_likelihood: float
    shares: Array
    log_weights: Array
    sums: Sums


class Mixing(ABC):
    """The mixing weights of the units, as queries carry them; ``size`` numbers of each logit are parameters."""

    @property
    def size(self) -> int:
        return 1

    @abstractmethod
    def check(self, k: int) -> None:
        """Raise where these are no weights of k components."""

    def posterior(self, rows: Rows, densities: Array) -> Responsibilities:
        """From log-densities (n, k); a row that is known to be of a component is of no other."""
        return self.responsibilities(rows, with_known_components(densities, rows.beside))

    @abstractmethod
    def responsibilities(self, rows: Rows, densities: Array) -> Responsibilities:
        """The same where no row's component is known."""

    @abstractmethod
    def logit_scores(self, rows: Rows, residual: Array) -> Array:
        """(units, (k - 1) size): scores in the logits' parameters, from those in the logits, of each unit or of all."""

    @abstractmethod
    def information(self, found: Responsibilities) -> Array | float:
        """Of the logits' parameters, were the components known."""

    def parts(self) -> Parts:
        """What the sums that its step needs are."""
        return {}

    def shares(self, rows: Rows, found: Responsibilities) -> Array:
        """How much each row counts in those sums: (n, c)."""
        return np.zeros((len(rows), 0))


@dataclass(frozen=True)
class ConstantMixing(Mixing):
    """The same weights for all units: ``log_weights`` (k,)."""

    log_weights: Array

    def check(self, k: int) -> None:
        if self.log_weights.shape != (k,):
            raise ValueError(f"weights of shape {self.log_weights.shape} are none of {k} components")

    def responsibilities(self, rows: Rows, densities: Array) -> Responsibilities:
        found = kernels.responsibilities(densities, self.log_weights, rows.weight, rows.starts)
        return Responsibilities(*found, self.log_weights, {})

    def logit_scores(self, rows: Rows, residual: Array) -> Array:
        count = len(rows) if rows.starts is None else len(rows.starts)
        return np.broadcast_to(residual, (count, residual.shape[-1]))

    def information(self, found: Responsibilities) -> Array | float:
        inner = np.exp(self.log_weights[:-1])
        return np.asarray(float(found.units.sum()) * (np.diag(inner) - np.outer(inner, inner)))
