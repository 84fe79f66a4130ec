"""Expectation maximisation with a least-squares M-step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wmlr.methods import general, symmetric, wide_general, wide_symmetric
from wmlr.methods.ascent import climb
from wmlr.methods.polish import finished
from wmlr.round import Fit, Method
from wmlr.task import Task


@dataclass(frozen=True)
class EM:
    """``method="em"``: the exact maximiser at every step, by least squares weighted by responsibility."""

    offers: ClassVar[frozenset[str]] = frozenset({"alpha", "shared", "robust"})

    def fit(self, task: Task) -> Method[Fit]:
        if task.wide:
            return wide_symmetric.climbed(task, False) if task.symmetric else wide_general.climbed(task, False)
        return _symmetric(task) if task.symmetric else _general(task)


def _symmetric(task: Task) -> Method[Fit]:
    here = yield from symmetric.begin(task)
    _, fit = yield from climb(here, [symmetric.em_move(task)], here.frame.weight, task.max_iter, task.tol)
    return fit


def _general(task: Task) -> Method[Fit]:
    frame = yield from general.survey(task)
    points = yield from general.begin(task, frame)
    move = general.em_move(task)
    here = yield from general.refine(points, move)
    here, fit = yield from climb(here, [move], frame.weight, task.max_iter, task.tol)
    return (yield from finished(task, here, fit))
