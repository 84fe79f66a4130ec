"""Scores with bounded influence, and what keeps gross outliers out of the starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Query, Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.student import DOF, student_log_density, student_weights


@dataclass(frozen=True)
class StudentScore:
    """The sums of :class:`MixtureScore` under Student's noise: the larger a residual, the less it counts.

    ``grip`` is the weight that counts per component; it stands where ``mass`` does in the curvature.
    """

    coef: Array
    log_weights: Array
    s2: Array
    dof: float = DOF
    grams: bool = False

    def answer(self, rows: Rows) -> Sums:
        intercept = self.coef.shape[0] > rows.X.shape[1]
        E = rows.y[:, None] - kernels.forward(rows.X, self.coef)
        densities = student_log_density(E, self.s2, self.dof)
        R, units, log_likelihood, _ = kernels.shared_out(densities, self.log_weights, rows.weight, rows.starts)
        counted = R * student_weights(E, self.s2, self.dof)
        pull = counted * E
        sums = {
            "score": kernels.backward(rows.X, pull, intercept),
            "squares": np.einsum("ij,ij->j", pull, E),
            "mass": R.sum(axis=0),
            "grip": counted.sum(axis=0),
            "units": units,
            "log_likelihood": np.array(log_likelihood),
        }
        if self.grams:
            sums["grams"] = np.stack([kernels.gram(rows.X, column, intercept) for column in counted.T])
        return sums


@dataclass(frozen=True)
class Histogram:
    """The weight of rows with y in each bin between ``edges``, with one bin more on either side."""

    edges: Array

    def answer(self, rows: Rows) -> Sums:
        bins = np.searchsorted(self.edges, rows.y, side="right")
        return {"counts": np.bincount(bins, weights=rows.weight, minlength=len(self.edges) + 1).astype(np.float64)}


@dataclass(frozen=True)
class Trimmed:
    """A query asked only of the rows with y in a range; of groups, those all of whose rows are in it."""

    query: Query
    low: float
    high: float

    def answer(self, rows: Rows) -> Sums:
        keep = (rows.y >= self.low) & (rows.y <= self.high)
        if rows.starts is not None and len(rows):
            whole = np.logical_and.reduceat(keep, rows.starts)
            keep = np.repeat(whole, np.diff(np.append(rows.starts, len(rows))))
        return self.query.answer(rows if keep.all() else rows.take(keep))
