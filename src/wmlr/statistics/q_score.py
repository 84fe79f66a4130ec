"""Scores of Q(new | old): the posterior held at one place, the residuals taken at another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Parts, Query, product_factors
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.posterior import ConstantMixing
from wmlr.statistics.score import component_shares, component_slopes, score_parts


@dataclass(frozen=True)
class HeldScore(Query):
    """Per component: sum w r e x and sum w r e^2, r the posterior at ``anchor`` and e the residuals at ``coef``.

    ``log_weights`` and ``s2`` go with the anchor, and so does the log-likelihood. When ``symmetric``, anchor
    and coef have one column, beta, and the score is that of beta.
    """

    anchor: Annotated[Array, Field("p c")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    coef: Annotated[Array, Field("p c")]
    symmetric: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        return score_parts(self.coef, self.s2, False)

    def check(self) -> None:
        k = len(self.s2)
        if self.coef.shape[1] != (1 if self.symmetric else k) or (self.symmetric and k != 2):
            raise ValueError(f"HeldScore.coef has {self.coef.shape[1]} columns for {k} components")

    @property
    def _mixture(self) -> tuple[Array, ConstantMixing, Array]:
        """What the posteriors are those of."""
        anchor = np.column_stack([self.anchor, -self.anchor]) if self.symmetric else self.anchor
        return anchor, ConstantMixing(self.log_weights), self.s2

    def shares(self, rows: Rows) -> Array:
        return component_shares(rows, *self._mixture)

    def share_slopes(self, rows: Rows) -> Array:
        return component_slopes(rows, *self._mixture)

    factors = product_factors  # what changes with y is multiplied by residuals of another place, and by x

    def answer(self, rows: Rows) -> Sums:
        p = len(self.coef)
        both = kernels.forward(rows.X, np.column_stack([self.anchor, self.coef]))
        old, new = np.hsplit(both, 2)
        if self.symmetric:
            old, new = np.column_stack([old, -old]), np.column_stack([new, -new])
        y = rows.y[:, None]
        R, units, log_likelihood, _ = kernels.posteriors(y - old, self.log_weights, self.s2, rows.weight, rows.starts)
        E = y - new
        pull = R * E
        squares = np.einsum("ij,ij->j", pull, E)
        if self.symmetric:
            pull = pull[:, :1] - pull[:, 1:]
        return {
            "score": kernels.backward(rows.X, pull, p > rows.X.shape[1]),
            "squares": squares,
            "mass": R.sum(axis=0),
            "units": units,
            "log_likelihood": np.array(log_likelihood),
        }
