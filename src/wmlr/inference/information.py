"""The information that rows hold about a mixture, found and inverted in white coordinates.

In the data's own coordinates a column whose mean is large beside its deviation makes the information matrix
singular to rounding. Here every column is centred before it is multiplied and the features are white, so that only
what the data do not see is singular.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from wmlr.core.capabilities import capabilities_of
from wmlr.core.round import Engine, Rows, run_steps
from wmlr.engines.arrays import ArrayRows
from wmlr.io.users_line import warn_user
from wmlr.methods.centring import far_means
from wmlr.methods.gating import gate_basis, weight_slopes
from wmlr.methods.polish import FURTHER, LONG, ROUNDING
from wmlr.model.constraints import Constraints
from wmlr.model.layout import Layout, diagonal_blocks
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.coordinates import centred_moments, spanning_columns
from wmlr.numerics.solving import least_squares
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.mixing import LogitGate, UnitGate
from wmlr.statistics.moments import Moments
from wmlr.statistics.own_weights import GroupGate
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.whitened import Whitened, dense_pieces

NULL = 1e-12
"""Eigenvalues of the scaled information below this share of the largest are directions that the data do not see."""

BLUR = 1e-14
"""Added to correlations, whose smallest eigenvalue may be less than nothing by rounding."""

LOADING = 1e-6
"""A parameter with more than this share of its length in such directions has no error."""

ABOVE = 1e-8
"""Of the largest eigenvalue of the scaled information: a negative one of more is no rounding."""

WEAK = 0.01
"""Information, in total, below which the rows' predictors are uncertain by ten units of the link, or ten sigmas."""

RUNNING = 0.05
"""Of the longest way that a parameter goes in a step that leads out of bounds: one that goes as far has no bound."""


ERRORS = {"observed": "observed information", "sandwich": "sandwich", "clustered": "sandwich, clustered"}


def check_errors(errors: str) -> str:
    """A known kind of standard errors, or an error."""
    if errors not in ERRORS:
        raise ValueError(f"errors must be one of {', '.join(map(repr, ERRORS))} (got {errors!r})")
    return errors


def covariance(
    mixture: Mixture, rows: Engine, constraints: Constraints, robust: bool = False, ridge: float = 0.0
) -> Array:
    """The covariance of the free parameters: the inverse observed information, or the sandwich.

    Order: coefficients component by component with the intercept last in each (only the first component's
    when symmetric, and shared ones only with the first), then log sigma (one, or one per component), then
    the logits of the first k-1 weights against the last. A parameter that the data say nothing about has NaN.

    Parameters
    ----------
    mixture : where the likelihood was maximised.
    rows : any engine that holds the data. Where it has groups, a group is the unit of the sandwich.
    constraints : which parameters were free.
    robust : the sandwich, which stays right when the noise is not as the model has it.
    ridge : the penalty on squared coefficients of the fit. What comes back is then the covariance around
        the penalised estimate's own expectation.
    """
    return Information.of(mixture, rows, constraints, ridge).covariance(robust)


def clustered_covariance(
    mixture: Mixture, rows: ArrayRows, clusters: Integers, constraints: Constraints, ridge: float = 0.0
) -> Array:
    """The sandwich of a fit by rows, where rows of one cluster may depend on each other.

    Parameters
    ----------
    mixture, constraints, ridge : as for :func:`covariance`.
    rows : the rows in memory, each with a component of its own.
    clusters : (n,) codes 0 ... G-1.
    """
    information = Information.of(mixture, rows, constraints, ridge)
    moves = np.vstack([information.influence(block) for block in rows])
    together = np.zeros((int(clusters.max()) + 1, moves.shape[1]))
    np.add.at(together, clusters, moves)
    counts = np.bincount(clusters, rows.weight).astype(np.float64)
    together -= np.outer(counts / counts.sum(), together.sum(axis=0))
    return np.asarray(together.T @ together)


