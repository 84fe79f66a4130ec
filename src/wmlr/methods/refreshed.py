"""WMLR with the reference refreshed at every step: the maximum-likelihood limit, without settings.

With reference beta/sigma^2 the model's side of the moment equation is known exactly, E_beta[y tanh] = x'beta,
and the minimax stationary point is the maximum-likelihood estimate. A Newton-like step gets there in a few
rounds where gradient descent ascent takes a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wmlr.core.round import Fit, Method
from wmlr.methods import general, symmetric
from wmlr.methods.em import EM
from wmlr.methods.search.fitting import climb_from_start
from wmlr.methods.search.pairs import climb_pair
from wmlr.methods.task import Task


@dataclass(frozen=True)
class Refreshed:
    """``solver="auto"``."""

    offers: ClassVar[frozenset[str]] = EM.offers | {"newton"}

    def fit(self, task: Task) -> Method[Fit]:
        if task.symmetric:
            return climb_pair(task, [symmetric.stein_move(task), symmetric.em_move(task)])
        alike = [general.scaled_move(task), general.scaled_move(task, 0.5)] if task.family.weights_alike else []
        return climb_from_start(task, [*alike, *general.em_moves(task)])
