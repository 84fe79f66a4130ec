"""Where training begins: first a mixture on fixed features, then a network that has learned its curves.

Smooth fixed features keep a branch one branch where it crosses another, which a network alone would not. All
of it is queries, so a start is found among agents as it is in one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wmlr.core.capabilities import capabilities_of
from wmlr.core.query import Query
from wmlr.core.round import Fit, Method, Sampled, Steps, Together, pass_on, run_together, with_relay
from wmlr.engines.arrays import single_blas
from wmlr.features.maps import Mapped, Phi, column_spread
from wmlr.methods import Refreshed
from wmlr.methods.partial import partial
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL, FREE
from wmlr.model.mixture import Mixture
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.network import NetworkPhi, flat
from wmlr.neural.optimizer import Adam, step_factor
from wmlr.neural.queries import Distilled, Responses, Units
from wmlr.neural.rows import TrainingRows
from wmlr.neural.training import TrainingPlan, TrainingState, held_out_likelihood, train
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0)
MOST_WAVES = 40
ROWS_PER_WAVE = 15
RIDGE = 1e-6
HEAD_RIDGE = 1e-4
HEAD_STEPS = 20
LEAST_LESSONS = 100
FIRST_LOOK = (3_000, 40)  # units, steps
SECOND_LOOK = (8_000, 120)
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Waves:
    """x itself, standardised, and cosines of random projections of it: smooth features for a start."""

    centre: Array
    scale: Array
    frequencies: Array
    phases: Array

    @classmethod
    def draw(cls, units: Units, count: int, bandwidth: float, generator: np.random.Generator) -> Waves:
        """``count`` waves for a Gaussian kernel; the bandwidth is in units of one over sqrt(d)."""
        d = len(units.centre)
        frequencies = np.sqrt(2.0 * bandwidth / d) * generator.standard_normal((d, count))
        return cls(units.centre, units.scale, frequencies, generator.uniform(0.0, 2.0 * np.pi, count))

    def transform(self, X: Any) -> Array:
        inside = np.asarray((X - self.centre) / self.scale, dtype=np.float64)
        return np.concatenate([inside, np.cos(inside @ self.frequencies + self.phases)], axis=1)

    def width(self, d: int) -> int:
        return d + len(self.phases)


@dataclass(frozen=True)
class Candidate:
    """A mixture on fixed features, and its log-likelihood on held-out rows."""

    phi: Phi
    mixture: Mixture
    held: float


@dataclass(frozen=True)
class StartProblem:
    """Features, and what is to be fitted on them."""

    phi: Phi
    task: Task


class StartPart:
    """A share of the rows to train on, for a first look."""

    def __init__(self, rows: TrainingRows, share: float) -> None:
        self.rows = rows
        self.share = share
        self.n_features = rows.n_features

    def total(self, query: Query) -> Sums:
        return self.rows.total(Sampled(query, self.share) if self.share < 1.0 else query)


def measure_columns(rows: TrainingRows) -> Units:
    """The columns' means and deviations, and y's: two rounds each."""
    centre, scale = column_spread(rows)
    sums = rows.total(Responses())
    mean = float(sums["sum"] / sums["weight"])
    sums = rows.total(Responses(mean))
    deviation = float(np.sqrt(sums["squares"] / sums["weight"]))
    return Units(centre, np.where(scale > 0, scale, 1.0), mean, deviation if deviation > 0 else 1.0)


def best_start(plan: TrainingPlan, rows: TrainingRows, n_init: int, warmup: int, trial: int) -> TrainingState:
    """The likeliest mixtures on fixed features, each tried in a network for a while; the best goes on.

    Held-out rows judge throughout, and where a trial made a start worse it is taken as it was.
    """
    generator = np.random.default_rng([plan.seed, 1])
    chosen = candidates(plan, rows, n_init, generator)[:n_init]
    states = [TrainingState.at(distill(plan, rows, one, int(generator.integers(2**31)), warmup)) for one in chosen]
    if len(states) > 1 and trial:
        short = replace(plan, epochs=trial, patience=None, fade=False)
        states += [TrainingState.at(train(short, rows, state).average) for state in states]
    scores = np.nan_to_num([held_out_likelihood(plan, rows, state.theta) for state in states], nan=-np.inf)
    best = int(np.argmax(scores))
    return replace(states[best], best_held=float(scores[best]))


def candidates(plan: TrainingPlan, rows: TrainingRows, draws: int, generator: np.random.Generator) -> list[Candidate]:
    """Refreshed WMLR on x, and on waves of several bandwidths from a spectral and ``draws`` random starts.

    All have a first look at some rows; the ``draws`` likeliest go on with more. Best first. A quick search each is
    enough: of many features only the best on held-out rows are kept.
    """
    sums = rows.total(Moments(intercept=True))
    units = float(sums["units"])
    count = int(np.clip(float(sums["weight"]) / (ROWS_PER_WAVE * plan.layout.n_components), 4, MOST_WAVES))
    starts = [(0, 1.0, "auto")]
    starts += [(count, width, start) for width in BANDWIDTHS for start in ("auto", *["random"] * draws)]
    maps = [Waves.draw(plan.units, number, width, generator) for number, width, _ in starts]
    seeds = [int(seed) for seed in generator.integers(2**31, size=len(maps))]
    tasks = [_task(plan, start, seed) for (_, _, start), seed in zip(starts, seeds)]
    problems = [StartProblem(waves, task) for waves, task in zip(maps, tasks)]
    found = _fit_side_by_side(rows, problems, min(1.0, FIRST_LOOK[0] / units), FIRST_LOOK[1])[:draws]
    again = [StartProblem(one.phi, replace(tasks[0], start=_coef(one.mixture).T)) for one in found]
    return _fit_side_by_side(rows, again, min(1.0, SECOND_LOOK[0] / units), SECOND_LOOK[1])


def _fit_side_by_side(
    rows: TrainingRows, problems: list[StartProblem], share: float, steps: int, ridge: float = RIDGE
) -> list[Candidate]:
    """Fits side by side, sharing their rounds, on a share of the rows; best on held-out rows first."""
    part = StartPart(rows, share)
    weight = float(part.total(Responses())["weight"])
    answering = capabilities_of(rows).answering
    solver = Refreshed()
    tasks = [replace(problem.task, max_iter=steps, ridge=ridge * weight, cautious=True) for problem in problems]
    methods = [solver.fit(task) if answering >= 1.0 else partial(solver, task, answering) for task in tasks]
    with single_blas(MOST_WAVES):
        fits = run_together([_through_features(one, problem.phi) for one, problem in zip(methods, problems)], part)
    queries = [Mapped(problem.phi, _likelihood(fit.mixture)) for problem, fit in zip(problems, fits)]
    asked = Together(tuple(queries))
    held = [float(sums["log_likelihood"]) for sums in asked.split_sums(rows.held_out_sums(asked))]
    found = [Candidate(problem.phi, fit.mixture, value) for problem, fit, value in zip(problems, fits, held)]
    return sorted((one for one in found if np.isfinite(one.held)), key=lambda one: -one.held)


def _task(plan: TrainingPlan, start: str | Array, seed: int) -> Task:
    layout = plan.layout
    return Task(
        n_components=layout.n_components,
        intercept=True,
        gate=EQUAL if layout.equal_weights else FREE,
        shared_sigma=layout.shared_sigma,
        sigma=plan.sigma,
        start=start,
        tol=TOLERANCE,
        seed=seed,
        search="quick",
    )


def _through_features(method: Method[Fit], phi: Phi) -> Method[Fit]:
    """A method whose queries are about phi(x); a sample is chosen by x."""

    def relay(query: Query) -> Steps[Sums]:
        return pass_on(Mapped(phi, query) if query.sample is None else query.wrap(lambda inner: Mapped(phi, inner)))

    return with_relay(method, relay)


def _likelihood(mixture: Mixture) -> MixtureScore:
    return MixtureScore(_coef(mixture), np.log(np.maximum(mixture.weights, 1e-300)), mixture.sigma**2)


def _coef(mixture: Mixture) -> Array:
    """(p + 1, k), the intercept last."""
    return np.vstack([mixture.coef.T, mixture.intercept])


def distill(plan: TrainingPlan, rows: TrainingRows, start: Candidate, seed: int, epochs: int) -> Array:
    """theta of a fresh network taught the curves of a mixture on fixed features.

    The heads are then fitted by refreshed WMLR to the rows themselves, phi frozen.
    """
    layout, units = plan.layout, plan.units
    generator = np.random.default_rng(seed)
    k, p = layout.n_components, layout.network.outputs
    beta = generator.standard_normal((k, p + 1)) / np.sqrt(p + 1)
    mixture = start.mixture
    theta = layout.pack(flat(layout.network.fresh(seed)), beta, mixture.sigma / units.deviation, mixture.weights)
    coef = _coef(replace(mixture, intercept=mixture.intercept - units.mean)) / units.deviation
    adam = Adam.new(layout.size)
    last = max(epochs * rows.steps_per_epoch, LEAST_LESSONS if epochs else 0)
    for step in range(last):
        sums = rows.step_sums(Distilled(layout, units, theta, start.phi, coef), step)
        adam, direction = adam.step(sums["score"] / float(sums["weight"]))
        theta = theta + plan.rate * step_factor(step, last) * direction
    w = theta[: layout.edges[1]]
    phi = NetworkPhi(layout.network, w, units.centre, units.scale)
    task = _task(plan, _coef(mixture_of(layout, units, theta)).T, seed)
    found = _fit_side_by_side(rows, [StartProblem(phi, task)], 1.0, HEAD_STEPS, HEAD_RIDGE)
    return layout.pack(w, *_standardise(found[0].mixture, units)) if found else theta


def _standardise(mixture: Mixture, units: Units) -> tuple[Array, Array, Array]:
    """Heads (k, p + 1), sigma and weights where x and y have mean 0 and deviation 1."""
    heads = np.column_stack([mixture.coef, mixture.intercept - units.mean]) / units.deviation
    return heads, mixture.sigma / units.deviation, mixture.weights


def mixture_of(layout: ParameterLayout, units: Units, theta: Array) -> Mixture:
    """The heads as a mixture of regressions on phi, in the data's own units."""
    _, beta, sigma, weights = layout.parts(theta)
    beta = beta * units.deviation
    return Mixture(beta[:, :-1].copy(), beta[:, -1] + units.mean, weights, sigma * units.deviation)
