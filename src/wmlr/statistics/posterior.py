"""Posterior probabilities of the components, and what goes with them."""

from __future__ import annotations

from typing import NamedTuple

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
