"""A family that is defined here, and nowhere else, can do whatever the library's own can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import integrate, stats

from wmlr import MixedLinearRegression, families, metrics, plots, theory
from wmlr.families import Noise
from wmlr.federated import Federation
from wmlr.federated.messages import pack, unpack
from wmlr.inference.fisher import fisher_information
from wmlr.model.mixture import Mixture
from wmlr.statistics.score import MixtureScore

LEAST = 1e-4  # a residual smaller than this counts as one of this size: the step stays defined


@families.register
@dataclass(frozen=True)
class Pointed(Noise):
    """Laplace's noise: the density exp(-|z|) / 2, with a kink at 0."""

    name: ClassVar[str] = "pointed"
    smooth: ClassVar[bool] = False

    def log_density(self, z):
        return -np.abs(z) - np.log(2.0)

    def weight(self, z):
        return 1.0 / np.maximum(np.abs(z), LEAST)

    def curvature(self, z):
        return np.zeros_like(z)

    def information(self, z):
        return np.ones_like(z)

    def cdf(self, z):
        return stats.laplace.cdf(z)

    def quantile(self, q):
        return stats.laplace.ppf(q)

    def draw(self, generator, n):
        return generator.laplace(size=n)


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((1200, 2))
    lines, intercepts = np.array([[2.0, -1.0], [-1.5, 1.0]]), np.array([1.0, -1.0])
    truth = Mixture(lines, intercepts, np.array([0.6, 0.4]), np.array([0.3, 0.5]), family=Pointed())
    y, _ = truth.sample(X, generator)
    return X, y, truth


@pytest.fixture(scope="module")
def fit(rows):
    X, y, _ = rows
    return MixedLinearRegression(2, family="pointed", shared_sigma=False, random_state=0).fit(X, y)


def log_likelihood(mixture, X, y):
    z = (y[:, None] - X @ mixture.coef.T - mixture.intercept) / mixture.sigma
    return float(np.log((mixture.weights * stats.laplace.pdf(z) / mixture.sigma).sum(axis=1)).sum())


def test_it_is_fitted_to_arrays(rows, fit):
    X, y, truth = rows
    assert fit.converged_
    assert fit.log_likelihood_ == pytest.approx(log_likelihood(fit.mixture_, X, y), rel=1e-10)
    assert fit.log_likelihood_ > log_likelihood(truth, X, y)
    np.testing.assert_allclose(fit.coef_, truth.coef, atol=0.1)
    np.testing.assert_allclose(fit.sigma_, truth.sigma, rtol=0.15)


def test_no_step_from_the_fit_is_likelier(rows, fit):
    X, y, _ = rows
    generator, found = np.random.default_rng(0), fit.mixture_
    for size in (1e-2, 1e-3, 1e-4):
        for _ in range(30):
            moved = Mixture(
                found.coef + size * generator.standard_normal(found.coef.shape),
                found.intercept + size * generator.standard_normal(2),
                found.weights,
                found.sigma * np.exp(size * generator.standard_normal(2)),
            )
            assert log_likelihood(moved, X, y) < fit.log_likelihood_ + 1e-3


def test_one_component_is_least_absolute_deviations(rows):
    from scipy.optimize import linprog

    X, y, _ = rows
    X, y = X[:150], y[:150]
    fit = MixedLinearRegression(1, family="pointed").fit(X, y)
    A = np.column_stack([X, np.ones(len(y))])
    n, p = A.shape
    cost, free = np.concatenate([np.zeros(p), np.ones(2 * n)]), [(None, None)] * p + [(0, None)] * (2 * n)
    best = linprog(cost, A_eq=np.hstack([A, np.eye(n), -np.eye(n)]), b_eq=y, bounds=free)
    assert np.abs(y - fit.predict(X)).sum() == pytest.approx(best.fun, rel=1e-5)


def test_it_is_fitted_to_a_parquet_file_as_to_arrays(rows, fit, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from wmlr.engines import ParquetRows

    X, y, _ = rows
    pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(tmp_path / "rows.parquet")
    model = MixedLinearRegression(2, family="pointed", shared_sigma=False, random_state=0)
    found = model.fit_on(ParquetRows(tmp_path / "rows.parquet", target="y"))
    assert found.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(found.coef_, fit.coef_, atol=1e-3)


def test_it_is_fitted_by_agents_and_travels_as_a_message(rows, fit):
    X, y, _ = rows
    model = MixedLinearRegression(2, family="pointed", shared_sigma=False, random_state=0, search="quick", tol=1e-9)
    found = model.fit_on(Federation.split(X, y, np.arange(len(y)) % 5))
    assert found.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=0.02)  # a peak has no curvature to go by
    query = MixtureScore(np.ones((2, 2)), np.zeros(2), np.ones(2), family=Pointed())
    assert unpack(pack(query)).family == Pointed()


