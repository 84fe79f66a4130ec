"""IFCA, iterative federated clustering (Ghosh, Chung, Yin and Ramchandran, 2020): the outside baseline.

Every agent picks the model with the least squared loss on its rows and sends that model's gradient; the
server takes one gradient step per model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.round import Fit, Method, Report, Steps, iteration_record
from wmlr.methods import general, symmetric
from wmlr.methods.starts import spectral_direction
from wmlr.methods.task import Task, mixture_at
from wmlr.model.gates import EQUAL, LEAST_WEIGHT
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, raw_frame, white_frame
from wmlr.statistics.cluster_score import ClusterScore
from wmlr.statistics.moments import Moments


@dataclass(frozen=True)
class IFCA:
    """Alternate the agents' choice of a cluster and a gradient step on the squared loss.

    An agent chooses as a whole at level "agent" (or with ``groups``); where every row stands alone, every row
    chooses. Weights and sigma, which IFCA does not have, come from the choices.

    Attributes
    ----------
    step : the gradient step; None is one over the largest eigenvalue of the mean of xx', which never overshoots.
    coordinates : "raw", the data's own features as in the paper that proposed it, or "whitened".
    """

    step: float | None = None
    coordinates: str = "raw"

    def __post_init__(self) -> None:
        if self.step is not None and not self.step > 0:
            raise ValueError(f"step must be positive or None (got {self.step!r})")
        if self.coordinates not in ("whitened", "raw"):
            raise ValueError(f"coordinates must be 'whitened' or 'raw' (got {self.coordinates!r})")

    def fit(self, task: Task) -> Method[Fit]:
        return _alternate(self, replace(task, gate=EQUAL, shared_sigma=True) if task.symmetric else task)


def _alternate(solver: IFCA, task: Task) -> Method[Fit]:
    sums = yield Moments(intercept=task.intercept, fourth=task.symmetric)
    make = white_frame if solver.coordinates == "whitened" else raw_frame
    frame = make(sums, task.intercept)
    B, weights, s2 = yield from _start(task, frame, sums)
    step = solver.step or 1.0 / float(np.linalg.eigvalsh(frame.gram)[-1])
    iteration, converged = 0, False
    while True:
        found = yield ClusterScore(frame.to_data(B), np.log(np.maximum(weights, LEAST_WEIGHT)), s2)
        m = frame.mean_of(found["score"])
        log_likelihood = float(found["log_likelihood"])
        record = iteration_record(
            iteration,
            -0.5 * float(found["squares"].sum()) / frame.weight,
            log_likelihood,
            float(np.linalg.norm(m)),
            step,
        )
        here = mixture_at(task, frame, B, weights, s2)
        yield Report(record, here)
        if converged or iteration >= task.max_iter:
            return Fit(here, log_likelihood, iteration, converged, frame.members)
        units, squares = found["units"] / found["units"].sum(), found["squares"] / frame.weight
        weights, s2 = general.constrain(task, frame, units, squares, found["mass"] / frame.weight)
        ahead = B + step * m
        if task.symmetric:
            ahead = 0.5 * (ahead - ahead[:, ::-1])
        converged = float(np.linalg.norm(ahead - B)) <= task.tol * float(np.linalg.norm(ahead))
        B = ahead
        iteration += 1


def _start(task: Task, frame: Frame, sums: Sums) -> Steps[tuple[Array, Array, Array]]:
    if task.symmetric:
        b, s2 = yield from symmetric.start(task, frame, spectral_direction(frame, sums))
        return np.stack([b, -b], axis=1), np.full(2, 0.5), np.full(2, s2 if task.sigma is None else task.sigma**2)
    near = (yield from general.begin(task, frame))[0]
    return near.B, near.weights, near.s2
