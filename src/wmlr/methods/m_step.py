"""The M-step in a frame: a ridge regression per component, some coefficients common to all or known if asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmlr.model.constraints import Constraints
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame
from wmlr.numerics.solving import least_squares

LEAST_MASS = 1e-8  # a component of less is taken to have so much: its step is defined, and goes nowhere


def steps(
    frame: Frame, grams: Sequence[Array], m: Array, B: Array, weights: Array, s2: Array, constraints: Constraints
) -> Array:
    """The columns D_i that maximise Q from B, given each component's Gram and mean r_i e_i w.

    Each D_i solves (G_i + P) D_i = m_i - P b_i with P the ridge. Shared columns tie the D_i together, each
    weighing by 1/s2_i; the ridge counts there in each component by its weight, and so once. Known coefficients stay.
    """
    right = m - frame.shrink(B, weights)
    if not constraints.restricted:
        return np.stack([_solve(G + frame.ridge, right[:, i]) for i, G in enumerate(grams)], axis=1)
    r, k = m.shape
    directions = constraints.white_embedding(frame.basis, k).reshape(k, r, -1)
    size = directions.shape[2]
    matrix, vector = np.zeros((size, size)), np.zeros(size)
    for i, (G, own) in enumerate(zip(grams, directions)):
        H = (G + frame.ridge - (1.0 - weights[i]) * frame.common) / s2[i]
        matrix += own.T @ H @ own
        vector += own.T @ right[:, i] / s2[i]
    return np.asarray((directions @ _solve(matrix, vector)).T)


def _solve(matrix: Array, vector: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, vector), dtype=np.float64)
    except np.linalg.LinAlgError:
        return least_squares(matrix, vector, 1e-12)
