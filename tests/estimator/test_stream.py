"""A stream comes near the fit to all rows, keeps none of them, and goes on where it was saved."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from longer import long
from wmlr import GDA, GEM, MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.metrics import coefficient_error


def streamed(model, X, y, batch=1000, passes=1, **more):
    """The model after so many passes over the rows, batch by batch."""
    for _ in range(passes):
        for first in range(0, len(y), batch):
            part = slice(first, first + batch)
            model.partial_fit(X[part], y[part], **{name: values[part] for name, values in more.items()})
    return model


def assert_same(ours, theirs, rtol=0.0, atol=0.0):
    for name in ("coef_", "intercept_", "weights_", "sigma_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("snr", [10, 1])
@pytest.mark.parametrize(("n", "seeds"), [(10_000, (0,)), long(10_000, (1, 2)), long(100_000, (0,))])
def test_three_passes_come_near_the_fit_to_all_rows(snr, n, seeds):
    for seed in seeds:
        data = make_mixed_regression(n, 128, 2, snr=snr, symmetric=True, random_state=seed)
        model = MixedLinearRegression(2, symmetric=True, random_state=0)
        whole = coefficient_error(clone(model).fit(data.X, data.y).coef_, data.coef)
        found = coefficient_error(streamed(model, data.X, data.y, passes=3).coef_, data.coef)
        assert found < 1.1 * whole, (seed, found, whole)


@pytest.mark.parametrize("method", ["wmlr", "em"])
@pytest.mark.parametrize("batch", [1000, 130])
def test_three_components_with_intercepts(method, batch):
    data = make_mixed_regression(10_000, 10, 3, snr=10, random_state=0)
    X, y = data.X + 0.5, data.y + np.array([0.0, 2.0, 5.0])[data.labels]
    model = MixedLinearRegression(3, method=method, random_state=0)
    whole = clone(model).fit(X, y)
    streamed(model, X, y, batch=batch, passes=3)
    assert coefficient_error(model.coef_, data.coef) < 1.2 * coefficient_error(whole.coef_, data.coef)
    np.testing.assert_allclose(model.sigma_, whole.sigma_, rtol=0.02)
    np.testing.assert_allclose(model.weights_, whole.weights_, atol=0.01)
    assert model.score(X, y) > whole.score(X, y) - 0.01


def test_many_passes_end_at_the_fit_to_all_rows():
    data = make_mixed_regression(4000, 4, 2, snr=5, random_state=0)
    model = MixedLinearRegression(2, random_state=0)
    whole = clone(model).fit(data.X, data.y)
    streamed(model, data.X, data.y, batch=400, passes=60)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.01)
    assert model.converged_


def test_every_attribute_stands_after_every_batch():
    data = make_mixed_regression(4000, 3, 2, snr=6, random_state=0)
    model = MixedLinearRegression(2, random_state=0)
    for count, first in enumerate(range(0, 4000, 250)):
        part = slice(first, first + 250)
        model.partial_fit(data.X[part], data.y[part])
        assert model.coef_.shape == (2, 3)
        assert model.weights_.sum() == pytest.approx(1.0)
        assert model.weights_[0] >= model.weights_[1]
        assert np.isfinite(model.log_likelihood_)
        assert isinstance(model.converged_, bool)
        assert set(model.history_[-1]) == {"iteration", "objective", "log_likelihood", "gradient_norm", "step"}
        assert model.predict(data.X[:5]).shape == (5,)
        steps = count + 1 - 4
        if steps > 0:
            assert model.n_iter_ == len(model.history_) == model.history_[-1]["iteration"] == steps
            assert model.stream_.kept is None
    total = sum(record["log_likelihood"] for record in model.history_)
    begun = MixedLinearRegression(2, random_state=0).fit(data.X[:1000], data.y[:1000])
    assert model.log_likelihood_ == pytest.approx(total + begun.log_likelihood_)


def test_sums_over_all_rows_are_exact():
    data = make_mixed_regression(3000, 5, 2, snr=5, random_state=0)
    model = streamed(MixedLinearRegression(2, random_state=0), data.X, data.y, batch=300)
    ones = np.column_stack([data.X, np.ones(3000)])
    moments = model.stream_.stream.moments
    np.testing.assert_allclose(moments["gram"], ones.T @ ones)
    np.testing.assert_allclose(moments["xy"], ones.T @ data.y)
    assert float(moments["yy"]) == pytest.approx(data.y @ data.y)


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_stream_goes_on_where_it_was_saved(tmp_path, batches, sparse):
    data = make_mixed_regression(5000, 6, 2, snr=5, random_state=0)
    X = sp.csr_array(data.X * (np.abs(data.X) > 0.5)) if sparse else data.X
    y = data.y
    model = MixedLinearRegression(2, random_state=0)
    streamed(model, X[: 400 * batches], y[: 400 * batches], batch=400)
    model.save(tmp_path / "model.json")
    other = MixedLinearRegression.load(tmp_path / "model.json")
    for each in (model, other):
        streamed(each, X[400 * batches :], y[400 * batches :], batch=400)
    assert_same(other, model)
    assert other.history_ == model.history_


def test_a_damaged_stream_is_refused(tmp_path):
    data = make_mixed_regression(2000, 3, 2, snr=5, random_state=0)
    path = tmp_path / "model.json"
    streamed(MixedLinearRegression(2, random_state=0), data.X, data.y, batch=500).save(path)
    content = json.loads(path.read_text())
    content["stream"]["pairs"] = [pair for pair in content["stream"]["pairs"] if pair[0] != "fitted"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="stream in the model file is damaged"):
        MixedLinearRegression.load(path)


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_repeat_and_drop_rows(symmetric):
    data = make_mixed_regression(3000, 3, 2, snr=5, symmetric=symmetric, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, 3000)
    model = MixedLinearRegression(2, symmetric=symmetric, random_state=0, start=data.coef)
    ours, theirs = clone(model), clone(model)
    for first in range(0, 3000, 1500):
        part = slice(first, first + 1500)
        ours.partial_fit(data.X[part], data.y[part], sample_weight=weight[part])
        again = np.repeat(np.arange(first, first + 1500), weight[part])
        theirs.partial_fit(data.X[again], data.y[again])
    assert_same(ours, theirs, rtol=1e-6, atol=1e-7)


def test_groups_come_whole():
    data = make_mixed_regression(6000, 4, 2, snr=3, groups=10, random_state=0)
    order = np.argsort(data.groups, kind="stable")
    X, y, groups = data.X[order], data.y[order], data.groups[order]
    model = MixedLinearRegression(2, random_state=0)
    whole = clone(model).fit(X, y, groups=groups)
    streamed(model, X, y, batch=600, passes=3, groups=groups)
    assert coefficient_error(model.coef_, data.coef) < 1.2 * coefficient_error(whole.coef_, data.coef)
    with pytest.raises(ValueError, match="groups must come with every batch"):
        model.partial_fit(X[:600], y[:600])


def test_a_sparse_stream_is_the_dense_one():
    data = make_mixed_regression(3000, 4, 2, snr=5, random_state=0)
    X = data.X * (np.abs(data.X) > 0.4)
    model = MixedLinearRegression(2, random_state=0)
    dense = streamed(clone(model), X, data.y, batch=500)
    assert_same(streamed(clone(model), sp.csr_array(X), data.y, batch=500), dense, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"equal_weights": True, "shared_sigma": False},
        {"sigma": 1.0, "alpha": 5.0},
        {"symmetric": True, "sigma": 1.0, "alpha": 5.0},
        {"symmetric": True, "method": "em"},
        {"fit_intercept": False},
    ],
    ids=str,
)
def test_options_hold_in_a_stream(options):
    data = make_mixed_regression(5000, 4, 2, snr=5, symmetric=options.get("symmetric", False), random_state=0)
    model = MixedLinearRegression(2, random_state=0, **options)
    whole = clone(model).fit(data.X, data.y)
    streamed(model, data.X, data.y, batch=250, passes=3)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.05)
    if "sigma" in options:
        np.testing.assert_allclose(model.sigma_, 1.0)
    if "equal_weights" in options:
        np.testing.assert_allclose(model.weights_, 0.5)
        assert model.sigma_[0] != model.sigma_[1]


def test_collinear_and_constant_columns_do_no_harm():
    data = make_mixed_regression(4000, 3, 2, snr=8, random_state=0)
    X = np.column_stack([data.X, data.X[:, 0], np.full(4000, 3.0), 1e4 * data.X[:, 1]])
    model = MixedLinearRegression(2, random_state=0)
    with pytest.warns(UserWarning, match="span only"):
        streamed(model, X, data.y, batch=500, passes=2)
    plain = streamed(clone(model), data.X, data.y, batch=500, passes=2)
    np.testing.assert_allclose(model.predict_components(X), plain.predict_components(data.X), atol=0.05)


def test_batches_of_a_few_rows():
    data = make_mixed_regression(1500, 2, 2, snr=10, random_state=0)
    model = streamed(MixedLinearRegression(2, random_state=0), data.X, data.y, batch=7)
    assert coefficient_error(model.coef_, data.coef) < 0.05


def test_fit_forgets_the_stream():
    data = make_mixed_regression(2000, 3, 2, snr=5, random_state=0)
    model = streamed(MixedLinearRegression(2, random_state=0), data.X, data.y, batch=500)
    model.fit(data.X, data.y)
    assert not hasattr(model, "stream_")
    assert_same(model, MixedLinearRegression(2, random_state=0).fit(data.X, data.y))
    streamed(model, data.X, data.y, batch=500)
    assert_same(model, streamed(MixedLinearRegression(2, random_state=0), data.X, data.y, batch=500))


def test_what_makes_no_sense_in_a_stream_is_refused(monkeypatch):
    data = make_mixed_regression(600, 3, 2, snr=5, random_state=0)
    X, y = data.X, data.y
    model = MixedLinearRegression(2, random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match="n_components was 2 when the stream began and is 3 now"):
        model.set_params(n_components=3).partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.set_params(n_components=2).partial_fit(X[:, :2], y)
    for options, said in (
        ({"robust": True}, "robust= weighs rows"),
        ({"shared": [0]}, "shared= is not for streams"),
        ({"features": StandardScaler()}, "fitted to the first batch alone"),
    ):
        with pytest.raises(ValueError, match=said):
            MixedLinearRegression(2, **options).partial_fit(X, y)
    for options in ({"solver": "gda"}, {"method": "gem"}, {"solver": GDA(lam=1.0)}, {"method": GEM(alpha=0.1)}):
        other = MixedLinearRegression(2, **options)
        assert not hasattr(other, "partial_fit")
        with pytest.raises(AttributeError) as refused:
            other.partial_fit(X, y)
        assert "needs all rows at every iteration: call fit" in str(refused.value.__cause__)
    with pytest.raises(ValueError, match="the first batch needs at least as many rows as n_components=2"):
        MixedLinearRegression(2).partial_fit(X[:1], y[:1])
    monkeypatch.setattr("wmlr.estimator.streaming.WIDE", 2)
    with pytest.raises(ValueError, match="3 are too many"):
        MixedLinearRegression(2).partial_fit(X, y)
