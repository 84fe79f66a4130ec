"""Every family from end to end: offsets, trials, groups, weights; arrays, agents and model files."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression, Mixture
from wmlr.core.roles import RoleRows, Roles
from wmlr.families import Beta, Binomial, Gamma, NegativeBinomial, Poisson
from wmlr.federated import Federation

FAMILIES = [Poisson(), NegativeBinomial(), Binomial(), Gamma(), Beta()]
N = 400


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def rows(request):
    family, generator = request.param, np.random.default_rng(5)
    X = generator.standard_normal((N, 2))
    intercepts = np.array([1.2, -1.0]) if family.name in ("beta", "binomial") else np.array([2.5, 0.7])
    truth = Mixture(
        np.array([[0.5, -0.3], [-0.4, 0.4]]), intercepts, np.array([0.6, 0.4]), np.full(2, 0.3), family=family
    )
    beside = {"offset": 0.5 * generator.standard_normal(N)}
    if family.takes_trials:
        beside["trials"] = generator.integers(5, 15, N).astype(float)
    y, _ = truth.sample(X, generator, beside=beside)
    return family, X, y, beside


@pytest.fixture(scope="module")
def fit(rows):
    family, X, y, beside = rows
    return MixedLinearRegression(2, family=family, search="quick", random_state=0).fit(X, y, **beside)


def test_the_score_is_the_fit_s_likelihood(rows, fit):
    _, X, y, beside = rows
    assert fit.converged_
    assert N * fit.score(X, y, **beside) == pytest.approx(fit.log_likelihood_, rel=1e-10)
    theta = fit.covariance(X, y, **beside)
    assert np.all(np.linalg.eigvalsh(theta) > 0)


def test_agents_come_to_the_same_fit(rows, fit):
    family, X, y, beside = rows
    table = np.column_stack([X, *beside.values()])
    places = {role: (2 + place,) for place, role in enumerate(beside)}
    roles = Roles((0, 1), places, frozenset(beside))
    agents = RoleRows(Federation.split(table, y, np.arange(N) % 7), roles)
    start = np.column_stack([fit.coef_, fit.intercept_])
    central, federated = (MixedLinearRegression(2, family=family, start=start) for _ in range(2))
    central.fit(X, y, **beside)
    federated.fit_on(agents)
    np.testing.assert_allclose(federated.coef_, central.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(federated.sigma_, central.sigma_, rtol=1e-8)
    assert federated.log_likelihood_ == pytest.approx(central.log_likelihood_, rel=1e-10)


def test_an_offset_is_a_column_whose_coefficient_is_one(rows, fit):
    _, X, _, beside = rows
    moved = {**beside, "offset": beside["offset"] + 0.7}
    inside = fit.mixture_.family.predictor_of(fit.predict_components(X, **beside))
    np.testing.assert_allclose(fit.mixture_.family.predictor_of(fit.predict_components(X, **moved)), inside + 0.7)
    weights = fit.weights_
    np.testing.assert_allclose(fit.predict(X, **beside), fit.predict_components(X, **beside) @ weights)


def test_a_model_file_keeps_the_family(rows, fit, tmp_path):
    _, X, y, beside = rows
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    assert again.mixture_.family == fit.mixture_.family
    np.testing.assert_allclose(again.responsibilities(X, y, **beside), fit.responsibilities(X, y, **beside))


def test_quantiles_and_intervals_hold_the_probability_they_promise(rows, fit):
    family, X, y, beside = rows
    some = {role: values[:5] for role, values in beside.items()}
    middle = fit.predict_quantile(X[:5], [0.1, 0.5, 0.9], **some)
    below = fit.predict_cdf(X[:5], middle, **some)
    if family.discrete:
        assert np.all(below >= [0.1, 0.5, 0.9])
        assert np.all(fit.predict_cdf(X[:5], middle - 1, **some) < [0.1, 0.5, 0.9])
    else:
        np.testing.assert_allclose(below, np.tile([0.1, 0.5, 0.9], (5, 1)), rtol=1e-6)
    for kind in ("hdr", "central"):
        region = fit.predict_interval(X[:100], 0.9, kind, **{role: values[:100] for role, values in beside.items()})
        assert region.contains(y[:100]).mean() > 0.82


def test_an_offset_of_normal_noise_is_taken_off_y():
    generator = np.random.default_rng(0)
    X, offset = generator.standard_normal((200, 1)), generator.standard_normal(200)
    y = np.where(generator.random(200) < 0.5, 3.0, -3.0) * X[:, 0] + offset + 0.1 * generator.standard_normal(200)
    one = MixedLinearRegression(2, random_state=0).fit(X, y, offset=offset)
    other = MixedLinearRegression(2, random_state=0).fit(X, y - offset)
    np.testing.assert_allclose(one.coef_, other.coef_)
    np.testing.assert_allclose(one.predict(X, offset=offset), other.predict(X) + offset)
    assert 200 * one.score(X, y, offset=offset) == pytest.approx(other.log_likelihood_)
    agents = RoleRows(Federation.split(np.column_stack([X, offset]), y, np.arange(200) % 3),
                      Roles((0,), {"offset": (1,)}, frozenset({"offset"})))  # fmt: skip
    with pytest.raises(ValueError, match="taken off y"):
        MixedLinearRegression(2, start=one.coef_).fit_on(agents)


def test_counts_that_vary_less_than_poisson_s_end_at_the_floor_of_sigma():
    """Newton's steps then have one parameter fewer, and the likelihood is Poisson's."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((64, 1))
    y = generator.binomial(8, 0.5, 64).astype(float)
    with pytest.warns(UserWarning, match="floor"):
        fit = MixedLinearRegression(1, family="negative-binomial", start=[[0.0, 1.4]]).fit(X, y)
    plain = MixedLinearRegression(1, family="poisson").fit(X, y)
    assert fit.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(fit.coef_, plain.coef_, atol=1e-3)
