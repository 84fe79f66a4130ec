"""AltMin: every unit joins the regression that fits it best, every regression is fitted to those that joined it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Fit, Method, Steps
from wmlr.methods.baselines.common import alternate, mirror_columns, starting_columns, survey
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.cluster_score import ClusterScore


@dataclass(frozen=True)
class AltMin:
    """``method="altmin"``: alternating minimisation of the sum over rows of the least squared residual.

    Known as k-means for regressions, and as AltMin since Yi, Caramanis and Sanghavi (2014). With groups, the rows of
    a group choose together. Weights and sigma, which it does not have, come from the choices. It begins at random
    coefficients unless ``start`` is an array; ``n_init`` starts are compared by the likelihood of the mixture.
    """

    def fit(self, task: Task) -> Method[Fit]:
        return _fit(task)


def _fit(task: Task) -> Method[Fit]:
    frame = yield from survey(task, "altmin")
    B = starting_columns(task, frame)
    return (yield from alternate(task, frame, mirror_columns(B[:, 0]) if task.symmetric else B, _choose))


def _choose(coef: Array, weights: Array, s2: Array) -> Steps[Sums]:
    return (yield ClusterScore(coef, np.log(weights), s2, grams=True))
