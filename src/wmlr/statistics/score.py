"""Scores of the likelihood: posterior-weighted residual moments, and the likelihood itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.kernels import LOG_2PI
from wmlr.statistics import compiled
from wmlr.statistics.moments import positive_gram, response


def _scalar(value: float) -> Array:
    return np.array(float(value))


@dataclass(frozen=True)
class SymmetricScore:
    """h = sum w t y x with t = tanh(y u / s2), u = x'beta, and the log-likelihood at (beta, s2).

    ``mean`` is taken off y first (the paper's reduction of two components to the symmetric case).
    """

    beta: Array
    s2: float
    mean: Array | None = None

    def answer(self, rows: Rows) -> Sums:
        sums = compiled.symmetric_score(rows, self.beta, self.s2, self.mean)
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.beta)
        wty, sums = kernels.signs(u, y, self.s2, rows.weight, rows.starts)
        w = rows.weight
        wuu = float(u @ u) if w is None else float(w @ (u * u))
        wyy = float(y @ y) if w is None else float(w @ (y * y))
        total = float(len(rows)) if w is None else float(w.sum())
        log_likelihood = sums["log_cosh"] - 0.5 * ((wyy + wuu) / self.s2 + total * (LOG_2PI + np.log(self.s2)))
        return {
            "h": kernels.backward(rows.X, wty, len(self.beta) > rows.X.shape[1]),
            "log_likelihood": _scalar(log_likelihood),
            "tyu": _scalar(float(wty @ u)),
            "uu": _scalar(wuu),
            "missing": _scalar(sums["missing"]),
            "missing_along": _scalar(sums["missing_along"]),
        }


@dataclass(frozen=True)
class SymmetricLengths:
    """Log-likelihoods of beta = length * direction for several lengths and variances."""

    direction: Array
    lengths: Array
    s2: Array
    mean: Array | None = None

    def answer(self, rows: Rows) -> Sums:
        y = response(rows, self.mean)
        u = kernels.forward(rows.X, self.direction)
        w = np.ones(len(rows)) if rows.weight is None else rows.weight
        count = kernels.unit_counts(len(rows), rows.weight, rows.starts)
        yu = kernels.unit_sums(y * u, rows.weight, rows.starts)
        wyy, wuu, total = float(w @ (y * y)), float(w @ (u * u)), float(w.sum())
        values = [
            float(count @ kernels.log_cosh(yu * (length / s2)))
            - 0.5 * ((wyy + length**2 * wuu) / s2 + total * (LOG_2PI + np.log(s2)))
            for length, s2 in zip(self.lengths, self.s2)
        ]
        return {"log_likelihood": np.array(values)}


@dataclass(frozen=True)
class MixtureScore:
    """Per component: sum w r e x, sum w r e^2, the expected number of rows and units; the likelihood.

    With ``grams`` also sum w r xx', from which the exact M-step follows.
    """

    coef: Array
    log_weights: Array
    s2: Array
    grams: bool = False

    def answer(self, rows: Rows) -> Sums:
        sums = None if self.grams else compiled.mixture_score(rows, self.coef, self.log_weights, self.s2)
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        intercept = self.coef.shape[0] > rows.X.shape[1]
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        R, units, log_likelihood, _ = kernels.posteriors(E, self.log_weights, self.s2, rows.weight, rows.starts)
        RE = R * E
        sums = {
            "score": kernels.backward(rows.X, RE, intercept),
            "squares": np.einsum("ij,ij->j", RE, E),
            "mass": R.sum(axis=0),
            "units": units,
            "log_likelihood": _scalar(log_likelihood),
        }
        if self.grams:
            sums["grams"] = np.stack([positive_gram(rows.X, R[:, j], intercept) for j in range(R.shape[1])])
        return sums
