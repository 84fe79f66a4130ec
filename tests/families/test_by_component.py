"""A family for each component, and the point mass among them: zero-inflated counts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

from longer import long
from wmlr import MixedLinearRegression, Mixture, select_components
from wmlr.families import (
    Binomial,
    ComponentFamilies,
    NegativeBinomial,
    Normal,
    PointMass,
    Poisson,
    Student,
    family,
    of_components,
)
from wmlr.federated import Federation
from wmlr.federated.messages import pack, unpack
from wmlr.statistics.score import MixtureScore

ARTICLES = pd.read_csv(Path(__file__).parents[1] / "data" / "biochemists.csv")
FORMULA = "art ~ fem + mar + kid5 + phd + ment"
EVERY = "~ fem + mar + kid5 + phd + ment"
ZERO = ["poisson", "poisson", "point-mass"]
N = 600


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(1)
    X = generator.standard_normal((N, 2))
    lines = np.array([[0.5, -0.3], [-0.4, 0.2], [0.0, 0.0]])
    truth = Mixture(lines, np.array([1.0, 2.5, 0.0]), np.array([0.45, 0.3, 0.25]), np.ones(3), family=family(ZERO))
    y, labels = truth.sample(X, generator)
    return X, y, labels


@pytest.fixture(scope="module")
def fit(rows):
    X, y, _ = rows
    return MixedLinearRegression(3, family=ZERO, search="quick", random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("counts", "gate", "printed"),
    [
        ("poisson", None, -1620.7840),
        ("poisson", "~ ment", -1605.7326),
        ("poisson", EVERY, -1604.7729),
        ("negative-binomial", "~ ment", -1553.2712),
        ("negative-binomial", EVERY, -1549.9909),
    ],
)
@pytest.mark.parametrize("seeds", [[0], long([1, 2])])
def test_zero_inflated_counts_are_those_of_pscl(counts, gate, printed, seeds):
    """As zeroinfl of R's pscl has them; Long (1997) prints -1604.773 and -1549.991 of the last of each."""
    settings = {"family": [counts, "point-mass"], "formula": FORMULA, "gate": gate}
    for seed in seeds:
        found = MixedLinearRegression(2, **settings, random_state=seed).fit(ARTICLES)
        assert found.log_likelihood_ == pytest.approx(printed, abs=2e-3)  # the column phd is rounded here


def test_standard_errors_of_zero_inflated_counts_are_those_of_pscl():
    model = MixedLinearRegression(2, family=["poisson", "point-mass"], formula=FORMULA, gate="~ ment", random_state=0)
    found = model.fit(ARTICLES).confidence_intervals(ARTICLES)
    errors = dict(zip(found.names, found.errors))
    assert errors["kid5[1]"] == pytest.approx(0.043370601, rel=1e-3)
    assert errors["gate ment[1]"] == pytest.approx(0.04020491, rel=1e-3)
    assert errors["gate (intercept)[1]"] == pytest.approx(0.20527386, rel=1e-3)
    assert not any(name.endswith("[2]") for name in found.names)


def log_likelihood(theta, X, y):
    """Of two Poisson components and zeros, written down anew."""
    one, two, logits = theta[:3], theta[3:6], np.append(theta[6:], 0.0)
    weights = special.log_softmax(logits)
    design = np.column_stack([X, np.ones(len(X))])
    parts = [weights[j] + stats.poisson.logpmf(y, np.exp(design @ b)) for j, b in enumerate((one, two))]
    return special.logsumexp([*parts, np.where(y == 0, weights[2], -np.inf)], axis=0).sum()


