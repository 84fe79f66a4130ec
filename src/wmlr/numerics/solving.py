"""Least squares that end, whatever numbers they are given."""

from __future__ import annotations

import numpy as np

from wmlr.numerics.arrays import Array


def least_squares(matrix: Array, right: Array, rcond: float | None = None) -> Array:
    """The shortest of the solutions x that bring matrix @ x nearest to ``right``.

    Parameters
    ----------
    matrix, right : (n, p), and (n,) or (n, m).
    rcond : singular values that are smaller than this times the largest count as nil; None takes those of rounding.

    Raises
    ------
    LinAlgError
        Where the matrix has entries that are no finite numbers: LAPACK would look for its singular values for ever, and
        hold the whole process.
    """
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("the equations to be solved hold numbers that are not finite")
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=rcond)[0], dtype=np.float64)
