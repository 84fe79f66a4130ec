"""Training: a step for each method, and epochs of steps that stop when held-out rows say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from wmlr.core.round import iteration_record
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.local import LocalTraining
from wmlr.neural.optimizer import Adam, step_factor
from wmlr.neural.queries import Expectation, Likelihood, NetworkMinimax, Score, Units
from wmlr.neural.rows import TrainingRows
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.expectations import Drawn, GaussHermite

LEAST_LOG_SIGMA = float(np.log(1e-3))
HEAD_STEP = 0.2
MOST_HEAD_STEP = 1.5
"""In units of the batch's own curvature, which a step beyond twice its inverse does not come down from."""
GRAM_MEMORY = 0.05
GRAM_RIDGE = 1e-3
LAM = {"heads": 0.5, "network": 50.0}
GROUP_SAMPLES = 16


@dataclass(frozen=True)
class TrainingPlan:
    """How to train.

    Attributes
    ----------
    layout, units : the model, and what its numbers are measured in.
    kind : "refreshed", "em" or "gda".
    rate : Adam's step size, before it fades.
    epochs, patience : how many at most, and after how many without a gain on held-out rows to stop.
    decay : weight decay on w. memory : epochs over which theta is averaged.
    lam, ascent_steps, refresh, discriminator, nodes : the game's settings; see the estimator.
    local_steps : steps on each agent between rounds.
    seed : of noise that is drawn. grouped : whether rows share components. sigma : the noise, where known.
    fade : whether the step size falls to nothing over the epochs.
    """

    layout: ParameterLayout
    units: Units
    kind: str
    rate: float
    epochs: int
    patience: int | None
    decay: float
    memory: float
    lam: float | None
    ascent_steps: int
    refresh: int | None
    discriminator: str
    nodes: int
    local_steps: int
    seed: int
    grouped: bool
    sigma: float | None = None
    fade: bool = True

    def expectation(self, step: int) -> Expectation:
        """E over p_theta: exact on rows that stand alone, drawn where it is over all rows of a group."""
        return Drawn(self.seed, GROUP_SAMPLES, step) if self.grouped else GaussHermite(self.nodes)


@dataclass(frozen=True)
class TrainingState:
    """Where training stands: arrays and numbers only, so that it can be kept in a file.

    Attributes
    ----------
    theta, average : the parameters, and their running average, which is what is kept.
    first, second, steps : Adam's.
    gamma, reference : (2, size), the game's; empty without one.
    gram : of phi, for the refreshed step of the heads; empty without one.
    best, best_held, best_epoch : the average that held-out rows liked most.
    """

    theta: Array
    average: Array
    first: Array
    second: Array
    gamma: Array
    reference: Array
    gram: Array
    best: Array
    best_held: float = -np.inf
    best_epoch: int = 0
    steps: int = 0
    epoch: int = 0
    history: tuple[dict[str, float], ...] = ()

    @classmethod
    def at(cls, theta: Array) -> TrainingState:
        """The beginning."""
        nil, none = np.zeros_like(theta), np.zeros((0, 0))
        return cls(theta, theta, nil, nil, none, none, none, theta)

    @property
    def adam(self) -> Adam:
        return Adam(self.first, self.second, self.steps)


Watch = Callable[[TrainingState], None]


def train(plan: TrainingPlan, rows: TrainingRows, state: TrainingState, watch: Watch | None = None) -> TrainingState:
    """Epochs from ``state`` until they are over or patience is."""
    while state.epoch < plan.epochs and not _is_out_of_patience(plan, state):
        state = _epoch(plan, rows, state)
        if watch is not None:
            watch(state)
        if not np.all(np.isfinite(state.theta)):
            break
    return state


def held_out_likelihood(plan: TrainingPlan, rows: TrainingRows, theta: Array) -> float:
    """Mean log-likelihood per held-out row, in the data's own units."""
    sums = rows.held_out_sums(Likelihood(plan.layout, plan.units, theta))
    weight = float(sums["weight"])
    return float(sums["log_likelihood"]) / weight - float(np.log(plan.units.deviation)) if weight else -np.inf


