"""Least-squares sums after every unit has chosen the component that fits it best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Parts, Query
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.moments import positive_gram
from wmlr.statistics.score import likelihood_shares, score_parts


@dataclass(frozen=True)
class ClusterScore(Query):
    """Per component, over the units that chose it by their summed squares: sum w e x, sum w e^2, rows, units.

    ``log_weights`` and ``s2`` do not decide the choice; they give the log-likelihood of the mixture. With ``grams``
    also sum w xx', from which least squares with these choices follows.
    """

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    grams: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        return score_parts(self.coef, self.s2, self.grams)

    def shares(self, rows: Rows) -> Array:
        return kernels.to_rows(self._choices(rows), None, rows.starts, len(rows))

    scalars_choose = True
    scalar_shares = likelihood_shares

    def answer(self, rows: Rows) -> Sums:
        n = len(rows)
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        chosen = self._choices(rows)
        R = kernels.to_rows(chosen, rows.weight, rows.starts, n)
        log_likelihood = kernels.posteriors(E, self.log_weights, self.s2, rows.weight, rows.starts)[2]
        intercept = len(self.coef) > rows.X.shape[1]
        sums = {
            "score": kernels.backward(rows.X, R * E, intercept),
            "squares": np.einsum("ij,ij->j", R * E, E),
            "mass": R.sum(axis=0),
            "units": kernels.unit_counts(n, rows.weight, rows.starts) @ chosen,
            "log_likelihood": np.array(log_likelihood),
        }
        if self.grams:
            sums["grams"] = np.stack([positive_gram(rows.X, column, intercept) for column in R.T])
        return sums

    def _choices(self, rows: Rows) -> Array:
        """Which component each unit has chosen: (units, k), a 1 in each row."""
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        losses = kernels.unit_sums(E * E, rows.weight, rows.starts)
        return np.asarray(np.eye(E.shape[1])[losses.argmin(axis=1)])
