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
        n, y, w = len(rows), rows.y, rows.weight
        Z = kernels.forward(rows.X, self.transform)
        squares = (self.coef.transpose(1, 0, 2).reshape(k * s, q) @ Z.T).reshape(k, s, n)
        np.subtract(y, squares, out=squares)
        np.square(squares, out=squares)
        densities = squares
        if self.dof is None:
            densities *= (-0.5 / self.s2)[:, None]
        else:
            squares *= (1.0 / self.s2)[:, None]
            densities = -0.5 * (self.dof + 1) * np.log1p(squares / self.dof)
        joint = densities if rows.starts is None else kernels.unit_sums(densities.T, w, rows.starts).T.copy()
        joint += np.log(self.weights.T)[:, :, None]
        count = kernels.unit_counts(n, w, rows.starts)
        top = joint.max(axis=0)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=0)
        joint /= total
        spread = joint
        if rows.starts is not None or w is not None:
            spread = kernels.to_rows(joint.T, w, rows.starts, n).T
        mass = spread.sum(axis=2).T
        if self.dof is not None:
            spread = spread * ((self.dof + 1) / (self.dof + squares))
        R = np.ascontiguousarray(spread.reshape(k * s, n))
        upper = np.triu_indices(q)
        products = np.column_stack([Z[:, upper[0]] * Z[:, upper[1]], Z * y[:, None], y * y, np.ones(n)])
        sums = (R @ products).reshape(k, s, -1).transpose(1, 0, 2)
        edge = len(upper[0])
        weight = float(n) if w is None else float(w.sum())
        return {
            "grams": sums[:, :, :edge],
            "moments": sums[:, :, edge : edge + q],
            "squares": sums[:, :, -2],
            "mass": mass,
            "grip": sums[:, :, -1],
            "units": (joint @ count).T,
            "log_likelihood": (top + np.log(total)) @ count - 0.5 * weight * np.log(self.s2),
        }
