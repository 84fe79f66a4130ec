"""Scores of the likelihood: posterior-weighted residual moments, and the likelihood itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, unit
from wmlr.core.round import Rows
from wmlr.families import NORMAL, OMIT_DEFAULT, Family, Terms
from wmlr.model.known import KNOWN
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics import compiled
from wmlr.statistics.mixing import UnitGate, mixing
from wmlr.statistics.moments import positive_gram
from wmlr.statistics.posterior import ConstantMixing, Mixing

LEVELS = "levels"  # the sum of where y lies, of families that have a relative scale


def predictors(rows: Rows, coef: Array) -> Array:
    """The linear predictor of each component (n, k), with the rows' offset where they have one."""
    return with_offset(rows, kernels.forward(rows.X, coef))


def with_offset(rows: Rows, lines: Array) -> Array:
    """Linear predictors (n, ...) of x with the rows' offset added, where they have one."""
    if "offset" not in rows.beside:
        return lines
    return np.asarray(lines + rows.beside["offset"].reshape(-1, *[1] * (lines.ndim - 1)))


def component_terms(rows: Rows, coef: Array, s2: Array, family: Family) -> Terms:
    """What the rows say to each component: arrays (n, k)."""
    return family.of_rows(rows.beside).terms(rows.y[:, None], predictors(rows, coef), s2)


def component_shares(rows: Rows, coef: Array, weights: Mixing, s2: Array, family: Family = NORMAL) -> Array:
    """How much each row counts in each component's sums (n, c): by its responsibility and the family's weights.

    Also in the sums that the step of the mixing weights needs; and, where the family has weights, by what it adds to a
    score, and by what its log-density changes with the predictor. These are then not in proportion to y: where the
    others stay at a bound, or on their side of a kink, they change in one row alone.
    """
    terms = component_terms(rows, coef, s2, family)
    found = weights.posterior(rows, terms.log_density)
    R, lines = found.rows, np.setdiff1d(np.arange(found.rows.shape[1]), family.without_predictor)
    columns = [R]
    if terms.weight is not None:
        slope = family.of_rows(rows.beside).derivatives(rows.y[:, None], predictors(rows, coef), s2).predictor
        each = terms.weight, terms.weight * terms.residual, slope
        columns += [(R * one)[:, lines] for one in each]
    if terms.scale_weight is not None and terms.scale_weight.ndim == 2:
        columns.append((R * terms.scale_weight)[:, lines])
    if terms.squares is not None:
        columns.append((R * terms.squares)[:, lines])
    return np.hstack([*columns, weights.shares(rows, found)])


def likelihood_shares(query: Any, rows: Rows) -> Array:
    """The shares of a likelihood whose posteriors share out the rows as nothing else in an answer does."""
    return component_shares(rows, query.coef, ConstantMixing(query.log_weights), query.s2)


class MixtureQuery(Query):
    """A query at a mixture: its weights are those of the gate, or the same for all units where there is none."""

    coef: Array
    log_weights: Array
    s2: Array
    family: Family
    gate: UnitGate | None

    @property
    def mixing(self) -> Mixing:
        return mixing(self.log_weights, self.gate)

    @property
    def components(self) -> int:
        return len(self.s2)

    def check(self) -> None:
        self.mixing.check(len(self.s2))

    def shares(self, rows: Rows) -> Array:
        return component_shares(rows, self.coef, self.mixing, self.s2, self.family)

    def share_slopes(self, rows: Rows) -> Array:
        return component_slopes(rows, self.coef, self.mixing, self.s2, self.family)


def component_slopes(rows: Rows, coef: Array, weights: Mixing, s2: Array, family: Family = NORMAL) -> Array:
    """Derivatives of rows' posteriors in y, but for factors: the products of the posteriors of each two components."""
    return products_of_two(weights.posterior(rows, component_terms(rows, coef, s2, family).log_density).rows)


def products_of_two(shares: Array) -> Array:
    """Of columns (n, k), the products (n, k (k - 1) / 2) of each two."""
    left, right = np.triu_indices(shares.shape[1], 1)
    return np.asarray(shares[:, left] * shares[:, right])


