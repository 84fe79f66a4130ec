"""The M-step in a frame: a ridge regression per component, some coefficients common to all if asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, split_directions

LEAST_MASS = 1e-8  # a component of less is taken to have so much: its step is defined, and goes nowhere


def steps(
    frame: Frame, grams: Sequence[Array], m: Array, B: Array, weights: Array, s2: Array, shared: tuple[int, ...]
) -> Array:
    """The columns D_i that maximise Q from B, given each component's Gram and mean r_i e_i w.

    Each D_i solves (G_i + P) D_i = m_i - P b_i with P the ridge. Shared columns tie the D_i together, each
    weighing by 1/s2_i; the ridge counts there in each component by its weight, and so once.
    """
    right = m - frame.shrink(B, weights)
    if not shared:
        return np.stack([_solve(G + frame.ridge, right[:, i]) for i, G in enumerate(grams)], axis=1)
    common, free = split_directions(frame.basis, shared)
    k, c, f = m.shape[1], common.shape[1], free.shape[1]
    size = c + k * f
    matrix, vector = np.zeros((size, size)), np.zeros(size)
    for i, G in enumerate(grams):
        H = (G + frame.ridge - (1.0 - weights[i]) * frame.common) / s2[i]
        own = slice(c + i * f, c + (i + 1) * f)
        matrix[:c, :c] += common.T @ H @ common
        matrix[:c, own] = common.T @ H @ free
        matrix[own, :c] = matrix[:c, own].T
        matrix[own, own] = free.T @ H @ free
        vector[:c] += common.T @ right[:, i] / s2[i]
        vector[own] = free.T @ right[:, i] / s2[i]
    found = _solve(matrix, vector)
    return np.stack([common @ found[:c] + free @ found[c + i * f : c + (i + 1) * f] for i in range(k)], axis=1)


def tie_shared(frame: Frame, B: Array, weights: Array, shared: tuple[int, ...]) -> Array:
    """B with the shared columns' coefficients replaced by their weighted mean over the components."""
    if not shared:
        return B
    common, _ = split_directions(frame.basis, shared)
    inside = common @ common.T
    return np.asarray(B - inside @ (B - (B @ weights)[:, None]))


def _solve(matrix: Array, vector: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, vector), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=1e-12)[0], dtype=np.float64)
