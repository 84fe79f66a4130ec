"""Wald tests: by matrix, in words, and at the truth."""

import numpy as np
import pytest
from scipy.stats import chi2

from wmlr import MixedLinearRegression, Mixture


def test_wald_tests(fit, data):
    spread = fit.covariance(data.X, data.y)
    R = np.zeros((2, 9))
    R[0, [0, 3]] = 1, -1
    R[1, 1] = 1
    gap = np.array([fit.coef_[0, 0] - fit.coef_[1, 0], fit.coef_[0, 1] - 0.5])
    wanted = gap @ np.linalg.solve(R @ spread @ R.T, gap)
    by_matrix = fit.wald_test(R, data.X, data.y, q=[0, 0.5])
    by_words = fit.wald_test(["x0[1] = x0[2]", "x1[1] = .5"], data.X, data.y)
    for test in (by_matrix, by_words):
        assert test.statistic == pytest.approx(wanted)
        assert test.df == 2
        assert test.p_value == pytest.approx(chi2.sf(wanted, 2))
    one = fit.wald_test("x0[1]", data.X, data.y)
    assert one.statistic == pytest.approx(fit.coef_[0, 0] ** 2 / spread[0, 0])
    turned = fit.wald_test("0 = 2*x0[1] - 4 - x0[1] + 4", data.X, data.y)
    assert turned.statistic == pytest.approx(one.statistic)
    chain = fit.wald_test("x0[1] = x0[2] = x1[1]", data.X, data.y)
    assert chain.df == 2
    twice = fit.wald_test(["x0[1] = 0", "2*x0[1] = 0"], data.X, data.y)
    assert twice.df == 1
    sigma = fit.wald_test("(sigma)[1] = 1", data.X, data.y)
    assert sigma.statistic == pytest.approx((fit.sigma_[0] - 1) ** 2 / (fit.sigma_[0] ** 2 * spread[6, 6]))
    halves = fit.wald_test("(weight)[1] = .5", data.X, data.y)
    assert halves.p_value < 1e-3
    assert "chi2(2)" in str(by_words)


@pytest.mark.parametrize(
    ("hypothesis", "said"),
    [
        ("x7[1] = 0", "'x7.1. = 0' in the hypothesis .* the parameters are x0"),
        ("x0[1] x0[2]", "not understood"),
        ("x0[1] = = 0", "not understood"),
        ("3 = 3", "restricts nothing"),
        ("", "not understood"),
        (np.ones(4), r"R needs a column for each of the 9 free parameters \(got shape \(1, 4\)\)"),
    ],
)
def test_hypotheses_that_cannot_be_read(fit, data, hypothesis, said):
    with pytest.raises(ValueError, match=said):
        fit.wald_test(hypothesis, data.X, data.y)


def test_a_wald_test_of_the_truth_is_uniform():
    truth = Mixture.of([[3.0, -2.0], [-3.0, -2.0]], 1.0, [0.65, 0.35])
    values = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((300, 2))
        y, _ = truth.sample(X, generator)
        fit = MixedLinearRegression(2, random_state=0).fit(X, y)
        values.append(fit.wald_test(["x0[1] = 3", "x0[2] = -3", "x1[1] = x1[2]"], X, y).p_value)
    assert 0.3 < np.mean(values) < 0.7
