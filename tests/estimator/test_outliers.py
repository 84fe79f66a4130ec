"""``outliers=``: rows that follow no component."""

from __future__ import annotations

import numpy as np
import pytest

from wmlr import GDA, MixedLinearRegression, Mixture
from wmlr.engines.npy import NpyRows
from wmlr.federated import Federation, Privacy
from wmlr.metrics import coefficient_error

COEF = np.array([[2.0, -1.0, 1.0], [-1.5, 2.0, 0.5]])


def drawn(share, *, sigma=(1.0, 1.0), n=1200, above=False, groups=None, seed=0):
    """Rows of two planes, those of them that are outliers, and the truth."""
    generator = np.random.default_rng(seed)
    truth = Mixture(COEF, np.array([1.0, -1.0]), np.array([0.6, 0.4]), np.asarray(sigma))
    X = generator.standard_normal((n, 3))
    y, labels = truth.sample(X, generator, groups)
    astray = generator.random(n) < share
    gross = generator.uniform(3, 20, n) if above else 10 * generator.standard_normal(n)
    return X, np.where(astray, y.std() * gross, y), astray, labels


def test_three_in_ten_gross_outliers_hardly_move_a_fit():
    for sigma in ((1.0, 1.0), (0.6, 1.2)):
        for above in (False, True):
            X, y, astray, _ = drawn(0.3, sigma=sigma, above=above)
            shared = sigma[0] == sigma[1]
            start = np.column_stack([COEF, [1.0, -1.0]])
            clean = MixedLinearRegression(2, shared_sigma=shared, start=start).fit(X[~astray], y[~astray])
            fit = MixedLinearRegression(2, shared_sigma=shared, outliers=True, random_state=0).fit(X, y)
            assert fit.converged_
            assert coefficient_error(fit.coef_, COEF) < 2 * coefficient_error(clean.coef_, COEF)
            np.testing.assert_allclose(fit.sigma_, clean.sigma_, rtol=0.15)
            assert fit.outlier_share_ == pytest.approx(astray.mean(), abs=0.06)


def test_without_outliers_the_fit_is_the_normal_one():
    X, y, _, _ = drawn(0.0)
    fit = MixedLinearRegression(2, outliers=True, random_state=0).fit(X, y)
    plain = MixedLinearRegression(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(fit.coef_, plain.coef_, atol=2e-3)
    assert fit.outlier_share_ < 1e-3
    assert fit.n_parameters_ == plain.n_parameters_ + 1
    assert fit.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=0.05)


def test_outliers_are_told_and_say_nothing_of_their_component():
    X, y, astray, _ = drawn(0.2)
    fit = MixedLinearRegression(2, outliers=True, random_state=0).fit(X, y)
    found, chances = fit.assign(X, y), fit.outlier_probabilities(X, y)
    far = astray & (np.abs(y - y[~astray].mean()) > 5 * y[~astray].std())
    assert np.all(found[far] == -1)
    assert np.all(chances[far] > 0.99)
    assert np.mean(found[~astray] == -1) < 0.03
    np.testing.assert_allclose(fit.responsibilities(X, y)[far], np.tile(fit.weights_, (far.sum(), 1)), atol=1e-6)
    assert fit.outlier_probabilities(X[:1], [1e9])[0] == 1.0
    assert fit.assign(X[:1], [1e9])[0] == -1
    assert fit.score(X, y) * len(y) == pytest.approx(fit.log_likelihood_)
    assert np.all(MixedLinearRegression(2, random_state=0).fit(X, y).outlier_probabilities(X, y) == 0)


def test_rows_of_a_group_are_outliers_by_themselves():
    groups = np.arange(1200) // 6
    X, y, astray, labels = drawn(0.2, groups=groups)
    fit = MixedLinearRegression(2, outliers=True, random_state=0).fit(X, y, groups=groups)
    assert coefficient_error(fit.coef_, COEF) < 0.05
    assert np.mean(fit.assign(X, y, groups) == labels) > 0.99  # -1 for none: the group has a component
    assert np.corrcoef(fit.outlier_probabilities(X, y, groups), astray)[0, 1] > 0.9


