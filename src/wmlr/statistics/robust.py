"""Scores with bounded influence, and what keeps gross outliers out of the starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import Field, Kind, Part, Parts, Query, Wrapper, unit
from wmlr.core.round import Rows
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.student import DOF, student_log_density, student_weights
from wmlr.statistics.score import score_parts


@dataclass(frozen=True)
class StudentScore(Query):
    """The sums of :class:`MixtureScore` under Student's noise: the larger a residual, the less it counts.

    ``grip`` is the weight that counts per component; it stands where ``mass`` does in the curvature.
    """

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    dof: Annotated[float, Field(above=0.0)] = DOF
    grams: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        grip = Part(self.s2.shape, unit(), Kind.AMOUNT)
        return score_parts(self.coef, self.s2, self.grams) | {"grip": grip}

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
class Histogram(Query):
    """The weight of rows with y in each bin between ``edges``, with one bin more on either side."""

    edges: Annotated[Array, Field("b", rising=True)]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"counts": Part((len(self.edges) + 1,), unit(), Kind.COUNT)}

    def answer(self, rows: Rows) -> Sums:
        bins = np.searchsorted(self.edges, rows.y, side="right")
        return {"counts": np.bincount(bins, weights=rows.weight, minlength=len(self.edges) + 1).astype(np.float64)}


@dataclass(frozen=True)
class Trimmed(Wrapper):
    """A query asked only of the rows with y in a range; of groups, those all of whose rows are in it."""

    query: Query
    low: float
    high: float

    def keeps(self, rows: Rows) -> NDArray[np.bool_] | None:
        keep = (rows.y >= self.low) & (rows.y <= self.high)
        if rows.starts is not None and len(rows):
            whole = np.logical_and.reduceat(keep, rows.starts)
            keep = np.repeat(whole, np.diff(np.append(rows.starts, len(rows))))
        return None if keep.all() else np.asarray(keep)

    chooses_rows = True

    def check(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"Trimmed keeps no row: low {self.low} is above high {self.high}")
