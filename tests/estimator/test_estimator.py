"""The estimator among its kin: scikit-learn, frames, pickles and JSON."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import wmlr
from wmlr import GDA, GEM, MixedLinearRegression
from wmlr.datasets import load_co2, load_tone, make_mixed_regression

TWO_ONLY = "the checks set n_components=1, and symmetric=True means two components"
SETS_ONE_COMPONENT = (
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
SYMMETRIC_FAILURES = dict.fromkeys(SETS_ONE_COMPONENT, TWO_ONLY)
GDA_FAILURES = {"check_regressors_train": "the check sets alpha=0.01, and gradient descent ascent has no ridge"}


def known_failures(estimator):
    return SYMMETRIC_FAILURES if estimator.symmetric else GDA_FAILURES if estimator.solver == "gda" else {}


@parametrize_with_checks(
    [
        MixedLinearRegression(search="quick"),
        MixedLinearRegression(symmetric=True),
        MixedLinearRegression(method="em", shared_sigma=False, search="quick"),
        MixedLinearRegression(solver="gda", max_iter=20, search="quick"),
    ],
    expected_failed_checks=known_failures,
)
@pytest.mark.filterwarnings("ignore:the .* features span")
def test_scikit_learn_checks(estimator, check, monkeypatch):
    if estimator.solver == "gda":  # its loop would be compiled anew for each layout of rows that the checks have
        monkeypatch.setenv("WMLR_KERNELS", "numpy")
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([MixedLinearRegression(), MixedLinearRegression(method="gem")])
@pytest.mark.filterwarnings("ignore:the .* features span")
def test_scikit_learn_checks_with_a_longer_search(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(600, 3, 2, snr=8, random_state=0)


@pytest.fixture(scope="module")
def fit(data):
    return MixedLinearRegression(2, random_state=0).fit(data.X, data.y)


def test_attributes(fit, data):
    assert fit.coef_.shape == (2, 3)
    assert fit.intercept_.shape == fit.weights_.shape == fit.sigma_.shape == (2,)
    assert fit.weights_.sum() == pytest.approx(1.0)
    assert fit.weights_[0] >= fit.weights_[1]
    assert fit.converged_
    assert fit.n_iter_ >= 1
    assert len(fit.history_) == fit.n_iter_ + 1
    assert set(fit.history_[0]) == {"iteration", "objective", "log_likelihood", "gradient_norm", "step"}
    assert fit.log_likelihood_ == pytest.approx(fit.score(data.X, data.y) * 600)
    assert fit.history_[-1]["log_likelihood"] == fit.log_likelihood_


def test_predictions(fit, data):
    components = fit.predict_components(data.X)
    np.testing.assert_allclose(components, data.X @ fit.coef_.T + fit.intercept_)
    np.testing.assert_allclose(fit.predict(data.X), components @ fit.weights_)
    shares = fit.responsibilities(data.X, data.y)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assigned = fit.assign(data.X, data.y)
    agreement = np.mean(assigned == data.labels)
    assert max(agreement, 1 - agreement) > 0.85


def test_criteria(fit, data):
    X, y = data.X, data.y
    assert fit.n_parameters_ == 2 * 4 + 1 + 1
    assert fit.aic(X, y) == pytest.approx(-2 * fit.log_likelihood_ + 20)
    assert fit.bic(X, y) == pytest.approx(-2 * fit.log_likelihood_ + 10 * np.log(600))
    assert fit.icl(X, y) > fit.bic(X, y)
    shares = fit.responsibilities(X, y)
    assert fit.icl(X, y) - fit.bic(X, y) == pytest.approx(-2 * np.sum(shares * np.log(shares)))
    assert fit.icl(X, y, hard=True) - fit.bic(X, y) == pytest.approx(-2 * np.sum(np.log(shares.max(axis=1))))


def test_criteria_of_groups_count_groups_or_rows():
    data = make_mixed_regression(240, 2, 2, snr=2, groups=4, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 240)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, weight, data.groups)
    rows, twice = (data.X, data.y, data.groups, weight), -2 * fit.log_likelihood_
    assert fit.bic(*rows) == pytest.approx(twice + fit.n_parameters_ * np.log(60))
    assert fit.bic(*rows, count="rows") == pytest.approx(twice + fit.n_parameters_ * np.log(weight.sum()))
    assert fit.icl(*rows, count="rows") - fit.icl(*rows) == pytest.approx(fit.bic(*rows, count="rows") - fit.bic(*rows))
    sure = fit.group_responsibilities_.max(axis=1)
    assert fit.icl(*rows, hard=True) - fit.bic(*rows) == pytest.approx(-2 * np.log(sure).sum())
    with pytest.raises(ValueError, match=r"count must be 'units' or 'rows' \(got 'agents'\)"):
        fit.bic(*rows, count="agents")


def test_flexmix_s_bic_of_groups_counts_rows():
    """flexmix's BIC is 1170.815 at log-likelihood -561.5651, which is .0114 below the maximum."""
    frame = pd.read_csv(Path(__file__).parents[2] / "docs/data/npreg.csv")
    fit = MixedLinearRegression.from_formula("yn ~ x + I(x**2) | id2", frame, 2, shared_sigma=False, random_state=0)
    assert fit.bic(frame, count="rows") == pytest.approx(1170.815 - 2 * 0.0114, abs=2e-3)


