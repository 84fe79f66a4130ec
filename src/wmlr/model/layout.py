"""Where the parameters of a mixture stand in one vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.numerics.arrays import Array


@dataclass(frozen=True)
class Layout:
    """(b_1 ... b_k, log sigma_1 ... log sigma_k, logits of the first k-1 weights against the last, the family's own).

    Each b_j has p coefficients, the intercept's last where there is one, and each logit is a linear function with
    ``gate`` coefficients, the constant's last: one where it is the same for all rows. The family's ``own`` are none,
    or one.
    """

    p: int
    k: int
    own: int = 0
    gate: int = 1

    @property
    def size(self) -> int:
        return self.k * self.p + self.k + (self.k - 1) * self.gate + self.own

    def coefficients(self, j: int) -> slice:
        """Those of one component."""
        return slice(j * self.p, (j + 1) * self.p)

    def log_sigma(self, j: int) -> int:
        """That of one component."""
        return self.k * self.p + j

    @property
    def log_sigmas(self) -> slice:
        return slice(self.k * self.p, self.k * self.p + self.k)

    @property
    def logits(self) -> slice:
        return slice(self.k * self.p + self.k, self.size - self.own)

    @property
    def family(self) -> slice:
        return slice(self.size - self.own, self.size)

    def join(self, coefficients: Array, log_sigmas: Array, logits: Array, own: Array) -> Array:
        """A vector from its parts; the coefficients (p, k)."""
        return np.concatenate([coefficients.T.ravel(), log_sigmas, logits, own])

    def part(self, vector: Array) -> tuple[Array, Array, Array, Array]:
        """Coefficients (p, k), log sigmas, logits and the family's own of a vector."""
        coefficients = vector[: self.k * self.p].reshape(self.k, self.p).T
        return coefficients, vector[self.log_sigmas], vector[self.logits], vector[self.family]

    def change_of_basis(self, basis: Array, gate: Array | None = None) -> Array:
        """The matrix from parameters with coefficients b to those with ``basis @ b``; the gate's likewise."""
        logits = np.eye(self.gate) if gate is None else gate
        return diagonal_blocks(*[basis] * self.k, np.eye(self.k), *[logits] * (self.k - 1), np.eye(self.own))


def logits_of(weights: Array) -> Array:
    """The logits of all but the last weight against the last."""
    logs = np.log(np.maximum(weights, 1e-300))
    return np.asarray(logs[:-1] - logs[-1])


def diagonal_blocks(*blocks: Array) -> Array:
    """The matrix with these blocks on its diagonal: scipy's ``block_diag`` without its checks, which cost more."""
    sizes = np.cumsum([(0, 0), *(block.shape for block in blocks)], axis=0)
    matrix = np.zeros(sizes[-1])
    for block, (row, column) in zip(blocks, sizes):
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
    return matrix