def score_parts(coef: Array, s2: Array, grams: bool) -> dict[str, Part]:
    """What scores of components with coefficients (p, k) are made of."""
    p, k = len(coef), len(s2)
    variance = float(np.mean(s2))
    parts = {
        "score": Part(coef.shape, unit(x=1, rows=0.5, times=float(np.sqrt(variance)))),
        "squares": Part((k,), unit(times=variance), Kind.AMOUNT),
        "mass": Part((k,), unit(), Kind.COUNT),
        "units": Part((k,), unit(), Kind.UNITS),
        "log_likelihood": Part((), unit()),
    }
    return parts | {"grams": Part((k, p, p), unit(x=2), Kind.GRAM)} if grams else parts


def family_parts(family: Family, s2: Array) -> dict[str, Part]:
    """What else sums of a family's rows have, of components with squared scales (..., k)."""
    weight = Part(s2.shape, unit(), Kind.AMOUNT)
    if family.least_squares:
        return {}
    if not family.dispersed:
        return {"curvature_weight": weight}
    variance = float(np.mean(s2))
    parts = {"curvature_weight": weight, "scale_weight": weight, "squares": Part(s2.shape, unit(times=variance))}
    return parts | {LEVELS: Part(s2.shape, unit())} if family.relative else parts


def mean_levels(sums: Sums) -> Array | None:
    """Each component's mean logarithm of a deviation of y over sigma; infinite where it has no rows."""
    if LEVELS not in sums:
        return None
    mass = np.asarray(sums["mass"])
    return np.asarray(np.divide(sums[LEVELS], mass, out=np.full(mass.shape, np.inf), where=mass > 0))


def scale_sums(family: Family) -> str:
    """The sum by which ``squares`` are divided where the scale is estimated."""
    return "scale_weight" if family.dispersed else "curvature_weight" if family.outlying else "mass"


@dataclass(frozen=True)
class MixtureScore(MixtureQuery):
    """Per component: sum w r g e x, sum w r g e^2, the expected number of rows and units; the likelihood.

    e are the family's working residuals and g its weights, by which the score in the coefficients is that sum over s2.
    Where g is not 1 there is ``curvature_weight``, the sum of w r g, which stands where ``mass`` does in the curvature.
    Where sigma is relative to where y lies, ``levels`` are sums of that.
    With ``grams`` also sum w r g xx', from which the M-step follows; with a ``gate``, in whose place ``log_weights``
    then are not looked at, what its step needs.
    """

    coef: Annotated[Array, Field("p k")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    grams: bool = False
    family: Family = field(default=NORMAL, metadata=OMIT_DEFAULT)
    gate: UnitGate | None = field(default=None, metadata=OMIT_DEFAULT)

    def parts(self, columns: int, grouped: bool) -> Parts:
        scores = score_parts(self.coef, self.s2, self.grams)
        return {**scores, **self.mixing.parts(), **family_parts(self.family, self.s2)}

    def answer(self, rows: Rows) -> Sums:
        if self.family.linear and "offset" in rows.beside:
            raise ValueError(f"an offset of family {self.family.name!r} is to be taken off y before its rows are asked")
        sums = None
        if self.family.least_squares and not self.grams and self.gate is None and KNOWN not in rows.beside:
            sums = compiled.mixture_score(rows, self.coef, self.log_weights, self.s2)
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        intercept = self.coef.shape[0] > rows.X.shape[1]
        terms = component_terms(rows, self.coef, self.s2, self.family)
        found = self.mixing.posterior(rows, terms.log_density)
        R = found.rows
        counted = R if terms.weight is None else R * terms.weight
        pull = counted * terms.residual
        squared = (pull, terms.residual) if terms.squares is None else (R, terms.squares)
        sums = {
            "score": kernels.backward(rows.X, pull, intercept),
            "squares": np.einsum("ij,ij->j", *squared),
            "mass": R.sum(axis=0),
            "units": found.units,
            "log_likelihood": np.array(float(found.log_likelihood)),
            **found.sums,
        }
        if terms.weight is not None:
            sums["curvature_weight"] = counted.sum(axis=0)
        if terms.scale_weight is not None:
            sums["scale_weight"] = np.asarray((R * terms.scale_weight).sum(axis=0))
        if self.family.relative:
            sums[LEVELS] = self.family.log_deviation(rows.y) @ R
        if self.grams:
            sums["grams"] = np.stack([positive_gram(rows.X, column, intercept) for column in counted.T])
        return sums


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
