"""Many candidate mixtures at once, on features projected to a small subspace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr import kernels
from wmlr.kernels import Array
from wmlr.round import Rows, Sums


@dataclass(frozen=True)
class CandidateScores:
    """EM sums of s candidates: coef (s, k, q) on z = transform'x, weights (s, k), s2 (s,).

    ``grams`` holds each weighted Gram's upper triangle, so that all of them are one matrix product. With
    ``dof`` the noise is Student's: gross residuals count for less.
    """

    transform: Array
    coef: Array
    weights: Array
    s2: Array
    dof: float | None = None

    def answer(self, rows: Rows) -> Sums:
        s, k, q = self.coef.shape
        Z = kernels.forward(rows.X, self.transform)
        y, n = rows.y, len(rows)
        squares = (y[:, None] - Z @ self.coef.reshape(s * k, q).T).reshape(n, s, k)
        np.square(squares, out=squares)
        squares *= (1.0 / self.s2)[:, None]
        densities = -0.5 * squares if self.dof is None else -0.5 * (self.dof + 1) * np.log1p(squares / self.dof)
        joint = kernels.unit_sums(densities, rows.weight, rows.starts)
        joint += np.log(self.weights)
        count = kernels.unit_counts(n, rows.weight, rows.starts)
        top = joint.max(axis=2, keepdims=True)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=2, keepdims=True)
        joint /= total
        w = np.ones(n) if rows.weight is None else rows.weight
        spread = kernels.to_rows(joint, rows.weight, rows.starts, n)
        mass = spread.sum(axis=0)
        if self.dof is not None:
            spread = spread * ((self.dof + 1) / (self.dof + squares))
        R = spread.reshape(n, s * k)
        upper = np.triu_indices(q)
        return {
            "grams": (R.T @ (Z[:, upper[0]] * Z[:, upper[1]])).reshape(s, k, -1),
            "moments": (R.T @ (Z * y[:, None])).reshape(s, k, q),
            "squares": (R.T @ (y * y)).reshape(s, k),
            "mass": mass,
            "grip": R.sum(axis=0).reshape(s, k),
            "units": np.tensordot(count, joint, axes=1),
            "log_likelihood": count @ (top + np.log(total))[:, :, 0] - 0.5 * float(w.sum()) * np.log(self.s2),
        }
