"""The ridge's part of the objective.

Each component's coefficients are those of scikit-learn's ``Ridge(alpha)``, weighted by responsibility: they maximise
the log-likelihood less alpha |b_j|^2 / (2 sigma_j^2). In that penalty sigma_j (and the weight by which a component
counts for shared columns) is a reference, as it stands before the step: coefficients alone are penalised, and sigma^2
stays the mean square of the residuals. Along a path the objective is therefore the log-likelihood less the sum of
the steps' penalties, each at its own reference.
"""

from __future__ import annotations

import numpy as np

from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame

Reference = tuple[Array | None, Array | float]
"""The weights of the components (None where there is one vector of coefficients) and their variances."""


def penalty(frame: Frame | ScaledFrame, B: Array, reference: Reference) -> float:
    """Half of alpha |b_j|^2 / sigma_j^2, over all components; coefficients that they share count once."""
    if not frame.is_penalised:
        return 0.0
    weights, s2 = reference
    return 0.5 * frame.weight * float(np.sum((B * frame.shrink(B, weights)).sum(axis=0) / s2))


class PenalisedPair:
    """What every point of beta and -beta has: its place, and the objective there."""

    frame: Frame | ScaledFrame
    b: Array
    s2: float
    log_likelihood: float
    shift: float

    @property
    def place(self) -> Array:
        return self.b

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.b, (None, self.s2)) + self.shift


def change_of_reference(frame: Frame | ScaledFrame, B: Array, before: Reference, after: Reference) -> float:
    """What the penalty changes by when its reference does and the coefficients stay."""
    return penalty(frame, B, after) - penalty(frame, B, before)


def residual_variance(frame: Frame | ScaledFrame, fit: Array) -> float:
    """The variance of y around the single ridge regression ``fit``."""
    return max((frame.yy - float(frame.xy @ fit) - float(fit @ frame.shrink(fit))) / frame.spread, frame.floor)
