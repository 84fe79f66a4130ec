"""EM exactly as the paper prints it, kept apart: for reproducing its tables, not for fitting data.

It takes the covariance of x to be the identity, which alone costs |beta| sqrt(d/n) in error, and its
update of sigma^2 is printed as a reciprocal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Fit, Method, Report, iteration_record
from wmlr.methods import symmetric
from wmlr.methods.starts import spectral_direction
from wmlr.methods.task import Task, pair
from wmlr.numerics.coordinates import raw_frame
from wmlr.statistics.moments import Moments
from wmlr.statistics.symmetric_score import SymmetricScore


@dataclass(frozen=True)
class PrintedEM:
    """Algorithm EM of the appendix, symmetric case: beta = (1/n) sum (2w - 1) y x.

    Attributes
    ----------
    reciprocal : update sigma^2 by the reciprocal of the mean squared residual, as printed; False updates
        it by the mean itself, which is what the printed figures come from.
    sigma2_start : sigma^2 to begin with.
    """

    reciprocal: bool = True
    sigma2_start: float = 1.0

    def fit(self, task: Task) -> Method[Fit]:
        if not task.symmetric:
            raise ValueError("PrintedEM is the paper's symmetric algorithm: set symmetric=True, or use method='em'")
        return _run_printed(self, task)


def _run_printed(solver: PrintedEM, task: Task) -> Method[Fit]:
    sums = yield Moments(fourth=True)
    frame = raw_frame(sums, intercept=False)
    b, _ = yield from symmetric.start(task, frame, spectral_direction(frame, sums), unit=1.0)
    s2 = solver.sigma2_start if task.sigma is None else task.sigma**2
    iteration, converged = 0, False
    while True:
        found = yield SymmetricScore(b, s2)
        h = frame.mean_of(found["h"])
        log_likelihood = float(found["log_likelihood"])
        record = iteration_record(
            iteration,
            log_likelihood / frame.weight,
            log_likelihood,
            float(np.linalg.norm(h - frame.gram @ b)) / s2,
            1.0,
        )
        yield Report(record, pair(frame, b, s2))
        if converged or iteration >= task.max_iter:
            return Fit(pair(frame, b, s2), log_likelihood, iteration, converged)
        converged = float(np.linalg.norm(h - b)) <= task.tol * float(np.linalg.norm(h))
        b = h
        if task.sigma is None:
            squares = max(frame.yy - 2 * float(b @ h) + float(b @ frame.gram @ b), frame.floor)
            s2 = 1.0 / squares if solver.reciprocal else squares
        iteration += 1