def effective_parameters(mixture: Mixture, rows: Engine, constraints: Constraints, ridge: float) -> float:
    """How many parameters a fit with a ridge is worth.

    Each component counts as its ridge regression does, the rows shared out by the responsibilities: the trace of
    (G + P)^-1 G, with G the weighted Gram matrix and P the penalty. Sigmas and weights count in full.
    """
    k = mixture.n_components
    view = WhiteView.of(rows, constraints, ridge)
    grams = _score(mixture, rows, view)["grams"] / view.weight
    free = constraints.white_embedding(view.basis, k)
    gram = free.T @ diagonal_blocks(*(grams / mixture.sigma[:, None, None] ** 2)) @ free
    bend = _ridge(view, mixture, constraints)[1]
    penalty = free.T @ bend[: len(free), : len(free)] @ free
    found = least_squares(gram + penalty, gram, NULL)
    return float(np.trace(found)) + float(constraints.others(k))


def _score(mixture: Mixture, rows: Engine, view: WhiteView) -> Sums:
    """What EM's steps at a mixture go by, in white coordinates."""
    logs = np.log(np.maximum(mixture.weights, 1e-300))
    query = MixtureScore(view.inside(mixture), logs, mixture.sigma**2, True, mixture.family, view.gate_of(mixture))
    return rows.total(Whitened(query, view.centre, view.inner))


@dataclass(frozen=True)
class WhiteView:
    """White features of some rows, ``(x - centre) @ inner``.

    Attributes
    ----------
    centre : (d,), about the columns' means; 0 where there is no intercept.
    inner : (d, r), zero for columns that follow from others.
    second : (d, d), the columns' covariance, or their second moments where there is no intercept.
    ridge : the penalty on squared coefficients, per unit of weight.
    weight, units : of all rows, and how many rows or groups they are.
    intercept : whether there is one; it is the last white coefficient.
    gate : (g + 1, r), from white coefficients of the columns that weights depend on to their own; None without any.
    """

    centre: Array
    inner: Array
    second: Array
    ridge: float
    weight: float
    units: float
    intercept: bool
    gate: Array | None = None

    @classmethod
    def of(cls, rows: Engine, constraints: Constraints, ridge: float) -> WhiteView:
        """The view of an engine's rows, by one round, or two more where a column lies far from zero."""
        moments = Moments(intercept=constraints.intercept)
        sums, origin = rows.total(moments), np.zeros(rows.n_features)
        far = run_steps(far_means(sums), rows) if constraints.intercept else None
        if far is not None:
            sums, origin = rows.total(Whitened(moments, far)), far
        weight = float(sums["weight"])
        means, second, squares = centred_moments(sums, constraints.intercept)
        every = np.arange(len(means))
        kept = every if ridge > 0 else spanning_columns(second, squares, constraints.shared).kept
        penalized = second[np.ix_(kept, kept)] + ridge / weight * np.eye(len(kept))
        scale = np.sqrt(np.diag(penalized))
        correlation = penalized / np.outer(scale, scale) + BLUR * np.eye(len(kept))
        inner = np.zeros((len(means), len(kept)))
        inner[kept] = solve_triangular(np.linalg.cholesky(correlation), np.diag(1.0 / scale), lower=True).T
        centre = origin + means
        centre[kept] = _to_grid(centre[kept], scale)
        return cls(
            centre, _to_grid(inner, np.abs(inner)), second, ridge / weight, weight, float(sums["units"]),
            constraints.intercept, run_steps(gate_basis(constraints.gate), rows),
        )  # fmt: skip

    @property
    def dimension(self) -> int:
        return int(self.inner.shape[1]) + int(self.intercept)

    @property
    def basis(self) -> Array:
        """(p, r), from white coefficients to the data's own."""
        if not self.intercept:
            return self.inner
        return np.block([[self.inner, np.zeros((len(self.centre), 1))], [-self.centre @ self.inner, np.ones(1)]])

    @property
    def gate_size(self) -> int:
        """How many coordinates each logit has."""
        return 1 if self.gate is None else int(self.gate.shape[1])

    def gate_of(self, mixture: Mixture) -> UnitGate | None:
        """A mixture's gate in these coordinates, where its weights differ from row to row."""
        if mixture.prior is not None:
            return GroupGate(mixture.prior)
        if self.gate is None or mixture.gate is None:
            return None
        return LogitGate(self.gate, least_squares(self.gate, mixture.gate.T))

    def layout(self, k: int, own: bool) -> Layout:
        """Where white parameters stand."""
        return Layout(self.dimension, k, int(own), self.gate_size)

    def whiten(self, rows: Rows) -> Rows:
        """Rows with their features made white."""
        return replace(rows, X=(rows.X - self.centre) @ self.inner)

    def inside(self, mixture: Mixture) -> Array:
        """White coefficients (r, k) of a mixture; those of columns left out go to the columns they follow from."""
        coef = mixture.coef.T
        sizes = np.linalg.norm(self.inner, axis=1)
        kept = sizes > 0
        scale = sizes[kept, None]
        B = least_squares(self.inner[kept] / scale, coef[kept] / scale)
        if coef[~kept].any():
            B = B + self.inner.T @ (self.second[:, ~kept] @ coef[~kept])
        return np.vstack([B, mixture.intercept + self.centre @ coef]) if self.intercept else B

    def penalty(self, columns: tuple[int, ...] | None = None) -> Array:
        """(r, r), the ridge on squared coefficients of all columns, or of some."""
        of = self.inner if columns is None else self.inner[[place for place in columns if place < len(self.inner)]]
        found = np.zeros((self.dimension, self.dimension))
        found[: of.shape[1], : of.shape[1]] = self.ridge * (of.T @ of)
        return found


