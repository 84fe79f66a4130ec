"""The paper's simulated problems, and how a run on one is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmlr.core.round import Finished, Fit, Method, Report, with_relay
from wmlr.datasets import MixedRegression, make_mixed_regression
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.model.gates import EQUAL
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

START_SEEDS = 10_000
BLOW_UP = 1e6
SLACK = 1.05
EVERY = 200  # iterations of a curve that are all drawn, and as many of the later ones


@dataclass(frozen=True)
class PaperProblem:
    """n rows of d features at a signal-to-noise ratio; ``rows`` of them to an agent, if there are agents."""

    n: int
    d: int
    snr: float
    seed: int
    rows: int | None = None

    def draw(self) -> MixedRegression:
        """The data, the same for the same problem."""
        return make_mixed_regression(
            self.n, self.d, snr=self.snr, symmetric=True, groups=self.rows, random_state=self.seed
        )

    @property
    def start_seed(self) -> int:
        """What seeds the method's own draws."""
        return START_SEEDS + self.seed

    def task(self, iterations: int, **changes: Any) -> Task:
        """The symmetric task from the paper's start, beta ~ N(0, I/d), to the last iteration."""
        draw = np.random.default_rng(self.start_seed).standard_normal(self.d) / np.sqrt(self.d)
        settings: dict[str, Any] = {
            "symmetric": True,
            "gate": EQUAL,
            "start": np.stack([draw, -draw]),
            "max_iter": iterations,
            "tol": 0.0,
            "seed": self.start_seed,
        }
        return Task(**(settings | changes))


@dataclass
class Watch:
    """The relative error after every iteration, and anything else asked for then."""

    truth: Array
    also: Callable[[], dict[str, float]] | None = None
    errors: list[float] = field(default_factory=list)
    records: list[dict[str, float]] = field(default_factory=list)

    def __call__(self, report: Report) -> None:
        self.errors.append(relative_error(report.mixture.coef[0], self.truth))
        if self.also is not None:
            self.records.append(self.also())


def relative_error(beta: Array, truth: Array) -> float:
    """The error of beta or of -beta, whichever is nearer; at most what counts as blown up."""
    if not np.all(np.isfinite(beta)):
        return BLOW_UP
    return min(coefficient_error(beta, truth), BLOW_UP)


def stop_divergence(method: Method[Fit]) -> Method[Fit]:
    """The method, ended where it blows up."""

    def stop(report: Report) -> Report:
        if not bool(np.all(np.abs(report.mixture.coef) < BLOW_UP)):
            raise Finished(Fit(report.mixture, float("nan"), int(report.record["iteration"]), False))
        return report

    return with_relay(method, report=stop)


def negative_log_likelihood(mixture: Mixture, X: Array, y: Array, s2: float) -> float:
    """NLL per row at a given variance; at 1 where the variance is not positive, as the authors do."""
    if not np.all(np.isfinite(mixture.coef)) or not np.isfinite(s2):
        return BLOW_UP
    pair = Mixture.symmetric_pair(mixture.coef[0], float(np.sqrt(s2)) if s2 > 0 else 1.0)
    return -float(np.mean(pair.log_likelihood(X, y)))


def converged_at(errors: list[float]) -> int | None:
    """The appendix's definition: from which iterate on the error stays within 5% of the last one."""
    series = np.asarray(errors)
    if not len(series) or not series[-1] < BLOW_UP:
        return None
    above = np.flatnonzero(~(series <= SLACK * series[-1]))
    return int(above[-1]) + 1 if len(above) else 0


def thin_curve(errors: list[float]) -> dict[str, list[float]]:
    """A curve for drawing: all of a short one, and a long one at iterations spaced evenly in the logarithm."""
    count = len(errors)
    if count <= 2 * EVERY:
        places = np.arange(count)
    else:
        early = np.arange(EVERY)
        late = np.geomspace(EVERY, count - 1, EVERY)
        places = np.unique(np.concatenate([early, late]).astype(int))
    return {
        "iteration": [int(place) for place in places],
        "error": [float(f"{errors[place]:.6g}") for place in places],
    }