def _is_out_of_patience(plan: TrainingPlan, state: TrainingState) -> bool:
    return plan.patience is not None and state.epoch - state.best_epoch >= plan.patience


def _epoch(plan: TrainingPlan, rows: TrainingRows, state: TrainingState) -> TrainingState:
    slope: Any = 0.0
    value, likelihood, units = 0.0, 0.0, 0.0
    step = STEPS[plan.kind]
    for _ in range(rows.steps_per_epoch):
        state, sums, gradient = step(plan, rows, state)
        slope = slope + gradient
        value += float(sums.get("value", 0.0))
        likelihood += float(sums["log_likelihood"])
        units += float(sums["units"])
    held = held_out_likelihood(plan, rows, state.average)
    epoch = state.epoch + 1
    record = iteration_record(
        float(epoch),
        value / units if plan.kind == "gda" else likelihood / units,
        likelihood / units,
        float(np.linalg.norm(slope / rows.steps_per_epoch)),
        plan.rate * _step_factor(plan, rows, state.steps),
        held_log_likelihood=held,
    )
    state = replace(state, epoch=epoch, history=(*state.history, record))
    if held > state.best_held:
        state = replace(state, best=state.average, best_held=held, best_epoch=epoch)
    return state


def _refreshed_step(plan: TrainingPlan, rows: TrainingRows, state: TrainingState) -> tuple[TrainingState, Sums, Array]:
    """References refreshed at every step: the inner maximum is in closed form, and the moment equation is left.

    w follows the moments' mismatch by Adam; the heads take the step S^-1 m_i / pi_i on the current phi, shorter where
    the batch, a few groups perhaps, has more of a component or of a direction than all rows have. With local steps
    agents walk in w, and the heads' step is that from where they began.
    """
    layout = plan.layout
    sums = _sums_of_step(plan, rows, state, Score(layout, plan.units, state.theta, gram=True))
    gradient = sums["score"] / float(sums["units"])
    fresh = sums["gram"] / float(sums["weight"])
    gram = fresh if not state.gram.size else state.gram + max(GRAM_MEMORY, 1 / (state.steps + 1)) * (fresh - state.gram)
    state = replace(state, gram=gram)
    _, _, sigma, weights = layout.parts(state.theta)
    first, last = layout.edges[1:3]
    per_row = float(sums["units"]) / float(sums["weight"])
    m = gradient[first:last].reshape(layout.n_components, -1) * (sigma**2)[:, None] * per_row
    metric = gram + GRAM_RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    there = np.maximum(weights, weights + gradient[layout.edges[3] :])
    steepest = float(eigh(fresh, metric, eigvals_only=True, subset_by_index=[len(gram) - 1] * 2)[0])
    step = np.minimum(HEAD_STEP / there, MOST_HEAD_STEP / steepest)
    D = step[:, None] * np.linalg.solve(metric, m.T).T
    return *_move(plan, rows, state, sums, gradient, D.ravel()), gradient


def _em(plan: TrainingPlan, rows: TrainingRows, state: TrainingState) -> tuple[TrainingState, Sums, Array]:
    """Gradient EM: the gradient of Q(. | theta) at theta is the likelihood's own."""
    sums = _sums_of_step(plan, rows, state, Score(plan.layout, plan.units, state.theta))
    gradient = sums["score"] / float(sums["units"])
    return *_move(plan, rows, state, sums, gradient), gradient


