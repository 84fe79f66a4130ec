"""Many columns: what methods ask for where the matrix of second moments would be too large to make.

Columns are scaled, not whitened. Where a method wants S^-1 m, conjugate gradients find it by products X'(Xv), and
where it wants eigenvectors, so does a block Davidson search; each product is a round over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Steps
from wmlr.io.users_line import warn_user
from wmlr.methods.krylov import BLOCK, Pencil, Product, leading_eigenpairs, solve
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.search.spectral import short_runs
from wmlr.methods.starts import Within, usual_rows
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import ScaledFrame, orient_columns, scale_frame
from wmlr.statistics.products import FourthProducts, PosteriorProducts, Products, Scales
from wmlr.statistics.start_scale import on_start_scale

if TYPE_CHECKING:
    from wmlr.methods.general import MixturePoint

ROUGH = 0.05  # relative error of directions that only start a climb
SOLUTION_ERROR = 0.1  # relative error of a step, which is corrected by the next
CLOSE = 1e-3  # relative error of the regression that starts lie around
EXACT = 1e-10  # relative error of a mean that is taken off once and for all
SEARCH_ROUNDS = 16  # for spectral directions, which need not be exact
NORM_ROUNDS = 6  # for the largest eigenvalue, of which an upper bound is wanted
SLACK = 1.05  # above that eigenvalue, which is found from below

Place = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Wide:
    """Products of the columns' matrices with vectors, each a round over the rows."""

    searches: bool = False

    def survey(self, task: Task) -> Steps[ScaledFrame]:
        return (yield from survey(task))

    def moments(self, task: Task) -> Query:
        return on_start_scale(task.family, Scales(task.intercept))

    def least_squares(self, frame: ScaledFrame) -> Steps[Array]:
        return (yield from least_squares(frame))

    def spectral_places(self, frame: ScaledFrame, task: Task, fit: Array, within: Within) -> Steps[list[Place]]:
        return (yield from places(frame, task, fit, within))

    def allow(self, task: Task, frame: ScaledFrame, B: Array, weights: Array) -> Array:
        B, shared = B.copy(), list(task.shared)
        B[shared] = (B @ weights)[shared, None]
        return B

    def scaled_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        share = np.maximum(here.curvature_weight, LEAST_MASS / here.frame.spread)
        right = here.score * (here.curvature_weight > LEAST_MASS / here.frame.spread)
        D, bent = yield from _solve(task, here, gram_product(here.frame, share, here.weights), right)
        return D, (D * bent).sum(axis=0)

    def solve_gram(self, frame: ScaledFrame, right: Array) -> Steps[tuple[Array, Array]]:
        one = np.ones(1)
        D, bent = yield from steps(frame, gram_product(frame, one), one, right[:, None], one)
        return D[:, 0], bent[:, 0]

    def weighted_step(self, task: Task, here: MixturePoint) -> Steps[tuple[Array, Array]]:
        frame: ScaledFrame = here.frame
        at = frame.to_data(here.B), here.log_weights, here.s2

        def product(V: Array) -> Steps[Array]:
            sums = yield PosteriorProducts(*at, frame.to_data(V), here.family, here.gate_query)
            return frame.mean_of(sums["grams"]) + frame.shrink(V, here.weights)

        return (yield from _solve(task, here, product, here.score))


def _solve(task: Task, here: MixturePoint, product: Product, right: Array) -> Steps[tuple[Array, Array]]:
    share = np.maximum(here.curvature_weight, LEAST_MASS / here.frame.spread)
    D, bent = yield from steps(here.frame, product, share, right, here.s2, task.shared)
    return D, bent - here.frame.shrink(D, here.weights)


WIDE = Wide()


