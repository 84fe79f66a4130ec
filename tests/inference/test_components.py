"""How many components, and how well they can be told apart."""

import json

import numpy as np
import pytest
from joblib import parallel_config
from scipy.integrate import quad
from scipy.stats import t

from wmlr import MixedLinearRegression, plots
from wmlr.datasets import make_mixed_regression
from wmlr.inference import Classification

DATA = make_mixed_regression(150, 1, 2, snr=4, random_state=0)


@pytest.fixture(scope="module")
def fits():
    return {k: MixedLinearRegression(k, search="quick", random_state=0).fit(DATA.X, DATA.y) for k in (1, 2)}


def test_one_component_is_refused_and_two_are_not(fits):
    one = fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=9, random_state=1)
    assert one.p_value == 1 / 10
    assert one.statistic == pytest.approx(2 * (fits[2].log_likelihood_ - fits[1].log_likelihood_), abs=1e-6)
    two = fits[2].likelihood_ratio_test(DATA.X, DATA.y, n_boot=9, random_state=1)
    assert two.p_value > 0.1
    assert two.statistic < two.draws.max()
    assert np.all(two.draws >= 0)
    assert "2 components against 3" in str(two)
    assert plots.component_test(two).axes


def test_a_test_that_was_stopped_goes_on_as_if_it_had_not(fits, tmp_path):
    path = tmp_path / "test.json"
    given = {"random_state": 3, "checkpoint": path}
    whole = fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=6, random_state=3)
    fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=4, **given)
    assert len(json.loads(path.read_text())["draws"]) == 4
    again = fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=6, **given)
    np.testing.assert_array_equal(again.draws, whole.draws)
    with pytest.raises(ValueError, match="another seed"):
        fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=6, random_state=4, checkpoint=path)
    with pytest.raises(ValueError, match="another test"):
        fits[2].likelihood_ratio_test(DATA.X, DATA.y, n_boot=6, **given)


def test_two_workers_draw_what_one_does(fits):
    with parallel_config(backend="threading"):
        one, two = (fits[1].likelihood_ratio_test(DATA.X, DATA.y, n_boot=4, random_state=0, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.draws, two.draws)


def test_the_table_of_classification_counts_units_and_averages_their_probabilities():
    shares = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])
    found = Classification.of(shares, np.array([1.0, 1.0, 2.0, 1.0]))
    np.testing.assert_allclose(found.sizes, [2.0, 3.0])
    np.testing.assert_allclose(found.probabilities, [[0.75, 0.25], [0.4 / 3, 2.6 / 3]])
    assert found.error == pytest.approx((0.1 + 0.4 + 2 * 0.2) / 5)
    assert Classification.of(np.eye(3)).relative_entropy == 1.0
    assert Classification.of(np.full((4, 3), 1 / 3)).relative_entropy == pytest.approx(0.0, abs=1e-12)


def test_a_fit_says_how_sure_its_assignments_are(fits):
    found = fits[2].classification(DATA.X, DATA.y)
    entropy = (fits[2].icl(DATA.X, DATA.y) - fits[2].bic(DATA.X, DATA.y)) / 2 / len(DATA.y)
    assert found.entropy == pytest.approx(entropy, abs=1e-10)
    assert "relative entropy" in str(found)
    assert len(plots.rootogram(fits[2], DATA.X, DATA.y).axes) == 2


def test_distances_between_normal_components_have_their_closed_form():
    fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(DATA.X, DATA.y)
    means, sigma = fit.predict_components(DATA.X), fit.sigma_
    found = fit.component_distances(DATA.X)
    gap = np.mean((means[:, 0] - means[:, 1]) ** 2)
    expected = np.log(sigma[1] / sigma[0]) + (sigma[0] ** 2 + gap) / (2 * sigma[1] ** 2) - 0.5
    assert found[0, 1] == pytest.approx(expected, rel=1e-9)
    assert found[0, 0] == found[1, 1] == 0.0


def test_distances_between_other_components_are_integrals():
    fit = MixedLinearRegression(2, family="student", random_state=0).fit(DATA.X, DATA.y)
    row = DATA.X[:1]
    one, two = (t(4, mean, fit.sigma_[0]) for mean in fit.predict_components(row)[0])
    expected = quad(lambda y: one.pdf(y) * (one.logpdf(y) - two.logpdf(y)), -np.inf, np.inf, limit=200)[0]
    assert fit.component_distances(row)[0, 1] == pytest.approx(expected, rel=1e-4)
