"""The k-component mixture of many columns: the climb of :mod:`wmlr.methods.general`, by products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Fit, Method, Steps
from wmlr.methods import general, wide
from wmlr.methods.ascent import Move, climb
from wmlr.methods.krylov import Product
from wmlr.methods.ridge import left_by, penalty, renewed
from wmlr.methods.starts import random_vectors, ranked, usual_range
from wmlr.methods.task import Task, mixture
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import ScaledFrame
from wmlr.statistics.products import PosteriorProducts, Scales
from wmlr.statistics.robust import StudentScore, Trimmed
from wmlr.statistics.score import MixtureScore

constrained: Callable[..., tuple[Array, Array]] = general.constrained


@dataclass(frozen=True)
class WidePoint:
    """Coefficients B (r, k), weights and variances in a scaled frame, with the sums found there.

    The names are those of :class:`wmlr.methods.general.MixturePoint`.
    """

    frame: ScaledFrame
    B: Array
    weights: Array
    s2: Array
    m: Array
    squares: Array
    mass: Array
    grip: Array
    units: Array
    log_likelihood: float
    dof: float | None = None
    predicted: float | None = None
    shift: float = 0.0

    @property
    def place(self) -> Array:
        return self.B

    @property
    def objective(self) -> float:
        """The log-likelihood less the ridge's penalty."""
        return self.log_likelihood - penalty(self.frame, self.B, (self.weights, self.s2)) + self.shift

    @property
    def score(self) -> Array:
        """The penalised score times the variances."""
        return np.asarray(self.m - self.frame.shrink(self.B, self.weights))

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.score / self.s2))

    def mixture(self) -> Mixture:
        return mixture(self.frame.raw(self.B), self.weights, self.s2, self.frame.intercept, self.dof)


def _query(frame: ScaledFrame, B: Array, weights: Array, s2: Array, dof: float | None) -> MixtureScore | StudentScore:
    coef, log_weights = frame.raw(B), np.log(np.maximum(weights, 1e-300))
    return MixtureScore(coef, log_weights, s2) if dof is None else StudentScore(coef, log_weights, s2, dof)


def evaluate(frame: ScaledFrame, B: Array, weights: Array, s2: Array, dof: float | None = None) -> Steps[WidePoint]:
    """Ask for the score at (B, weights, s2)."""
    sums = yield _query(frame, B, weights, s2, dof)
    squares, mass = sums["squares"] / frame.weight, sums["mass"] / frame.weight
    return WidePoint(
        frame=frame,
        B=B,
        weights=weights,
        s2=s2,
        m=frame.pull(sums["score"]),
        squares=squares,
        mass=mass,
        grip=sums["grip"] / frame.weight if "grip" in sums else mass,
        units=sums["units"] / max(float(sums["units"].sum()), 1e-300),
        log_likelihood=float(sums["log_likelihood"]),
        dof=dof,
    )


def scaled_move(task: Task, damping: float = 1.0) -> Move[WidePoint]:
    """The refreshed-reference step D_i = S^-1 m_i / pi_i."""

    def move(here: WidePoint) -> Steps[WidePoint]:
        frame, grip = here.frame, np.maximum(here.grip, general.LEAST_MASS)
        right = here.score * (here.grip > general.LEAST_MASS)
        product = wide.gram_product(frame, grip, here.weights)
        D, bent = yield from wide.steps(frame, product, grip, right, here.s2, task.shared)
        bend = ((bent - frame.shrink(D, here.weights)) * D).sum(axis=0)
        squares = here.squares - 2.0 * damping * (D * here.m).sum(axis=0) + damping**2 * bend
        return (yield from _moved(task, here, here.B + damping * D, np.maximum(squares, 0.1 * here.squares)))

    return move


