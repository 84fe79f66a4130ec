"""Mixtures of Poisson regressions: counts, whose mean is the exponential of the predictor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from wmlr import MixedLinearRegression, Mixture, metrics, plots
from wmlr.engines import ArrayRows
from wmlr.families import Poisson
from wmlr.federated import Federation

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((1500, 2))
    lines, intercepts = np.array([[0.5, -0.3], [-0.4, 0.4]]), np.array([2.0, 0.7])
    truth = Mixture(lines, intercepts, np.array([0.6, 0.4]), np.ones(2), family=Poisson())
    y, _ = truth.sample(X, generator)
    return X, y, truth


@pytest.fixture(scope="module")
def fit(rows):
    X, y, _ = rows
    return MixedLinearRegression(2, family="poisson", random_state=0).fit(X, y)


def log_likelihood(theta, X, y):
    lines, share = theta[:6].reshape(2, 3), 1.0 / (1.0 + np.exp(-theta[6]))
    means = np.exp(X @ lines[:, :2].T + lines[:, 2])
    return float(np.log(stats.poisson.pmf(y[:, None], means) @ [share, 1.0 - share]).sum())


def packed(fit):
    lines = np.column_stack([fit.coef_, fit.intercept_])
    return np.append(lines.ravel(), np.log(fit.weights_[0] / fit.weights_[1]))


def test_the_fit_is_the_likelihood_s_maximum(rows, fit):
    X, y, truth = rows
    assert fit.converged_
    assert fit.log_likelihood_ == pytest.approx(log_likelihood(packed(fit), X, y), rel=1e-12)
    best = minimize(lambda theta: -log_likelihood(theta, X, y), packed(fit), method="BFGS")
    assert -best.fun == pytest.approx(fit.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(fit.coef_, truth.coef, atol=0.1)
    assert fit.n_parameters_ == 7


def test_standard_errors_are_those_of_the_hessian(rows, fit):
    X, y, _ = rows
    theta, step, size = packed(fit), 1e-4, 7
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            corners = [
                log_likelihood(theta + a * step * np.eye(size)[i] + b * step * np.eye(size)[j], X, y)
                for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            ]
            hessian[i, j] = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * step**2)
    np.testing.assert_allclose(fit.covariance(X, y), np.linalg.inv(-hessian), rtol=1e-3, atol=1e-7)
    assert "sigma" not in str(fit.summary(X, y))


def test_fabric_faults_have_the_published_fit_from_every_seed():
    """flexmix's vignette: log-likelihood -86.33119, log(Length) 0.79913 with error 0.23491."""
    length, faults = np.genfromtxt(DATA / "fabricfault.csv", delimiter=",", skip_header=1).T
    X = np.log(length)[:, None]
    for seed in range(10):
        fit = MixedLinearRegression(2, family="poisson", shared=[0], random_state=seed).fit(X, faults)
        assert fit.log_likelihood_ == pytest.approx(-86.33119, abs=2e-4)
        assert fit.coef_[0, 0] == pytest.approx(0.79913, abs=1e-4)
        assert np.sqrt(fit.covariance(X, faults)[0, 0]) == pytest.approx(0.23491, abs=1e-4)


def test_one_component_is_the_generalised_linear_model(rows):
    from sklearn.linear_model import PoissonRegressor

    X, y, _ = rows
    for method in ("wmlr", "em"):
        one = MixedLinearRegression(1, family="poisson", method=method).fit(X, y)
        glm = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000).fit(X, y)
        np.testing.assert_allclose(one.coef_[0], glm.coef_, atol=1e-6)
        assert one.intercept_[0] == pytest.approx(glm.intercept_, abs=1e-6)


