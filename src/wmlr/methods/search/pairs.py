"""beta and -beta: a climb from the spectral start, which is nearly always right, and others from random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wmlr.core.round import Fit, Method, Steps, without_reports
from wmlr.methods import symmetric
from wmlr.methods.ascent import PATIENCE, WORTH, Move, climb
from wmlr.methods.polish import finish_pair
from wmlr.methods.search.certificate import SAME, Maximum, Search, gap
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array

SMALL = 2e5  # rows times columns up to which two random starts more take no time
FEW, THOROUGH = 2, 9  # random starts on such data, and of a thorough search


def climb_pair(task: Task, moves: Sequence[Move[SymmetricPoint]]) -> Method[Fit]:
    """The fit from the start that is asked for; where that is "auto" also from random ones, and how many agree.

    On large data there are others only if ``n_init`` or the effort asks for them, and with many columns none.
    """
    if task.wide:
        return (yield from climb_by_products(task, moves))
    here = yield from symmetric.begin(task)
    here, fit = yield from climb(here, moves, here.frame.weight, task.max_iter, task.tol, patience=PATIENCE)
    fit = yield from finish_pair(task, here, fit, moves)
    if task.start_word != "auto":
        return fit
    ends, interrupted = [here], False
    try:
        for number in range(_others(task, here)):
            other = replace(task, start="random", seed=task.seed + number + 1)
            ends.append((yield from _climb_again(other, here, moves)))
    except KeyboardInterrupt:
        interrupted = True
    best = max(ends, key=lambda end: end.objective)
    if best.objective > here.objective + SAME:
        best, fit = yield from climb(best, moves, best.frame.weight, task.max_iter, task.tol, patience=PATIENCE)
        fit = yield from finish_pair(task, best, fit, moves)
    return replace(fit, search=_certificate(ends, fit, interrupted))


def climb_by_products(task: Task, moves: Sequence[Move[SymmetricPoint]], mean: Array | None = None) -> Method[Fit]:
    """The fit of many columns, to where the predicted gain in beta and sigma, in total, is too small.

    No matrix of so many columns is made, so the curvature is not looked at any closer than by two numbers.
    """
    here = yield from symmetric.begin(task, mean)
    enough = min(task.tol, WORTH / here.frame.weight)
    _, fit = yield from climb(here, moves, here.frame.weight, task.max_iter, enough)
    return replace(fit, units=here.frame.members)


def _others(task: Task, here: SymmetricPoint) -> int:
    """How many random starts follow the spectral one."""
    if task.search == "thorough":
        return max(task.searches - 1, THOROUGH)
    small = task.draws and here.frame.rows * here.frame.dimension <= SMALL
    return max(task.searches - 1, FEW) if small and task.search != "quick" else task.searches - 1


def _climb_again(task: Task, first: SymmetricPoint, moves: Sequence[Move[SymmetricPoint]]) -> Steps[SymmetricPoint]:
    """The end of a climb from another start, which leaves no line in the history."""
    b, s2 = yield from symmetric.start(task, first.frame, np.zeros(first.frame.dimension), first.mean)
    start = yield from symmetric.evaluate(first.frame, b, s2, task, first.mean)
    method = climb(start, moves, first.frame.weight, task.max_iter, task.tol, patience=PATIENCE)
    end, _ = yield from without_reports(method)
    return end


def _certificate(ends: Sequence[SymmetricPoint], fit: Fit, interrupted: bool) -> Search:
    values = np.array([end.objective for end in ends])
    best = ends[int(values.argmax())]
    found: list[Maximum] = []
    left = np.ones(len(ends), dtype=bool)
    for place in np.argsort(-values, kind="stable"):
        if left[place]:
            same = left & (values >= values[place] - SAME)
            left &= ~same
            value = fit.log_likelihood + values[place] - values.max()
            found.append(Maximum(float(value), int(same.sum()), _distance(best.b, ends[place].b, best.s2)))
    return Search(
        searches=len(ends),
        reached=found[0].found,
        maxima=tuple(found),
        runner_up=gap(tuple(found)),
        steps=0.0,
        generations=0,
        interrupted=interrupted,
    )


def _distance(best: Array, other: Array, s2: float) -> float:
    """Between two pairs in white coordinates, in deviations of the noise; signs do not count."""
    return float(min(np.linalg.norm(best - other), np.linalg.norm(best + other)) / np.sqrt(s2))
