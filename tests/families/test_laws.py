"""What each family says of y, held against scipy's laws and numerical derivatives."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from wmlr import MixedLinearRegression
from wmlr.families import Beta, Binomial, Gamma, NegativeBinomial, Poisson, from_plain, to_plain
from wmlr.model.counts import CountPredictive

TRIALS = np.array([1.0, 3.0, 8.0, 8.0, 20.0])
COUNTS, AMOUNTS, SHARES = np.arange(5.0), np.array([0.02, 0.4, 1.0, 2.5, 40.0]), np.array([0.01, 0.2, 0.5, 0.7, 0.99])
ETA, SIGMA = np.array([[-1.5, 0.3], [0.0, 1.2], [0.8, -0.7], [1.1, 0.9], [-0.2, 2.0]]), np.array([0.4, 1.7])


def scipy_s(family, mean, sigma):
    if family.name == "poisson":
        return stats.poisson(mean)
    if family.name == "binomial":
        return stats.binom(TRIALS[:, None], mean)
    if family.name == "negative-binomial":
        return stats.nbinom(sigma**-2, 1.0 / (1.0 + sigma**2 * mean))
    if family.name == "gamma":
        return stats.gamma(sigma**-2, scale=mean * sigma**2)
    return stats.beta(mean / sigma**2, (1.0 - mean) / sigma**2)


CASES = [
    (Poisson(), COUNTS), (Poisson(link="sqrt"), COUNTS), (NegativeBinomial(), COUNTS),
    *((Binomial(link=link), np.minimum(COUNTS, TRIALS)) for link in ("logit", "probit", "cloglog")),
    (Gamma(), AMOUNTS), (Gamma(link="inverse"), AMOUNTS),
    *((Beta(link=link), SHARES) for link in ("logit", "probit", "cloglog")),
]  # fmt: skip


def case_name(case):
    return f"{case[0].name}-{getattr(case[0], 'link', '')}"


@pytest.fixture(params=CASES, ids=case_name)
def case(request):
    family, y = request.param
    eta = np.abs(ETA) + 0.1 if getattr(family, "link", "") in ("inverse", "sqrt") else ETA
    return family, family.of_rows({"trials": TRIALS}), y[:, None], eta


def test_the_law_is_scipy_s(case):
    family, law, y, eta = case
    theirs = scipy_s(family, law.mean(eta), SIGMA)
    density = theirs.logpmf(y) if family.discrete else theirs.logpdf(y)
    np.testing.assert_allclose(law.log_likelihood(y, eta, SIGMA), density, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.terms(y, eta, SIGMA**2).log_density, density, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.probability(y, eta, SIGMA), theirs.cdf(y), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(law.quantiles(np.array(0.3), eta, SIGMA), theirs.ppf(0.3), rtol=1e-8)
    trials = TRIALS[:, None] if family.takes_trials else 1.0
    np.testing.assert_allclose(trials * law.mean(eta), theirs.mean(), rtol=1e-9)
    np.testing.assert_allclose(law.predictor_of(law.mean(eta)), eta, rtol=1e-6, atol=1e-9)


def test_derivatives_are_those_of_the_log_density(case):
    family, law, y, eta = case
    found, step = law.derivatives(y, eta, SIGMA**2), 1e-4

    def value(shift, turn):
        return law.terms(y, eta + shift, (SIGMA * np.exp(turn)) ** 2).log_density

    def second(a, b):
        corners = [value(i * a * step, j * b * step) for i, j in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        return -(corners[0] - corners[1] - corners[2] + corners[3]) / (4.0 * step**2)

    middle = value(0.0, 0.0)
    slope = (value(step, 0.0) - value(-step, 0.0)) / (2.0 * step)
    turn = (value(0.0, step) - value(0.0, -step)) / (2.0 * step)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(found.predictor, slope, **close)
    np.testing.assert_allclose(
        found.predictor_twice, -(value(step, 0) - 2 * middle + value(-step, 0)) / step**2, **close
    )
    if family.has_scale:
        np.testing.assert_allclose(np.broadcast_to(found.log_sigma, turn.shape), turn, **close)
        np.testing.assert_allclose(found.mixed, second(1.0, 1.0), **close)
        np.testing.assert_allclose(
            found.log_sigma_twice, -(value(0, step) - 2 * middle + value(0, -step)) / step**2, **close
        )
    terms = law.terms(y, eta, SIGMA**2)
    s2 = SIGMA**2 if family.has_scale else 1.0
    np.testing.assert_allclose(terms.weight * terms.residual / s2, slope, **close)
    assert np.all(terms.weight > 0)
    if family.dispersed:
        np.testing.assert_allclose(terms.squares / SIGMA**2 - terms.scale_weight, turn, **close)
        assert np.all(terms.scale_weight > 0)


def test_draws_have_the_law_s_mean_and_variance(case):
    family, _, _, eta = case
    n = 20_000
    law = family.of_rows({"trials": np.full(n, 8.0)})
    sigma = np.full(n, 0.4)
    drawn = law.sample(np.random.default_rng(3), np.full(n, eta[1, 1]), sigma)
    mean = law.mean(np.full(1, eta[1, 1]))
    theirs = stats.binom(8, mean) if family.takes_trials else scipy_s(family, mean, np.array([0.4]))
    assert drawn.mean() == pytest.approx(float(theirs.mean()[0]), rel=0.03)
    assert drawn.var() == pytest.approx(float(theirs.var()[0]), rel=0.1)


def test_a_family_is_its_name_and_fields():
    assert from_plain(to_plain(Binomial(link="probit"))) == Binomial(link="probit")
    with pytest.raises(ValueError, match="must be one of 'logit', 'probit', 'cloglog' \\(got 'log'\\)"):
        Binomial(link="log")
    with pytest.raises(ValueError, match="has the fields link"):
        from_plain({"name": "gamma", "link": 3.0})


@pytest.mark.parametrize(
    ("family", "y", "words"),
    [("binomial", [0.0, 2.0, 1.0], "give 0 and 1"), ("gamma", [1.0, 0.0, 2.0], "positive amounts"),
     ("beta", [0.5, 1.0, 0.2], "above 0 and below 1"), ("negative-binomial", [1.0, 0.5, 3.0], "counts")],
)  # fmt: skip
def test_a_response_of_another_kind_is_refused(family, y, words):
    with pytest.raises(ValueError, match=words):
        MixedLinearRegression(2, family=family).fit(np.arange(9.0)[:, None], np.tile(y, 3))


@pytest.mark.parametrize("size", [0.3, 19.0, 21.0, 1e4, 7e5, 3e6, 1e10])
def test_a_negative_binomial_of_any_size_loses_no_digits(size):
    """Its logarithms of gamma functions would be large and near each other: a product of y factors has no such ends."""
    y, mean = np.array([0.0, 1.0, 7.0, 60.0]), np.array([2.0, 0.5, 9.0, 40.0])
    factors = [np.log1p(np.arange(int(count)) / size).sum() for count in y]
    expected = factors - gammaln(y + 1) + y * np.log(mean) - (y + size) * np.log1p(mean / size)
    found = NegativeBinomial().log_likelihood(y, np.log(mean), np.full(4, size**-0.5))
    np.testing.assert_allclose(found, expected, rtol=2e-13)


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial()], ids=lambda family: family.name)
def test_quantiles_of_a_mixture_with_a_component_beyond_all_bounds_are_numbers(family):
    """Where a coefficient runs away, the mean of one component may be e^500 at some rows."""
    eta, weights = np.array([[1.0, 30.0], [1.0, 500.0]]), np.tile([0.9, 0.1], (2, 1))
    law = CountPredictive(eta, weights, np.full(2, 0.3), family)
    found = law.quantile(np.array([0.3, 0.95]))
    np.testing.assert_array_equal(found[:, 0], family.quantiles(np.array([1 / 3]), eta[:, 0], np.array([0.3])))
    np.testing.assert_allclose(found[:, 1], np.exp(eta[:, 1]), rtol=0.1)


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(), Gamma()], ids=lambda family: family.name)
def test_derivatives_are_numbers_however_far_out_a_predictor_is(family):
    """A row that is certainly of another component weighs nothing; nothing times infinity would be no number."""
    y, eta = np.full((2, 1), 3.0), np.array([[-500.0], [500.0]])
    with np.errstate(over="ignore"):
        found = family.derivatives(y, eta, np.array([0.09]))
    assert all(np.isfinite(part).all() for part in found[:5])


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
def test_successes_that_are_certain_stay_so_and_failures_call_back(kernels, monkeypatch):
    """A step of an EM climb where trials are told apart by the columns must not lower the likelihood."""
    monkeypatch.setenv("WMLR_KERNELS", kernels)
    far = np.tile([50.0, -50.0, 50.0, -50.0, 50.0], 500)[:, None]
    y, trials = np.tile([1.0, 0.0, 0.0, 3.0, 2.0], 500), np.tile([1.0, 2.0, 1.0, 3.0, 4.0], 500)
    found = Binomial().of_rows({"trials": trials}).terms(y[:, None], far, np.ones(1))
    moved = (far + found.residual)[:5, 0]
    np.testing.assert_allclose(moved[:2], [50.0, -50.0], atol=1e-9)
    assert moved[2] < 0.0
    assert moved[3] > 0.0
    assert abs(moved[4]) < 36.0


@pytest.mark.parametrize(
    ("family", "called"),
    [
        ("poisson", "poisson regressions, log link"),
        (["poisson", "point-mass"], "poisson regressions, log link, and a point mass at 0"),
        ("laplace", "linear regressions"),
    ],
)
def test_a_summary_says_what_is_mixed(family, called):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 1))
    y = generator.poisson(np.exp(0.5 + 0.5 * X[:, 0])).astype(float)
    fit = MixedLinearRegression(2, family=family, start="random", max_iter=3, random_state=0).fit(X, y)
    assert str(fit.summary()).splitlines()[0].strip() == f"Mixture of {called}"
