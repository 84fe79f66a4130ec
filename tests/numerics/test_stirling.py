"""Log-densities of large shapes, against fifty digits."""

import mpmath
import numpy as np
import pytest

from wmlr.families import registry
from wmlr.numerics.stirling import digamma_rest, log_gamma_rest, log_less_gap, trigamma_rest

mpmath.mp.dps = 50
SIZES = np.array([1e-3, 0.3, 1.0, 5.0, 19.99, 20.01, 40.0, 1e3, 1e8, 5e13])


def exactly(function, values):
    return [float(function(mpmath.mpf(float(value)))) for value in values]


def test_what_stirlings_formula_leaves_has_every_digit():
    root = mpmath.log(2 * mpmath.pi) / 2
    left = exactly(lambda x: mpmath.loggamma(x) - (x - 0.5) * mpmath.log(x) + x - root, SIZES)
    np.testing.assert_allclose(log_gamma_rest(SIZES), left, rtol=1e-14, atol=3e-15)
    np.testing.assert_allclose(digamma_rest(SIZES), exactly(lambda x: mpmath.digamma(x) - mpmath.log(x), SIZES), 5e-14)
    np.testing.assert_allclose(trigamma_rest(SIZES), exactly(lambda x: mpmath.psi(1, x) - 1 / x, SIZES), 5e-14)


def test_a_logarithm_less_a_gap_has_every_digit():
    gaps = np.array([-0.999, -0.26, -0.24, -1e-4, -1e-9, 1e-12, 1e-3, 0.249, 0.251, 30.0])
    exact = exactly(lambda gap: mpmath.log1p(gap) - gap, gaps)
    np.testing.assert_allclose(log_less_gap(np.log1p(gaps), gaps), exact, rtol=1e-14)


def beta(y, eta, size):
    a, b = size / (1 + mpmath.exp(-eta)), size / (1 + mpmath.exp(eta))
    return (
        mpmath.log(y) * (a - 1)
        + mpmath.log1p(-y) * (b - 1)
        + mpmath.loggamma(size)
        - mpmath.loggamma(a)
        - mpmath.loggamma(b)
    )


def gamma(y, eta, size):
    return size * (mpmath.log(size * y) - eta - y * mpmath.exp(-eta)) - mpmath.loggamma(size) - mpmath.log(y)


def negative_binomial(y, eta, size):
    ways = mpmath.loggamma(y + size) - mpmath.loggamma(size) - mpmath.loggamma(y + 1)
    return ways + y * eta - y * mpmath.log(size) - (y + size) * mpmath.log1p(mpmath.exp(eta) / size)


@pytest.mark.parametrize(
    ("name", "law", "values"),
    [
        ("beta", beta, (1e-9, 0.3, 0.999999)),
        ("gamma", gamma, (1e-5, 3.0, 1e6)),
        ("negative-binomial", negative_binomial, (1.0, 40.0, 5000.0)),
        ("negative-binomial", negative_binomial, (1.0, 3e6, 1e12)),
    ],
)
@pytest.mark.parametrize("sigma", [1.0, 1e-3, 1.4e-7])
def test_densities_and_scores_of_narrow_laws_have_their_digits(name, law, values, sigma):
    """y a few deviations beside the mean: all but the leading digits of its parts cancel."""
    family = registry.family(name)
    y = np.repeat(values, 3)
    eta = family.predictor_of(y)
    eta = eta + np.tile([-1.5, 0.0, 2.0], len(values)) * min(sigma, 1.0) * (
        1e3 if name == "beta" and sigma < 1e-3 else 1
    )
    s2 = np.array([sigma**2])
    found = family.terms(y[:, None], eta[:, None], s2)
    slopes = family.derivatives(y[:, None], eta[:, None], s2)
    size = 1 / mpmath.mpf(float(sigma)) ** 2
    for i in range(len(y)):
        at = mpmath.mpf(float(y[i])), mpmath.mpf(float(eta[i]))
        exact = float(law(*at, size))
        assert float(found.log_density[i, 0]) == pytest.approx(exact, rel=1e-11, abs=1e-7)
        assert float(family.log_likelihood(y[i : i + 1], eta[i : i + 1], np.array([sigma]))[0]) == pytest.approx(
            exact, rel=1e-11, abs=1e-7
        )
        in_log_sigma = float(-2 * size * mpmath.diff(lambda value, at=at: law(*at, value), size))
        assert float(slopes.log_sigma[i, 0]) == pytest.approx(in_log_sigma, rel=1e-5, abs=1e-5)


def test_probabilities_of_large_counts_have_their_digits():
    y = np.array([0.0, 3.0, 2e6, 1e12])
    eta = np.log(np.maximum(y, 0.5)) + np.array([0.0, 0.3, 1e-3, -2e-6])
    found = registry.family("poisson").terms(y[:, None], eta[:, None], np.ones(1)).log_density[:, 0]
    exact = [
        float(count * log_mean - mpmath.exp(log_mean) - mpmath.loggamma(count + 1))
        for count, log_mean in zip(map(mpmath.mpf, map(float, y)), map(mpmath.mpf, map(float, eta)))
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    np.testing.assert_allclose(registry.family("poisson").log_likelihood(y, eta, np.ones(4)), exact, rtol=1e-9)


def test_probabilities_among_many_trials_have_their_digits():
    trials, y = np.array([4e6, 4e6, 4e6, 1e12, 1e12]), np.array([0.0, 4e6, 1.5e6, 3e11, 1e12 - 2e4])
    eta = np.array([-15.0, 15.0, -0.512, -0.8473, 17.727])
    family = registry.family("binomial").of_rows({"trials": trials})
    found = family.terms(y[:, None], eta[:, None], np.ones(1)).log_density[:, 0]
    exact = []
    for n, count, logit in zip(*(map(mpmath.mpf, map(float, part)) for part in (trials, y, eta))):
        ways = mpmath.loggamma(n + 1) - mpmath.loggamma(count + 1) - mpmath.loggamma(n - count + 1)
        failures = (n - count) * mpmath.log1p(mpmath.exp(logit))
        exact.append(float(ways - count * mpmath.log1p(mpmath.exp(-logit)) - failures))
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    np.testing.assert_allclose(family.log_likelihood(y, eta, np.ones(5)), exact, rtol=1e-9)
