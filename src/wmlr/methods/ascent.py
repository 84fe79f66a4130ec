"""Climbing the likelihood: bold moves first, safe ones when a bold one falls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from wmlr.core.round import Fit, Method, Report, Steps, iteration_record
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

SLACK = 1e-13  # of the objective: what rounding of its sum may take away
NOISE = 4e-15  # of the mean objective: a gain that rounding may have made
NEARLY = 0.1  # of log-likelihood in total
PATIENCE = 40  # iterations: a climb that takes more is slow, and Newton's steps are not
FAST = 0.05  # of a promised gain: a step that leaves less is followed by another, down to the last digits
WORTH = 1e-3  # of log-likelihood in total: no large number of rows makes more than this too little to go for
ENOUGH = 0.5 * WORTH  # less is left by steps that cost a pass each


class Point(Protocol):
    """Where the climb stands: a state with its likelihood known.

    ``objective`` is what must not fall: the log-likelihood, less a penalty where there is one.
    ``predicted_gain`` is the gain in mean log-likelihood that the next move promises, where the method can
    tell; None where only the gains already made can.
    """

    @property
    def log_likelihood(self) -> float: ...

    @property
    def objective(self) -> float: ...

    @property
    def predicted_gain(self) -> float | None: ...

    @property
    def gradient_norm(self) -> float: ...

    @property
    def place(self) -> Array: ...

    def mixture(self) -> Mixture: ...


Here = TypeVar("Here", bound=Point)
Move = Callable[[Here], Steps[Here]]


def climb(
    start: Here,
    moves: Sequence[Move[Here]],
    weight: float,
    max_iter: int,
    tol: float,
    begun: int = 0,
    patience: float = np.inf,
    nearly: float = NEARLY,
) -> Method[tuple[Here, Fit]]:
    """Take the first move that does not lower the likelihood, until none is worth taking.

    The climb ends when the gain still to be had is too small, or when even the last, safe move gains nothing.
    A predicted gain is too small below ``tol`` per row, unless it shrinks so fast that a step more makes it nothing;
    one extrapolated from the rate at which gains shrink must be below ``WORTH`` in total as well. ``begun`` iterations
    were made before. After more than ``patience`` iterations the climb also ends where less than ``nearly`` is to be
    had, for better steps to take over.
    """
    here = start
    gains: list[float] = []
    converged = False
    iteration = begun
    yield Report(record(iteration, here, weight, 0.0), here.mixture())
    while iteration < max_iter:
        slack = SLACK * (abs(here.objective) + weight)
        for move in moves:
            there = yield from move(here)
            if there.objective >= here.objective - slack:
                break
        else:
            converged = True
            break
        promised = here.predicted_gain
        gains.append((there.objective - here.objective) / weight)
        length = float(np.linalg.norm(there.place - here.place))
        here = there
        iteration += 1
        yield Report(record(iteration, here, weight, length), here.mixture())
        if converged := _is_done(here, promised, gains, tol, weight, nearly if iteration - begun > patience else 0.0):
            break
    return here, Fit(here.mixture(), here.log_likelihood, iteration, converged)


def record(iteration: int, here: Point, weight: float, step: float) -> dict[str, float]:
    """A line of the history."""
    return iteration_record(iteration, here.objective / weight, here.log_likelihood, here.gradient_norm, step)


def _is_done(here: Point, promised: float | None, gains: list[float], tol: float, weight: float, nearly: float) -> bool:
    enough = max(tol, nearly / weight) if tol > 0 else tol
    left = here.predicted_gain
    if left is not None:
        fast = promised is not None and left < FAST * promised
        return left < (min(enough, ENOUGH / weight) if fast else enough)
    if gains and gains[-1] <= NOISE * (1.0 + abs(here.objective) / weight):
        return True
    if len(gains) < 2:
        return False
    last, before = gains[-1], gains[-2]
    if last <= 0.0 or before <= 0.0:
        return last <= 0.0
    rate = min(last / before, 0.99)
    return last * rate / (1.0 - rate) < (enough if nearly else min(tol, WORTH / weight))
