"""The observed information of a mixture with Student's noise, and the outer product of its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Parts, Query
from wmlr.core.round import Rows, add
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.student import student_log_density, student_weights
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.whitened import dense_pieces


@dataclass(frozen=True)
class StudentInformation(Query):
    """What :class:`ObservedInformation` is for normal noise, in the same parameters.

    A standardized residual z pulls by psi(z) = z w(z), with w(z) = (dof + 1) / (dof + z^2); the
    complete-data Hessian takes psi'(z) = w(z) (dof - z^2) / (dof + z^2).
    """

    coef: Annotated[Array, Field("p k")]
    weights: Annotated[Array, Field("k", least=0.0)]
    s2: Annotated[Array, Field("k", above=0.0)]
    dof: Annotated[float, Field(above=0.0)]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return ObservedInformation(self.coef, self.weights, self.s2).parts(columns, grouped)

    def answer(self, rows: Rows) -> Sums:
        return add(self._answer(piece) for piece in dense_pieces(rows))

    def scores(self, rows: Rows) -> tuple[Array, Array]:
        """Each unit's score, and how often the unit counts."""
        _, scores, count = self._parts(rows)
        return scores, count

    def _answer(self, rows: Rows) -> Sums:
        curvature, scores, count = self._parts(rows)
        outer = scores.T @ (scores * count[:, None])
        return {"information": curvature + outer, "outer": outer}

    def _parts(self, rows: Rows) -> tuple[Array, Array, Array]:
        """The expected information of complete data less the spread of its scores; units' scores and counts."""
        p, k = self.coef.shape
        n = len(rows)
        X = np.column_stack([rows.X, np.ones(n)]) if p > rows.X.shape[1] else np.asarray(rows.X)
        sigma = np.sqrt(self.s2)
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        densities = student_log_density(E, self.s2, self.dof)
        R, _, _, shares = kernels.shared_out(densities, np.log(self.weights), rows.weight, rows.starts)
        count = kernels.unit_counts(n, rows.weight, rows.starts)
        z = E / sigma
        psi = z * student_weights(E, self.s2, self.dof)
        bend = student_weights(E, self.s2, self.dof) * (self.dof - z * z) / (self.dof + z * z)
        size = k * p + 2 * k - 1
        information = np.zeros((size, size))
        mean = np.zeros((len(count), size))
        logits = np.eye(k)[:, : k - 1] - self.weights[: k - 1]
        for j in range(k):
            at, deviation = slice(j * p, (j + 1) * p), k * p + j
            score = np.zeros((len(count), size))
            score[:, at] = kernels.unit_sums(X * (psi[:, j] / sigma[j])[:, None], rows.weight, rows.starts)
            score[:, deviation] = kernels.unit_sums(z[:, j] * psi[:, j] - 1.0, rows.weight, rows.starts)
            score[:, k * p + k :] = logits[j]
            information -= score.T @ (score * (count * shares[:, j])[:, None])
            mean += score * shares[:, j][:, None]
            cross = X.T @ (R[:, j] * (z[:, j] * bend[:, j] + psi[:, j])) / sigma[j]
            information[at, at] += (X * (R[:, j] * bend[:, j])[:, None]).T @ X / self.s2[j]
            information[at, deviation] += cross
            information[deviation, at] += cross
            information[deviation, deviation] += float(R[:, j] @ (z[:, j] * (psi[:, j] + z[:, j] * bend[:, j])))
        inner = self.weights[: k - 1]
        information[k * p + k :, k * p + k :] += float(count.sum()) * (np.diag(inner) - np.outer(inner, inner))
        return information, mean, count