def test_the_fit_is_a_maximum_and_its_information_is_minus_the_hessian(rows, fit):
    X, y, _ = rows
    logits = np.log(fit.weights_[:-1] / fit.weights_[-1])
    theta = np.concatenate([*np.column_stack([fit.coef_, fit.intercept_])[:2], logits])
    assert log_likelihood(theta, X, y) == pytest.approx(fit.log_likelihood_, rel=1e-12)
    slopes = optimize.approx_fprime(theta, log_likelihood, 1e-6, X, y)
    np.testing.assert_allclose(slopes, 0.0, atol=0.02)
    steps = 1e-4 * np.eye(8)
    second = [
        (optimize.approx_fprime(theta + h, log_likelihood, 1e-5, X, y)
         - optimize.approx_fprime(theta - h, log_likelihood, 1e-5, X, y)) / 2e-4
        for h in steps
    ]  # fmt: skip
    covariance = np.linalg.inv(-np.array(second))
    np.testing.assert_allclose(np.diag(fit.covariance(X, y)), np.diag(covariance), rtol=2e-3)


def test_em_and_the_refreshed_solver_reach_the_same_place_in_any_order(rows, fit):
    X, y, _ = rows
    other = MixedLinearRegression(3, family=["point-mass", "poisson", "poisson"], method="em", random_state=3).fit(X, y)
    assert other.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(other.coef_, fit.coef_[[2, 0, 1]], atol=1e-4)
    assert not other.coef_[0].any()


def test_agents_come_to_the_same_fit(rows, fit):
    X, y, _ = rows
    agents = Federation.split(X, y, np.arange(N) % 5)
    searched = MixedLinearRegression(3, family=ZERO, search="quick", random_state=0).fit_on(agents)
    assert searched.log_likelihood_ == pytest.approx(fit.log_likelihood_, rel=1e-10)
    start = np.column_stack([fit.coef_, fit.intercept_]) + 0.1
    central = MixedLinearRegression(3, family=ZERO, start=start).fit(X, y)
    found = MixedLinearRegression(3, family=ZERO, start=start).fit_on(agents)
    np.testing.assert_allclose(found.coef_, central.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.weights_, central.weights_, rtol=1e-8)


def test_a_question_about_several_families_travels_and_is_checked(rows):
    X, y, _ = rows
    query = MixtureScore(np.zeros((3, 3)), np.log(np.full(3, 1 / 3)), np.ones(3), family=family(ZERO))
    assert unpack(pack(query)).family == query.family
    short = MixtureScore(np.zeros((3, 2)), np.log(np.full(2, 1 / 2)), np.ones(2), family=family(ZERO))
    with pytest.raises(ValueError, match="3 families for 2 components"):
        Federation.split(X, y, np.arange(N) % 5).total(short)


def test_a_model_file_keeps_the_families(rows, fit, tmp_path):
    X, y, _ = rows
    place = tmp_path / "model.json"
    fit.save(place)
    again = MixedLinearRegression.load(place)
    assert again.mixture_.family == fit.mixture_.family
    np.testing.assert_array_equal(again.responsibilities(X, y), fit.responsibilities(X, y))
    assert str(again.summary(X, y)) == str(fit.summary(X, y))
    content = json.loads(place.read_text())
    content["mixture"]["family"].pop()
    place.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="2 families for 3 components"):
        MixedLinearRegression.load(place)


def test_predictions_count_the_zeros(rows, fit):
    X, _, _ = rows
    some, means = X[:4], fit.predict_components(X[:4])
    np.testing.assert_array_equal(means[:, 2], 0.0)
    zero = fit.weights_ @ np.array([*np.exp(-means[:, :2].T), np.ones(4)])
    np.testing.assert_allclose(fit.predict_cdf(some, 0.0), zero)
    np.testing.assert_allclose(fit.predict(some), means @ fit.weights_)
    at = fit.predict_quantile(some, [0.2, 0.9])
    assert np.all(fit.predict_cdf(some, at) >= [0.2, 0.9])
    y, labels = fit.sample(np.repeat(some, 2000, axis=0), random_state=0)
    assert not y[labels == 2].any()
    assert np.mean(y == 0) == pytest.approx(zero.mean(), abs=0.02)


def test_every_row_that_is_not_zero_has_a_regression(rows, fit):
    X, y, labels = rows
    shares = fit.responsibilities(X, y)
    assert not shares[y > 0, 2].any()
    assert np.mean(shares[(y == 0) & (labels == 2), 2]) > 0.8


