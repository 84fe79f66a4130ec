"""How often 95% intervals hold the truth, over many simulated fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.inference.bootstrap import match_components
from wmlr.inference.uncertainty import Constraints, covariance, free_parameters, standard_errors
from wmlr.io.users_line import without_warnings
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers

FITS = 1000
LEVEL = 0.95
COPIES = 400  # of a ridge's rows, to find what it estimates


@dataclass(frozen=True)
class CoverageCase:
    """A model, and how its rows come about.

    Attributes
    ----------
    mixture : what is drawn from.
    n : rows of a sample.
    shared_sigma : one sigma, or one for each component.
    group_size : rows that share their component.
    shift : added to the first column.
    merged : x and y are rounded, and equal rows become one that weighs as many.
    alpha : the ridge. Its columns are the same in every sample, and what it estimates takes the place of the truth.
    """

    name: str
    mixture: Mixture
    n: int = 500
    shared_sigma: bool = True
    group_size: int = 1
    shift: float = 0.0
    merged: bool = False
    alpha: float = 0.0

    @property
    def constraints(self) -> Constraints:
        pair = self.mixture.symmetric
        return Constraints(intercept=not pair, symmetric=pair, shared_sigma=self.shared_sigma or pair)

    @property
    def truth(self) -> Mixture:
        """The mixture as its shifted columns show it."""
        return replace(self.mixture, intercept=self.mixture.intercept - self.shift * self.mixture.coef[:, 0])


@dataclass(frozen=True)
class CoverageSample:
    """Rows to fit: features, response, groups and weights."""

    X: Array
    y: Array
    groups: Integers | None = None
    weight: Array | None = None


def planes(sigma: tuple[float, float]) -> Mixture:
    """Two crossing planes, six tenths against four."""
    coef = np.array([[2.0, -1.0], [-1.0, 1.5]])
    return Mixture(coef, np.array([1.0, -1.0]), np.array([0.6, 0.4]), np.array(sigma))


SAME, APART = planes((1.0, 1.0)), planes((0.7, 1.3))
CASES = (
    CoverageCase("one sigma", SAME),
    CoverageCase("a sigma each", APART, shared_sigma=False),
    CoverageCase("one sigma, groups of 5", SAME, group_size=5),
    CoverageCase("a sigma each, groups of 5", APART, shared_sigma=False, group_size=5),
    CoverageCase("sample weights", SAME, merged=True),
    CoverageCase("a ridge, alpha=20", SAME, alpha=20.0),
    CoverageCase("a ridge, alpha=20, a sigma each", APART, shared_sigma=False, alpha=20.0),
    CoverageCase("a column of mean 1e6", SAME, shift=1e6),
    CoverageCase("symmetric, SNR 0.8, n=1e5", Mixture.symmetric_pair(np.full(5, 0.8 / np.sqrt(5)), 1.0), n=100_000),
)


def draw_sample(case: CoverageCase, seed: int) -> CoverageSample:
    """One sample of a case."""
    generator = np.random.default_rng([seed, case.group_size, int(case.shared_sigma)])
    X = _features(case, np.random.default_rng(0) if case.alpha else generator)
    groups = None if case.group_size == 1 else np.arange(case.n) // case.group_size
    y, _ = case.mixture.sample(X, generator, groups)
    if case.merged:
        rows, counts = np.unique(np.column_stack([X, np.round(5 * y) / 5]), axis=0, return_counts=True)
        return CoverageSample(rows[:, :-1], rows[:, -1], None, counts.astype(np.float64))
    X[:, 0] += case.shift
    return CoverageSample(X, y, groups)


def _features(case: CoverageCase, generator: np.random.Generator) -> Array:
    X = generator.standard_normal((case.n, case.mixture.n_features))
    return np.round(X) if case.merged else X


def target_of(case: CoverageCase) -> Mixture:
    """What the estimates of a case are around: the truth, or with a ridge the fit of very many rows."""
    if not case.alpha:
        return case.truth
    X = np.tile(_features(case, np.random.default_rng(0)), (COPIES, 1))
    y, _ = case.mixture.sample(X, np.random.default_rng(1))
    return fit_sample(replace(case, alpha=case.alpha * COPIES), CoverageSample(X, y))


def fit_sample(case: CoverageCase, sample: CoverageSample) -> Mixture:
    """The fit of a sample from the truth, components in the truth's order."""
    pair, start = case.mixture.symmetric, case.truth
    settings: dict[str, Any] = {"symmetric": True} if pair else {"shared_sigma": case.shared_sigma}
    given = start.coef if pair else start.lines
    with without_warnings():
        model = MixedLinearRegression(2, start=given, alpha=case.alpha, random_state=0, n_jobs=1, **settings)
        model.fit(sample.X, sample.y, sample_weight=sample.weight, groups=sample.groups)
    return match_components(model.mixture_, start, sample.X)


def intervals_cover(case: CoverageCase, target: Mixture, seed: int) -> Array:
    """Whether each parameter's interval holds the target, in one simulated fit."""
    sample = draw_sample(case, seed)
    found = fit_sample(case, sample)
    rows = ArrayRows(sample.X, sample.y, sample.weight, sample.groups)
    with without_warnings():
        errors = standard_errors(covariance(found, rows, case.constraints, ridge=case.alpha))
    gaps = free_parameters(found, case.constraints) - free_parameters(target, case.constraints)
    return np.asarray(np.abs(gaps) <= norm.ppf(0.5 + LEVEL / 2) * errors, dtype=np.float64)


def run(watch: Watch, fits: int = FITS) -> Result:
    """Simulate every case."""
    lines, numbers = [], []
    for case in CASES:
        watch(f"{case.name}: {fits} fits")
        target = target_of(case)
        hits = Parallel(n_jobs=default_threads())(delayed(intervals_cover)(case, target, seed) for seed in range(fits))
        shares = np.mean(hits, axis=0)
        lines.append((case.name, f"{shares.mean():.3f}", f"{shares.min():.3f}", f"{shares.max():.3f}"))
        numbers.append({"name": case.name, "mean": float(shares.mean()), "shares": shares.tolist()})
    return Result(
        suite="coverage",
        title=f"Coverage of {100 * LEVEL:.0f}% intervals, n=500 where not said, k=2, {fits} fits",
        columns=("model", "all parameters", "least", "most"),
        rows=tuple(lines),
        numbers={
            "cases": numbers,
            "fits": fits,
            "limits": [Limit(f"coverage, {one['name']}", one["mean"], 0.97, 0.93).plain() for one in numbers],
        },
    )
