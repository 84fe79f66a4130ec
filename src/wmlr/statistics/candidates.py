"""Many candidate mixtures at once, on features projected to a small subspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated

import numpy as np
from scipy.linalg.blas import dsyrk

from wmlr.core.query import Field, Kind, Part, Parts, Query, join_pieces, unit
from wmlr.core.round import Rows
from wmlr.families import NORMAL, OMIT_DEFAULT, Family
from wmlr.model.known import KNOWN, with_known_components
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.statistics import compiled
from wmlr.statistics.mixing import LogitGate, mixing
from wmlr.statistics.posterior import Mixing
from wmlr.statistics.score import LEVELS, component_shares, component_slopes, family_parts, with_offset

BLOCK_NUMBERS = 50_000  # of residuals at once: what stays in a processor's cache, and is worth a thread's while
MANY_COLUMNS = 40  # from here on products of pairs of columns would take more memory than the rows are worth


@dataclass(frozen=True)
class CandidateScores(Query):
    """EM sums of s candidates: coef (s, k, q) on z = transform'x, weights (s, k), s2 (s, k).

    ``grams`` holds each weighted Gram's upper triangle, so that all of them are one matrix product.
    Rows count by their responsibility times the family's weight, and y is its working response; where that weight is
    not 1, ``curvature_weight`` is its sum. The log-likelihood lacks the family's ``log_constant`` for each row. With
    a ``gate`` the weights are its own, and not looked at.
    """

    transform: Annotated[Array, Field("p q")]
    coef: Annotated[Array, Field("s k q")]
    weights: Annotated[Array, Field("s k", least=0.0)]
    s2: Annotated[Array, Field("s k", above=0.0)]
    family: Family = field(default=NORMAL, metadata=OMIT_DEFAULT)
    gate: LogitGate | None = field(default=None, metadata=OMIT_DEFAULT)

    def check(self) -> None:
        if self.gate is not None:
            self.gate.check(self.coef.shape[1])

    def parts(self, columns: int, grouped: bool) -> Parts:
        s, k, q = self.coef.shape
        each = Part((s, k), unit(), Kind.AMOUNT)
        parts = {
            "grams": Part((s, k, q * (q + 1) // 2), unit(x=2), Kind.TRIANGLE),
            "moments": Part((s, k, q), unit(x=1, y=1)),
            "squares": Part((s, k), unit(times=float(np.mean(self.s2))), Kind.AMOUNT),
            "mass": replace(each, kind=Kind.COUNT),
            "units": replace(each, kind=Kind.UNITS),
            "log_likelihood": Part((s,), unit()),
            **({} if self.gate is None else self.gate.parts()),
        }
        return parts | family_parts(self.family, self.s2)

    def em_steps(self, answer: Sums) -> float:
        return float(len(self.coef))

    @property
    def components(self) -> int:
        return len(self.s2[0])

    def shares(self, rows: Rows) -> Array:
        return np.hstack([component_shares(*mixture, self.family) for mixture in self._mixtures(rows)])

    def share_slopes(self, rows: Rows) -> Array:
        return np.hstack([component_slopes(*mixture, self.family) for mixture in self._mixtures(rows)])

    def _mixtures(self, rows: Rows) -> Iterator[tuple[Rows, Array, Mixing, Array]]:
        """Of each candidate: the rows as it sees them, coefficients, weights and variances."""
        seen = replace(rows, X=project(rows, self.transform)[0])
        gates = [None] * len(self.coef) if self.gate is None else self.gate.each()
        for coef, logs, gate, s2 in zip(self.coef, np.log(self.weights), gates, self.s2):
            yield seen, coef.T, mixing(logs, gate), s2

    def pieces(self, rows: float) -> tuple[CandidateScores, ...]:
        s, k, _ = self.coef.shape
        each = max(1, int(BLOCK_NUMBERS / max(k * rows, 1)))
        return tuple(self._some(slice(first, first + each)) for first in range(0, s, each)) if each < s else (self,)

    def _some(self, chosen: slice) -> CandidateScores:
        gate = None if self.gate is None else self.gate.some(chosen)
        places = self.coef[chosen], self.weights[chosen], self.s2[chosen]
        return CandidateScores(self.transform, *places, self.family, gate)

    def answer(self, rows: Rows) -> Sums:
        Z, products = project(rows, self.transform)
        return join_pieces([piece._answer(rows, Z, products) for piece in self.pieces(len(rows))])

    def _answer(self, rows: Rows, Z: Array, products: Array | None) -> Sums:
        s, k, q = self.coef.shape
        n, y, w = len(rows), rows.y, rows.weight
        s2, gate, order = self.s2, self.gate, self.coef.transpose(1, 0, 2)
        constants = np.log(self.weights).T[:, :, None] if gate is None else gate.candidate_log_weights(rows)
        plain = rows.starts is None and w is None
        weight, residual, terms, found = None, None, None, None
        if self.family.least_squares and plain and gate is None and KNOWN not in rows.beside:
            found = compiled.candidate_shares(Z.T, y, order, -0.5 / s2.T, constants[:, :, 0] - 0.5 * np.log(s2).T)
        if found is not None:
            joint, values = found
        else:
            predictor = (order.reshape(k * s, q) @ Z.T).reshape(k, s, n)
            if self.family.least_squares:
                densities, scales = _squares(predictor, y, -0.5 / s2.T), -0.5 * np.log(s2).T
            else:
                family, rows_first = self.family.of_rows(rows.beside), predictor.transpose(2, 1, 0)
                terms = family.terms(y[:, None, None], with_offset(rows, rows_first), s2)
                densities, weight = terms.log_density.transpose(2, 1, 0), _components_first(terms.weight)
                residual = None if self.family.linear else terms.residual.transpose(2, 1, 0)
                scales = np.zeros((k, s))
            densities = with_known_components(densities.T, rows.beside).T
            joint, values = _responsibilities(densities, scales, constants, rows)
        spread = joint if plain else kernels.to_rows(joint.T, w, rows.starts, n).T
        counted = spread if weight is None else spread * weight
        R = np.ascontiguousarray(counted.reshape(k * s, n))
        summed = _weighted_products(R, Z, y) if products is None else R @ products
        sums = summed.reshape(k, s, -1).transpose(1, 0, 2)
        edge = q * (q + 1) // 2
        answer = {
            "grams": sums[:, :, :edge],
            "moments": sums[:, :, edge : edge + q],
            "squares": sums[:, :, -2],
            "mass": sums[:, :, -1] if weight is None else spread.sum(axis=2).T,
            "log_likelihood": values,
        }
        alike = plain and weight is None
        answer["units"] = answer["mass"] if alike else (joint @ kernels.unit_counts(n, w, rows.starts)).T
        if weight is not None:
            answer["curvature_weight"] = sums[:, :, -1]
        if gate is not None:
            answer |= gate.candidate_sums(rows, joint, constants)
        if residual is not None:
            pulled, squares = kernels.weigh_responses(counted, predictor, residual)
            answer["moments"] = (pulled.reshape(k * s, n) @ Z).reshape(k, s, q).transpose(1, 0, 2)
            answer["squares"] = squares.T
        if terms is not None and terms.squares is not None and terms.scale_weight is not None:
            answer["squares"] = np.einsum("ksn,nsk->sk", spread, terms.squares)
            alike = terms.scale_weight.ndim < terms.squares.ndim  # every row says as much of the scale
            of_rows = spread.sum(axis=2).T if alike else spread.transpose(2, 1, 0)
            answer["scale_weight"] = (of_rows * terms.scale_weight).sum(axis=tuple(range(of_rows.ndim - 2)))
        if self.family.relative:
            answer[LEVELS] = (spread @ self.family.log_deviation(y)).T
        return answer


def _components_first(values: Array | None) -> Array | None:
    """Arrays (n, s, k) of rows, candidates and components the other way round."""
    return None if values is None else values.transpose(2, 1, 0)


def _squares(predictor: Array, y: Array, factor: Array) -> Array:
    """Squared residuals times a factor for each (component, candidate), in the predictor's place."""
    np.subtract(y, predictor, out=predictor)
    np.square(predictor, out=predictor)
    predictor *= factor[:, :, None]
    return predictor