def test_groups_weights_and_shared_columns_go_along(rows):
    X, y, _ = rows
    settings = {"family": ["poisson", "point-mass"], "shared": [1], "random_state": 0, "search": "quick"}
    one = MixedLinearRegression(2, **settings).fit(X, y, sample_weight=np.full(N, 2.0))
    two = MixedLinearRegression(2, **settings).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_)
    groups = np.where(y == 0, np.arange(N) % 20, 20 + np.arange(N) % 40)
    grouped = MixedLinearRegression(2, **settings).fit(X, y, groups=groups)
    shares = grouped.responsibilities(X, y, groups)
    assert not shares[y > 0, 1].any()
    assert N * grouped.score(X, y, groups=groups) == pytest.approx(grouped.log_likelihood_)


def test_noise_of_two_laws_is_told_apart():
    generator = np.random.default_rng(2)
    X, one = generator.standard_normal((1500, 1)), generator.random(1500) < 0.5
    noise = np.where(one, generator.standard_normal(1500), generator.standard_t(4, 1500))
    y = np.where(one, 6.0, -6.0) + X[:, 0] + 0.3 * noise
    settings = {"shared_sigma": False, "random_state": 0, "search": "quick"}
    found = MixedLinearRegression(2, family=["normal", "student"], **settings).fit(X, y)
    assert found.intercept_ == pytest.approx([6.0, -6.0], abs=0.1)
    assert found.sigma_ == pytest.approx([0.3, 0.3], abs=0.03)
    for law in ("normal", "student"):
        assert found.log_likelihood_ > MixedLinearRegression(2, family=law, **settings).fit(X, y).log_likelihood_
    at = found.predict_quantile(X[:3], [0.1, 0.6])
    np.testing.assert_allclose(found.predict_cdf(X[:3], at), np.tile([0.1, 0.6], (3, 1)), atol=1e-9)


def test_a_component_without_a_scale_leaves_that_of_the_others(rows):
    X, y, _ = rows
    laws = ["negative-binomial", "negative-binomial", "point-mass"]
    model = MixedLinearRegression(3, family=laws, shared_sigma=False, search="quick", random_state=0)
    with pytest.warns(UserWarning, match="no more than Poisson's"):
        found = model.fit(X[:250], y[:250])
    assert found.converged_
    assert found.sigma_[2] == 1.0
    assert [name for name in found.parameter_names_ if "sigma" in name] == ["log (sigma)[1]", "log (sigma)[2]"]


def test_a_scale_that_is_no_length_may_be_below_the_grain_of_y():
    """Counts come in steps of 1, which says nothing of how much their means vary."""
    generator = np.random.default_rng(4)
    X = generator.standard_normal((2000, 1))
    law = NegativeBinomial()
    truth = Mixture(np.array([[0.3], [-0.3]]), np.array([4.5, 2.5]), np.full(2, 0.5), np.full(2, 0.15), family=law)
    y, _ = truth.sample(X, generator)
    found = MixedLinearRegression(2, family=law, shared_sigma=False, search="quick", random_state=0).fit(X, y)
    assert found.sigma_ == pytest.approx([0.15, 0.15], abs=0.06)
    assert found.converged_


def test_distances_to_a_point_mass_are_infinite_and_from_it_are_not(rows, fit):
    X, _, _ = rows
    found = fit.component_distances(X)
    assert np.isinf(found[:2, 2]).all()
    assert found[2, 0] == pytest.approx(fit.predict_components(X)[:, 0].mean())
    counts = np.arange(200)
    means = fit.predict_components(X[:1])[0]
    one, two = (stats.poisson(mean) for mean in means[:2])
    expected = np.sum(one.pmf(counts) * (one.logpmf(counts) - two.logpmf(counts)))
    assert fit.component_distances(X[:1])[0, 1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["poisson"], "names 1 families, and there are 2 components"),
        (["poisson", "gamma"], "not about the same kind of response"),
        ([Poisson(link="sqrt"), "negative-binomial"], "not about the same kind of response"),
        (["normal", "point-mass"], "stands beside counts"),
        (["point-mass", PointMass(at=1.0)], "at least one component"),
        (["poisson", "normal-with-outliers"], "cannot be one of several"),
        (["poisson", "no-law"], "family must be one of"),
        ("point-mass", "one component among others"),
    ],
)
def test_families_that_do_not_go_together_are_refused(rows, given, message):
    X, y, _ = rows
    with pytest.raises(ValueError, match=message):
        MixedLinearRegression(2, family=given).fit(X, y)


