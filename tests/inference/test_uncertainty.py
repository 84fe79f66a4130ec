"""Standard errors, intervals, tests and the bootstrap against closed forms, finite differences and each other."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.stats import norm

from wmlr import MixedLinearRegression, Mixture
from wmlr.datasets import load_tone, make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.families import NORMAL, Student
from wmlr.inference.bootstrap import match_components
from wmlr.inference.intervals import ConfidenceIntervals
from wmlr.inference.uncertainty import Constraints, Estimates, covariance, free_parameters
from wmlr.model.gates import EQUAL

SHAPES = {
    "plain": Constraints(),
    "separate": Constraints(shared_sigma=False),
    "no intercept": Constraints(intercept=False, gate=EQUAL),
    "known": Constraints(sigma=1.0),
    "shared column": Constraints(shared=(1,), shared_sigma=False),
    "shared intercept": Constraints(shared=(2,)),
    "symmetric": Constraints(intercept=False, symmetric=True),
}


TRUTH = Mixture(
    np.array([[3.0, -2.0], [-3.0, -2.0]]), np.array([0.5, -0.5]), np.array([0.65, 0.35]), np.array([1.0, 1.0])
)


def drawn_from(truth, n, seed, rows_per_group=None):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, truth.n_features))
    groups = None if rows_per_group is None else np.arange(n) // rows_per_group
    return X, truth.sample(X, generator, groups)[0], groups


def mixture_at(theta, constraints, k, d, like):
    whole = constraints.embedding(k, d) @ theta
    p = d + constraints.intercept
    lines = whole[: k * p].reshape(k, p)
    logs = whole[k * p : k * p + k] if constraints.sigma is None else np.log(like.sigma)
    logits = np.append(whole[k * p + k :], 0.0)
    intercept = lines[:, d] if constraints.intercept else np.zeros(k)
    return Mixture(
        lines[:, :d], intercept, np.exp(logits) / np.exp(logits).sum(), np.exp(logs), like.symmetric, like.family
    )


def hessian(function, at, step=1e-4):
    size = len(at)
    out = np.empty((size, size))
    E = np.eye(size) * step
    for i in range(size):
        for j in range(size):
            signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            out[i, j] = sum(a * b * function(at + a * E[i] + b * E[j]) for a, b in signs) / (4 * step**2)
    return out


@pytest.mark.parametrize("dof", [None, 4.0])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_covariance_is_the_inverse_of_minus_the_hessian(shape, grouped, dof):
    constraints = SHAPES[shape]
    generator = np.random.default_rng(0)
    X = generator.standard_normal((160, 2))
    coef = np.array([[3.0, -2.0], [-3.0, 2.0]])
    for column in set(constraints.shared) - {2}:
        coef[:, column] = coef[0, column]
    weights = np.full(2, 0.5) if constraints.symmetric or constraints.gate is EQUAL else np.array([0.45, 0.55])
    sigma = np.full(2, 1.1) if constraints.shared_sigma or constraints.symmetric else np.array([0.9, 1.2])
    like = Mixture(coef, np.zeros(2), weights, sigma, constraints.symmetric, NORMAL if dof is None else Student(dof))
    codes = np.arange(160) // 4 if grouped else None
    y, _ = like.sample(X, generator, codes)
    theta = free_parameters(like, constraints)

    def units(at):
        there = mixture_at(at, constraints, 2, 2, like)
        return there.log_likelihood(X, y, codes)

    rows = ArrayRows(X, y, groups=codes, block_rows=50)
    found = np.linalg.inv(covariance(like, rows, constraints))
    wanted = -hessian(lambda at: units(at).sum(), theta)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())
    scores = np.stack([(units(theta + e) - units(theta - e)) / 2e-5 for e in np.eye(len(theta)) * 1e-5], axis=1)
    inverse = np.linalg.inv(wanted)
    sandwich = inverse @ scores.T @ scores @ inverse
    robust = covariance(like, rows, constraints, robust=True)
    np.testing.assert_allclose(robust, sandwich, atol=1e-4 * np.abs(sandwich).max())


def test_one_component_agrees_with_least_squares(generator):
    X = generator.standard_normal((200, 2))
    y = X @ [1.0, -2.0] + 0.3 + np.exp(0.5 * X[:, 0]) * generator.standard_normal(200)
    groups = np.arange(200) // 5
    design = np.column_stack([X, np.ones(200)])
    bread = np.linalg.inv(design.T @ design)
    fit = MixedLinearRegression(1).fit(X, y)
    np.testing.assert_allclose([*fit.coef_[0], *fit.intercept_], bread @ design.T @ y, rtol=1e-9)
    residual = y - fit.predict(X)
    plain = fit.covariance(X, y)
    np.testing.assert_allclose(plain[:3, :3], residual @ residual / 200 * bread, rtol=1e-6)
    assert plain[3, 3] == pytest.approx(1 / 400, rel=1e-6)
    white = bread @ (design * residual[:, None] ** 2).T @ design @ bread
    np.testing.assert_allclose(fit.covariance(X, y, errors="sandwich")[:3, :3], white, rtol=1e-5)
    sums = np.add.reduceat(design * residual[:, None], np.arange(0, 200, 5))
    clustered = fit.covariance(X, y, groups=groups, errors="clustered")[:3, :3]
    np.testing.assert_allclose(clustered, bread @ sums.T @ sums @ bread, rtol=1e-5)
    weighted = fit.covariance(X, y, sample_weight=np.full(200, 2.0))
    np.testing.assert_allclose(weighted, plain / 2, rtol=1e-9, atol=1e-15)  # sigma and lines are independent: nil


def test_ridge_of_one_component(generator):
    X = generator.standard_normal((50, 3))
    y = X @ [1.0, 0.0, -1.0] + generator.standard_normal(50)
    fit = MixedLinearRegression(1, fit_intercept=False, alpha=10.0, sigma=1.0).fit(X, y)
    bread = np.linalg.inv(X.T @ X + 10 * np.eye(3))
    np.testing.assert_allclose(fit.covariance(X, y), bread @ X.T @ X @ bread, rtol=1e-6)


def test_parameters_are_named_in_the_order_of_the_covariance(fit, data):
    assert fit.parameter_names_ == (
        *("x0[1]", "x1[1]", "(intercept)[1]", "x0[2]", "x1[2]", "(intercept)[2]"),
        *("log (sigma)[1]", "log (sigma)[2]", "logit (weight)[1]"),
    )
    assert len(fit.parameter_names_) == fit.n_parameters_ == len(fit.covariance(data.X, data.y))
    shared = MixedLinearRegression(2, shared=[0], random_state=0).fit(data.X, data.y)
    assert shared.parameter_names_[:5] == ("x0", "x1[1]", "(intercept)[1]", "x1[2]", "(intercept)[2]")
    assert np.ptp(shared.coef_[:, 0]) < 1e-9
    assert len(shared.covariance(data.X, data.y)) == shared.n_parameters_ == 7
    frame = pd.DataFrame(data.X, columns=["weight", "sigma"])
    named = MixedLinearRegression(2, random_state=0).fit(frame, data.y)
    intervals = named.confidence_intervals(frame, data.y)
    assert len(set(intervals.names)) == len(intervals.names)
    assert intervals["weight[1]"][0] < named.coef_[0, 0] < intervals["weight[1]"][1]


def test_delta_method_agrees_with_differences(generator):
    constraints = Constraints(shared_sigma=False)
    like = Mixture(generator.standard_normal((3, 2)), np.zeros(3), np.array([0.5, 0.3, 0.2]), np.array([0.5, 1.0, 2.0]))
    theta = free_parameters(like, constraints)
    estimates = Estimates.of(like, constraints, ["a", "b"])

    def values(at):
        return Estimates.of(mixture_at(at, constraints, 3, 2, like), constraints, ["a", "b"]).values

    wanted = np.stack([(values(theta + e) - values(theta - e)) / 2e-6 for e in np.eye(len(theta)) * 1e-6], axis=1)
    np.testing.assert_allclose(estimates.jacobian, wanted, atol=1e-8)
    assert estimates.names[-3:] == ("(weight)[1]", "(weight)[2]", "(weight)[3]")


def test_intervals(fit, data):
    intervals = fit.confidence_intervals(data.X, data.y)
    errors = np.sqrt(np.diag(fit.covariance(data.X, data.y)))
    np.testing.assert_allclose(intervals.errors[:6], errors[:6])
    np.testing.assert_allclose(intervals.errors[6:8], fit.sigma_ * errors[6:8])
    share = fit.weights_[0] * fit.weights_[1] * errors[8]
    np.testing.assert_allclose(intervals.errors[8:], [share, share])
    np.testing.assert_allclose(intervals.upper[:6] - intervals.lower[:6], 2 * norm.ppf(0.975) * errors[:6])
    low, high = intervals["(weight)[1]"]
    assert np.log(high / (1 - high)) - np.log(low / (1 - low)) == pytest.approx(2 * norm.ppf(0.975) * errors[8])
    np.testing.assert_allclose(intervals.lower[6:8] * intervals.upper[6:8], fit.sigma_**2)
    narrow = fit.confidence_intervals(data.X, data.y, level=0.5)
    assert np.all(narrow.upper - narrow.lower < intervals.upper - intervals.lower)
    assert list(intervals.to_frame().columns) == ["estimate", "error", "lower", "upper"]
    assert "(sigma)[2]" in str(intervals)
    assert "<table>" in intervals._repr_html_()
    with pytest.raises(KeyError, match="no estimate 'x9'"):
        intervals["x9"]
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        fit.confidence_intervals(data.X, data.y, level=95)


def test_sandwich_is_near_the_plain_one_where_the_model_is_right():
    X, y, groups = drawn_from(TRUTH, 6000, 0, rows_per_group=3)
    fit = MixedLinearRegression(2, random_state=0).fit(X, y, groups=groups)
    plain = fit.confidence_intervals(X, y, groups=groups).errors
    robust = fit.confidence_intervals(X, y, groups=groups, errors="clustered").errors
    np.testing.assert_allclose(robust, plain, rtol=0.1)


def test_errors_on_any_engine(fit, data):
    rows = ArrayRows(data.X, data.y, block_rows=100)
    np.testing.assert_allclose(fit.covariance_on(rows), fit.covariance(data.X, data.y), rtol=1e-9)
    away = MixedLinearRegression(2, shared_sigma=False, random_state=0, tol=1e-10).fit_on(rows)
    np.testing.assert_allclose(
        away.covariance_on(rows, errors="sandwich"), fit.covariance(data.X, data.y, errors="sandwich"), rtol=1e-4
    )


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_cover(grouped):
    inside = []
    for seed in range(40):
        X, y, groups = drawn_from(TRUTH, 400, seed, rows_per_group=4 if grouped else None)
        fit = MixedLinearRegression(2, random_state=0).fit(X, y, groups=groups)
        wanted = Estimates.of(match_components(TRUTH, fit.mixture_, X), Constraints(), ["x0", "x1"]).values
        found = fit.confidence_intervals(X, y, groups=groups)
        inside.append((found.lower <= wanted) & (wanted <= found.upper))
    assert 0.9 < np.mean(inside) < 0.985


def test_a_saddle_is_said():
    X = np.linspace(-1, 1, 40)[:, None]
    y = np.where(np.arange(40) % 2, 3.0, -3.0) * X[:, 0]
    centre = Mixture(np.zeros((2, 1)), np.zeros(2), np.full(2, 0.5), np.ones(2))
    with pytest.warns(UserWarning, match="not at a maximum"):
        spread = covariance(centre, ArrayRows(X, y), Constraints())
    assert np.linalg.eigvalsh(spread)[0] < 0


def test_what_has_no_variance_has_no_error():
    like = Mixture(np.ones((1, 1)), np.zeros(1), np.ones(1), np.ones(1))
    found = ConfidenceIntervals.of(Estimates.of(like, Constraints(), ["x"]), np.diag([-1.0, 0.0, 4.0]))
    np.testing.assert_array_equal(found.errors, [np.nan, np.nan, 2.0])
    assert "nan" not in str(found)
    X = np.column_stack([np.arange(30.0), 2 * np.arange(30.0)])
    with pytest.warns(UserWarning, match="span only 1 direction"):
        fit = MixedLinearRegression(1).fit(X, np.sin(X[:, 0]))
    found = fit.covariance(X, np.sin(X[:, 0]))
    assert np.all(np.isnan(found[1]))
    assert np.all(np.isfinite(np.delete(np.delete(found, 1, axis=0), 1, axis=1)))


def test_bootstrap_agrees_with_the_delta_method(fit, data):
    found = fit.bootstrap(data.X, data.y, n_boot=60, random_state=0)
    errors = fit.confidence_intervals(data.X, data.y).errors
    np.testing.assert_allclose(found.errors, errors, rtol=0.35)
    assert np.all(np.abs(found.bias) < errors)
    assert found.failed == 0
    intervals = found.confidence_intervals(0.9)
    assert np.all(intervals.lower < intervals.upper)
    assert intervals.names == fit.confidence_intervals(data.X, data.y).names
    assert "60 draws" in str(found)
    assert len(found.to_frame()) == 10
    assert found.covariance.shape == (10, 10)
    by_rows = fit.bootstrap(data.X, data.y, n_boot=40, random_state=0, kind="rows")
    np.testing.assert_allclose(by_rows.errors[:6], errors[:6], rtol=0.45)


def test_bootstrap_is_the_seeds_alone():
    tone = load_tone()
    fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)
    one = fit.bootstrap(tone.data, tone.target, n_boot=4, random_state=5)
    with parallel_config("threading"):
        two = fit.bootstrap(tone.data, tone.target, n_boot=4, random_state=5, n_jobs=2)
    np.testing.assert_array_equal(one.draws, two.draws)
    assert not np.array_equal(one.draws, fit.bootstrap(tone.data, tone.target, n_boot=4, random_state=6).draws)


@pytest.mark.parametrize("settings", [{"symmetric": True}, {"robust": True}, {"shared": [1]}, {}], ids=str)
@pytest.mark.parametrize("kind", ["parametric", "rows"])
def test_bootstrap_of_every_kind_of_model(settings, kind):
    truth = Mixture.symmetric_pair([3.0, -2.0], 1.0) if settings.get("symmetric") else TRUTH
    X, y, groups = drawn_from(truth, 240, 0, rows_per_group=3)
    fit = MixedLinearRegression(2, random_state=0, **settings).fit(X, y, groups=groups)
    found = fit.bootstrap(X, y, groups=groups, n_boot=6, random_state=0, kind=kind)
    errors = fit.confidence_intervals(X, y, groups=groups).errors
    assert found.draws.shape == (6, len(errors))
    assert np.all(np.abs(found.draws - found.estimates) < 6 * errors)


def test_bootstrap_refuses_nonsense(fit, data):
    with pytest.raises(ValueError, match="kind must be one of 'parametric', 'rows'"):
        fit.bootstrap(data.X, data.y, kind="wild")
    with pytest.raises(ValueError, match="n_boot must be at least 2"):
        fit.bootstrap(data.X, data.y, n_boot=1)


def test_components_are_matched_to_the_nearest():
    wanted = Mixture.of([[1.0], [-1.0], [5.0]], [1.0, 2.0, 3.0], [0.5, 0.3, 0.2])
    order = [2, 0, 1]
    shuffled = Mixture(wanted.coef[order], wanted.intercept[order], wanted.weights[order], wanted.sigma[order])
    found = match_components(shuffled, wanted, np.ones((3, 1)))
    np.testing.assert_array_equal(found.coef, wanted.coef)
    np.testing.assert_array_equal(found.weights, wanted.weights)


def test_summary_shows_errors_of_sigma_and_weights(fit, data):
    text = str(fit.summary(data.X, data.y))
    intervals = fit.confidence_intervals(data.X, data.y)
    for name in ("(sigma)", "(weight)", "(intercept)", "x1"):
        assert text.count(f"\n{name} ") == 2
    assert f"{intervals.errors[6]:.4f}" in text
    assert f"{fit.bic(data.X, data.y):.4f}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "[0.05" in str(fit.summary(data.X, data.y, level=0.9))
    assert "sandwich" in str(fit.summary(data.X, data.y, errors="sandwich"))
    pair = make_mixed_regression(300, 2, 2, snr=5, symmetric=True, random_state=0)
    symmetric = MixedLinearRegression(2, symmetric=True).fit(pair.X, pair.y)
    first, second = symmetric.summary(pair.X, pair.y).components
    for one, two in zip(first[1][:2], second[1][:2]):
        assert one.error == two.error > 0
        assert (one.lower, one.upper) == (-two.upper, -two.lower)
    weighted = fit.summary(data.X, data.y, sample_weight=np.ones(900))
    assert weighted.components == fit.summary(data.X, data.y).components