def test_sample_follows_the_mixture(fit, data):
    X = np.repeat(data.X[:1], 40_000, axis=0)
    y, labels = fit.sample(X, random_state=1)
    assert y.mean() == pytest.approx(fit.predict(data.X[:1])[0], abs=0.1)
    assert np.mean(labels == 0) == pytest.approx(fit.weights_[0], abs=0.01)
    again, _ = fit.sample(X, random_state=1)
    np.testing.assert_array_equal(y, again)


def test_groups_share_a_component():
    data = make_mixed_regression(900, 3, 2, snr=1.5, groups=9, random_state=0)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, groups=data.groups)
    shares = fit.responsibilities(data.X, data.y, data.groups)
    for group in np.unique(data.groups):
        assert np.ptp(shares[data.groups == group], axis=0).max() == 0
    agreement = np.mean(fit.assign(data.X, data.y, data.groups) == data.labels)
    assert max(agreement, 1 - agreement) > 0.9
    order = np.random.default_rng(0).permutation(900)
    moved = MixedLinearRegression(2, random_state=0).fit(data.X[order], data.y[order], groups=data.groups[order])
    np.testing.assert_allclose(moved.coef_, fit.coef_, atol=1e-6)
    assert fit.bic(data.X, data.y, groups=data.groups) == pytest.approx(
        -2 * fit.log_likelihood_ + np.log(100) * fit.n_parameters_
    )


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_weights_repeat_and_drop_rows(symmetric, grouped):
    data = make_mixed_regression(200, 2, 2, snr=3, symmetric=symmetric, groups=4, random_state=0)
    times = np.random.default_rng(0).integers(0, 3, 200)
    groups = data.groups if grouped else None
    repeated = np.repeat(np.arange(200), times)
    settings = {"symmetric": symmetric, "random_state": 0, "tol": 1e-14}
    weighted = MixedLinearRegression(**settings).fit(data.X, data.y, sample_weight=times, groups=groups)
    explicit = MixedLinearRegression(**settings).fit(
        data.X[repeated], data.y[repeated], groups=None if groups is None else groups[repeated]
    )
    np.testing.assert_allclose(weighted.coef_, explicit.coef_, atol=1e-7)
    np.testing.assert_allclose(weighted.sigma_, explicit.sigma_, atol=1e-7)
    assert weighted.log_likelihood_ == pytest.approx(explicit.log_likelihood_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_carry_their_names(frame):
    co2 = load_co2()
    X = frame({"GNP": co2.data[:, 0]})
    fit = MixedLinearRegression(2, random_state=0).fit(X, co2.target)
    assert list(fit.feature_names_in_) == ["GNP"]
    assert "GNP" in str(fit.summary())
    np.testing.assert_array_equal(fit.coef_, MixedLinearRegression(2, random_state=0).fit(co2.data, co2.target).coef_)


def test_pipeline_grid_search_and_clone(data):
    pipeline = make_pipeline(StandardScaler(), MixedLinearRegression(random_state=0))
    search = GridSearchCV(pipeline, {"mixedlinearregression__n_components": [1, 2]}, cv=3).fit(data.X, data.y)
    assert search.best_params_["mixedlinearregression__n_components"] == 2
    copy = clone(MixedLinearRegression(3, solver=GDA(lam=0.2), start=np.ones((3, 2))))
    assert copy.solver == GDA(lam=0.2)


def test_features_see_raw_x():
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 2, (800, 1))
    y = np.where(generator.random(800) < 0.5, x[:, 0] ** 2, 3 - x[:, 0]) + 0.1 * generator.standard_normal(800)
    fit = MixedLinearRegression(2, features=PolynomialFeatures(2, include_bias=False), random_state=0).fit(x, y)
    assert fit.coef_.shape == (2, 2)
    curves = fit.predict_components(np.array([[1.5]]))
    np.testing.assert_allclose(np.sort(curves[0]), [1.5, 2.25], atol=0.1)
    assert "x0^2" in str(fit.summary())


