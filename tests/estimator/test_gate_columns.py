"""Weights that depend on columns, from the estimator's side."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from longer import long
from wmlr import MixedLinearRegression
from wmlr.engines import ParquetRows
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation

PATENT = Path(__file__).parents[1] / "data" / "patent.csv"


@pytest.fixture(scope="module")
def patent():
    return pd.read_csv(PATENT)


@pytest.fixture(scope="module")
def data():
    """Two regressions; the larger x1, the rather the first. The logit of the first against the second is 1 + 2 x1."""
    generator = np.random.default_rng(0)
    n = 600
    X = generator.standard_normal((n, 2))
    first = generator.random(n) < 1 / (1 + np.exp(-(1 + 2 * X[:, 1])))
    y = np.where(first, 2 + 3 * X[:, 0], -2 - 3 * X[:, 0]) + 0.5 * generator.standard_normal(n)
    return X, y, first


@pytest.fixture(scope="module")
def fit(data):
    return MixedLinearRegression(2, gate=[1], random_state=0).fit(data[0], data[1])


@pytest.mark.parametrize("seed", [0, 1, *map(long, range(2, 10))])
@pytest.mark.parametrize(("shared", "printed"), [(None, -197.6753), (["lgRD"], -216.824)])
def test_the_published_fits_of_patents_are_reached_or_passed(patent, shared, printed, seed):
    model = MixedLinearRegression(
        3, family="poisson", formula="Patents ~ lgRD", gate="~ RDS", shared=shared, random_state=seed
    ).fit(patent)
    assert model.log_likelihood_ > printed - 5e-5
    if shared is None:
        assert model.log_likelihood_ == pytest.approx(printed, abs=5e-4)
        assert model.bic(patent) == pytest.approx(437.8355, abs=1e-3)
    else:  # flexmix's value is that of the next maximum, 5.01 lower
        assert model.log_likelihood_ == pytest.approx(-211.8175, abs=1e-4)


def test_the_logits_are_found_and_their_intervals_hold_the_truth(fit, data):
    X, y, first = data
    sign = 1.0 if fit.coef_[0, 0] > 0 else -1.0
    assert fit.gate_coef_.shape == (2, 2)
    assert not fit.gate_coef_[1].any()
    intervals = fit.confidence_intervals(X, y)
    for name, truth in (("gate x1[1]", 2.0), ("gate (intercept)[1]", 1.0)):
        place = intervals.names.index(name)
        assert abs(intervals.estimates[place] - sign * truth) < 4 * intervals.errors[place]
        assert 0 < intervals.errors[place] < 0.6
    assert fit.parameter_names_[-2:] == ("gate x1[1]", "gate (intercept)[1]")
    assert len(fit.parameter_names_) == fit.covariance(X, y).shape[0] == fit.fitted_.n_parameters
    assert "gate x1" in str(fit.summary(X, y))
    assert (fit.assign(X, y) == (first != (sign > 0))).mean() > 0.9


def test_weights_by_columns_are_likelier_than_weights_for_all(fit, data):
    X, y, _ = data
    common = MixedLinearRegression(2, random_state=0).fit(X, y)
    assert fit.log_likelihood_ > common.log_likelihood_ + 50
    assert fit.score(X, y) * len(y) == pytest.approx(fit.log_likelihood_, rel=1e-10)


def test_prediction_follows_the_columns(fit, data):
    X = data[0][:5]
    logits = np.column_stack([X[:, 1:], np.ones(5)]) @ fit.gate_coef_.T
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.predict(X), (weights * fit.predict_components(X)).sum(axis=1), rtol=1e-12)
    medians = fit.predict_quantile(X, 0.5)
    np.testing.assert_allclose(fit.predict_cdf(X, medians), 0.5, atol=1e-9)
    drawn, labels = fit.sample(np.repeat(X[:1], 4000, axis=0), random_state=0)
    assert labels.mean() == pytest.approx(weights[0, 1], abs=0.04)
    assert drawn.mean() == pytest.approx(fit.predict(X[:1])[0], abs=0.2)


def test_a_saved_model_predicts_the_same(fit, data, patent, tmp_path):
    fit.save(tmp_path / "a.json")
    read = MixedLinearRegression.load(tmp_path / "a.json")
    np.testing.assert_array_equal(read.predict(data[0]), fit.predict(data[0]))
    np.testing.assert_array_equal(read.covariance(*data[:2]), fit.covariance(*data[:2]))
    model = MixedLinearRegression(2, family="poisson", formula="Patents ~ lgRD", gate="~ RDS + I(RDS**2)")
    model.fit(patent).save(tmp_path / "b.json")
    read = MixedLinearRegression.load(tmp_path / "b.json")
    np.testing.assert_array_equal(read.predict(patent), model.predict(patent))
    assert read.gate_coef_.shape == (2, 3)


@pytest.mark.parametrize("k", [2, 3])
def test_a_federation_and_a_file_give_the_central_fit(data, tmp_path, k):
    X, y, _ = data
    settings = {"gate": [1], "random_state": 0, "search": "quick"}
    start = np.random.default_rng(1).standard_normal((k, 3))
    central = MixedLinearRegression(k, start=start, **settings).fit(X, y)
    agents = [(X[part], y[part]) for part in np.array_split(np.arange(len(y)), 5)]
    shared = MixedLinearRegression(k, start=start, **settings).fit_on(Federation(agents))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", "y", ["a", "b"])
    filed = MixedLinearRegression(k, start=start, **{**settings, "gate": "~ b"}).fit_on(rows)
    for other in (shared, filed):
        np.testing.assert_allclose(other.gate_coef_, central.gate_coef_, atol=1e-8 * np.abs(central.gate_coef_).max())
        np.testing.assert_allclose(other.coef_, central.coef_, atol=1e-8)
    np.testing.assert_allclose(shared.covariance_on(Federation(agents)), central.covariance(X, y), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(filed.predict_on(rows), central.predict(X), atol=1e-7)
    np.testing.assert_allclose(filed.responsibilities_on(rows), central.responsibilities(X, y), atol=1e-7)


def test_sparse_weighted_and_grouped_rows_fit_alike(data):
    X, y, _ = data
    start = np.array([[3.0, 0, 2], [-3.0, 0, -2]])
    plain = MixedLinearRegression(2, gate=[1], start=start).fit(X, y)
    thin = MixedLinearRegression(2, gate=[1], start=start).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(thin.gate_coef_, plain.gate_coef_, rtol=1e-7)
    np.testing.assert_allclose(thin.covariance(sparse.csr_matrix(X), y), plain.covariance(X, y), rtol=1e-6, atol=1e-12)
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    weighted = MixedLinearRegression(2, gate=[1], start=start).fit(X, y, sample_weight=weight)
    repeated = np.repeat(np.arange(len(y)), weight)
    twice = MixedLinearRegression(2, gate=[1], start=start).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.gate_coef_, twice.gate_coef_, rtol=1e-6)
    groups = np.arange(len(y))
    alone = MixedLinearRegression(2, gate=[1], start=start).fit(X, y, groups=groups)
    np.testing.assert_allclose(alone.gate_coef_, plain.gate_coef_, rtol=1e-7)


def test_scales_of_the_columns_do_not_matter(fit, data):
    X, y, _ = data
    scaled = X * [1e-4, 1e4] + [0.0, 3e5]
    other = MixedLinearRegression(2, gate=[1], random_state=0).fit(scaled, y)
    assert other.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(other.gate_coef_[:, 0] * 1e4, fit.gate_coef_[:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gate": ["w"]}, "gate names a column that is not there"),
        ({"gate": [0, 0]}, "names a column twice"),
        ({"gate": [1], "symmetric": True, "fit_intercept": False}, "symmetric"),
        ({"gate": [1], "method": "gem"}, "gate= needs method="),
        ({"gate": [1], "solver": "gda"}, "gate= needs method="),
    ],
)
def test_what_a_gate_cannot_be_is_refused_in_one_sentence(data, settings, message):
    with pytest.raises(ValueError, match=message):
        MixedLinearRegression(2, **settings).fit(data[0], data[1])


def test_rows_on_an_engine_without_names_take_numbers(data):
    X, y, _ = data
    one = MixedLinearRegression(2, gate=["x1"], random_state=0, search="quick").fit_on(ArrayRows(X, y))
    other = MixedLinearRegression(2, gate=[1], random_state=0, search="quick").fit(X, y)
    np.testing.assert_allclose(one.gate_coef_, other.gate_coef_, rtol=1e-6)


def test_a_column_of_text_stands_for_its_levels(data, tmp_path):
    X, y, _ = data
    place = np.where(X[:, 1] < -0.5, "low", np.where(X[:, 1] < 0.5, "mid", "top"))
    frame = pd.DataFrame({"x": X[:, 0], "place": place, "y": y})
    settings = {"random_state": 0, "search": "quick"}
    one = MixedLinearRegression(2, formula="y ~ x + place", gate=["place"], only={"place": []}, **settings).fit(frame)
    other = MixedLinearRegression(2, formula="y ~ x", gate="~ place", **settings).fit(frame)
    assert one.gate_coef_.shape == (2, 3)
    np.testing.assert_allclose(one.gate_coef_, other.gate_coef_, rtol=1e-4)
    one.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_allclose(again.responsibilities(frame), one.responsibilities(frame))
