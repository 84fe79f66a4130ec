"""The ridge: scikit-learn's for every component, sigma of the residuals, and errors, against plain NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import Ridge

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression

ALPHA = 40.0


@pytest.fixture(scope="module")
def data():
    found = make_mixed_regression(300, 3, 2, snr=4, weights=[0.6, 0.4], random_state=1)
    return found.X, found.y


def fitted(X, y, **settings):
    given = {"alpha": ALPHA, "tol": 1e-12, "max_iter": 20000, "random_state": 0} | settings
    return MixedLinearRegression(given.pop("n_components", 2), **given).fit(X, y)


def equations(fit, X, y, groups=None):
    """The estimating equations in (b_j, c_j) ..., log sigma, logit, by numerical derivatives of a plain likelihood."""
    k, d = fit.coef_.shape
    common = [0] if fit.shared else []

    def unpacked(theta):
        lines = theta[: k * (d + 1)].reshape(k, d + 1)
        deviations = np.exp(theta[k * (d + 1) : k * (d + 1) + (1 if fit.shared_sigma else k)])
        logits = np.append(theta[-(k - 1) :], 0.0) if k > 1 else np.zeros(1)
        return lines, np.broadcast_to(deviations, (k,)), np.exp(logits - logsumexp(logits))

    def likelihood(theta):
        lines, sigma, weights = unpacked(theta)
        z = (y[:, None] - X @ lines[:, :d].T - lines[:, d]) / sigma
        each = np.log(weights) - 0.5 * z**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        return logsumexp(each, axis=1).sum()

    def pull(theta):
        lines, sigma, weights = unpacked(theta)
        out = np.zeros_like(lines)
        out[:, :d] = ALPHA * lines[:, :d] / sigma[:, None] ** 2
        for column in common:
            out[:, column] *= weights
        return np.concatenate([out.ravel(), np.zeros(len(theta) - out.size)])

    theta = np.concatenate(
        [
            np.column_stack([fit.coef_, fit.intercept_]).ravel(),
            np.log(fit.sigma_[: 1 if fit.shared_sigma else k]),
            np.log(fit.weights_[:-1] / fit.weights_[-1]),
        ]
    )
    return theta, likelihood, pull


def derivative(function, at, step=1e-5):
    return np.stack([(function(at + e) - function(at - e)) / (2 * step) for e in np.eye(len(at)) * step], axis=-1)


@pytest.mark.parametrize("alpha", [0.1, 50.0, 2000.0])
@pytest.mark.parametrize("method", ["wmlr", "em", "gem"])
def test_one_component_is_scikit_learns_and_sigma_that_of_its_residuals(data, method, alpha):
    X, y = data
    ours, theirs = fitted(X, y, n_components=1, alpha=alpha, method=method), Ridge(alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, rtol=1e-5, atol=1e-8)
    assert ours.sigma_[0] ** 2 == pytest.approx(np.mean((y - theirs.predict(X)) ** 2), rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"shared_sigma": False}, {"shared": [0], "shared_sigma": False}], ids=str)
@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_the_fit_solves_the_equations_of_the_mathematics_page(data, method, settings):
    """From a fit without a ridge, since one that shrinks onto a few rows has a likelihood that no equation ends."""
    X, y = data
    near = MixedLinearRegression(2, random_state=0).fit(X, y)
    start = np.column_stack([near.coef_, near.intercept_])
    theta, likelihood, pull = equations(fit := fitted(X, y, method=method, start=start, **settings), X, y)
    assert fit.converged_
    score = derivative(likelihood, theta) - pull(theta)
    if fit.shared:
        d = X.shape[1]
        score[0] += score[d + 1]
        score[d + 1] = 0.0
    np.testing.assert_allclose(score, 0.0, atol=2e-3)
    assert np.all(np.diff([record["objective"] for record in fit.history_]) >= -1e-9)


@pytest.mark.parametrize("settings", [{}, {"shared_sigma": False}, {"symmetric": True}], ids=str)
def test_every_method_finds_the_same_fit(data, settings):
    X, y = data
    fits = [fitted(X, y, method=method, **settings) for method in ("wmlr", "em", "gem")]
    for other in fits[1:]:
        np.testing.assert_allclose(other.coef_, fits[0].coef_, atol=2e-4)
        np.testing.assert_allclose(other.sigma_, fits[0].sigma_, atol=2e-4)


@pytest.mark.parametrize("settings", [{}, {"shared_sigma": False}], ids=str)
def test_the_covariance_is_that_of_the_equations(data, settings):
    X, y = data
    fit = fitted(X, y, **settings)
    theta, likelihood, pull = equations(fit, X, y)
    information = -derivative(lambda at: derivative(likelihood, at, 1e-4), theta, 1e-4)
    bend = derivative(pull, theta)
    flat = np.zeros(len(theta), dtype=bool)
    flat[: fit.coef_.size + 2] = True
    cross = np.where(flat[:, None] & ~flat, bend, 0.0)  # the pull's dependence on sigma
    bread = np.linalg.inv(information + bend)
    middle = information + cross + cross.T
    wanted = bread @ middle @ bread.T
    np.testing.assert_allclose(fit.covariance(X, y), wanted, atol=1e-4 * np.abs(wanted).max())


def test_errors_are_the_spread_of_refits(data):
    """What Ridge estimates when the noise is drawn again, around its own mean."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((150, 3))
    mean = X @ [2.0, -1.0, 0.5] + 1.0
    draws = []
    for _ in range(400):
        y = mean + generator.standard_normal(150)
        fit = fitted(X, y, n_components=1)
        draws.append([*fit.coef_[0], *fit.intercept_, np.log(fit.sigma_[0])])
    errors = np.sqrt(np.diag(fit.covariance(X, y)))
    np.testing.assert_allclose(np.std(draws, axis=0)[:4], errors[:4] / fit.sigma_[0], rtol=0.12)


