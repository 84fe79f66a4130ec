"""Two components by the paper's reduction: take off their mean regression, fit what is left symmetrically."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wmlr.core.round import Fit, Method
from wmlr.methods import symmetric, wide
from wmlr.methods.ascent import PATIENCE, climb
from wmlr.methods.polish import finish_pair
from wmlr.methods.search.pairs import climb_by_products
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL
from wmlr.numerics.coordinates import white_frame
from wmlr.statistics.moments import Moments


@dataclass(frozen=True)
class Reduction:
    """``solver="reduction"``: for two equally likely components with one sigma.

    Least squares estimates the mean vector, because E[y|x] is its regression; subtracting it leaves a
    symmetric mixture. The mean is not refined afterwards, so the direct fit is the more efficient one.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"equal_weights", "shared_sigma"})

    def fit(self, task: Task) -> Method[Fit]:
        if task.n_components != 2 or task.gate != EQUAL or not task.shared_sigma:
            raise ValueError(
                "solver='reduction' fits two equally likely components with one sigma: "
                "set n_components=2, equal_weights=True and shared_sigma=True"
            )
        return _reduce(task)


def _reduce(task: Task) -> Method[Fit]:
    moves = [symmetric.stein_move(task), symmetric.em_move(task)]
    if task.wide:
        scaled = yield from wide.survey(task)
        mean = scaled.to_data((yield from wide.least_squares(scaled, wide.EXACT)))
        return (yield from climb_by_products(task, moves, mean))
    frame = white_frame((yield Moments(intercept=task.intercept)), task.intercept)
    here = yield from symmetric.begin(task, frame.to_data(frame.least_squares))
    here, fit = yield from climb(here, moves, here.frame.weight, task.max_iter, task.tol, patience=PATIENCE)
    return (yield from finish_pair(task, here, fit, moves))
