"""The bootstrap of weighted fits, refits that end elsewhere, and BCa intervals against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from wmlr import MixedLinearRegression, Mixture
from wmlr.inference.bootstrap import Bootstrap, is_elsewhere


@pytest.fixture(scope="module")
def curved():
    """A curve whose straight line depends on which rows count."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 2, 200)
    return x[:, None], x**3 + 0.3 * generator.standard_normal(200), np.where(x > 1, 5.0, 0.2)


def spread(X, weight, pulls):
    """Errors of weighted least squares when rows pull by so much."""
    design = np.column_stack([X, np.ones(len(X))])
    bread = np.linalg.inv(design.T @ (design * weight[:, None]))
    return np.sqrt(np.diag(bread @ pulls.T @ pulls @ bread))


def test_rows_that_are_drawn_keep_their_weights(curved):
    X, y, weight = curved
    fit = MixedLinearRegression(1).fit(X, y, sample_weight=weight)
    apart = abs(fit.coef_[0, 0] - MixedLinearRegression(1).fit(X, y).coef_[0, 0])
    found = fit.bootstrap(X, y, n_boot=100, random_state=0, kind="rows", sample_weight=weight)
    assert abs(found.bias[0]) < 0.1 * apart
    pulls = np.column_stack([X, np.ones(200)]) * (weight * (y - fit.predict(X)))[:, None]
    np.testing.assert_allclose(found.errors[:2], spread(X, weight, pulls), rtol=0.25)


def test_a_drawn_response_is_refitted_with_its_weights(curved):
    X, y, weight = curved
    fit = MixedLinearRegression(1).fit(X, y, sample_weight=weight)
    found = fit.bootstrap(X, y, n_boot=300, random_state=0, sample_weight=weight)
    pulls = np.column_stack([X, np.ones(200)]) * (weight * fit.sigma_[0])[:, None]
    np.testing.assert_allclose(found.errors[:2], spread(X, weight, pulls), rtol=0.15)


def test_a_row_without_weight_is_never_seen():
    generator = np.random.default_rng(1)
    X = generator.standard_normal((120, 1))
    y = X[:, 0] + 0.1 * generator.standard_normal(120)
    weight = np.where(np.arange(120) < 20, 0.0, 1.0)
    spoiled = np.where(weight > 0, y, 1e3)
    fit = MixedLinearRegression(1).fit(X, spoiled, sample_weight=weight)
    found = fit.bootstrap(X, spoiled, n_boot=20, random_state=0, kind="rows", sample_weight=weight)
    assert np.abs(found.draws[:, 0] - 1.0).max() < 0.1


WANTED = Mixture(np.array([[2.0], [-2.0]]), np.zeros(2), np.full(2, 0.5), np.full(2, 0.5))


@pytest.mark.parametrize(
    ("coef", "astray"),
    [([[2.1], [-1.9]], False), ([[2.0], [2.0]], True), ([[0.1], [-0.1]], True), ([[2.0], [9.0]], True)],
)
def test_a_refit_is_elsewhere_when_a_component_left_its_place(coef, astray):
    X = np.random.default_rng(0).standard_normal((200, 1))
    found = Mixture(np.array(coef), np.zeros(2), np.full(2, 0.5), np.full(2, 0.5))
    assert is_elsewhere(found, WANTED, X) is astray


def test_refits_that_ended_elsewhere_are_said():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((80, 1))
    truth = Mixture(np.array([[0.5], [-0.5]]), np.zeros(2), np.full(2, 0.5), np.full(2, 0.7))
    y = truth.sample(X, generator)[0]
    fit = MixedLinearRegression(2, random_state=0, max_iter=2000).fit(X, y)
    with pytest.warns(UserWarning, match="of 40 refits ended elsewhere than near the fit"):
        found = fit.bootstrap(X, y, n_boot=40, random_state=0)
    count = int(found.elsewhere.sum())
    assert f"40 draws, {count} of them elsewhere" in str(found)
    assert len(found.near) == 40 - count
    assert not found.near.elsewhere.any()
    assert found.near.errors[0] < found.errors[0]


def test_bca_intervals_are_those_of_scipy():
    generator = np.random.default_rng(2)
    X = np.ones((60, 1))
    y = generator.exponential(size=60)
    with pytest.warns(UserWarning, match="constant or zero columns: 1"):
        fit = MixedLinearRegression(1).fit(X, y)
    acceleration = fit.bootstrap(X, y, n_boot=2, random_state=0, kind="rows").acceleration
    theirs = stats.bootstrap((y,), np.std, method="BCa", n_resamples=5000, rng=np.random.default_rng(0))
    place = fit.confidence_intervals(X, y).names.index("(sigma)")
    draws = theirs.bootstrap_distribution[:, None]
    ours = Bootstrap(("(sigma)",), fit.sigma_, draws, acceleration=acceleration[[place]])
    low, high = ours.confidence_intervals(kind="bca")["(sigma)"]
    np.testing.assert_allclose([low, high], theirs.confidence_interval, rtol=0.01)
    percentile = ours.confidence_intervals()["(sigma)"]
    assert percentile[1] < high


def test_bca_intervals_of_a_mixture_hold_their_estimates():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((150, 1))
    y = WANTED.sample(X, generator)[0]
    fit = MixedLinearRegression(2, random_state=0).fit(X, y)
    found = fit.bootstrap(X, y, n_boot=80, random_state=0)
    intervals = found.confidence_intervals(0.9, kind="bca")
    assert np.all(intervals.lower < found.estimates)
    assert np.all(found.estimates < intervals.upper)
    assert len(found.to_frame(0.9, "bca")) == len(found.names)
    with pytest.raises(ValueError, match="kind must be one of 'percentile', 'bca' \\(got 'basic'\\)"):
        found.confidence_intervals(kind="basic")