def test_same_seed_same_fit(data):
    runs = [MixedLinearRegression(3, start="random", random_state=7, n_init=3).fit(data.X, data.y) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].coef_, runs[1].coef_)


@pytest.mark.parametrize("method", ["wmlr", "em", "gem"])
def test_a_ridge_shrinks_the_symmetric_fit_too(method):
    data = make_mixed_regression(300, 4, snr=3, symmetric=True, random_state=0)
    free, tight = (
        MixedLinearRegression(symmetric=True, method=method, alpha=a).fit(data.X, data.y) for a in (0.0, 200.0)
    )
    assert np.linalg.norm(tight.coef_) < 0.9 * np.linalg.norm(free.coef_)
    if method != "gem":
        assert np.all(np.diff([record["objective"] for record in tight.history_]) >= -1e-9)


def test_warm_start_goes_on(data):
    fit = MixedLinearRegression(2, max_iter=1, tol=0, start="random", warm_start=True, random_state=0)
    first = fit.fit(data.X, data.y).log_likelihood_
    for _ in range(15):
        fit.fit(data.X, data.y)
    assert fit.log_likelihood_ > first


def test_pickle(fit, data):
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.predict(data.X), fit.predict(data.X))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"symmetric": True},
        {"solver": GDA(lam=0.3, reference=np.ones(3))},
        {"method": GEM(alpha=0.2)},
        {"shared_sigma": False},
    ],
    ids=str,
)
def test_json_round_trip(tmp_path, data, settings):
    if isinstance(settings.get("solver"), GDA):
        settings = settings | {"symmetric": True}
    fit = MixedLinearRegression(2, random_state=0, **settings).fit(data.X, data.y)
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(data.X), fit.predict(data.X))
    np.testing.assert_array_equal(again.responsibilities(data.X, data.y), fit.responsibilities(data.X, data.y))
    assert again.history_ == fit.history_
    assert again.get_params().keys() == fit.get_params().keys()
    assert type(again.solver) is type(fit.solver)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.json"]


def test_json_refuses_what_it_did_not_write(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{not json")
    with pytest.raises(ValueError, match="is not a model file"):
        MixedLinearRegression.load(path)
    path.write_text(json.dumps({"format": "other"}))
    with pytest.raises(ValueError, match="format 'other', wanted 'wmlr-model-2'"):
        MixedLinearRegression.load(path)


def test_covariance_gives_the_standard_errors_of_least_squares():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 2))
    y = X @ [1.0, -2.0] + 0.5 * generator.standard_normal(300)
    fit = MixedLinearRegression(1).fit(X, y)
    design = np.column_stack([X, np.ones(300)])
    wanted = fit.sigma_[0] ** 2 * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(fit.covariance(X, y)[:3, :3], wanted, rtol=1e-6)


def test_summary_reads(fit, data):
    plain, full = str(fit.summary()), str(fit.summary(data.X, data.y))
    assert "std err" not in plain
    assert "std err" in full
    assert "component 2: weight" in full
    assert "<table>" in fit.summary()._repr_html_()


def test_verbose_prints_each_iteration(capsys, data):
    MixedLinearRegression(2, verbose=1, random_state=0).fit(data.X, data.y)
    assert capsys.readouterr().out.count("log-likelihood") >= 2


def test_not_fitted():
    with pytest.raises(NotFittedError):
        MixedLinearRegression().predict(np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        MixedLinearRegression().save("nowhere.json")


def test_choosing_k():
    co2, tone = load_co2(), load_tone()
    chosen = wmlr.select_components(
        co2.data, co2.target, range(1, 4), estimator=MixedLinearRegression(shared_sigma=False, random_state=0)
    )
    np.testing.assert_allclose(chosen.values, [165.89, 157.21, 161.88], atol=0.6)
    assert chosen.best == 2
    assert chosen.estimator.n_components == 2
    held_out = wmlr.select_components(tone.data, tone.target, [1, 2], criterion="cv")
    assert held_out.best == 2
    with pytest.raises(ValueError, match="criterion must be one of"):
        wmlr.select_components(co2.data, co2.target, criterion="r2")
