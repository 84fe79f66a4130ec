"""Statistics in residual form, for rounds in which different rows answer.

A score computed as h - S beta, with h from some rows and S from others, is off by |beta| times the
difference of their Grams. Summed as residuals over the same rows, it is small where the truth is near,
whoever answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, unit
from wmlr.core.round import Rows
from wmlr.families import NORMAL, OMIT_DEFAULT, Family
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.kernels import LOG_2PI
from wmlr.statistics import compiled
from wmlr.statistics.mixing import UnitGate
from wmlr.statistics.moments import response
from wmlr.statistics.score import MixtureQuery, SymmetricQuery, component_terms


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
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.beta)
        w = rows.counts
        wty, sums = kernels.signs(u, y, self.s2, rows.weight, rows.starts)
        wyy, wuu = float(w @ (y * y)), float(w @ (u * u))
        constant = float(w.sum()) * (LOG_2PI + np.log(self.s2))
        return {
            "m": kernels.backward(rows.X, wty - w * u, len(self.beta) > rows.X.shape[1]),
            "squares": np.array(wyy - 2.0 * float(wty @ u) + wuu),
            "uu": np.array(wuu),
            "log_likelihood": np.array(sums["log_cosh"] - 0.5 * ((wyy + wuu) / self.s2 + constant)),
            "missing": np.array(sums["missing"]),
            "missing_along": np.array(sums["missing_along"]),
        }


@dataclass(frozen=True)
class SecondMoments(Query):
    """sum w y^2 and sum w u^2 with u = x'beta."""

    beta: Annotated[Array, Field("p")]
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"yy": Part((), unit(y=2), Kind.AMOUNT), "uu": Part((), unit(y=2), Kind.AMOUNT)}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.beta)
        w = rows.counts
        return {"yy": np.array(float(w @ (y * y))), "uu": np.array(float(w @ (u * u)))}


@dataclass(frozen=True)
class MixtureLikelihood(MixtureQuery):
    """The log-likelihood of a mixture and nothing else."""

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    family: Family = field(default=NORMAL, metadata=OMIT_DEFAULT)
    gate: UnitGate | None = field(default=None, metadata=OMIT_DEFAULT)

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"log_likelihood": Part((), unit())}

    shares = all_alike

    scalar_shares = MixtureQuery.shares
    scalars_choose = True

    def answer(self, rows: Rows) -> Sums:
        densities = component_terms(rows, self.coef, self.s2, self.family).log_density
        return {"log_likelihood": np.array(self.mixing.posterior(rows, densities).log_likelihood)}
