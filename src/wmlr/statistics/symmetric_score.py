"""Scores of the symmetric mixture of beta and -beta, in which a row counts by the sign it is likely to have.

A score computed as h - S beta, with h from some rows and S from others, is off by |beta| times the difference of their
Grams. In residual form, summed over the same rows, it is small where the truth is near, whoever answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, unit
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.kernels import LOG_2PI
from wmlr.statistics import compiled
from wmlr.statistics.moments import response


def sign_shares(rows: Rows, beta: Array, s2: float, mean: Array | None) -> Array:
    """How much each row counts in the sums of the symmetric mixture: by t = tanh(y u / s2)."""
    yu = response(rows, mean) * kernels.forward(rows.X, beta)
    t = kernels.tanh_log_cosh(kernels.unit_sums(yu, rows.weight, rows.starts) / s2)[0]
    return kernels.to_rows(t[:, None], None, rows.starts, len(rows))


class SymmetricQuery(Query):
    """A query at beta and -beta: rows count by t = tanh(y u / s2), u = x'beta, with ``mean`` taken off y first."""

    beta: Array
    s2: float
    mean: Array | None

    def shares(self, rows: Rows) -> Array:
        return sign_shares(rows, self.beta, self.s2, self.mean)

    def scalar_shares(self, rows: Rows) -> Array:
        return 1.0 - self.shares(rows) ** 2

    share_slopes = scalar_shares

    def signs(self, rows: Rows) -> tuple[Array, Array, Sums]:
        """u and w t y of each row, and the sums that do not tell h from its residual form."""
        y, u, w = response(rows, self.mean), kernels.forward(rows.X, self.beta), rows.counts
        wty, found = kernels.signs(u, y, self.s2, rows.weight, rows.starts)
        wyy, wuu, total = float(w @ (y * y)), float(w @ (u * u)), float(w.sum())
        squares = (wyy + wuu) / self.s2 + total * (LOG_2PI + np.log(self.s2))
        sums = {"uu": wuu, "log_likelihood": found["log_cosh"] - 0.5 * squares}
        sums |= {name: found[name] for name in ("missing", "missing_along")}
        return u, wty, {name: np.array(float(value)) for name, value in sums.items()}


@dataclass(frozen=True)
class SymmetricScore(SymmetricQuery):
    """h = sum w t y x with t = tanh(y u / s2), u = x'beta, and the log-likelihood at (beta, s2).

    ``mean`` is taken off y first (the paper's reduction of two components to the symmetric case).
    """

    beta: Annotated[Array, Field("p")]
    s2: Annotated[float, Field(above=0.0)]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "h": Part(self.beta.shape, unit(x=1, y=1)),
            "log_likelihood": Part((), unit()),
            "tyu": Part((), unit(y=2)),
            "uu": Part((), unit(y=2), Kind.AMOUNT),
            "missing": Part((), unit(), Kind.AMOUNT),
            "missing_along": Part((), unit(y=2), Kind.AMOUNT),
        }

    def answer(self, rows: Rows) -> Sums:
        return self.answer_alike((self,), rows)[0]

    @classmethod
    def answer_alike(cls, queries: Sequence[Self], rows: Rows) -> list[Sums]:
        """One product with X for all of them, where none takes a regression of its own off y."""
        if len(queries) > 1 and any(query.mean is not None for query in queries):
            return [query.answer(rows) for query in queries]
        betas, variances = [query.beta for query in queries], [query.s2 for query in queries]
        found = compiled.symmetric_scores(rows, betas, variances, queries[0].mean)
        return [query._plain(rows) for query in queries] if found is None else found

    def _plain(self, rows: Rows) -> Sums:
        u, wty, sums = self.signs(rows)
        h = kernels.backward(rows.X, wty, len(self.beta) > rows.X.shape[1])
        return {"h": h, "tyu": np.array(float(wty @ u)), **sums}

    def residual_form(self) -> Query:
        return SymmetricResiduals(self.beta, self.s2, self.mean)

    def from_residual_form(self, sums: Sums, moments: Sums) -> Sums:
        return sums | {"h": sums["m"] + moments["gram"] @ self.beta}


@dataclass(frozen=True)
class SymmetricLengths(Query):
    """Log-likelihoods of beta = length * direction for several lengths and variances."""

    direction: Annotated[Array, Field("p")]
    lengths: Annotated[Array, Field("l", least=0.0)]
    s2: Annotated[Array, Field("l", above=0.0)]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"log_likelihood": Part(self.lengths.shape, unit())}

    def shares(self, rows: Rows) -> Array:
        """By the sign at each length."""
        each = zip(self.lengths, self.s2)
        return np.hstack([sign_shares(rows, length * self.direction, s2, self.mean) for length, s2 in each])

    def scalar_shares(self, rows: Rows) -> Array:
        return 1.0 - self.shares(rows) ** 2

    def factors(self, rows: Rows) -> Array:
        """A likelihood changes with y by its sign's share of x'direction."""
        return kernels.forward(rows.X, self.direction)[:, None]

    def answer(self, rows: Rows) -> Sums:
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.direction)
        w = rows.counts
        count = kernels.unit_counts(len(rows), rows.weight, rows.starts)
        yu = kernels.unit_sums(y * u, rows.weight, rows.starts)
        wyy, wuu, total = float(w @ (y * y)), float(w @ (u * u)), float(w.sum())
        squares = (wyy + self.lengths**2 * wuu) / self.s2 + total * (LOG_2PI + np.log(self.s2))
        return {"log_likelihood": kernels.log_cosh_sums(yu, self.lengths / self.s2, count) - 0.5 * squares}


@dataclass(frozen=True)
class SymmetricResiduals(SymmetricQuery):
    """sum w (t y - u) x with t = tanh(y u / s2), u = x'beta; the mean square left, and the likelihood.

    ``squares`` is sum w (y^2 - 2 t y u + u^2), the expected squared residual at beta itself; ``uu`` is sum w u^2.
    """

    beta: Annotated[Array, Field("p")]
    s2: Annotated[float, Field(above=0.0)]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "m": Part(self.beta.shape, unit(x=1, rows=0.5, times=float(np.sqrt(self.s2)))),
            "squares": Part((), unit(times=self.s2), Kind.AMOUNT),
            "uu": Part((), unit(y=2), Kind.AMOUNT),
            "log_likelihood": Part((), unit()),
            "missing": Part((), unit(), Kind.AMOUNT),
            "missing_along": Part((), unit(y=2), Kind.AMOUNT),
        }

    def answer(self, rows: Rows) -> Sums:
        sums = compiled.symmetric_residuals(rows, self.beta, self.s2, self.mean)
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        u, wty, sums = self.signs(rows)
        y, w = response(rows, self.mean), rows.counts
        squares = float(w @ (y * y)) - 2.0 * float(wty @ u) + float(sums["uu"])
        m = kernels.backward(rows.X, wty - w * u, len(self.beta) > rows.X.shape[1])
        return {"m": m, "squares": np.array(squares), **sums}
