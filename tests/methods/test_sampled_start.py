"""Starts from a sample of many rows: the fit is that of all rows, whatever the sample, the blocks and the threads."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.core.round import Sampled
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.methods import starts, symmetric
from wmlr.statistics.moments import FourthMoments, Moments

N = 45_000


@pytest.fixture
def asked(monkeypatch):
    """The queries that go over all rows, and those that look at a sample."""
    names = []
    total = ArrayRows.total

    def noted(self, query):
        if self._index is None:
            names.append(type(query.query).__name__ + " of a sample" if isinstance(query, Sampled) else query.label)
        return total(self, query)

    monkeypatch.setattr(ArrayRows, "total", noted)
    return names


@pytest.fixture
def pair():
    return make_mixed_regression(N, 6, snr=5, symmetric=True, random_state=0)


def fit_pair(X, y, **settings):
    return MixedLinearRegression(2, symmetric=True, random_state=0, **settings).fit(X, y)


def fit_exactly(monkeypatch, X, y):
    """The fit that begins with the second moments of all rows."""
    with monkeypatch.context() as patch:
        patch.setattr(symmetric, "ROWS_PER_COLUMN", np.inf)
        return fit_pair(X, y)


def same_maximum(one, other):
    """Whether two fits are nearer to each other than a fit is held to be to its maximum."""
    sign = np.sign(one.coef_[0] @ other.coef_[0])
    gap = np.abs(one.coef_[0] - sign * other.coef_[0]).max() / np.abs(one.coef_).max()
    return abs(one.log_likelihood_ - other.log_likelihood_) < 1e-3 and gap < 1e-4


def test_no_product_of_all_rows_with_themselves_is_made_where_a_sample_is_clear(pair, asked):
    assert fit_pair(pair.X, pair.y).converged_
    assert "Moments of a sample" in asked
    assert Moments.__name__ not in asked
    assert FourthMoments.__name__ not in asked


def test_the_maximum_is_that_of_all_rows(pair, monkeypatch):
    assert same_maximum(fit_pair(pair.X, pair.y), fit_exactly(monkeypatch, pair.X, pair.y))


def test_threads_change_no_digit(pair):
    fits = [fit_pair(pair.X, pair.y, n_jobs=threads) for threads in (1, 2)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_the_order_of_the_rows_does_not_matter(pair, generator):
    order = generator.permutation(N)
    one, other = fit_pair(pair.X, pair.y), fit_pair(pair.X[order], pair.y[order])
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)


def test_columns_may_be_of_any_scale(pair):
    scale = np.logspace(-4, 4, 6)
    one, other = fit_pair(pair.X, pair.y), fit_pair(pair.X * scale, pair.y)
    np.testing.assert_allclose(one.coef_, other.coef_ * scale, rtol=1e-6)


def test_a_column_that_is_nil_in_nearly_all_rows_is_measured_by_all_of_them(monkeypatch, asked):
    generator = np.random.default_rng(4)
    X = generator.standard_normal((N, 6))
    X[:, 0] = 100.0 * (generator.random(N) < 2e-4)
    y = generator.choice([-1.0, 1.0], N) * (X @ np.full(6, 0.8)) + generator.standard_normal(N)
    found = fit_pair(X, y)
    assert found.converged_
    assert Moments.__name__ in asked
    assert same_maximum(found, fit_exactly(monkeypatch, X, y))


def test_columns_that_follow_from_others_are_left_out_by_what_all_rows_say(pair, asked):
    X = np.column_stack([pair.X, pair.X[:, 0]])
    with pytest.warns(UserWarning, match="span only 6 directions"):
        fit_pair(X, pair.y)
    assert Moments.__name__ in asked


def test_weak_signals_are_sought_in_all_rows(asked):
    data = make_mixed_regression(N, 6, snr=0.1, symmetric=True, random_state=0)
    fit_pair(data.X, data.y)
    assert any(FourthMoments.__name__ in name for name in asked)


def test_components_directions_come_from_a_sample_where_it_is_clear(monkeypatch, asked):
    data = make_mixed_regression(N, 8, 3, snr=5, random_state=0)
    found = MixedLinearRegression(3, random_state=0).fit(data.X, data.y)
    assert "FourthMoments of a sample" in asked
    assert FourthMoments.__name__ not in asked
    monkeypatch.setattr(starts, "LARGEST_SHARE", 0.0)
    exact = MixedLinearRegression(3, random_state=0).fit(data.X, data.y)
    assert FourthMoments.__name__ in asked
    assert abs(found.log_likelihood_ - exact.log_likelihood_) < 1e-3


@pytest.mark.parametrize("snr", [1, 4, 30])
def test_a_length_takes_one_round_of_few_likelihoods_wherever_rows_are(snr):
    data = make_mixed_regression(2400, 8, snr=snr, symmetric=True, random_state=0)
    agents = Federation.split(data.X, data.y, np.arange(2400) % 4)
    found = MixedLinearRegression(symmetric=True, random_state=0).fit_on(agents)
    there = MixedLinearRegression(symmetric=True, random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-12)
    asked = [line for line in agents.ledger if "SymmetricLengths" in line.query]
    assert [line.floats_up for line in asked] == [7]
    assert len(agents.ledger) <= 9