def _responsibilities(densities: Array, scales: Array, constants: Array, rows: Rows) -> tuple[Array, Array]:
    """(k, s, units) responsibilities, in the densities' place where rows are units, and each log-likelihood.

    ``scales`` (k, s) belong to every row's log-density, ``constants`` (k, s, 1 or units) to every unit's.
    """
    if rows.starts is None:
        joint = densities
        joint += constants + scales[:, :, None]
    else:
        densities += scales[:, :, None]
        joint = kernels.unit_sums(densities.T, rows.weight, rows.starts).T.copy()
        joint += constants
    logs = kernels.shares_of_log_joint(joint)
    return joint, logs @ kernels.unit_counts(len(rows), rows.weight, rows.starts)


def project(rows: Rows, transform: Array) -> tuple[Array, Array | None]:
    """z = transform'x of each row, and its products: the upper triangle of zz', zy, y^2 and 1, unless z is long.

    They are kept with the rows, since many queries in succession look at the same ones.
    """
    key = transform.shape, transform.tobytes()
    if rows.memo.get(project, (None,))[0] != key:
        Z = np.asfortranarray(kernels.forward(rows.X, transform))
        products = None
        if Z.shape[1] <= MANY_COLUMNS:
            upper = upper_triangle(Z.shape[1])
            y = rows.y
            products = np.column_stack([Z[:, upper[0]] * Z[:, upper[1]], Z * y[:, None], y * y, np.ones(len(y))])
        rows.memo[project] = key, Z, products
    _, Z, products = rows.memo[project]
    return Z, products


def _weighted_products(R: Array, Z: Array, y: Array) -> Array:
    """R @ products, where the products are too many to be written down."""
    return np.hstack([weighted_grams(R, Z), R @ np.column_stack([Z * y[:, None], y * y, np.ones(len(y))])])


def weighted_grams(R: Array, Z: Array) -> Array:
    """The upper triangle of Z' diag(r) Z for each row r of R."""
    upper = upper_triangle(Z.shape[1])
    if not len(Z):
        return np.zeros((len(R), len(upper[0])))
    return np.stack([dsyrk(1.0, Z * np.sqrt(r)[:, None], trans=1)[upper] for r in R])


@cache
def upper_triangle(order: int) -> tuple[Integers, Integers]:
    """Row and column numbers of the upper triangle."""
    rows, columns = np.triu_indices(order)
    return rows, columns


@cache
def _unfolding(order: int) -> Integers:
    """For each entry of a symmetric matrix its place in the upper triangle."""
    places = np.empty((order, order), dtype=np.int64)
    rows, columns = upper_triangle(order)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places


def unfold(triangles: Array, order: int) -> Array:
    """Symmetric matrices from their upper triangles along the last axis."""
    return np.asarray(triangles[..., _unfolding(order)])
