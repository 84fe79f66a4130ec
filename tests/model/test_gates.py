"""Mixing weights: free, equal, or known."""

import warnings

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Federation
from wmlr.model.gates import EQUAL, FREE, FixedWeights, gate


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(1500, 2, 2, snr=2, weights=[0.7, 0.3], random_state=4)


def test_known_weights_are_held_and_make_the_other_estimates_likeliest(data):
    known = MixedLinearRegression(2, gate=[0.75, 0.25], random_state=0).fit(data.X, data.y)
    free = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(known.weights_, [0.75, 0.25])
    assert known.converged_
    assert known.n_parameters_ == free.n_parameters_ - 1
    assert known.log_likelihood_ < free.log_likelihood_
    held = MixedLinearRegression(2, gate=free.weights_, random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(held.coef_, free.coef_, atol=1e-5)
    assert held.log_likelihood_ == pytest.approx(free.log_likelihood_, abs=1e-6)


def test_known_weights_have_no_error_and_survive_a_file(data, tmp_path):
    known = MixedLinearRegression(2, gate=np.array([0.75, 0.25]), random_state=0).fit(data.X, data.y)
    assert "(weight)[1]" not in known.confidence_intervals(data.X, data.y).names
    assert len(known.covariance(data.X, data.y)) == known.n_parameters_
    known.save(tmp_path / "model.json")
    read = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(read.gate, known.gate)
    assert read.parameter_names_ == known.parameter_names_


def test_agents_fit_known_weights_as_one_holder_does(data):
    settings = {"gate": [0.75, 0.25], "random_state": 0, "search": "quick"}
    rows = Federation.split(data.X, data.y, np.arange(len(data.y)) % 6)
    apart = MixedLinearRegression(2, **settings).fit_on(rows)
    together = MixedLinearRegression(2, **settings).fit(data.X, data.y)
    np.testing.assert_allclose(apart.coef_, together.coef_, atol=1e-8)


def test_gate_equal_is_equal_weights(data):
    one, other = ({"gate": "equal"}, {"equal_weights": True})
    fits = [MixedLinearRegression(2, random_state=0, **options).fit(data.X, data.y) for options in (one, other)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_a_step_gives_shares_that_sum_to_one():
    units = np.array([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    for one in (FREE, EQUAL, FixedWeights((0.5, 0.3, 0.2))):
        weights = one.step(units)
        assert np.all(weights > 0)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("free", "gate must be None, 'equal', 'group', a vector"),
        ("~", "gate must be None"),
        ([0.5, 0.4], "sum to 1"),
        ([1.5, -0.5], "must be positive"),
        (0.5, "gate must be None"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        gate(given)


def test_there_are_as_many_weights_as_components(data):
    with pytest.raises(ValueError, match="3 fixed weights, and there are 2 components"):
        MixedLinearRegression(2, gate=[0.2, 0.3, 0.5]).fit(data.X, data.y)
    with pytest.raises(ValueError, match="leave out one"):
        MixedLinearRegression(2, gate=[0.2, 0.8], equal_weights=True).fit(data.X, data.y)


def test_components_have_the_known_weights_in_the_order_given():
    data = make_mixed_regression(600, 2, 2, snr=5, weights=[0.75, 0.25], random_state=3)
    sorted_down = MixedLinearRegression(2, gate=[0.75, 0.25], random_state=0).fit(data.X, data.y)
    sorted_up = MixedLinearRegression(2, gate=[0.25, 0.75], random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(sorted_up.weights_, [0.25, 0.75])
    np.testing.assert_allclose(sorted_up.coef_, sorted_down.coef_[::-1], atol=1e-6)
    assert sorted_up.log_likelihood_ == pytest.approx(sorted_down.log_likelihood_, abs=1e-6)


def test_with_known_weights_no_component_is_left_out():
    """Of one line, three components of which two are alike are the maximum: as many are fitted as there are weights."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((120, 1))
    y = 1.0 + X[:, 0] + generator.standard_normal(120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLinearRegression(3, gate=[0.2, 0.3, 0.5], random_state=0).fit(X, y)
    np.testing.assert_array_equal(fit.weights_, [0.2, 0.3, 0.5])
    single = MixedLinearRegression(1).fit(X, y)
    assert fit.log_likelihood_ >= single.log_likelihood_ - 1e-6


def test_a_component_may_be_left_out_where_no_component_has_the_column_of_the_gate():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((60, 2)), np.ones(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLinearRegression(3, gate=[0], only={0: []}, random_state=0).fit(X, y)
    assert len(fit.weights_) < 3
    np.testing.assert_array_equal(fit.coef_[:, 0], 0.0)