def test_every_engine_gives_the_same_fit(tmp_path):
    X, y, _, _ = drawn(0.15)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    here = MixedLinearRegression(2, outliers=True, random_state=0).fit(X, y)
    for rows in (Federation.split(X, y, np.arange(1200) % 7), NpyRows(tmp_path / "X.npy", tmp_path / "y.npy")):
        there = MixedLinearRegression(2, outliers=True, random_state=0).fit_on(rows)
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-9)
        assert there.outlier_share_ == pytest.approx(here.outlier_share_, abs=1e-9)
        np.testing.assert_allclose(there.covariance_on(rows), here.covariance(X, y), rtol=1e-6, atol=1e-12)


def test_the_share_has_a_standard_error_and_may_be_known(tmp_path):
    X, y, astray, _ = drawn(0.2)
    fit = MixedLinearRegression(2, outliers=True, random_state=0).fit(X, y)
    intervals = fit.confidence_intervals(X, y)
    place = intervals.names.index("(outliers)")
    assert fit.parameter_names_[-1] == "logit (outliers)"
    assert intervals.errors[place] == pytest.approx(np.sqrt(astray.mean() * (1 - astray.mean()) / 1200), rel=0.15)
    assert "(outliers)" in str(fit.summary(X, y))
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.outlier_probabilities(X, y), fit.outlier_probabilities(X, y))
    known = MixedLinearRegression(2, outliers=0.2, random_state=0).fit(X, y)
    assert known.outlier_share_ == 0.2
    assert known.n_parameters_ == fit.n_parameters_ - 1
    assert known.log_likelihood_ <= fit.log_likelihood_ + 1e-6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"symmetric": True}, "outliers= is for free components"),
        ({"solver": GDA()}, "outliers= needs method='em'"),
        ({"method": "gem"}, "outliers= needs method='em'"),
        ({"robust": True}, "leave out one of them"),
        ({"family": "student"}, "leave out one of them"),
        ({"outliers": 1.5}, "their share, between 0 and 1"),
    ],
)
def test_outliers_are_refused_where_they_do_not_go(settings, words):
    X, y, _, _ = drawn(0.1, n=60)
    with pytest.raises(ValueError, match=words):
        MixedLinearRegression(2, **({"outliers": True} | settings)).fit(X, y)


def test_streams_and_private_rounds_refuse_outliers():
    X, y, _, _ = drawn(0.1, n=200)
    with pytest.raises(ValueError, match="outliers= weighs rows by all the others"):
        MixedLinearRegression(2, outliers=True).partial_fit(X, y)
    agents = Federation.split(X, y, np.arange(200) % 20, privacy=Privacy(epsilon=8.0, delta=1e-5, rounds=8))
    with pytest.raises(ValueError, match="outliers= looks at how far out y lies"):
        MixedLinearRegression(2, outliers=True, random_state=0).fit_on(agents)


def test_a_constant_y_has_a_defined_answer():
    with pytest.warns(UserWarning, match="fell to its floor"):
        fit = MixedLinearRegression(1, outliers=True).fit(np.arange(20.0)[:, None], np.full(20, 3.0))
    np.testing.assert_allclose(fit.predict(np.arange(3.0)[:, None]), 3.0)


@pytest.mark.parametrize("robust", [{"outliers": True}, {"robust": True}], ids=str)
@pytest.mark.parametrize("columns", [2000, 2])
def test_where_x_and_y_are_measured_from_changes_nothing(monkeypatch, columns, robust):
    """Of more columns than WIDE no matrix is made: the start of such a fit is found by products."""
    monkeypatch.setattr("wmlr.estimator.fitting.WIDE", columns)
    X, y, _, _ = drawn(0.1, n=300)
    here = MixedLinearRegression(1, **robust).fit(X, y)
    there = MixedLinearRegression(1, **robust).fit(X + np.array([3.0, -5.0, 2.0]), y + 1000.0)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-3)
    assert there.log_likelihood_ == pytest.approx(here.log_likelihood_, abs=2e-3)