def _gda(plan: TrainingPlan, rows: TrainingRows, state: TrainingState) -> tuple[TrainingState, Sums, Array]:
    """Gradient descent ascent (Algorithm 1): gamma goes up ``ascent_steps`` times, then theta down once."""
    layout = plan.layout
    turn = 0 if plan.refresh is None else state.steps % plan.refresh
    if not state.gamma.size or (plan.refresh is not None and turn == 0):
        both = np.stack([state.theta, state.theta])
        state = replace(state, gamma=both, reference=both)
    _, _, sigma, weights = layout.parts(state.theta)
    lam = LAM[plan.discriminator] / float(weights @ sigma**2) if plan.lam is None else plan.lam
    mask = layout.heads() if plan.discriminator == "heads" else layout.free()
    expectation = plan.expectation(state.steps)

    def at(gamma: Array) -> NetworkMinimax:
        return NetworkMinimax(layout, plan.units, state.theta, gamma, expectation, plan.discriminator)

    gamma = state.gamma
    for _ in range(plan.ascent_steps):
        sums = rows.step_sums(at(gamma), state.steps)
        slope = sums["gamma"] / float(sums["units"]) - 2 * lam * (gamma - state.reference)
        gamma = gamma + slope * mask / (2 * lam)
    state = replace(state, gamma=gamma)
    query = at(gamma)
    sums = _sums_of_step(plan, rows, state, query, (1 / (2 * lam), 2 * lam, mask))
    if "gamma_change" in sums:
        state = replace(state, gamma=gamma + sums["gamma_change"] / float(sums["units"]))
    gradient = -sums["theta"] / float(sums["units"])
    return *_move(plan, rows, state, sums, gradient), gradient


STEPS = {"refreshed": _refreshed_step, "em": _em, "gda": _gda}


def _sums_of_step(
    plan: TrainingPlan,
    rows: TrainingRows,
    state: TrainingState,
    query: Score | NetworkMinimax,
    game: tuple[float, float, Array] | None = None,
) -> Sums:
    """The sums of a step; with local steps, those of a second round, after each agent has gone some way by itself."""
    sums = rows.step_sums(query, state.steps)
    if plan.local_steps == 1 or state.steps == 0:
        return sums
    mean, gamma_mean = query.mean_slopes(sums)
    rate = _walk_rate(plan, rows, state) / plan.local_steps
    local = LocalTraining(query, plan.local_steps, rate, mean=mean, gamma_mean=gamma_mean)
    if game is not None:
        ascent, pull, mask = game
        local = replace(local, ascent=ascent, pull=pull, reference=state.reference, mask=mask)
    return rows.step_sums(local, state.steps)


def _walk_rate(plan: TrainingPlan, rows: TrainingRows, state: TrainingState) -> Array:
    """How far all local steps of an agent go along a slope: as far as one step of all does.

    Longer walks lead away from a good start: an agent's few rows tell little of how slopes change. Heads that are
    solved for stay.
    """
    walking = plan.layout.free().copy()
    if plan.kind == "refreshed":
        first, last = plan.layout.edges[1:3]
        walking[first:last] = 0.0
    return np.asarray(plan.rate * _step_factor(plan, rows, state.steps) * state.adam.shared_metric() * walking)


def _move(
    plan: TrainingPlan,
    rows: TrainingRows,
    state: TrainingState,
    sums: Sums,
    gradient: Array,
    heads: Array | None = None,
) -> tuple[TrainingState, Sums]:
    """One step of Adam along the gradient, or along how far the agents went; then the average follows."""
    layout = plan.layout
    free = layout.free()
    fade = _step_factor(plan, rows, state.steps)
    along = gradient
    if "change" in sums:
        rate = _walk_rate(plan, rows, state)
        along = np.where(rate > 0, sums["change"] / float(sums["units"]) / np.maximum(rate, 1e-300), 0.0)
    adam, direction = state.adam.step(along * free, gradient * free)
    move = plan.rate * direction
    first, last = layout.edges[1:3]
    if heads is not None:
        move[first:last] = heads
    theta = state.theta + fade * move
    theta[:first] -= fade * plan.rate * plan.decay * state.theta[:first]
    tail = slice(layout.edges[2], layout.edges[3])
    theta[tail] = np.maximum(theta[tail], LEAST_LOG_SIGMA)
    memory = max(1.0 / (state.steps + 1), 1.0 / (1.0 + plan.memory * rows.steps_per_epoch))
    return (
        replace(
            state,
            theta=theta,
            average=state.average + memory * (theta - state.average),
            first=adam.first,
            second=adam.second,
            steps=adam.steps,
        ),
        sums,
    )


def _step_factor(plan: TrainingPlan, rows: TrainingRows, step: int) -> float:
    return step_factor(step, plan.epochs * rows.steps_per_epoch if plan.fade else 10**9)
