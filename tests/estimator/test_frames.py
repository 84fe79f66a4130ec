"""Data frames: models with a formula among scikit-learn's tools, and columns that are no numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer

from wmlr import EM, GDA, MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.methods import Refreshed


@pytest.fixture(scope="module")
def frame():
    data = make_mixed_regression(300, 2, 2, snr=8, random_state=0)
    generator = np.random.default_rng(0)
    kind = generator.choice(["u", "v", "w"], 300)
    y = data.y + np.where(kind == "v", 2.0, 0.0)
    return pd.DataFrame({"a b": data.X[:, 0], "b": data.X[:, 1], "kind": kind, "y": y, "id": np.arange(300) // 3})


FORMULA = "y ~ `a b` + b + kind"


def test_a_formula_is_a_setting_that_clone_keeps_and_fit_reads(frame):
    model = MixedLinearRegression(2, formula=FORMULA, random_state=0)
    fit = clone(model).fit(frame)
    by_hand = MixedLinearRegression.from_formula(FORMULA, frame, 2, random_state=0)
    np.testing.assert_array_equal(fit.coef_, by_hand.coef_)
    again = clone(by_hand).fit(frame)
    np.testing.assert_array_equal(again.coef_, fit.coef_)
    np.testing.assert_array_equal(clone(model).fit(frame, frame["y"]).coef_, fit.coef_)
    np.testing.assert_array_equal(clone(model).fit(frame.drop(columns="y"), frame["y"]).coef_, fit.coef_)
    lazy = pl.DataFrame(frame.to_dict(orient="list")).lazy()
    np.testing.assert_allclose(clone(model).fit(lazy).coef_, fit.coef_, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(lazy), fit.predict(frame), rtol=1e-9)


def test_cross_validation_of_a_formula_is_that_of_its_fits(frame):
    model = MixedLinearRegression(2, formula=FORMULA, random_state=0)
    folds = KFold(3, shuffle=True, random_state=0)
    found = cross_val_score(model, frame, cv=folds)
    wanted = [clone(model).fit(frame.iloc[train]).score(frame.iloc[test]) for train, test in folds.split(frame)]
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(cross_val_score(model, frame, frame["y"], cv=folds), wanted)


def test_grid_search_and_pipelines_take_a_formula(frame):
    model = MixedLinearRegression(formula=FORMULA, random_state=0)
    search = GridSearchCV(model, {"n_components": [1, 2]}, cv=2).fit(frame)
    assert search.best_params_ == {"n_components": 2}
    assert search.best_estimator_.formula_.text == FORMULA
    pipe = make_pipeline(FunctionTransformer(lambda data: data.assign(b=data["b"] * 2)), clone(model)).fit(frame)
    assert pipe[-1].coef_[:, 1] * 2 == pytest.approx(clone(model).fit(frame).coef_[:, 1], rel=1e-4)
    named = make_pipeline(FunctionTransformer(lambda data: data.to_numpy()), clone(model))
    with pytest.raises(ValueError, match=r"needs a data frame .* set_output\(transform='pandas'\)"):
        named.fit(frame)


def test_from_frame_takes_numbers_as_they_are_and_text_as_levels(frame):
    fit = MixedLinearRegression.from_frame(frame, "y", 2, exclude=["id"], random_state=0)
    assert fit.formula_.text == FORMULA
    assert list(fit.feature_names_in_) == ["a b", "b", "kind[T.v]", "kind[T.w]"]
    grouped = MixedLinearRegression.from_frame(frame, "y", 2, features=["b"], groups="id", random_state=0)
    assert grouped.group_labels_.tolist() == list(range(100))
    coded = MixedLinearRegression.from_frame(frame.assign(m=frame["id"] % 3), "y", features=["m"], categorical=["m"])
    assert list(coded.feature_names_in_) == ["C(m)[T.1]", "C(m)[T.2]"]
    categories = pl.DataFrame(frame.to_dict(orient="list")).with_columns(pl.col("kind").cast(pl.Categorical))
    same = MixedLinearRegression.from_frame(categories, "y", 2, exclude=["id"], random_state=0)
    assert same.log_likelihood_ == pytest.approx(fit.log_likelihood_)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"when": pd.date_range("2020-01-01", periods=300)}, "column 'when' holds dates: .*exclude="),
        ({"name": [f"row {place}" for place in range(300)]}, "column 'name' has 300 different entries in 300 rows"),
    ],
)
def test_from_frame_asks_about_dates_and_names(frame, more, said):
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression.from_frame(frame.assign(**more), "y")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            pd.Series(["u", "v"] * 150, dtype="category"),
            r"column 'x' holds text \('u' in row 0\): encode it as numbers",
        ),
        (pd.Series(["u", "v"] * 150), r"holds text .*from_frame\(frame, target\) or a formula"),
        (pd.Series(pd.date_range("2020-01-01", periods=300)), "column 'x' holds dates or times"),
        (pd.Series(pd.to_timedelta(np.arange(300), "D")), "column 'x' holds dates or times"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_with_what_to_do(frame, column, said):
    X = pd.DataFrame({"b": frame["b"], "x": column})
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression().fit(X, frame["y"])
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression().fit(pl.from_pandas(X), frame["y"])
    with pytest.raises(ValueError, match=r"LazyFrame, of which no row has been read: pass X\.collect\(\)"):
        MixedLinearRegression().fit(pl.from_pandas(X).lazy(), frame["y"])


def test_arrays_lists_and_targets_that_are_no_numbers_are_refused_with_what_to_do(frame):
    dates = pd.date_range("2020-01-01", periods=300)
    with pytest.raises(ValueError, match=r"y holds dates or times .2020-01-01.*days since the first"):
        MixedLinearRegression().fit(frame[["b"]], dates)
    with pytest.raises(ValueError, match="column 0 holds dates or times"):
        MixedLinearRegression().fit(dates.to_numpy()[:, None], frame["y"])
    with pytest.raises(ValueError, match=r"column 1 holds text \('u' in row 0\): encode it as numbers"):
        MixedLinearRegression().fit([[1.0, "u"], [2.0, "v"], [3.0, "u"]], [1.0, 2.0, 3.0])


def test_a_level_that_is_new_is_refused_with_its_column(frame):
    known = frame.assign(kind=["u", "v"] * 150)
    fit = MixedLinearRegression(1, formula="y ~ b + kind").fit(known)
    with pytest.raises(ValueError, match=r"\{'w'\} in column 'kind' \(the fit knows u, v\): leave such rows out"):
        fit.predict(known.head(2).assign(kind="w"))


def test_features_with_shared_columns_survive_saving_loading_and_the_summary(frame, tmp_path):
    X, y = frame[["a b", "b"]], frame["y"]
    for features, shared in (
        (PolynomialFeatures(2, include_bias=False), ["a b^2", "b^2"]),
        (SplineTransformer(4, knots=np.linspace(-4, 4, 4)[:, None] * [1.0, 1.0]), [0, 3]),
    ):
        fit = MixedLinearRegression(2, features=features, shared=shared, alpha=0.1, random_state=0).fit(X, y)
        fit.save(tmp_path / "model.json")
        again = MixedLinearRegression.load(tmp_path / "model.json")
        assert str(again.summary(X, y)) == str(fit.summary(X, y))
        assert again.parameter_names_ == fit.parameter_names_
        assert again.fitted_.constraints == fit.fitted_.constraints


def test_the_fitted_object_does_not_follow_later_settings(frame):
    X, y = frame[["a b", "b"]], frame["y"]
    fit = MixedLinearRegression(2, random_state=0).fit(X, y)
    names, bic = fit.parameter_names_, fit.bic(X, y)
    fit.set_params(shared_sigma=False, equal_weights=True, fit_intercept=False, alpha=3.0)
    assert fit.parameter_names_ == names
    assert fit.bic(X, y) == bic
    with pytest.raises(AttributeError):
        fit.fitted_.alpha = 1.0


def test_methods_and_solvers_given_as_objects_do_what_their_names_do(frame):
    X, y = frame[["a b", "b"]], frame["y"]
    pairs = [({"method": EM()}, {"method": "em"}), ({"solver": Refreshed()}, {}), ({"method": Refreshed()}, {})]
    for given, named in pairs:
        for option in ({"robust": True}, {"alpha": 1}, {"shared": ["b"]}):
            one = MixedLinearRegression(2, search="quick", random_state=0, **given, **option).fit(X, y)
            other = MixedLinearRegression(2, search="quick", random_state=0, **named, **option).fit(X, y)
            np.testing.assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(ValueError, match="robust= needs method='em', or method='wmlr' with solver='auto'"):
        MixedLinearRegression(2, solver=GDA(), robust=True).fit(X, y)


def test_the_last_releases_spelling_is_understood_with_a_warning(frame):
    X, y, groups = frame[["a b", "b"]], frame["y"], frame["id"]
    fit = MixedLinearRegression(2, random_state=0).fit(X, y, groups=groups)
    with pytest.warns(FutureWarning, match="errors='sandwich'"):
        old = fit.covariance(X, y, groups, robust=True)
    np.testing.assert_array_equal(old, fit.covariance(X, y, groups=groups, errors="sandwich"))
    for method in ("aic", "bic", "icl"):
        with pytest.warns(FutureWarning, match="X, y, sample_weight, groups in this order"):
            assert getattr(fit, method)(X, y, groups) == getattr(fit, method)(X, y, groups=groups)
    with pytest.warns(FutureWarning, match="in this order"):
        old = fit.bootstrap(X, y, 2, groups, random_state=0).draws
    np.testing.assert_array_equal(old, fit.bootstrap(X, y, groups=groups, n_boot=2, random_state=0).draws)
    weight = np.linspace(0.5, 1.5, 300)
    assert fit.bic(X, y, weight, groups) == fit.bic(X, y, groups=groups, sample_weight=weight)
    with pytest.raises(ValueError, match="errors must be one of 'observed', 'sandwich', 'clustered'"):
        fit.covariance(X, y, groups=groups, errors="white")


def test_clustered_errors_of_one_regression_are_statsmodels_formula(frame):
    X, y, groups = frame[["a b", "b"]], frame["y"].to_numpy(), frame["id"].to_numpy()
    fit = MixedLinearRegression(1).fit(X, y)
    design = np.column_stack([X, np.ones(len(y))])
    residual = y - fit.predict(X)
    sums = np.array([(design * residual[:, None])[groups == group].sum(axis=0) for group in np.unique(groups)])
    bread = np.linalg.inv(design.T @ design)
    wanted = bread @ (sums.T @ sums) @ bread
    np.testing.assert_allclose(fit.covariance(X, y, groups=groups, errors="clustered")[:3, :3], wanted, rtol=1e-5)
    two = MixedLinearRegression(2, random_state=0).fit(X, y)
    each = two.covariance(X, y, groups=np.arange(len(y)), errors="clustered")
    np.testing.assert_allclose(each, two.covariance(X, y, errors="sandwich"), rtol=1e-6, atol=1e-12)
    with pytest.raises(ValueError, match="needs to know the clusters: pass groups="):
        two.covariance(X, y, errors="clustered")
