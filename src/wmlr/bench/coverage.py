"""How often 95% intervals hold the truth, over many simulated fits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.engines.arrays import default_threads
from wmlr.estimator import MixedLinearRegression
from wmlr.model import Mixture
from wmlr.round import Array

FITS = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Case:
    """A two-component model at n=500: one sigma or two, rows alone or in groups of five."""

    name: str
    mixture: Mixture
    shared_sigma: bool = True
    group_size: int = 1


def mixture(sigma: tuple[float, float]) -> Mixture:
    """Two crossing planes, six tenths against four."""
    coef = np.array([[2.0, -1.0], [-1.0, 1.5]])
    return Mixture(coef, np.array([1.0, -1.0]), np.array([0.6, 0.4]), np.array(sigma))


CASES = (
    Case("one sigma", mixture((1.0, 1.0))),
    Case("a sigma each", mixture((0.7, 1.3)), shared_sigma=False),
    Case("one sigma, groups of 5", mixture((1.0, 1.0)), group_size=5),
    Case("a sigma each, groups of 5", mixture((0.7, 1.3)), shared_sigma=False, group_size=5),
)


def truths(case: Case) -> Array:
    """The free parameters of a case, in the order of the covariance."""
    model = case.mixture
    lines = np.column_stack([model.coef, model.intercept]).ravel()
    deviations = np.log(model.sigma[:1] if case.shared_sigma else model.sigma)
    return np.concatenate([lines, deviations, [np.log(model.weights[0] / model.weights[1])]])


def covered(case: Case, seed: int, n: int = 500) -> Array:
    """Whether each parameter's interval holds the truth, in one simulated fit."""
    generator = np.random.default_rng([seed, case.group_size, int(case.shared_sigma)])
    X = generator.standard_normal((n, 2))
    groups = None if case.group_size == 1 else np.arange(n) // case.group_size
    y, _ = case.mixture.sample(X, generator, groups)
    start = np.column_stack([case.mixture.coef, case.mixture.intercept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = MixedLinearRegression(2, shared_sigma=case.shared_sigma, start=start, random_state=0, n_jobs=1)
        fit.fit(X, y, groups=groups)
    found = truths(Case(case.name, matched(fit.mixture_, case.mixture), case.shared_sigma, case.group_size))
    order = matching(fit.mixture_, case.mixture)
    errors = np.sqrt(np.diag(fit.covariance(X, y, groups)))
    if order[0] != 0:
        swap = [3, 4, 5, 0, 1, 2] + ([6] if case.shared_sigma else [7, 6]) + [len(errors) - 1]
        errors = errors[swap]
    return np.asarray(np.abs(found - truths(case)) <= norm.ppf(0.5 + LEVEL / 2) * errors, dtype=np.float64)


def matching(found: Mixture, true: Mixture) -> list[int]:
    """The order of the found components that is nearest to the true one."""
    straight = float(np.sum((found.coef - true.coef) ** 2))
    crossed = float(np.sum((found.coef[::-1] - true.coef) ** 2))
    return [0, 1] if straight <= crossed else [1, 0]


def matched(found: Mixture, true: Mixture) -> Mixture:
    """The found mixture in the true one's order."""
    order = matching(found, true)
    return Mixture(found.coef[order], found.intercept[order], found.weights[order], found.sigma[order])


def run(watch: Watch, fits: int = FITS) -> Result:
    """Simulate every case."""
    lines, numbers = [], []
    for case in CASES:
        watch(f"{case.name}: {fits} fits")
        hits = Parallel(n_jobs=default_threads())(delayed(covered)(case, seed) for seed in range(fits))
        shares = np.mean(hits, axis=0)
        lines.append((case.name, f"{shares.mean():.3f}", f"{shares.min():.3f}", f"{shares.max():.3f}"))
        numbers.append({"name": case.name, "mean": float(shares.mean()), "shares": shares.tolist()})
    return Result(
        suite="coverage",
        title=f"Coverage of {100 * LEVEL:.0f}% intervals, n=500, k=2, {fits} fits",
        columns=("model", "all parameters", "least", "most"),
        rows=tuple(lines),
        numbers={
            "cases": numbers,
            "fits": fits,
            "limits": [Limit(f"coverage, {one['name']}", one["mean"], 0.97, 0.93).plain() for one in numbers],
        },
    )