def test_agents_weights_and_groups(rows, fit):
    X, y, _ = rows
    agents = Federation.split(X, y, np.arange(len(y)) % 7)
    begun = {"family": "poisson", "start": np.array([[0.3, 0.0, 1.5], [-0.3, 0.0, 1.0]])}
    apart = MixedLinearRegression(2, **begun).fit_on(agents)
    np.testing.assert_allclose(apart.coef_, MixedLinearRegression(2, **begun).fit(X, y).coef_, atol=1e-8)
    searched = MixedLinearRegression(2, family="poisson", random_state=0, search="quick").fit_on(agents)
    np.testing.assert_allclose(searched.coef_, fit.coef_, atol=1e-5)
    doubled = MixedLinearRegression(2, family="poisson", random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert doubled.log_likelihood_ == pytest.approx(2 * fit.log_likelihood_, rel=1e-9)
    grouped = MixedLinearRegression(2, family="poisson", random_state=0).fit(X, y, groups=np.arange(len(y)) // 5)
    assert grouped.group_responsibilities_.shape == (300, 2)


def test_many_columns_and_a_ridge_end_where_few_columns_do(rows):
    from wmlr.core.round import run
    from wmlr.methods import EM
    from wmlr.methods.task import Task

    X, y, truth = rows
    start = np.column_stack([truth.coef, truth.intercept])
    task = Task(intercept=True, family=Poisson(), sigma=1.0, ridge=3.0, start=start, tol=1e-13, max_iter=2000)
    fits = [run(EM().fit(replace(task, wide=wide)), ArrayRows(X, y)) for wide in (False, True)]
    np.testing.assert_allclose(fits[1].mixture.coef, fits[0].mixture.coef, atol=1e-5)


def test_prediction_agrees_with_the_mixture_s_probabilities(rows, fit, tmp_path):
    X, _, _ = rows
    at, counts = X[:20], np.arange(0.0, 400.0)
    means = np.exp(at @ fit.coef_.T + fit.intercept_)
    chances = np.einsum("k,nkc->nc", fit.weights_, stats.poisson.pmf(counts, means[..., None]))
    np.testing.assert_allclose(fit.predict(at), chances @ counts, rtol=1e-8)
    np.testing.assert_allclose(fit.predict_density(at, counts[None]), chances, atol=1e-12)
    np.testing.assert_allclose(fit.predict_cdf(at, counts[None]), np.cumsum(chances, axis=1), atol=1e-10)
    levels = np.array([0.05, 0.5, 0.9])
    np.testing.assert_array_equal(
        fit.predict_quantile(at, levels), [[np.argmax(np.cumsum(row) >= q) for q in levels] for row in chances]
    )
    for row, region in zip(chances, fit.predict_interval(at, 0.8)):
        inside = np.any([(low <= counts) & (counts <= high) for low, high in region], axis=0)
        assert row[inside].sum() >= 0.8
        fewest = np.argmax(np.cumsum(np.sort(row)[::-1]) >= 0.8) + 1
        assert inside.sum() == fewest
    fit.save(tmp_path / "model.json")
    read = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(read.predict(at), fit.predict(at))


def test_residuals_follow_the_normal_law_where_the_model_is_right(rows, fit):
    X, y, _ = rows
    right = plots.residuals(fit, X, y).axes[1]
    assert right.get_xlabel() == "normal quantile"
    expected, seen = (np.asarray(values) for values in right.lines[0].get_data())
    inner = np.abs(expected) < 1.5
    np.testing.assert_allclose(seen[inner], expected[inner], atol=0.3)


def test_what_is_not_a_count_is_refused():
    X = np.arange(8.0)[:, None]
    for wrong in (-1.0, 0.5):
        with pytest.raises(ValueError, match="is for counts"):
            MixedLinearRegression(1, family="poisson").fit(X, np.append(np.ones(7), wrong))
    with pytest.raises(ValueError, match="family= needs method='em'"):
        MixedLinearRegression(2, family="poisson", solver="gda").fit(X, np.ones(8))
    mixture = Mixture(np.ones((1, 1)), np.zeros(1), np.ones(1), np.ones(1), family=Poisson())
    with pytest.raises(ValueError, match="needs noise around a regression line"):
        metrics.wasserstein2(mixture, mixture, X)
