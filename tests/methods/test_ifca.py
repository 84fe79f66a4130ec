"""IFCA, the outside baseline: agents choose a cluster, the server takes one gradient step per cluster."""

import numpy as np
import pytest

from wmlr import IFCA, MixedLinearRegression
from wmlr.core.round import Rows, run
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.statistics.cluster_score import ClusterScore


def test_a_round_is_the_choice_and_the_gradient_of_every_agent(generator):
    X, y = generator.standard_normal((12, 3)), generator.standard_normal(12)
    firsts = np.array([0, 4, 5, 9])
    models = generator.standard_normal((3, 2))
    sums = ClusterScore(models, np.log([0.5, 0.5]), np.ones(2)).answer(Rows(X, y, starts=firsts))
    gradient, count, squares = np.zeros((3, 2)), np.zeros(2), np.zeros(2)
    for rows in np.split(np.arange(12), firsts[1:]):
        losses = [np.sum((y[rows] - X[rows] @ model) ** 2) for model in models.T]
        best = int(np.argmin(losses))
        gradient[:, best] += X[rows].T @ (y[rows] - X[rows] @ models[:, best])
        count[best] += 1
        squares[best] += losses[best]
    np.testing.assert_allclose(sums["score"], gradient)
    np.testing.assert_allclose(sums["units"], count)
    np.testing.assert_allclose(sums["squares"], squares)


def test_one_iteration_is_one_gradient_step():
    data = make_mixed_regression(400, 3, 2, snr=5, groups=8, random_state=0)
    begun = data.coef + 0.5
    task = Task(start=begun, max_iter=1)
    fit = run(IFCA(step=0.3).fit(task), ArrayRows(data.X, data.y, groups=data.groups))
    losses = np.stack([(data.y - data.X @ model) ** 2 for model in begun], axis=1)
    chosen = np.add.reduceat(losses, np.arange(0, 400, 8)).argmin(axis=1).repeat(8)
    for j in range(2):
        mine = chosen == j
        pull = data.X[mine].T @ (data.y[mine] - data.X[mine] @ begun[j]) / 400
        np.testing.assert_allclose(fit.mixture.coef[j], begun[j] + 0.3 * pull)
    np.testing.assert_allclose(fit.mixture.weights, np.bincount(chosen, minlength=2) / 400)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("coordinates", ["raw", "whitened"])
def test_it_ends_at_least_squares_with_the_chosen_labels(symmetric, coordinates):
    k = 2 if symmetric else 3
    data = make_mixed_regression(6000, 4, k, snr=10, symmetric=symmetric, groups=20, random_state=1)
    federation = Federation.split(data.X, data.y, data.groups, level="agent")
    method = IFCA(coordinates=coordinates)
    fit = MixedLinearRegression(k, symmetric=symmetric, fit_intercept=False, method=method, random_state=0)
    fit.fit_on(federation)
    assert fit.converged_
    assert coefficient_error(fit.coef_, data.coef) < 0.01
    assert fit.sigma_ == pytest.approx(np.ones(k), abs=0.05)
    chosen = federation.assign(fit)[0]
    if symmetric:
        signs = np.where(chosen.repeat(20) == 0, 1.0, -1.0)
        oracle = np.linalg.lstsq(data.X, data.y * signs, rcond=None)[0]
        np.testing.assert_allclose(fit.coef_[0], oracle, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_allclose(fit.weights_, np.bincount(chosen) / 300, atol=1e-12)
        for j in range(k):
            mine = chosen.repeat(20) == j
            oracle = np.linalg.lstsq(data.X[mine], data.y[mine], rcond=None)[0]
            np.testing.assert_allclose(fit.coef_[j], oracle, rtol=1e-4, atol=1e-4)


def test_the_squared_loss_never_rises():
    data = make_mixed_regression(3000, 5, 3, snr=3, groups=5, random_state=2)
    fit = MixedLinearRegression(3, method=IFCA(), start="random", random_state=0)
    fit.fit_on(Federation.split(data.X, data.y, data.groups, level="agent"))
    gains = np.diff([record["objective"] for record in fit.history_])
    assert np.all(gains >= -1e-12)


def test_known_sigma_and_intercepts(generator):
    groups = np.repeat(np.arange(300), 10)
    X = generator.standard_normal((3000, 2))
    side = generator.integers(2, size=300)[groups]
    y = np.where(side, X[:, 0] + 4.0, -X[:, 1] - 4.0) + 0.5 * generator.standard_normal(3000)
    fit = MixedLinearRegression(method=IFCA(), sigma=0.5, random_state=0)
    fit.fit_on(Federation.split(X, y, groups, level="agent"))
    np.testing.assert_array_equal(fit.sigma_, [0.5, 0.5])
    assert sorted(fit.intercept_.round(1)) == [-4.0, 4.0]


def test_saved_and_read(tmp_path):
    data = make_mixed_regression(300, 2, snr=8, symmetric=True, groups=6, random_state=0)
    fit = MixedLinearRegression(symmetric=True, method=IFCA(step=0.5), random_state=0)
    fit.fit(data.X, data.y, groups=data.groups).save(tmp_path / "model.json")
    read = MixedLinearRegression.load(tmp_path / "model.json")
    assert read.method == IFCA(step=0.5)
    np.testing.assert_array_equal(read.coef_, fit.coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"step": 0.0}, r"step must be positive or None \(got 0.0\)"), ({"coordinates": "x"}, "coordinates must be")],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        IFCA(**settings)
