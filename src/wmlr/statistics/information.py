"""The observed information of a mixture, and the outer product of its scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, unit
from wmlr.core.round import Rows, add
from wmlr.families import NORMAL, OMIT_DEFAULT, Family
from wmlr.model.gates import log_softmax
from wmlr.model.layout import Layout
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.mixing import UnitGate, mixing
from wmlr.statistics.moments import positive_gram
from wmlr.statistics.posterior import Mixing
from wmlr.statistics.score import component_shares, component_terms, predictors
from wmlr.statistics.whitened import dense_pieces

PIECE = 4096  # rows whose scores stay in a processor's cache
MOST = 4.6  # that the logarithm of a sigma may move by


@dataclass(frozen=True)
class ObservedInformation(Query):
    """Minus the Hessian of the log-likelihood, sums of scores and of score times score', and its value, at a mixture.

    The parameters are those of :class:`wmlr.model.layout.Layout`. By Louis's identity the Hessian is the expectation,
    under the posterior of the component, of the complete-data Hessian plus the variance of the complete-data score.
    """

    coef: Annotated[Array, Field("p k")]
    weights: Annotated[Array, Field("k", least=0.0)]
    s2: Annotated[Array, Field("k", above=0.0)]
    family: Family = field(default=NORMAL, metadata=OMIT_DEFAULT)
    gate: UnitGate | None = field(default=None, metadata=OMIT_DEFAULT)

    tells_influence = True

    @property
    def mixing(self) -> Mixing:
        return mixing(np.log(self.weights), self.gate)

    @property
    def components(self) -> int:
        return len(self.s2)

    @property
    def is_costly(self) -> bool:
        return True

    def check(self) -> None:
        self.mixing.check(len(self.s2))

    def parts(self, columns: int, grouped: bool) -> Parts:
        size = (self._layout.size,) * 2
        per_row = unit(x=2, times=1.0 / float(np.mean(self.s2)))
        return {
            "information": Part(size, per_row, Kind.SYMMETRIC),
            "outer": Part(size, per_row, Kind.GRAM),
            "score": Part(size[:1], unit(x=1, rows=0.5, times=1.0 / float(np.sqrt(np.mean(self.s2))))),
            "units": Part((1,), unit(), Kind.UNITS),
            "log_likelihood": Part((), unit()),
        }

    def shares(self, rows: Rows) -> Array:
        """What rows count for each component, and for two at a time, where those count alone that may be of both.

        In the products of scores rows count by the squares of their shares.
        """
        terms = component_terms(rows, self.coef, self.s2, self.family)
        R = self.mixing.posterior(rows, terms.log_density).rows
        both = [R[:, i] * R[:, j] for i in range(R.shape[1]) for j in range(i + 1)]
        return np.column_stack([component_shares(rows, self.coef, self.mixing, self.s2, self.family), *both])

    @property
    def _layout(self) -> Layout:
        p, k = self.coef.shape
        return Layout(p, k, int(self.family.own is not None), self.mixing.size)

    def move(self, step: Array) -> ObservedInformation:
        """The same a step away in all parameters; a sigma changes by no more than a hundredfold."""
        coefficients, log_sigmas, logits, own = self._layout.part(step)
        logs, gate = np.log(np.maximum(self.weights, 1e-300)), self.gate
        if gate is None:
            logs[:-1] += logits
        else:
            gate = gate.move(logits)
        family = self.family.move_own(float(own.sum()))
        s2 = self.s2 * np.exp(2.0 * np.clip(log_sigmas, -MOST, MOST))
        return ObservedInformation(self.coef + coefficients, np.exp(log_softmax(logs)), s2, family, gate)

    def answer(self, rows: Rows) -> Sums:
        return add(self._answer(piece) for piece in dense_pieces(rows, PIECE))

    def scores(self, rows: Rows) -> tuple[Array, Array]:
        """Each unit's score, and how often the unit counts."""
        _, scores, count, _ = self._parts(rows)
        return scores, count

    def _answer(self, rows: Rows) -> Sums:
        curvature, scores, count, log_likelihood = self._parts(rows)
        alike = rows.weight is None
        outer = positive_gram(scores, None if alike else count, False)
        return {
            "information": curvature + outer,
            "outer": outer,
            "score": count @ scores,
            "units": np.array([float(count.sum())]),
            "log_likelihood": np.array(float(log_likelihood)),
        }

    def _parts(self, rows: Rows) -> tuple[Array, Array, Array, float]:
        """The information of complete data less the spread of its scores; units' scores, counts; log-likelihood."""
        p, k = self.coef.shape
        n = len(rows)
        family, y, predictor = self.family.of_rows(rows.beside), rows.y[:, None], predictors(rows, self.coef)
        densities = family.terms(y, predictor, self.s2).log_density
        found = self.mixing.posterior(rows, densities)
        R, shares, log_likelihood = found.rows, found.shares, found.log_likelihood
        of = family.derivatives(y, predictor, self.s2)
        count = kernels.unit_counts(n, rows.weight, rows.starts)
        X = np.ones((n, p), order="F")  # columns lie apart, so that products run along the rows
        X[:, : rows.X.shape[1]] = rows.X
        scaled = np.empty_like(X)
        layout = self._layout
        curvature = np.zeros((layout.size, layout.size))
        mean = np.zeros((len(count), layout.size), order="F")
        weights, inner = self.mixing, np.exp(found.log_weights[..., : k - 1])
        mean[:, layout.logits] = weights.logit_scores(rows, shares[:, : k - 1] - inner)
        for j in range(k):
            at = layout.coefficients(j)
            others = np.r_[layout.log_sigma(j), layout.family].astype(np.int64)
            own = np.r_[at, others].astype(np.int64)
            share = shares[:, j]
            first, twice = of.of_component(j)
            turns = weights.logit_scores(rows, np.eye(k)[j, : k - 1] - inner)
            turned = turns * (count * share)[:, None]
            if rows.starts is None:
                np.multiply(X, (first[0] * share)[:, None], out=mean[:, at])
                mean[:, others] += (first[1:] * share).T
                curvature[np.ix_(own, own)] += _bordered_gram(X, R[:, j] * (twice - first[:, None] * first), scaled)
                between = np.vstack([X.T @ (first[0, :, None] * turned), first[1:] @ turned])
            else:
                score = kernels.unit_sums(np.hstack([X * first[0, :, None], first[1:].T]), rows.weight, rows.starts)
                mean[:, at] = score[:, :p] * share[:, None]
                mean[:, others] += score[:, p:] * share[:, None]
                complete = _bordered_gram(X, R[:, j] * twice, scaled)
                curvature[np.ix_(own, own)] += complete - positive_gram(score, count * share, False)
                between = score.T @ turned
            curvature[own, layout.logits] -= between
            curvature[layout.logits, own] -= between.T
            curvature[layout.logits, layout.logits] -= turns.T @ turned
        curvature[layout.logits, layout.logits] += weights.information(found)
        return curvature, mean, count, log_likelihood


def _bordered_gram(X: Array, weights: Array, room: Array) -> Array:
    """The sum over rows of ``weights[a, b] z_a z_b'``, with z_0 = x and all others 1; the weights are symmetric.

    ``room`` is like X, and to work in.
    """
    side = X.T @ weights[0, 1:].T
    square = np.multiply(X, weights[0, 0, :, None], out=room).T @ X
    return np.block([[square, side], [side.T, weights[1:, 1:].sum(axis=-1)]])
