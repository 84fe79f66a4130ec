"""What the information criteria are made of: likelihood, counts, and how sure the assignments are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import NOTHING_BESIDE, Array, Beside, Integers


@dataclass(frozen=True)
class Evaluation:
    """A mixture held against rows.

    Attributes
    ----------
    log_likelihood : in total.
    units : rows by their weight, or groups where there are groups; rows : rows by their weight, in any case.
    entropy : of the units' components, in total.
    doubt : minus the log of the responsibility of each unit's likeliest component, in total.
    """

    log_likelihood: float
    units: float
    rows: float
    entropy: float
    doubt: float

    def count(self, count: str) -> float:
        """The number of "units" or of "rows"."""
        if count not in ("units", "rows"):
            raise ValueError(f"count must be 'units' or 'rows' (got {count!r})")
        return self.units if count == "units" else self.rows


def evaluate(
    mixture: Mixture,
    X: Any,
    y: Array,
    groups: Integers | None,
    weight: Array | None,
    beside: Beside = NOTHING_BESIDE,
) -> Evaluation:
    """Hold a mixture against rows, whose groups are codes 0 ... G-1."""
    lines = mixture.joint(X, y, groups, weight, beside)
    counts = np.ones(len(lines)) if weight is None else weight
    if groups is not None and weight is not None:
        counts = (np.bincount(groups, weight) > 0).astype(np.float64)
    values = logsumexp(lines, axis=1)
    lost = np.isneginf(values)
    shares = np.exp(lines - np.where(lost, 0.0, values)[:, None])
    entropy = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1)
    return Evaluation(
        log_likelihood=float(values @ counts),
        units=float(counts.sum()),
        rows=float(len(y) if weight is None else weight.sum()),
        entropy=float(entropy @ counts),
        doubt=float((np.where(lost, 0.0, values) - np.where(lost, 0.0, lines.max(axis=1))) @ counts),
    )