def _to_grid(values: Array, scale: Array) -> Array:
    """Values to a millionth of ``scale``, so that the last digits of sums do not show in what follows from them."""
    with np.errstate(divide="ignore"):
        step = np.exp2(np.floor(np.log2(scale)) - 20)
    return np.asarray(np.where(step > 0, np.round(values / np.where(step > 0, step, 1.0)) * step, values))


@dataclass(frozen=True)
class Information:
    """What the equations of a fit say around it, in white coordinates of the free parameters, per unit of weight.

    The estimate solves ``score - pull = 0`` with ``pull`` the ridge's. Without a ridge ``slope`` and ``middle`` are
    both the observed information.

    Attributes
    ----------
    view, query : the white coordinates, and what was asked in them.
    free : all white parameters, as linear functions of the free ones.
    raw : the free parameters on the data's own scale, as linear functions of the white ones.
    slope : minus the derivative of the equations.
    middle : the variance of the score under the model.
    outer : the same from the rows' own scores.
    unbounded : the free parameters that have no finite estimate.
    answers : each agent's own part of the sums, where the engine saw them.
    """

    view: WhiteView
    query: ObservedInformation
    free: Array
    raw: Array
    slope: Array
    middle: Array
    outer: Array
    penalized: bool
    unbounded: NDArray[np.bool_]
    answers: Mapping[Hashable, Sums] = field(default_factory=dict)

    @classmethod
    def of(cls, mixture: Mixture, rows: Engine, constraints: Constraints, ridge: float = 0.0) -> Information:
        """At a mixture, from an engine's rows."""
        k, d = mixture.n_components, mixture.n_features
        view = WhiteView.of(rows, constraints, ridge)
        sums = rows.total(white_query(mixture, view))
        answers = capabilities_of(rows).last_answers
        free = free_directions(view, constraints, k)
        outward = view.layout(k, bool(constraints.own)).change_of_basis(view.basis, view.gate)
        raw = (outward @ free)[constraints.embedding(k, d).argmax(axis=0)]
        weight = view.weight
        slope = middle = sums["information"] / weight
        outer = sums["outer"] / weight
        if ridge > 0:
            pull, bend, cross = _ridge(view, mixture, constraints)
            turn = _turn(view, mixture, constraints, rows)
            middle = middle - cross - cross.T
            slope = slope + bend - cross + turn
            outer = outer - np.outer(pull, pull) * (weight / view.units)
        slope, middle, outer = (free.T @ matrix @ free for matrix in (slope, middle, outer))
        found = cls(
            view, _information_query(mixture, view), free, raw, slope, middle, outer, ridge > 0,
            np.zeros(len(raw), dtype=bool), answers,
        )  # fmt: skip
        if ridge > 0 or not found.at_maximum:
            return found
        return replace(found, unbounded=found._unseen_parameters() | found._unbounded_parameters(sums, rows))

    @property
    def at_maximum(self) -> bool:
        """Whether the likelihood curves upwards in no direction; with a ridge, whether its equations are stable."""
        scaled = self.slope / np.outer(self._scale, self._scale)
        values = np.linalg.eigvals(scaled).real if self.penalized else np.linalg.eigvalsh((scaled + scaled.T) / 2)
        return bool(values.min(initial=0.0) >= -ABOVE * np.abs(values).max(initial=0.0))

    @property
    def _scale(self) -> Array:
        scale = np.sqrt(np.abs(np.diag(self.slope)))
        return np.where(scale == 0, 1.0, scale)

    def covariance(self, robust: bool = False) -> Array:
        """Of the free parameters on the data's own scale."""
        inverse, unseen = self._inverse()
        found = inverse
        if robust or self.penalized:
            found = inverse @ (self.outer if robust else self.middle) @ inverse.T
        out = self.raw @ found @ self.raw.T
        lost = self._lost_parameters(unseen) | self.unbounded
        if self.penalized:
            lost |= ~(np.diag(out) > NULL * np.einsum("ij,jk,ik->i", self.raw, inverse, self.raw))
        out[lost], out[:, lost] = np.nan, np.nan
        return np.asarray((out + out.T) / (2 * self.view.weight))

    def moves(self) -> dict[Hashable, Array]:
        """What leaving out each agent would move the estimates by, to first order."""
        found, weight = {}, self.view.weight
        for agent, sums in self.answers.items():
            left = self.slope - self.free.T @ sums["information"] @ self.free / weight
            step = least_squares(left, self.free.T @ sums["score"] / weight, NULL)
            found[agent] = np.asarray(-self.raw @ step)
        return found

    def influence(self, rows: Rows) -> Array:
        """(units, free parameters): what each row or group moves the estimates by."""
        inverse, unseen = self._inverse()
        turn = self.free @ inverse.T @ self.raw.T / self.view.weight
        turn[:, self._lost_parameters(unseen) | self.unbounded] = np.nan
        pieces = [self.query.scores(self.view.whiten(piece)) for piece in dense_pieces(rows)]
        return np.vstack([(scores @ turn) * count[:, None] for scores, count in pieces])

    def _unseen_parameters(self) -> NDArray[np.bool_]:
        """The parameters whose variance is mostly that of directions which hardly any row speaks of."""
        query, layout = self.query, self._layout
        unit = np.ones(layout.size)
        if query.family.linear:
            unit[: layout.k * layout.p] = np.repeat(1.0 / query.s2, layout.p)
        metric = self.free.T @ (unit[:, None] * self.free)
        values, vectors = eigh((self.slope + self.slope.T) * (self.view.weight / 2), metric)
        sizes = np.maximum(np.abs(values), np.finfo(np.float64).tiny)
        parts = np.square(self.raw @ vectors) / sizes
        return np.asarray(2.0 * parts[:, sizes < WEAK].sum(axis=1) > parts.sum(axis=1))

    def _unbounded_parameters(self, sums: Sums, rows: Engine) -> NDArray[np.bool_]:
        """The parameters without a finite estimate: the likelihood still rises well beyond Newton's step."""
        weight, layout = self.view.weight, self._layout
        slopes = self.free.T @ sums["score"] / weight
        step = least_squares(self.slope, slopes, NULL)
        coefficients, deviations, logits, own = layout.part(self.free @ step)
        scale = self.query.s2 if self.query.family.linear else 1.0
        length = weight * float((np.square(coefficients) / scale).sum())
        length += sum(float(np.square(part).sum()) for part in (deviations, logits, own))
        before = float(sums["log_likelihood"])
        nowhere = np.zeros(len(self.raw), dtype=bool)
        may_run = self.query.family.discrete or self.view.gate is not None
        if not may_run or length < LONG or 0.5 * weight * float(slopes @ step) <= ROUNDING * (abs(before) + weight):
            return nowhere
        beyond = self.query.move(FURTHER * (self.free @ step))
        if float(rows.total(Whitened(beyond, self.view.centre, self.view.inner))["log_likelihood"]) <= before:
            return nowhere
        ways = np.abs(self.raw @ step) / np.maximum(np.linalg.norm(self.raw, axis=1), 1e-300)
        return np.asarray(ways > RUNNING * ways.max())

    @property
    def _layout(self) -> Layout:
        return self.view.layout(len(self.query.s2), self.query.family.own is not None)

    def _inverse(self) -> tuple[Array, Array]:
        """The inverse of the slope where the data see something, and the directions in which they do not."""
        scale = self._scale
        scaled = self.slope / np.outer(scale, scale)
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        largest = float(np.abs(values).max(initial=0.0))
        if not self.at_maximum:
            warn_user(
                "the likelihood is not at a maximum here, so standard errors are not to be relied on: "
                "fit with a smaller tol or a larger max_iter, or with fewer components",
                UserWarning,
            )
        seen = np.abs(values) > NULL * largest
        within = vectors[:, seen]
        inner = within @ np.linalg.solve(within.T @ scaled @ within, within.T)
        return np.asarray(inner / np.outer(scale, scale)), vectors[:, ~seen] / scale[:, None]

    def _lost_parameters(self, unseen: Array) -> NDArray[np.bool_]:
        """The parameters that no data speak of: left out, or with a part in a direction that is not seen."""
        sizes = np.linalg.norm(self.raw / np.sqrt(np.maximum(np.abs(np.diag(self.slope)), 1e-300)), axis=1)
        return np.asarray((np.linalg.norm(self.raw @ unseen, axis=1) > LOADING * sizes) | ~self.raw.any(axis=1))


