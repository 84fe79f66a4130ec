"""What the baselines share: where they begin, and least squares in turn with sharing the rows out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve

from wmlr.core.round import Fit, Method, Report, Steps, iteration_record
from wmlr.methods import general
from wmlr.methods.starts import random_vectors
from wmlr.methods.task import Task, mixture_at
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, white_frame
from wmlr.numerics.solving import least_squares
from wmlr.statistics.moments import Moments

RIDGE = 1e-10  # of the largest eigenvalue, so that Grams of few rows can be inverted

Ask = Callable[[Array, Array, Array], Steps[Sums]]


def survey(task: Task, name: str) -> Steps[Frame]:
    """One pass for the white frame; more columns than a matrix of them can hold are refused."""
    if task.wide:
        raise ValueError(f"method={name!r} needs the matrix of the columns, of which there are too many: use 'em'")
    sums = yield Moments(intercept=task.intercept)
    return white_frame(sums, task.intercept)


def deviation(frame: Frame) -> float:
    """The root mean square of y, about its mean where there is an intercept."""
    mean = float(frame.xy[-1]) if frame.intercept else 0.0
    return float(np.sqrt(max(frame.yy - mean**2, frame.floor)))


def starting_columns(task: Task, frame: Frame) -> Array:
    """Coefficients (r, k) to begin with: the given ones, or drawn in units of y's spread around its mean."""
    if not task.start_word:
        return frame.inside(np.asarray(task.start).T)
    drawn = random_vectors(frame, task, task.n_components) * deviation(frame)
    if frame.intercept:
        drawn[-1] += frame.xy[-1]
    return drawn


def least_squares_step(gram: Array, score: Array) -> Array:
    """gram^-1 score, with next to nothing in directions in which the gram is nothing."""
    size = float(np.trace(gram)) / max(len(gram), 1)
    if not size > 0:
        return np.zeros_like(score)
    held = gram + RIDGE * size * np.eye(len(gram))
    try:
        return np.asarray(solve(held, score, assume_a="pos"))
    except np.linalg.LinAlgError:  # a noisy Gram matrix
        return least_squares(held, score, RIDGE)


def mirror_columns(b: Array) -> Array:
    """The columns b and -b."""
    return np.stack([b, -b], axis=1)


def alternate(task: Task, frame: Frame, B: Array, ask: Ask, taken: int = 0) -> Method[Fit]:
    """Share the rows out among the components and fit each to its own by least squares, until nothing moves.

    ``ask`` shares out, and gives each component's Gram, score, squares, mass and units. Weights and sigma come from
    them. ``taken`` iterations have gone before.
    """
    k = B.shape[1]
    even = np.full(k, 1.0 / k)
    weights, s2 = general.constrain(task, frame, even, even * deviation(frame) ** 2, even)
    iteration, converged, length = 0, False, 0.0
    while True:
        sums = yield from ask(frame.to_data(B), weights, s2)
        log_likelihood, squares = float(sums["log_likelihood"]), sums["squares"] / frame.weight
        record = iteration_record(
            taken + iteration,
            -0.5 * float(squares.sum()),
            log_likelihood,
            float(np.linalg.norm(frame.mean_of(sums["score"]))),
            length,
        )
        here = mixture_at(task, frame, B, weights, s2)
        yield Report(record, here)
        if converged or iteration >= task.max_iter:
            return Fit(here, log_likelihood, taken + iteration, converged, units=frame.units)
        D, change = _steps(task, frame, sums)
        units, mass = sums["units"] / sums["units"].sum(), sums["mass"] / frame.weight
        weights, s2 = general.constrain(task, frame, units, np.maximum(squares + change, 0.0), mass)
        B = B + D
        length = float(np.linalg.norm(D))
        converged = length <= task.tol * float(np.linalg.norm(B))
        iteration += 1


def _steps(task: Task, frame: Frame, sums: Sums) -> tuple[Array, Array]:
    """Each component's step (r, k), and by how much its mean of squared residuals changes."""
    grams = [frame.mean_matrix_of(gram) for gram in sums["grams"]]
    m = frame.mean_of(sums["score"])
    if task.symmetric:
        gram, both = grams[0] + grams[1], m[:, 0] - m[:, 1]
        d = least_squares_step(gram, both)
        return mirror_columns(d), np.full(2, 0.5 * float(d @ (gram @ d - 2.0 * both)))
    D = np.stack([least_squares_step(G, m[:, i]) for i, G in enumerate(grams)], axis=1)
    return D, np.array([float(D[:, i] @ (G @ D[:, i] - 2.0 * m[:, i])) for i, G in enumerate(grams)])
