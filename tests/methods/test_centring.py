"""Columns far from zero, such as seconds since 1970: the fit and its errors are those of the centred columns."""

import numpy as np
import pytest

from longer import long
from wmlr import MixedLinearRegression, Mixture
from wmlr.core.round import Rows
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.whitened import Whitened

FAR = [(1e6, 1.0), (1.7e9, 1e3), (1.7e12, 1e4), (-1e10, 1.0)]  # mean and deviation; the second is an hour in seconds


@pytest.fixture(scope="module")
def near():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    truth = Mixture(
        np.array([[2.0, 1.0], [-1.0, 0.5]]), np.array([1.0, -1.0]), np.array([0.6, 0.4]), np.array([0.5, 0.5])
    )
    return X, truth.sample(X, generator)[0]


def moved(X, mean, deviation):
    return np.column_stack([mean + deviation * X[:, 0], X[:, 1]])


@pytest.mark.parametrize(("mean", "deviation"), [*FAR[:2], *(long(*far) for far in FAR[2:])])
@pytest.mark.parametrize(
    "settings", [{}, {"method": "em"}, {"method": "gem"}, {"shared": [0]}, {"robust": True}], ids=str
)
def test_a_column_far_from_zero_is_fitted_as_a_near_one(near, settings, mean, deviation):
    X, y = near
    plain = MixedLinearRegression(2, random_state=0, **settings).fit(X, y)
    far = MixedLinearRegression(2, random_state=0, **settings).fit(moved(X, mean, deviation), y)
    np.testing.assert_allclose(far.coef_ * [deviation, 1.0], plain.coef_, rtol=1e-4, atol=1e-5)
    assert far.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=2e-3)


@pytest.mark.parametrize(("mean", "deviation"), FAR)
@pytest.mark.parametrize("errors", ["observed", "sandwich"])
def test_its_standard_errors_are_those_of_the_near_column(near, errors, mean, deviation):
    X, y = near
    Z = moved(X, mean, deviation)
    plain = MixedLinearRegression(2, random_state=0, tol=1e-10).fit(X, y)
    far = MixedLinearRegression(2, random_state=0, tol=1e-10).fit(Z, y)
    wanted = plain.covariance(X, y, errors=errors)
    found = far.covariance(Z, y, errors=errors)
    slopes = [0, 1, 3, 4]
    scale = np.array([deviation, 1.0, deviation, 1.0])
    np.testing.assert_allclose(
        found[np.ix_(slopes, slopes)] * np.outer(scale, scale), wanted[np.ix_(slopes, slopes)], rtol=1e-3, atol=1e-8
    )
    np.testing.assert_allclose(np.diag(found)[6:], np.diag(wanted)[6:], rtol=1e-3)
    away = mean / deviation  # the intercept is the line's value that far from where the rows are
    errors = np.array([1.0, -2.0 * away, away**2]) @ [wanted[2, 2], wanted[0, 2], wanted[0, 0]]
    assert found[2, 2] == pytest.approx(errors, rel=1e-3)


def test_a_wald_test_of_a_far_column_is_that_of_the_near_one(near):
    X, y = near
    Z = moved(X, 1e6, 1.0)
    pair = "x0[1] = 0.9*x0[2]"
    plain = MixedLinearRegression(2, random_state=0, tol=1e-10).fit(X, y).wald_test(pair, X, y)
    far = MixedLinearRegression(2, random_state=0, tol=1e-10).fit(Z, y).wald_test(pair, Z, y)
    assert far.statistic == pytest.approx(plain.statistic, rel=1e-4)


def test_a_start_may_be_given_for_a_far_column(near):
    X, y = near
    Z = moved(X, 1e8, 1.0)
    plain = MixedLinearRegression(2, random_state=0).fit(X, y)
    near_start = np.column_stack([plain.coef_, plain.intercept_])
    far_start = np.column_stack([plain.coef_, plain.intercept_ - 1e8 * plain.coef_[:, 0]])
    wanted, found = (
        MixedLinearRegression(2, start=near_start).fit(X, y),
        MixedLinearRegression(2, start=far_start).fit(Z, y),
    )
    assert found.n_iter_ == wanted.n_iter_
    assert found.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-4)


