"""Awkward data: a defined answer, or a sentence that says what to do."""

import warnings

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression

EVERY = [
    {"symmetric": True},
    {"symmetric": True, "method": "em"},
    {"symmetric": True, "method": "gem"},
    {"symmetric": True, "solver": "gda"},
    {},
    {"method": "em"},
    {"method": "gem"},
    {"solver": "gda", "max_iter": 40},
    {"shared_sigma": False},
]


def finite(fit):
    return all(
        np.all(np.isfinite(part)) for part in (fit.coef_, fit.intercept_, fit.weights_, fit.sigma_, fit.log_likelihood_)
    )


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(400, 4, 2, snr=4, symmetric=True, random_state=0)


@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_column_scales_do_not_matter(settings, data):
    scale = np.array([1e-4, 1e4, 1.0, 30.0])
    plain = MixedLinearRegression(random_state=0, **settings).fit(data.X, data.y)
    scaled = MixedLinearRegression(random_state=0, **settings).fit(data.X * scale, data.y)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-4, atol=1e-5)
    assert scaled.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-4)


@pytest.mark.parametrize("settings", EVERY, ids=str)
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_scale_of_y_does_not_matter(settings, data, factor):
    plain = MixedLinearRegression(random_state=0, **settings).fit(data.X, data.y)
    scaled = MixedLinearRegression(random_state=0, **settings).fit(data.X, data.y * factor)
    np.testing.assert_allclose(scaled.coef_ / factor, plain.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_a_duplicated_column_is_left_out(settings, data):
    plain = MixedLinearRegression(random_state=0, **settings).fit(data.X, data.y)
    with pytest.warns(UserWarning, match="the 5 features span only 4 directions"):
        doubled = MixedLinearRegression(random_state=0, **settings).fit(data.X[:, [0, 1, 2, 3, 3]], data.y)
    np.testing.assert_array_equal(doubled.coef_[:, 4], 0.0)
    np.testing.assert_allclose(doubled.coef_[:, :4], plain.coef_, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_fewer_rows_than_columns(settings):
    generator = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="features span only"):
        fit = MixedLinearRegression(random_state=0, **settings).fit(
            generator.standard_normal((8, 20)), generator.standard_normal(8)
        )
    assert finite(fit)


@pytest.mark.parametrize("settings", EVERY, ids=str)
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_y(settings, data, value):
    fit = MixedLinearRegression(search="quick", random_state=0, **settings).fit(data.X, np.full(400, value))
    assert finite(fit)
    if not settings.get("symmetric"):
        np.testing.assert_allclose(fit.predict(data.X), value, atol=1e-2)
    if value == 0.0:
        np.testing.assert_allclose(fit.coef_, 0.0, atol=1e-6)


def test_a_constant_column_with_an_intercept(data):
    X = np.column_stack([data.X, np.full(400, 7.0)])
    with pytest.warns(UserWarning, match="constant or zero columns: 1"):
        fit = MixedLinearRegression(random_state=0).fit(X, data.y)
    np.testing.assert_allclose(fit.coef_[:, 4], 0.0)


def test_one_row_and_more_components_than_rows():
    with pytest.raises(ValueError, match=r"n_components=2 needs at least as many rows \(got n_samples = 1\)"):
        MixedLinearRegression(2).fit([[1.0, 2.0]], [1.0])
    with pytest.raises(ValueError, match=r"n_components=5 needs at least as many rows \(got n_samples = 3\)"):
        MixedLinearRegression(5).fit(np.eye(3), [1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = MixedLinearRegression(1).fit([[1.0, 2.0]], [4.0])
        crowded = MixedLinearRegression(3, random_state=0).fit(np.eye(3), [1.0, 2.0, 3.0])
    assert fit.predict([[1.0, 2.0]])[0] == pytest.approx(4.0)
    assert finite(crowded)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_named(data, bad, word):
    X = data.X.copy()
    X[17, 2] = bad
    with pytest.raises(ValueError, match=rf"Input X contains {word} \(row 17, column 2\)"):
        MixedLinearRegression().fit(X, data.y)
    with pytest.raises(ValueError, match=rf"Input X contains {word} \(row 17, column 'c'\)"):
        MixedLinearRegression().fit(pd.DataFrame(X, columns=list("abcd")), data.y)
    y = data.y.copy()
    y[5] = bad
    with pytest.raises(ValueError, match=rf"Input y contains {word} \(row 5\)"):
        MixedLinearRegression().fit(data.X, y)


def test_text_is_named(data):
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(b=["Paris"] * 400)
    with pytest.raises(ValueError, match=r"column 'b' holds text \('Paris' in row 0\): encode it as numbers"):
        MixedLinearRegression().fit(frame, data.y)
    with pytest.raises(ValueError, match="y must be numbers"):
        MixedLinearRegression().fit(data.X, ["high"] * 400)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, r"n_components must be a whole number of at least 1 \(got 0\)"),
        ({"n_components": 2.5}, r"n_components must be a whole number of at least 1 \(got 2.5\)"),
        ({"sigma": -1.0}, r"sigma must be positive or None \(got -1.0\)"),
        ({"symmetric": True, "n_components": 3}, r"symmetric=True means two components \(got n_components=3\)"),
        ({"method": "ols"}, r"method must be one of 'wmlr', 'em', 'gem', 'mix-irls', 'altmin' \(got 'ols'\)"),
        ({"solver": "newton"}, r"solver must be one of .* \(got 'newton'\)"),
        ({"start": "best"}, r"start must be 'auto', 'spectral', 'random' or an array \(got 'best'\)"),
        ({"start": np.ones((2, 9))}, r"start must be finite numbers of shape \(2, 4\) \(got \(2, 9\)\)"),
        ({"tol": -1}, r"tol must be a number of at least 0 \(got -1\)"),
        ({"max_iter": 0}, r"max_iter must be a whole number of at least 1 \(got 0\)"),
    ],
)
def test_settings_that_make_no_sense(data, settings, message):
    with pytest.raises(ValueError, match=message):
        MixedLinearRegression(**settings).fit(data.X, data.y)


def test_weights_that_make_no_sense(data):
    with pytest.raises(ValueError, match=r"not negative \(got -1.0 in row 3\)"):
        MixedLinearRegression().fit(data.X, data.y, sample_weight=np.where(np.arange(400) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="zero for every row"):
        MixedLinearRegression().fit(data.X, data.y, sample_weight=np.zeros(400))
    with pytest.raises(ValueError, match=r"one label per row \(got shape \(3,\) for 400 rows\)"):
        MixedLinearRegression().fit(data.X, data.y, groups=[1, 2, 3])


def test_noiseless_data_meets_the_variance_floor():
    data = make_mixed_regression(300, 2, 2, snr=1e6, sigma=1e-6, random_state=0)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    assert finite(fit)
    assert fit.sigma_.min() > 0
    np.testing.assert_allclose(np.sort(fit.coef_[:, 0]), np.sort(data.coef[:, 0]), atol=1e-4)
