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

    ``grams`` holds each weighted Gram's upper triangle, so that all of them are one matrix product.
    """

    transform: Array
    coef: Array
    weights: Array
    s2: Array

    def answer(self, rows: Rows) -> Sums:
        s, k, q = self.coef.shape
        Z = kernels.forward(rows.X, self.transform)
        y = rows.y
        n = len(rows)
        squares = (y[:, None] - Z @ self.coef.reshape(s * k, q).T).reshape(n, s, k)
        np.square(squares, out=squares)
        squares *= (-0.5 / self.s2)[:, None]
        joint = kernels.unit_sums(squares, rows.weight, rows.starts)
        joint += np.log(self.weights)
        count = kernels.unit_counts(n, rows.weight, rows.starts)
        top = joint.max(axis=2, keepdims=True)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=2, keepdims=True)
        joint /= total
        w = np.ones(n) if rows.weight is None else rows.weight
        constant = -0.5 * float(w.sum()) * np.log(2 * np.pi * self.s2)
        R = kernels.to_rows(joint, rows.weight, rows.starts, n).reshape(n, s * k)
        upper = np.triu_indices(q)
        return {
            "grams": (R.T @ (Z[:, upper[0]] * Z[:, upper[1]])).reshape(s, k, -1),
            "moments": (R.T @ (Z * y[:, None])).reshape(s, k, q),
            "mass": R.sum(axis=0).reshape(s, k),
            "units": np.tensordot(count, joint, axes=1),
            "log_likelihood": count @ (top + np.log(total))[:, :, 0] + constant,
            "weight": np.array(float(w.sum())),
            "yy": np.array(float(w @ (y * y))),
        }
