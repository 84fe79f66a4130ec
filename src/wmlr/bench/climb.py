"""How fast each method climbs the likelihood: seconds against what is left to gain."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench.peers import CASES, PeerCase
from wmlr.core.round import Report
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.methods import GDA
from wmlr.metrics import coefficient_error

METHODS: dict[str, dict[str, Any]] = {
    "WMLR, refreshed": {},
    "EM": {"method": "em"},
    "gradient EM": {"method": "gem"},
    "WMLR by GDA": {"solver": GDA()},
    "EM, random start": {"method": "em", "start": "random"},
    "WMLR, refreshed, random start": {"start": "random"},
}
LONGEST = 300
POINTS = 60
ENOUGH = 1e-6


class ClimbClock:
    """Watches a fit: seconds since it began, and the log-likelihood, after each iteration."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.seconds: list[float] = []
        self.likelihoods: list[float] = []

    def __call__(self, report: Report) -> None:
        self.seconds.append(time.perf_counter() - self.begun)
        self.likelihoods.append(report.record["log_likelihood"])


def climb(case: PeerCase, settings: dict[str, Any], longest: int = LONGEST) -> dict[str, Any]:
    """One method on a problem of the comparison with R, after an unmeasured fit."""
    data = make_mixed_regression(case.n, case.d, case.k, snr=case.snr, random_state=1)
    rows = ArrayRows(data.X, data.y, n_jobs=default_threads())
    fit = MixedLinearRegression(case.k, shared_sigma=False, random_state=0, max_iter=longest, **settings)
    fit.fit_on(rows)
    clock = ClimbClock()
    fit.fit_on(rows, clock)
    shown = np.unique(np.geomspace(1, len(clock.seconds), POINTS).astype(int)) - 1
    return {
        "seconds": [clock.seconds[place] for place in shown],
        "log_likelihood": [clock.likelihoods[place] for place in shown],
        "iterations": fit.n_iter_,
        "converged": fit.converged_,
        "reached": fit.log_likelihood_,
        "error": coefficient_error(fit.coef_, data.coef),
    }


def seconds_to_best(found: dict[str, Any], best: float, n: int) -> float | None:
    """Seconds until the mean log-likelihood is within a millionth of the best; None if it never is."""
    for seconds, value in zip(found["seconds"], found["log_likelihood"]):
        if value >= best - ENOUGH * n:
            return float(seconds)
    return None


def run(watch: Watch, case: PeerCase = CASES[0], longest: int = LONGEST) -> Result:
    """Every method on one problem."""
    curves = {}
    for name, settings in METHODS.items():
        watch(name)
        curves[name] = climb(case, settings, longest)
    best = max(curve["reached"] for curve in curves.values())
    lines = []
    for name, curve in curves.items():
        there = seconds_to_best(curve, best, case.n)
        lines.append(
            (
                name,
                str(curve["iterations"]),
                f"{1e3 * curve['seconds'][-1]:.0f}",
                "-" if there is None else f"{1e3 * there:.0f}",
                f"{curve['reached']:.2f}",
                f"{curve['error']:.4f}",
            )
        )
    return Result(
        suite="climb",
        title=f"n = {case.n:,}, d = {case.d}, k = {case.k}, a sigma per component, {default_threads()} threads",
        columns=("method", "iterations", "milliseconds", f"to within {ENOUGH:g} a row", "log-likelihood", "error"),
        rows=tuple(lines),
        numbers={"n": case.n, "d": case.d, "k": case.k, "best": best, "curves": curves},
    )