@pytest.mark.parametrize("alpha", [1.0, 50.0, 200.0])
@pytest.mark.parametrize("errors", ["observed", "sandwich"])
def test_a_symmetric_fit_has_errors_whatever_the_penalty(alpha, errors):
    found = make_mixed_regression(300, 3, 2, snr=4, symmetric=True, random_state=0)
    fit = fitted(found.X, found.y, symmetric=True, alpha=alpha, max_iter=300)
    errors = np.sqrt(np.diag(fit.covariance(found.X, found.y, errors=errors)))
    assert np.all(errors > 0)


@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_a_shared_column_is_penalised_once(method):
    """With all columns shared and intercepts far apart the slopes are Ridge's of y about each group's mean."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    label = generator.integers(2, size=400)
    y = X @ [1.0, -2.0] + np.where(label, 50.0, -50.0) + generator.standard_normal(400)
    fit = fitted(X, y, method=method, shared=[0, 1])
    inside = [X[label == j] - X[label == j].mean(axis=0) for j in (0, 1)]
    target = [y[label == j] - y[label == j].mean() for j in (0, 1)]
    wanted = Ridge(ALPHA, fit_intercept=False).fit(np.vstack(inside), np.concatenate(target)).coef_
    np.testing.assert_allclose(fit.coef_, [wanted, wanted], atol=1e-6)


def test_criteria_count_effective_parameters(data, tmp_path):
    X, y = data
    one = fitted(X, y, n_components=1)
    values = np.linalg.eigvalsh((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))
    assert one.n_parameters_ == pytest.approx(np.sum(values / (values + ALPHA)) + 2, rel=1e-8)
    total = one.score(X, y) * len(y)
    assert one.bic(X, y) == pytest.approx(-2 * total + np.log(300) * one.n_parameters_)
    counts = [fitted(X, y, alpha=alpha).n_parameters_ for alpha in (1e-9, 1.0, 100.0, 1e9)]
    assert counts == sorted(counts, reverse=True)
    assert [counts[0], counts[-1]] == pytest.approx([10, 4], abs=1e-3)
    one.save(tmp_path / "model.json")
    assert MixedLinearRegression.load(tmp_path / "model.json").n_parameters_ == one.n_parameters_