def test_more_that_makes_no_sense_is_refused(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="same point mass"):
        ComponentFamilies((Poisson(), PointMass(), PointMass()))
    with pytest.raises(ValueError, match="at a count"):
        PointMass(at=0.5)
    with pytest.raises(ValueError, match="it is a point mass"):
        MixedLinearRegression(2, family=["poisson", "point-mass"], fixed={"x0": {2: 1.0}}).fit(X, y)


def test_a_list_of_one_family_is_that_family():
    assert family(["normal", "normal"]) == Normal()
    assert family([Student(6), Student(6)]) == Student(6)
    assert family(["poisson", "point-mass"]) == ComponentFamilies((Poisson(), PointMass()))


def test_trials_stay_with_their_rows():
    generator = np.random.default_rng(6)
    X, trials = generator.standard_normal((800, 1)), generator.integers(4, 20, 800).astype(float)
    law = family([Binomial(), PointMass()])
    truth = Mixture(np.array([[0.8], [0.0]]), np.array([0.5, 0.0]), np.array([0.7, 0.3]), np.ones(2), family=law)
    y, labels = truth.sample(X, generator, beside={"trials": trials})
    assert np.all(y <= trials)
    assert not y[labels == 1].any()
    found = MixedLinearRegression(2, family=["binomial", "point-mass"], random_state=0).fit(X, y, trials=trials)
    assert found.weights_ == pytest.approx([0.7, 0.3], abs=0.05)
    assert found.coef_[0] == pytest.approx([0.8], abs=0.1)


def test_the_bootstrap_draws_zeros_too(rows):
    X, y, _ = rows
    model = MixedLinearRegression(2, family=["negative-binomial", "point-mass"], search="quick", random_state=0)
    fit = model.fit(X[:200], y[:200])
    drawn = fit.bootstrap(X[:200], y[:200], n_boot=8, random_state=0)
    assert drawn.names == fit.confidence_intervals(X[:200], y[:200]).names
    assert drawn.draws.shape == (8 - drawn.failed, len(drawn.names))
    assert np.isfinite(drawn.draws).all()


def test_a_list_says_the_families_of_any_number_of_components():
    assert of_components("gamma", 4) == "gamma"
    assert of_components(["poisson", "point-mass"], 1) == ["poisson"]
    assert of_components(["point-mass", "poisson"], 1) == ["poisson"]
    assert of_components(["poisson", "point-mass"], 4) == ["poisson", "point-mass", "poisson", "poisson"]
    assert of_components(["poisson", "negative-binomial", "point-mass"], 2) == ["poisson", "negative-binomial"]
    assert of_components(ComponentFamilies((Poisson(), PointMass())), 2) == [Poisson(), PointMass()]


def test_the_number_of_components_is_chosen_and_tested_with_a_list_of_families(rows):
    X, y = rows[0][:300], rows[1][:300]
    model = MixedLinearRegression(2, family=["poisson", "point-mass"], search="quick", random_state=0)
    found = select_components(X, y, range(1, 5), estimator=model)
    assert found.best == 3
    assert found.estimator.mixture_.family.kinds == (0, 1, 0)
    values = [line["log_likelihood"] for line in found.lines]
    assert values[0] < values[1] < values[2] <= values[3]
    test = model.fit(X, y).likelihood_ratio_test(X, y, n_boot=1, random_state=0)
    assert test.statistic == pytest.approx(2 * (values[2] - values[1]), rel=1e-6)
    assert test.p_value == 0.5