def survey(task: Task, stretched: bool = False, raw: bool = False) -> Steps[ScaledFrame]:
    """One round for the scaled frame.

    ``stretched`` takes a few more to divide the columns so far that no direction has a mean square above one:
    gradient steps of size one are then safe. ``raw`` leaves the data's own coordinates.
    """
    sums = yield WIDE.moments(task)
    frame = scale_frame(sums, task.intercept, task.ridge, 0.0 if raw else 1.0, task.shared)
    _warn_when_short(frame, task)
    if stretched and not raw:
        theta, _ = yield from leading_eigenpairs(_gram_alone(frame), _random(frame, task), 1, ROUGH, NORM_ROUNDS)
        stretch = float(np.sqrt(SLACK * max(theta[0], 1.0)))
        frame = scale_frame(sums, task.intercept, task.ridge, stretch, task.shared)
    return frame


def gram_product(frame: ScaledFrame, mass: Array, weights: Array | None = None) -> Product:
    """(mass_i S + P) v_i for each column v_i, P the ridge, in which shared columns count by the ``weights``."""

    def product(V: Array) -> Steps[Array]:
        sums = yield Products(frame.to_data(V))
        return np.asarray(frame.mean_of(sums["gram"]) * mass + frame.shrink(V, weights))

    return product


def steps(
    frame: ScaledFrame, product: Product, mass: Array, right: Array, s2: Array, shared: tuple[int, ...] = ()
) -> Steps[tuple[Array, Array]]:
    """The columns D_i with A_i D_i = right_i, about, and A_i D_i; A_i has about the diagonal mass_i + P.

    Shared columns tie the D_i together, each weighing by 1/s2_i.
    """
    diagonal = mass + frame.ridge[:, None]
    if not shared:
        return (yield from solve(product, right, diagonal, SOLUTION_ERROR))
    tied = np.zeros(frame.dimension, dtype=bool)
    tied[list(shared)] = True
    k, c = right.shape[1], int(tied.sum())

    def unfold(z: Array) -> Array:
        D = np.empty_like(right)
        D[tied], D[~tied] = z[:c], z[c:].reshape(-1, k)
        return D

    def fold(G: Array) -> Array:
        G = G / s2
        return np.concatenate([G[tied].sum(axis=1), G[~tied].ravel()])[:, None]

    def fold_product(z: Array) -> Steps[Array]:
        return fold((yield from product(unfold(z))))

    z, _ = yield from solve(fold_product, fold(right), fold(diagonal), SOLUTION_ERROR)
    D = unfold(z)
    return D, (yield from product(D))


def least_squares(frame: ScaledFrame, tol: float = CLOSE) -> Steps[Array]:
    """The single (ridge) regression of y on the features; where rows are fewer, the shortest that fits.

    Of the rows that starts look at, as the moments of y are.
    """
    within, own = usual_rows(frame), replace(frame, weight=frame.start_weight)

    def product(V: Array) -> Steps[Array]:
        return own.mean_of((yield within(Products(frame.to_data(V))))["gram"]) + frame.shrink(V)

    fit, _ = yield from solve(product, frame.xy[:, None], 1.0 + frame.ridge[:, None], tol)
    return np.asarray(fit[:, 0])


def start_direction(frame: ScaledFrame, task: Task, mean: Array | None = None) -> Steps[Array]:
    """The spectral direction where the task begins with it, else zero: it takes many rounds to find."""
    if task.start_word in ("", "random"):
        return np.zeros(frame.dimension)
    return (yield from spectral_direction(frame, task, mean))


def spectral_direction(frame: ScaledFrame, task: Task, mean: Array | None = None) -> Steps[Array]:
    """As :func:`wmlr.methods.starts.spectral_direction`, of mean square one along the features."""
    V = yield from _directions(frame, task, mean, 1, lambda query: query)
    return V[:, 0]