def em_move(task: Task) -> Move[WidePoint]:
    """EM: each component's weighted least squares by conjugate gradients, the posterior held."""

    def move(here: WidePoint) -> Steps[WidePoint]:
        frame, grip = here.frame, np.maximum(here.grip, general.LEAST_MASS)
        D, bent = yield from wide.steps(frame, _weighted(here), grip, here.score, here.s2, task.shared)
        change = (D * (bent - frame.shrink(D, here.weights) - 2.0 * here.m)).sum(axis=0)
        return (yield from _moved(task, here, here.B + D, np.maximum(here.squares + change, 0.0)))

    return move


def _weighted(here: WidePoint) -> Product:
    at = _query(here.frame, here.B, here.weights, here.s2, here.dof)

    def product(V: Array) -> Steps[Array]:
        sums = yield PosteriorProducts(at.coef, at.log_weights, at.s2, here.frame.raw(V), here.dof)
        return here.frame.pull(sums["grams"]) + here.frame.shrink(V, here.weights)

    return product


def _moved(task: Task, here: WidePoint, B: Array, squares: Array) -> Steps[WidePoint]:
    weights, s2 = constrained(task, here.frame, here.units, squares, here.mass)
    there = yield from evaluate(here.frame, B, weights, s2, here.dof)
    return replace(there, shift=here.shift + renewed(here.frame, B, (here.weights, here.s2), (weights, s2)))


def survey(task: Task, stretched: bool = False, raw: bool = False) -> Steps[ScaledFrame]:
    """The scaled frame; where influence is bounded, y's moments are those of its usual range."""
    frame = yield from wide.survey(task, stretched, raw)
    if task.dof is None:
        return frame
    low, high = yield from usual_range(frame.y, float(np.sqrt(max(frame.yy - frame.y**2, 1e-300))))
    usual = yield Trimmed(Scales(task.intercept), low, high)
    weight = float(usual["weight"])
    xy = replace(frame, weight=weight).pull(usual["xy"])
    y, yy = (float(usual[name]) / weight for name in ("y", "yy"))
    return replace(frame, xy=xy, y=y, yy=yy, usual=(low, high))


def begin(task: Task, frame: ScaledFrame) -> Steps[WidePoint]:
    """The point to climb from: the best of the places a start finds."""
    k = task.n_components

    def within(query: Query) -> Query:
        return query if frame.usual is None else Trimmed(query, *frame.usual)

    fit = yield from wide.least_squares(frame)
    left = left_by(frame, fit)
    equal = np.full(k, 1.0 / k)
    if k == 1:
        places = [(fit[:, None], equal, np.full(k, left))]
    elif not isinstance(task.start, str):
        places = [(frame.inside(np.asarray(task.start).T), equal, np.full(k, left / 2))]
    elif task.start == "random":
        places = [(random_vectors(frame, task, k) * frame.scale, equal, np.full(k, left))]
    else:
        places = yield from wide.places(frame, task, fit, within)
    points: list[WidePoint] = []
    for B, weights, s2 in places:
        weights, s2 = constrained(task, frame, weights, s2 * weights, weights)
        if task.shared:
            B = B.copy()
            B[list(task.shared)] = (B @ weights)[list(task.shared), None]
        points.append((yield from evaluate(frame, B, weights, s2, task.dof)))
    return points[
        int(
            ranked(
                np.array([point.log_likelihood - penalty(frame, point.B, (point.weights, left)) for point in points])
            )[0]
        )
    ]


def climbed(task: Task, newton: bool) -> Method[Fit]:
    """Refreshed WMLR (``newton``) or EM, to the end."""
    frame = yield from survey(task)
    here = yield from begin(task, frame)
    moves = [em_move(task)]
    if newton:
        moves = [scaled_move(task), scaled_move(task, 0.5), *moves]
    here, fit = yield from climb(here, moves, frame.weight, task.max_iter, task.tol)
    floored = task.sigma is None and bool(np.any(here.s2 <= 1.001 * frame.floor))
    return replace(fit, units=frame.members, floored=floored)