def test_agents_agree_with_the_whole_about_a_far_column(near):
    X, y = near
    Z = moved(X, 1.7e9, 1e3)
    whole = MixedLinearRegression(2, random_state=0).fit(Z, y)
    agents = MixedLinearRegression(2, random_state=0).fit_on(Federation.split(Z, y, np.arange(400) % 5))
    np.testing.assert_allclose(agents.coef_, whole.coef_, rtol=1e-8)
    rows = Federation.split(Z, y, np.arange(400) % 5)
    np.testing.assert_allclose(
        np.diag(agents.covariance_on(rows)), np.diag(whole.covariance_on(ArrayRows(Z, y))), rtol=1e-6
    )


def test_reports_show_the_mixture_on_the_datas_own_scale(near):
    X, y = near
    Z = moved(X, 1e7, 1.0)
    seen = []
    model = MixedLinearRegression(2, random_state=0)
    model.fit_on(ArrayRows(Z, y), watch=lambda report: seen.append(report.mixture))
    np.testing.assert_allclose(np.sort(seen[-1].coef, axis=0), np.sort(model.coef_, axis=0), rtol=1e-2)
    assert seen[-1].log_likelihood(Z, y).sum() == pytest.approx(model.log_likelihood_, abs=1e-2)


def test_a_whitened_query_is_the_query_of_white_rows():
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((30, 3)) + 5.0, generator.standard_normal(30)
    starts = np.arange(0, 30, 5)
    centre, basis = np.full(3, 5.0), generator.standard_normal((3, 2))
    for query in (Moments(intercept=True, fourth=True), MixtureScore(np.ones((3, 2)), np.log([0.5, 0.5]), np.ones(2))):
        found = Whitened(query, centre, basis).answer(Rows(X, y, None, starts))
        wanted = query.answer(Rows((X - centre) @ basis, y, None, starts))
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12)


@pytest.mark.parametrize("level", [long(1e5), 3e8, long(-1e10)])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "em"},
        {"shared_sigma": False},
        {"robust": True},
        {"outliers": True},
        {"alpha": 1.0},
        {"shared": [0]},
    ],
    ids=str,
)
def test_a_response_far_from_zero_is_fitted_as_a_near_one(near, settings, level):
    X, y = near
    step = np.spacing(abs(level))
    y = np.round(y / step) * step  # what is left of y so far out
    plain = MixedLinearRegression(2, random_state=0, **settings).fit(X, y)
    far = MixedLinearRegression(2, random_state=0, **settings).fit(X, y + level)
    np.testing.assert_allclose(far.coef_, plain.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(far.intercept_ - level, plain.intercept_, atol=1e-5)
    np.testing.assert_allclose(far.sigma_, plain.sigma_, rtol=1e-5)
    assert far.converged_
    assert far.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-2)
    assert np.allclose(
        np.diag(far.covariance(X, y + level)), np.diag(plain.covariance(X, y)), rtol=1e-3, equal_nan=True
    )


def test_agents_with_a_response_far_from_zero_fit_as_one_place_does_and_no_features_are_copied(near):
    X, y = near
    y = y + 1e9
    central = MixedLinearRegression(2, random_state=0).fit(X, y)
    among = MixedLinearRegression(2, random_state=0).fit_on(Federation.split(X, y, np.arange(len(y)) % 7))
    np.testing.assert_allclose(among.coef_, central.coef_, rtol=1e-6)
    rows = Rows(X, y)
    seen = Whitened(Moments(intercept=True), np.zeros(2), level=1e9).view(rows)
    assert seen.X is X
    assert seen is Whitened(Moments(), np.zeros(2), level=1e9).view(rows)
    np.testing.assert_array_equal(seen.y, y - 1e9)


def test_a_start_far_out_is_taken_as_it_is_meant(near):
    X, y = near
    start = np.array([[2.0, 1.0, 1e9 + 1.0], [-1.0, 0.5, 1e9 - 1.0]])
    far = MixedLinearRegression(2, start=start).fit(X, y + 1e9)
    np.testing.assert_allclose(far.coef_, [[2.0, 1.0], [-1.0, 0.5]], atol=0.15)
