"""Linear systems and eigenvectors of matrices too large to hold: only their products with vectors are asked for.

Each product is a round over the rows, so several vectors go at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from wmlr.core.round import Steps
from wmlr.numerics.arrays import Array

SOLVE_ROUNDS = 300  # of conjugate gradients at the most
FLAT = 1e-14  # curvature along a direction, over its diagonal: rounding alone
BLOCK = 6

Product = Callable[[Array], Steps[Array]]
Pencil = Callable[[Array], Steps[tuple[Array, Array]]]


def solve(product: Product, right: Array, diagonal: Array, tol: float) -> Steps[tuple[Array, Array]]:
    """Solve A_i x_i = b_i for the columns b_i (r, k) by conjugate gradients, all columns in the same rounds.

    Begun at nil, they find the shortest solution (in the norm of ``diagonal``) where there are many.

    Parameters
    ----------
    product : asks for A_i v_i for the columns of V.
    right : the columns b_i.
    diagonal : (r, k), about the diagonals of the A_i.
    tol : the residual, in the norm of the inverse diagonal, to end at; relative to b_i.

    Returns
    -------
    X, AX : the solutions, and their products with the matrices.
    """
    X, rest = np.zeros_like(right), right.copy()
    Z = rest / diagonal
    V = Z
    size = np.einsum("ri,ri->i", rest, Z)
    enough = tol**2 * size
    open_ = size > 0.0
    for _ in range(SOLVE_ROUNDS):
        if not open_.any():
            break
        AV = yield from product(V * open_)
        bend = np.einsum("ri,ri->i", V, AV)
        open_ &= bend > FLAT * np.einsum("ri,ri,ri->i", V, diagonal, V)
        step = np.where(open_, size / np.where(open_, bend, 1.0), 0.0)
        X = X + step * V
        rest = rest - step * AV
        Z = rest / diagonal
        before, size = size, np.where(open_, np.einsum("ri,ri->i", rest, Z), size)
        V = Z + np.where(open_, size / np.where(before > 0, before, 1.0), 0.0) * V
        open_ &= size > enough
    return X, right - rest


def leading_eigenpairs(
    pencil: Pencil, start: Array, wanted: int, tol: float, rounds: int
) -> Steps[tuple[Array, Array]]:
    """The leading eigenpairs of M v = theta B v: the largest theta, and v with v'Bv = 1 as columns.

    Block Davidson: the search space grows by the residuals of its best vectors, as many as ``start`` has
    columns, until they are below ``tol`` of theta Bv, or for so many rounds.

    Parameters
    ----------
    pencil : asks for M V and B V, B positive.
    """
    r = len(start)
    Q, MQ, BQ = np.empty((r, 0)), np.empty((r, 0)), np.empty((r, 0))
    theta, V = np.zeros(0), np.empty((r, 0))
    block = start
    for _ in range(rounds):
        block = _fresh(block, Q)
        if not block.shape[1]:
            break
        MV, BV = yield from pencil(block)
        Q, MQ, BQ = np.hstack([Q, block]), np.hstack([MQ, MV]), np.hstack([BQ, BV])
        theta, W = eigh(_even(Q.T @ MQ), _even(Q.T @ BQ))
        theta, W = theta[::-1][: start.shape[1]], W[:, ::-1][:, : start.shape[1]]
        V, BW = Q @ W, BQ @ W
        block = MQ @ W - BW * theta
        sizes = np.linalg.norm(block, axis=0)
        if np.all(sizes[:wanted] <= tol * np.abs(theta[:wanted]) * np.linalg.norm(BW[:, :wanted], axis=0)):
            break
    return theta[:wanted], V[:, :wanted]


def _fresh(block: Array, Q: Array) -> Array:
    """An orthonormal basis of what a block adds to the span of Q."""
    norms = np.linalg.norm(block, axis=0)
    block = block[:, norms > 0] / norms[norms > 0]
    for _ in range(2):
        block = block - Q @ (Q.T @ block)
    vectors, sizes, _ = np.linalg.svd(block, full_matrices=False)
    vectors = vectors[:, sizes > 1e-8]
    return np.asarray(np.linalg.qr(vectors - Q @ (Q.T @ vectors))[0])


def _even(matrix: Array) -> Array:
    return np.asarray(0.5 * (matrix + matrix.T))