def white_query(mixture: Mixture, view: WhiteView) -> Whitened:
    """The observed information at a mixture, asked in white coordinates."""
    return Whitened(_information_query(mixture, view), view.centre, view.inner)


def _information_query(mixture: Mixture, view: WhiteView) -> ObservedInformation:
    at = view.inside(mixture), mixture.weights, mixture.sigma**2
    return ObservedInformation(*at, mixture.family, view.gate_of(mixture))


def free_directions(view: WhiteView, constraints: Constraints, k: int) -> Array:
    """All white parameters, as linear functions of the free ones."""
    return constraints.free(constraints.white_embedding(view.basis, k), k, gate=view.gate_size)


def _ridge(view: WhiteView, mixture: Mixture, constraints: Constraints) -> tuple[Array, Array, Array]:
    """The ridge's pull on all parameters, its derivative in the coefficients, and minus that in sigma.

    The pull is P_j b_j / sigma_j^2, with the sigma and, for what is shared, the weight that the fit has. A symmetric
    pair has one vector of coefficients, which both components share.
    """
    k, B, s2 = mixture.n_components, view.inside(mixture), mixture.sigma**2
    ridge, common = view.penalty(), _common(view, constraints)
    layout = view.layout(k, bool(constraints.own))
    pull = np.zeros(layout.size)
    bend, cross = np.zeros((2, layout.size, layout.size))
    for j in range(k):
        at = layout.coefficients(j)
        penalty = (ridge - (1.0 - mixture.weights[j]) * common) / s2[j]
        pull[at] = penalty @ B[:, j]
        bend[at, at] = penalty
        cross[at, layout.log_sigma(j)] = 2.0 * pull[at]
    return pull, bend, cross


def _turn(view: WhiteView, mixture: Mixture, constraints: Constraints, rows: Engine) -> Array:
    """The derivative of the ridge's pull in the logits, by the weights that shared coefficients are penalised by."""
    k, B, common = mixture.n_components, view.inside(mixture), _common(view, constraints)
    layout = view.layout(k, bool(constraints.own))
    turn = np.zeros((layout.size, layout.size))
    if constraints.shared and not constraints.symmetric:
        information = None if view.gate is None else _score(mixture, rows, view)["gate_information"]
        slopes = weight_slopes(mixture.weights, information, view.units)
        for j in range(k):
            turn[layout.coefficients(j), layout.logits] = np.outer(common @ B[:, j] / mixture.sigma[j] ** 2, slopes[j])
    return turn


def _common(view: WhiteView, constraints: Constraints) -> Array:
    """The ridge on what components share."""
    return view.penalty() if constraints.symmetric else view.penalty(constraints.shared)