def test_a_saved_model_is_read_again(rows, fit, tmp_path):
    X, y, _ = rows
    fit.save(tmp_path / "model.json")
    read = MixedLinearRegression.load(tmp_path / "model.json")
    assert read.mixture_.family == Pointed()
    np.testing.assert_array_equal(read.responsibilities(X, y), fit.responsibilities(X, y))
    assert read.score(X, y) == fit.score(X, y)


def test_standard_errors_are_the_spread_of_refits(rows, fit):
    X, y, _ = rows
    errors = np.sqrt(np.diag(fit.covariance(X, y)))
    generator, draws = np.random.default_rng(1), []
    start = np.column_stack([fit.coef_, fit.intercept_])
    for _ in range(60):
        drawn, _ = fit.mixture_.sample(X, generator)
        again = MixedLinearRegression(2, family="pointed", shared_sigma=False, start=start).fit(X, drawn)
        draws.append(np.concatenate([np.column_stack([again.coef_, again.intercept_]).ravel(), np.log(again.sigma_)]))
    np.testing.assert_allclose(errors[:8], np.std(draws, axis=0), rtol=0.35)
    summary = str(fit.summary(X, y))
    assert "std err" in summary


def test_intervals_hold_their_share_of_new_rows(rows, fit):
    X, _, _ = rows
    y, _ = fit.sample(X, random_state=5)
    for kind in ("hdr", "central"):
        region = fit.predict_interval(X, 0.8, kind)
        assert region.contains(y).mean() == pytest.approx(0.8, abs=0.04)
    at = X[:1]
    mean, weights, sigma = fit.predict_components(at)[0], fit.weights_, fit.sigma_
    y = np.linspace(-30.0, 0.7, 400_001)[:, None]
    below = integrate.trapezoid((stats.laplace.pdf((y - mean) / sigma) / sigma) @ weights, y[:, 0])
    assert fit.predict_cdf(at, 0.7)[0] == pytest.approx(below, abs=1e-6)


def test_residuals_are_drawn_against_its_own_quantiles(rows, fit):
    X, y, _ = rows
    figure = plots.residuals(fit, X, y)
    right = figure.axes[1]
    assert right.get_xlabel() == "pointed quantile"
    expected, seen = right.lines[0].get_data()
    inner = np.abs(expected) < 2
    np.testing.assert_allclose(np.asarray(seen)[inner], np.asarray(expected)[inner], atol=0.35)


def test_information_distance_and_error_agree_with_direct_integration():
    one = Mixture(np.array([[1.0]]), np.zeros(1), np.ones(1), np.array([2.0]), family=Pointed())
    np.testing.assert_allclose(fisher_information(one, [[3.0]]), np.diag([9.0 / 4.0, 1.0]), rtol=1e-5, atol=1e-8)
    wide = Mixture(one.coef, one.intercept, one.weights, np.array([5.0]), family=Pointed())
    assert metrics.wasserstein2(one, wide, [[0.0]]) == pytest.approx(3.0 * np.sqrt(2.0), rel=1e-3)
    two = Mixture(np.zeros((2, 1)), np.array([0.0, 2.0]), np.array([0.3, 0.7]), np.array([0.5, 1.0]), family=Pointed())
    y = np.linspace(-60, 60, 2_000_001)
    densities = two.weights * stats.laplace.pdf((y[:, None] - two.intercept) / two.sigma) / two.sigma
    expected = integrate.trapezoid(densities.min(axis=1), y)
    assert theory.bayes_error(two, [[0.0]]) == pytest.approx(expected, abs=1e-7)


def test_a_name_that_is_taken_or_unknown_is_refused():
    @dataclass(frozen=True)
    class Other(Pointed):
        pass

    with pytest.raises(ValueError, match="already"):
        families.register(Other)
    with pytest.raises(ValueError, match="must be one of 'normal'"):
        MixedLinearRegression(2, family="cauchy").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
