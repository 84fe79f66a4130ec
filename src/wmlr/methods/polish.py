"""Newton's last steps, where the observed information is cheap: to the maximum, not just near it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wmlr.methods.general import MixturePoint, evaluate
from wmlr.round import Array, Fit, Method, Report, Steps
from wmlr.statistics.information import ObservedInformation
from wmlr.task import Task
from wmlr.uncertainty import Constraints

CHEAP = 5e6
ITERATIONS = 6
CLOSE = 1e-12


def finished(task: Task, here: MixturePoint, fit: Fit) -> Method[Fit]:
    """The end of a climb that converged: Newton steps while they gain, then what is to be said of the fit."""
    if fit.converged:
        here = yield from polished(task, here)
    if here.log_likelihood > fit.log_likelihood:
        last = {
            "iteration": fit.n_iter + 1,
            "objective": here.objective / here.frame.weight,
            "log_likelihood": here.log_likelihood,
            "gradient_norm": here.gradient_norm,
            "step": 0.0,
        }
        yield Report(last, here.mixture())
        fit = replace(fit, mixture=here.mixture(), log_likelihood=here.log_likelihood, n_iter=fit.n_iter + 1)
    floored = task.sigma is None and bool(np.any(here.s2 <= 1.001 * here.frame.floor))
    return replace(fit, units=here.frame.members, floored=floored)


def polished(task: Task, here: MixturePoint) -> Steps[MixturePoint]:
    """Newton steps from ``here`` while they climb; where the information is dear or not defined, no step."""
    size = here.B.size + 2 * here.B.shape[1] - 1
    if task.dof is not None or task.ridge or task.shared or here.frame.rows * size**2 > CHEAP:
        return here
    for _ in range(ITERATIONS):
        if np.any(here.s2 <= 1.001 * here.frame.floor) or np.any(here.units * here.frame.members < 1.0):
            return here
        step, promised = yield from newton_step(task, here)
        if not promised > CLOSE * here.frame.weight:
            return here
        there = yield from _stepped(here, step)
        if there.log_likelihood < here.log_likelihood:
            return here
        here = there
    return here


def newton_step(task: Task, here: MixturePoint) -> Steps[tuple[Array, float]]:
    """information^-1 score, over coefficients, log sigma and logits together, and the gain it promises."""
    frame = here.frame
    r, k = here.B.shape
    sums = yield ObservedInformation(frame.raw(here.B), here.weights, here.s2)
    p = frame.basis.shape[0]
    inward = np.zeros((k * p + 2 * k - 1, k * r + 2 * k - 1))
    for j in range(k):
        inward[j * p : (j + 1) * p, j * r : (j + 1) * r] = frame.basis
    inward[k * p :, k * r :] = np.eye(2 * k - 1)
    free = Constraints(
        intercept=False,
        equal_weights=task.equal_weights,
        shared_sigma=task.shared_sigma,
        sigma_known=task.sigma is not None,
    ).embedding(k, r)
    into = inward @ free
    score = free.T @ _score(here)
    information = into.T @ sums["information"] @ into
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-300))
    step = scale * np.linalg.lstsq(information * np.outer(scale, scale), scale * score, rcond=1e-12)[0]
    return np.asarray(free @ step), 0.5 * float(score @ step)


def _score(here: MixturePoint) -> Array:
    weight, units = here.frame.weight, here.frame.units
    coefficients = weight * here.m / here.s2
    deviations = weight * (here.squares / here.s2 - here.mass)
    logits = units * (here.units - here.weights)[:-1]
    return np.concatenate([coefficients.T.ravel(), deviations, logits])


def _stepped(here: MixturePoint, step: Array) -> Steps[MixturePoint]:
    r, k = here.B.shape
    B = here.B + step[: k * r].reshape(k, r).T
    s2 = here.s2 * np.exp(2.0 * np.clip(step[k * r : k * r + k], -1.0, 1.0))
    logits = np.log(here.weights / here.weights[-1])
    logits[:-1] += np.clip(step[k * r + k :], -2.0, 2.0)
    weights = np.exp(logits - logits.max())
    return (yield from evaluate(here.frame, B, weights / weights.sum(), np.maximum(s2, here.frame.floor)))
