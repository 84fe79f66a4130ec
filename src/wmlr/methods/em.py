"""Expectation maximisation with a least-squares M-step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wmlr.core.round import Fit, Method
from wmlr.methods import general, symmetric
from wmlr.methods.search.fitting import climb_from_start
from wmlr.methods.search.pairs import climb_pair
from wmlr.methods.task import Task


@dataclass(frozen=True)
class EM:
    """``method="em"``: the exact maximiser at every step, by least squares weighted by responsibility."""

    offers: ClassVar[frozenset[str]] = frozenset(
        {"alpha", "shared", "held", "labels", "family", "gate", "search", "stream", "average"}
    )

    def fit(self, task: Task) -> Method[Fit]:
        if task.symmetric:
            return climb_pair(task, [symmetric.em_move(task)])
        return climb_from_start(task, general.em_moves(task))