def places(frame: ScaledFrame, task: Task, fit: Array, within: Within) -> Steps[list[Place]]:
    """The best few of many short runs inside a subspace that is found by products."""
    mean = frame.to_data(fit)
    columns = [fit[:, None]]
    if task.n_components > 1:
        columns.append((yield from _directions(frame, task, mean, task.n_components - 1, within)))
    if frame.intercept:
        sums = yield within(on_start_scale(task.family, FourthProducts(mean[:, None], mean)))
        growth = _inner(frame, replace(frame, weight=float(sums["weight"])).mean_of(sums["growth"]))[:, None]
        product = _shifted_gram(frame)
        grown, _ = yield from solve(product, growth, np.full_like(growth, 1.0 + _shift(frame)), ROUGH)
        columns += [grown, np.eye(frame.dimension, 1, -(frame.dimension - 1))]
    V = np.hstack(columns)
    V = V / np.maximum(np.linalg.norm(V, axis=0), 1e-300)
    bent = frame.mean_of((yield Products(frame.to_data(V)))["gram"])
    lengths, turns = np.linalg.eigh(0.5 * (V.T @ bent + bent.T @ V))
    kept = lengths > 1e-10 * max(lengths[-1], 1e-300)
    turn = turns[:, kept] / np.sqrt(lengths[kept])
    Z = V @ turn
    centre = turn.T @ (bent.T @ fit)
    found = yield from short_runs(frame, task, frame.to_data(Z), centre, frame.yy - float(frame.xy @ fit), within)
    return [(Z @ coef.T, weights, s2) for coef, weights, s2 in found]


def _directions(frame: ScaledFrame, task: Task, mean: Array | None, wanted: int, within: Within) -> Steps[Array]:
    """The leading directions of sum r^2 ww', or of its cross terms within groups, relative to S.

    S is shifted by d/n, so that fewer rows than columns do not make every row a direction of its own.
    """
    shift = _shift(frame)

    def ask(V: Array) -> Steps[tuple[Array, Array]]:
        sums = yield within(on_start_scale(task.family, FourthProducts(frame.to_data(V), mean)))
        own = replace(frame, weight=float(sums["weight"]))
        gram = _inner(frame, own.mean_of(sums["gram"]))
        return _inner(frame, _column_spread(own, sums, gram)), gram + shift * V

    _, V = yield from leading_eigenpairs(ask, _random(frame, task, 2 * wanted), wanted, ROUGH, SEARCH_ROUNDS)
    squares = 1.0 - shift * np.einsum("ri,ri->i", V, V)
    return orient_columns(V / np.sqrt(np.maximum(squares, 1e-300)))


def _column_spread(frame: ScaledFrame, sums: Sums, gram: Array) -> Array:
    if "pairs" in sums and float(sums["pair_count"]) > 0:
        return frame.mean_of(sums["pairs"])
    return frame.mean_of(sums["fourth"]) - float(sums["rr"]) / frame.weight * gram


def _gram_alone(frame: ScaledFrame) -> Pencil:
    def ask(V: Array) -> Steps[tuple[Array, Array]]:
        return _inner(frame, frame.mean_of((yield Products(frame.to_data(V)))["gram"])), V

    return ask


def _shifted_gram(frame: ScaledFrame) -> Product:
    def product(V: Array) -> Steps[Array]:
        sums = yield Products(frame.to_data(V))
        return _inner(frame, frame.mean_of(sums["gram"])) + _shift(frame) * V

    return product


def _shift(frame: ScaledFrame) -> float:
    return frame.dimension / max(frame.rows, 1.0)


def _inner(frame: ScaledFrame, V: Array) -> Array:
    """Columns without their part along the intercept."""
    if frame.intercept:
        V = V.copy()
        V[-1] = 0.0
    return V


def _random(frame: ScaledFrame, task: Task, columns: int = BLOCK) -> Array:
    return _inner(frame, task.generator().standard_normal((frame.dimension, max(columns, BLOCK))))


def _warn_when_short(frame: ScaledFrame, task: Task) -> None:
    d = len(frame.per)
    if frame.rows < d and not task.ridge:
        warn_user(
            f"there are fewer rows ({frame.rows:.0f}) than columns ({d}): of the coefficients that fit them the "
            "shortest are given, each in units of its column; set alpha= to shrink them instead",
            UserWarning,
        )
