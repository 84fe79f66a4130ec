"""What privacy costs: the error of a private fit for each epsilon, over the error of the fit that hides nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.datasets import make_mixed_regression
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.federated import Federation, Privacy, fit_privately
from wmlr.io.users_line import without_warnings
from wmlr.metrics import coefficient_error

AGENTS, ROWS, SNR = 10_000, 10, 5.0
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = 2
DELTA = 1e-5


@dataclass(frozen=True)
class PrivacyCase:
    """So many columns; rows that share their agent's component, or stand alone."""

    d: int
    level: str
    rounds: int = 6
    clip: float = 1.5
    agents: int = AGENTS


CASES = (
    PrivacyCase(8, "agent"),
    PrivacyCase(16, "agent"),
    PrivacyCase(8, "row", rounds=8),
    PrivacyCase(8, "agent", agents=1_000),
    PrivacyCase(8, "agent", agents=100),
)


def errors(case: PrivacyCase, epsilon: float | None, seed: int) -> float:
    """The relative error of one fit; ``epsilon`` None hides nothing."""
    grouped = case.level == "agent"
    n = case.agents * ROWS
    ids = np.repeat(np.arange(case.agents), ROWS)
    data = make_mixed_regression(n, case.d, snr=SNR, symmetric=True, groups=ids if grouped else None, random_state=seed)
    model = MixedLinearRegression(symmetric=True, random_state=0)
    if epsilon is None:
        fit = model.fit_on(Federation.split(data.X, data.y, ids, level=case.level))
        return float(coefficient_error(fit.coef_, data.coef))
    privacy = Privacy(
        epsilon=epsilon,
        delta=DELTA,
        rounds=case.rounds,
        clip=case.clip,
        y_scale=float(np.sqrt(1.0 + SNR**2)),
        rows=float(ROWS),
        seed=seed,
    )
    with without_warnings():
        fit = fit_privately(model, Federation.split(data.X, data.y, ids, level=case.level, privacy=privacy))
    return float(coefficient_error(fit.coef_, data.coef))


def run(watch: Watch, cases: tuple[PrivacyCase, ...] = CASES, seeds: int = SEEDS) -> Result:
    """Every case at every epsilon: the mean over the seeds."""
    rows, numbers = [], []
    for case in cases:
        found = []
        for epsilon in (None, *EPSILONS):
            watch(f"d={case.d}, {case.agents:,} agents, level {case.level}, epsilon {epsilon or 'none'}")
            found.append(float(np.mean([errors(case, epsilon, seed) for seed in range(seeds)])))
        rows.append((f"{case.agents:,} x {ROWS}", str(case.d), case.level, *(f"{error:.2g}" for error in found)))
        numbers.append({"d": case.d, "level": case.level, "agents": case.agents, "errors": found})
    return Result(
        "privacy",
        f"Relative error of private fits, {ROWS} rows per agent, SNR {SNR:.0f}, delta {DELTA:g}; mean of {seeds}",
        ("agents x rows", "d", "level", "no noise", *(f"eps {epsilon:g}" for epsilon in EPSILONS)),
        tuple(rows),
        {"cases": numbers, "epsilons": list(EPSILONS)},
    )
