"""Student's density: heavier tails than the normal, so that no residual pulls without bound."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from wmlr.numerics.arrays import Array

DOF = 4.0


def student_log_density(E: Array, s2: Array, dof: float) -> Array:
    """Log-density of residuals ``E`` under Student's law with squared scale ``s2``."""
    constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log(np.pi * dof * s2)
    with np.errstate(over="ignore", divide="ignore"):
        ratios = np.log1p(E * E / (dof * s2))
        if np.isinf(ratios).any():
            ratios = np.where(np.isinf(ratios), 2 * np.log(np.abs(E)) - np.log(dof * s2), ratios)
    return np.asarray(constant - 0.5 * (dof + 1) * ratios)


def student_weights(E: Array, s2: Array, dof: float) -> Array:
    """How much each residual counts: falling as the square of its size once it is gross."""
    return np.asarray((dof + 1) / (dof + E * E / s2))
