"""Federated EM with inner gradient rounds: as the paper prints it, and as the authors' code carries it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Fit, Method, Report
from wmlr.methods.task import Task, pair
from wmlr.numerics.coordinates import raw_frame
from wmlr.statistics.moments import Moments
from wmlr.statistics.symmetric_score import SymmetricScore

LEAST_VARIANCE = 1e-4
STILL = 1e-8


@dataclass(frozen=True)
class InnerEM:
    """Algorithm F-EM: each maximisation by at most ``inner`` gradient rounds, one report per round.

    With the posteriors held, Q is known from h = (1/n) sum t y x, the Gram matrix S and E[y^2], so the
    inner rounds' iterates are computed from those sums: the same numbers as asking the agents every time,
    without passing over the rows.

    Attributes
    ----------
    alpha : the step.
    nu : a gradient norm below which the maximisation ends.
    inner : the most rounds per maximisation.
    stale : True takes every inner step along the gradient found at the first, as the authors' code does: it
        reads the gradient's point once per maximisation. False is the algorithm as printed.
    half_gradient : halve the gradient in beta, as the authors' code does.
    """

    alpha: float
    nu: float = 0.01
    inner: int = 50
    stale: bool = True
    half_gradient: bool = True

    def fit(self, task: Task) -> Method[Fit]:
        """The method; ``task.max_iter`` counts rounds."""
        return _rounds(self, task)


def _rounds(solver: InnerEM, task: Task) -> Method[Fit]:
    frame = raw_frame((yield Moments()), intercept=False)
    factor = 0.5 if solver.half_gradient else 1.0
    b, s2, round_ = np.asarray(task.start)[0], 1.0, 0
    yield Report({"iteration": 0.0}, pair(frame, b, s2))
    while round_ < task.max_iter:
        found = yield SymmetricScore(b, s2)
        h = frame.mean_of(found["h"])
        at, variance = b, s2
        for _ in range(solver.inner):
            if not solver.stale:
                at, variance = b, s2
            gradient = factor * (h - frame.gram @ at) / variance
            squares = frame.yy - 2 * float(at @ h) + float(at @ frame.gram @ at)
            before, b = b, b + solver.alpha * gradient
            s2 = max(s2 + solver.alpha * (squares - variance) / (2 * variance**2), LEAST_VARIANCE)
            round_ += 1
            yield Report({"iteration": float(round_)}, pair(frame, b, s2))
            if round_ >= task.max_iter or float(np.linalg.norm(gradient)) < solver.nu:
                break
        if float(np.linalg.norm(b - before)) <= STILL * float(np.linalg.norm(b)):
            return Fit(pair(frame, b, s2), float("nan"), round_, True)
    return Fit(pair(frame, b, s2), float("nan"), round_, False)
