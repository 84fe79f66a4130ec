"""phi(x) by scikit-learn's transformers: fitted without rows, kept without pickle, seen through by everything."""

import json
import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from longer import long
from wmlr import Federation, MixedLinearRegression
from wmlr.core.round import Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows
from wmlr.features.maps import Mapped, MappedRows, fit_transformer_from_sums
from wmlr.features.transformers import Described
from wmlr.statistics.moments import Moments

KNOTS = np.linspace(-2, 2, 5)[:, None] * np.ones(2)
QUADRATIC = PolynomialFeatures(2, include_bias=False)
BY_ITSELF = {
    "polynomial": QUADRATIC,
    "waves": RBFSampler(gamma=0.5, n_components=20),
    "scaled waves": RBFSampler(gamma="scale", n_components=20),
    "spline": SplineTransformer(knots=KNOTS, include_bias=False),
    "function": FunctionTransformer(np.sin),
    "nothing": FunctionTransformer(),
    "sketch": PolynomialCountSketch(n_components=10),
    "projection": GaussianRandomProjection(n_components=2),
    "pipeline": make_pipeline(StandardScaler(), QUADRATIC, StandardScaler()),
    "union": make_union(StandardScaler(), FunctionTransformer(np.square)),
    "columns": ColumnTransformer(
        [("a", make_pipeline(StandardScaler(), QUADRATIC), [0]), ("b", FunctionTransformer(np.sin), slice(1, 2))],
        remainder="passthrough",
    ),
    "nested": Pipeline(
        [("no", "passthrough"), ("in", make_pipeline(StandardScaler(), QUADRATIC)), ("s", StandardScaler())]
    ),
}  # fmt: skip
NEEDS_ROWS = {
    "uniform spline": SplineTransformer(include_bias=False),
    "landmarks": Nystroem(n_components=15),
    "bins": KBinsDiscretizer(4, encode="onehot"),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "power": PowerTransformer(),
    "range": MinMaxScaler(),
    "components": PCA(1),
}

pytestmark = pytest.mark.filterwarnings("ignore:the .* features span")


@pytest.fixture(scope="module")
def curves():
    """Two curves in the plane: a parabola and a saddle."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (5000, 2))
    labels = generator.random(5000) < 0.5
    y = np.where(labels, X[:, 0] ** 2, 3 - X[:, 0] * X[:, 1]) + 0.1 * generator.standard_normal(5000)
    return X, y, labels


def known_label_error(phi, y, labels, truth):
    """The error of least squares on each component's own rows."""
    design = np.column_stack([phi, np.ones(len(phi))])
    fits = [np.linalg.lstsq(design[labels == j], y[labels == j], rcond=None)[0] for j in range(truth.shape[1])]
    return root_mean_square(design @ np.stack(fits, axis=1) - truth)


def fitted_error(fit, X, truth):
    """The error of the components, in the order that suits them best."""
    found = fit.predict_components(X)
    orders = permutations(range(truth.shape[1]))
    return min(root_mean_square(found[:, list(order)] - truth) for order in orders)


def root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values))))


def mixture_on(phi, k, seed):
    """Rows of k components with random coefficients on phi(x), each column of the same weight.

    The noise is so small that hardly a row could be of two components: labels are then worth almost nothing.
    """
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (2000, 2))
    columns = phi.fit_transform(X)
    truth = columns @ (generator.standard_normal((k, columns.shape[1])) / columns.std(axis=0)).T
    labels = generator.integers(k, size=len(X))
    y = truth[np.arange(len(X)), labels] + 0.05 * generator.standard_normal(len(X))
    return X, columns, y, labels, truth


@pytest.mark.parametrize("seed", [0, long(1), long(2)])
@pytest.mark.parametrize(
    ("phi", "k"),
    [
        (PolynomialFeatures(2, include_bias=False), 2),
        (PolynomialFeatures(3, include_bias=False), 3),
        (RBFSampler(gamma=0.2, n_components=12, random_state=3), 2),
        (SplineTransformer(5, include_bias=False), 2),
    ],
    ids=["quadratics", "three cubics", "waves", "splines"],
)
def test_a_mixture_of_curves_is_recovered_as_if_labels_were_known(phi, k, seed):
    X, columns, y, labels, truth = mixture_on(phi, k, seed)
    fit = MixedLinearRegression(k, features=phi, random_state=seed).fit(X, y)
    assert fitted_error(fit, X, truth) <= 1.1 * known_label_error(columns, y, labels, truth)


def test_a_parabola_and_a_saddle_are_recovered_as_if_labels_were_known(curves):
    X, y, labels = curves
    fit = MixedLinearRegression(2, features=QUADRATIC, random_state=0).fit(X, y)
    truth = np.column_stack([3 - X[:, 0] * X[:, 1], X[:, 0] ** 2])
    bound = known_label_error(QUADRATIC.fit_transform(X), y, labels, truth)
    assert fitted_error(fit, X, truth) <= 1.1 * bound


@pytest.mark.parametrize("kind", BY_ITSELF)
def test_agents_fit_what_one_place_fits(kind, curves):
    X, y = curves[0][:800], curves[1][:800]
    settings = {"features": BY_ITSELF[kind], "search": "quick", "random_state": 0, "n_init": 3}
    federation = Federation.split(X, y, np.arange(len(y)) % 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        here = MixedLinearRegression(2, **settings).fit(X, y)
        there = MixedLinearRegression(2, **settings).fit_on(federation)
    np.testing.assert_allclose(there.predict_components(X), here.predict_components(X), atol=1e-3)
    np.testing.assert_allclose(there.map_features(X), here.map_features(X), rtol=1e-9, atol=1e-9)
    assert all("Mapped" in entry.query or "Spread" in entry.query for entry in there.ledger_)


@pytest.mark.parametrize("kind", ["polynomial", "pipeline"])
def test_agents_with_one_curve_each_are_told_apart(kind):
    generator = np.random.default_rng(2)
    agents = np.repeat(np.arange(60), 15)
    X = generator.uniform(-2, 2, (900, 2))
    own = generator.random(60) < 0.5
    y = np.where(own[agents], X[:, 0] ** 2, 1 - X[:, 0] * X[:, 1]) + 0.5 * generator.standard_normal(900)
    federation = Federation.split(X, y, agents, level="agent")
    model = MixedLinearRegression(2, features=BY_ITSELF[kind], random_state=0)
    there = model.fit_on(federation)
    found = there.assign(X, y, groups=agents)[::15]
    assert np.all(found == own) or np.all(found != own)
    here = MixedLinearRegression(2, features=BY_ITSELF[kind], random_state=0).fit(X, y, groups=agents)
    np.testing.assert_allclose(there.predict_components(X), here.predict_components(X), atol=1e-4)


@pytest.mark.parametrize("kind", NEEDS_ROWS)
def test_what_must_see_rows_is_refused_among_agents_and_named(kind, curves):
    X, y, _ = curves
    federation = Federation.split(X, y, np.arange(len(y)) % 50)
    name = type(NEEDS_ROWS[kind]).__name__
    with pytest.raises(ValueError, match=rf"features={name} must see rows to be fitted"):
        MixedLinearRegression(2, features=NEEDS_ROWS[kind]).fit_on(federation)
    assert len(federation.ledger) == 0


def test_a_scaler_behind_a_step_inside_columns_is_refused(curves):
    X, y, _ = curves
    late = ColumnTransformer([("a", make_pipeline(QUADRATIC, StandardScaler()), [0, 1])])
    with pytest.raises(ValueError, match="a scaler behind another step inside ColumnTransformer"):
        MixedLinearRegression(2, features=late).fit_on(ArrayRows(X, y))


@pytest.mark.parametrize("kind", [*BY_ITSELF, *NEEDS_ROWS])
def test_a_model_read_back_predicts_the_same(kind, curves, tmp_path):
    X, y, _ = curves
    given = (BY_ITSELF | NEEDS_ROWS)[kind]
    fit = MixedLinearRegression(2, features=given, start="random", max_iter=3, random_state=0).fit(X[:500], y[:500])
    fit.save(tmp_path / "model.json")
    json.loads((tmp_path / "model.json").read_text())
    back = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(back.predict_components(X), fit.predict_components(X))
    np.testing.assert_array_equal(back.responsibilities(X, y), fit.responsibilities(X, y))
    assert back.score(X, y) == fit.score(X, y)
    assert str(back.summary()) == str(fit.summary())
    again = back.fit(X[:500], y[:500])
    np.testing.assert_array_equal(again.predict_components(X), fit.predict_components(X))


def test_columns_may_go_by_name_and_coefficients_are_named(curves, tmp_path):
    X, y = curves[0][:500], curves[1][:500]
    frame = pd.DataFrame(X, columns=["dose", "age"])
    by_name = ColumnTransformer([("curve", QUADRATIC, ["dose"]), ("line", "passthrough", ["age"])])
    fit = MixedLinearRegression(2, features=by_name, random_state=0).fit(frame, y)
    assert "curve__dose^2" in str(fit.summary())
    fit.save(tmp_path / "model.json")
    back = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(back.predict(frame), fit.predict(frame))
    shared = MixedLinearRegression(2, features=by_name, shared=["line__age"], random_state=0).fit(frame, y)
    assert shared.coef_[0, 2] == pytest.approx(shared.coef_[1, 2])


def test_a_map_without_names_numbers_its_columns(curves):
    X, y = curves[0][:500], curves[1][:500]
    fit = MixedLinearRegression(2, features=FunctionTransformer(np.sin), random_state=0).fit(X, y)
    assert "phi1" in str(fit.summary())
    np.testing.assert_allclose(fit.map_features(X), np.sin(X))


def test_the_seed_decides_random_features_too(curves):
    X, y = curves[0][:500], curves[1][:500]
    fits = [
        MixedLinearRegression(2, features=RBFSampler(n_components=8), random_state=seed).fit(X, y) for seed in (5, 5, 6)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert not np.array_equal(fits[0].coef_, fits[2].coef_)


def test_intervals_and_inference_see_phi(curves):
    X, y, _ = curves
    fit = MixedLinearRegression(2, features=QUADRATIC, random_state=0).fit(X, y)
    assert fit.covariance(X, y).shape == (14, 14)
    inside = fit.predict_interval(X[:200], level=0.9).contains(y[:200])
    assert 0.8 < inside.mean() < 0.98


class Cubes(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X**3

    def __sklearn_is_fitted__(self):
        return True


class StandardScalerOfMine(StandardScaler):
    pass


StandardScalerOfMine.__name__ = "StandardScaler"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Cubes(), r"features=Cubes \(.*\) cannot be written down: only scikit-learn's"),
        (StandardScalerOfMine(), "features=StandardScaler .* cannot be written down"),
        (FunctionTransformer(lambda X: X**3), "func of FunctionTransformer holds function"),
        (make_pipeline(StandardScaler(), Cubes()), "features=Cubes"),
        (Nystroem(kernel=lambda a, b: float(a @ b), n_components=3), "kernel of Nystroem holds function"),
    ],
)
def test_what_json_cannot_hold_is_fitted_and_refused_at_saving(given, said, curves, tmp_path):
    X, y, _ = curves
    fit = MixedLinearRegression(2, features=given, start="random", max_iter=2, random_state=0).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match=said):
        fit.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [3, "poly", PolynomialFeatures])
def test_what_is_no_transformer_is_refused_before_work(given, curves):
    with pytest.raises(ValueError, match="features must be a transformer with fit and transform, or None"):
        MixedLinearRegression(2, features=given).fit(*curves[:2])


def test_features_that_are_not_finite_are_refused_with_their_place(curves):
    X, y, _ = curves
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"features gives nan in row \d+, column [01]: change features"),
    ):
        MixedLinearRegression(2, features=FunctionTransformer(np.log)).fit(X, y)


class Broken(Cubes):
    """A map that goes wrong in a way of one's choice."""

    def __init__(self, how="flat"):
        self.how = how

    def transform(self, X):
        return {"flat": X[:, 0], "short": X[1:], "text": np.full(X.shape, "a"), "empty": X[:, :0]}[self.how]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("flat", r"features must give one row per row of X \(got shape \(300,\) for 300 rows\)"),
        ("short", r"one row per row of X \(got shape \(299, 2\) for 300 rows\)"),
        ("text", r"features must give numbers \(could not convert string to float.*encode text and categories"),
        ("empty", "features leaves none of 2 columns: keep at least one, or set features=None"),
    ],
)
def test_a_map_that_gives_no_columns_of_numbers_is_refused(how, said, curves):
    X, y = curves[0][:300], curves[1][:300]
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression(2, features=Broken(how)).fit(X, y)


def test_columns_that_are_all_dropped_are_refused_here_and_among_agents(curves):
    X, y = curves[0][:300], curves[1][:300]
    nothing = ColumnTransformer([("no", "drop", [0, 1])])
    model = MixedLinearRegression(2, features=nothing)
    with pytest.raises(ValueError, match="features leaves none of 2 columns"):
        model.fit(X, y)
    federation = Federation.split(X, y, np.arange(len(y)) % 50)
    with pytest.raises(ValueError, match="features leaves none of 2 columns"):
        model.fit_on(federation)
    assert len(federation.ledger) == 0


def test_columns_by_name_are_refused_where_columns_have_numbers(curves):
    X, y, _ = curves
    by_name = ColumnTransformer([("curve", QUADRATIC, ["dose"])])
    with pytest.raises(ValueError, match="features asks for columns by name, and here they have numbers"):
        MixedLinearRegression(2, features=by_name).fit_on(ArrayRows(X, y))


def test_a_sparse_map_is_the_dense_one(curves):
    X, y = curves[0][:500], curves[1][:500]
    fits = [
        MixedLinearRegression(
            2, features=KBinsDiscretizer(4, encode=encode), start="random", max_iter=5, random_state=0
        ).fit(X, y)
        for encode in ("onehot", "onehot-dense")
    ]
    np.testing.assert_array_equal(fits[0].predict_components(X), fits[1].predict_components(X))


@pytest.mark.parametrize(
    "kind", ["polynomial", "waves", "spline", "columns", "pipeline", "landmarks", "uniform spline"]
)
def test_everything_takes_x_and_sees_phi(kind, curves):
    X, y = curves[0][:600], curves[1][:600]
    fit = MixedLinearRegression(
        2, features=(BY_ITSELF | NEEDS_ROWS)[kind], start="random", max_iter=5, random_state=0
    ).fit(X, y)
    phi = fit.map_features(X)
    lines = phi @ fit.coef_.T + fit.intercept_
    densities = fit.weights_ * np.exp(-0.5 * ((y[:, None] - lines) / fit.sigma_) ** 2) / fit.sigma_ / np.sqrt(2 * np.pi)
    shares = densities / densities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.predict_components(X), lines)
    np.testing.assert_allclose(fit.predict(X), lines @ fit.weights_)
    np.testing.assert_allclose(fit.responsibilities(X, y), shares, atol=1e-9)
    np.testing.assert_array_equal(fit.assign(X, y), shares.argmax(axis=1))
    assert fit.score(X, y) == pytest.approx(np.mean(np.log(densities.sum(axis=1))))
    assert fit.n_features_in_ == 2


def test_settings_of_the_map_are_settings_of_the_model(curves):
    X, y = curves[0][:500], curves[1][:500]
    model = MixedLinearRegression(2, features=make_pipeline(StandardScaler(), PolynomialFeatures(1)), random_state=0)
    again = clone(model).set_params(features__polynomialfeatures__degree=2)
    assert again.get_params()["features__polynomialfeatures__degree"] == 2
    assert model.get_params()["features__polynomialfeatures__degree"] == 1
    search = GridSearchCV(model, {"features__polynomialfeatures__degree": [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_ == {"features__polynomialfeatures__degree": 2}
    assert not hasattr(model.features.steps[0][1], "mean_")


def spoiled(change):
    """The plain data of a fitted pipeline, with one thing in it changed."""
    content = Described.of(make_pipeline(StandardScaler(), QUADRATIC).fit(KNOTS)).to_plain()
    change(content)
    return content


def pipeline_of(content):
    return content["structure"]["transformer"]


def step_of(content):
    return pipeline_of(content)["settings"]["steps"][0]["tuple"][1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: pipeline_of(c).update({"class": "os.system"}), "names 'os.system', which is none of"),
        (lambda c: step_of(c).update({"class": "SVC"}), "names 'SVC'"),
        (lambda c: step_of(c)["fitted"].update(transform=1), "an attribute 'transform' it may not have"),
        (lambda c: step_of(c)["fitted"].update(__class__=1), "an attribute '__class__' it may not have"),
        (lambda c: pipeline_of(c)["settings"].update(memory="cache"), "a cache of pickles"),
        (lambda c: step_of(c)["settings"].update(with_mean={"ufunc": "load"}), "unknown ufunc 'load'"),
        (lambda c: step_of(c)["settings"].update(what=1), "has no setting 'what' in StandardScaler"),
        (lambda c: step_of(c)["fitted"].update(mean_={"array": 99}), "is damaged: IndexError"),
        (lambda c: step_of(c).pop("settings"), "is damaged: KeyError"),
    ],
)
def test_a_spoiled_file_runs_nothing_and_says_why(change, said):
    with pytest.raises(ValueError, match=said):
        Described.from_plain(spoiled(change)).transformer  # noqa: B018


def test_another_version_of_scikit_learn_is_remarked_upon():
    content = spoiled(lambda content: content["structure"].update(sklearn="0.1"))
    with pytest.warns(UserWarning, match=r"features were fitted with scikit-learn 0\.1 and are read by"):
        transformer = Described.from_plain(content).transformer
    assert transformer.transform(KNOTS).shape == (5, 5)


def test_a_mapped_query_is_the_query_on_the_mapped_rows(curves):
    X, y, _ = curves
    phi = Described.of(make_pipeline(StandardScaler(), QUADRATIC).fit(X))
    rows = MappedRows(ArrayRows(X, y, block_rows=300), phi)
    assert rows.n_features == 5
    direct = ArrayRows(phi.transform(X), y)
    both = Together((Moments(intercept=True), Moments(fourth=True)))
    for name, value in rows.total(both).items():
        np.testing.assert_allclose(value, direct.total(both)[name], rtol=1e-12, atol=1e-9)
    part = rows.total(Sampled(Moments(), 0.2, 3))
    chosen = ArrayRows(X, y).total(Sampled(Mapped(phi, Moments()), 0.2, 3))
    np.testing.assert_allclose(part["gram"], chosen["gram"], rtol=1e-12)
    assert 0 < part["rows"] < len(y)


def test_a_pipeline_learned_from_sums_is_the_one_learned_from_rows(curves):
    X, y, _ = curves
    X = X * [1e-3, 1e3] + [5.0, -1e4]
    pipeline = make_pipeline(StandardScaler(), QUADRATIC, StandardScaler())
    found = fit_transformer_from_sums(pipeline, ArrayRows(X, y, block_rows=300))
    np.testing.assert_allclose(found.transform(X), pipeline.fit_transform(X), rtol=1e-7, atol=1e-9)


def test_agents_are_told_the_component_of_their_curve():
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (600, 1))
    whose = np.arange(600) // 10
    side = np.where(whose % 3 == 0, -1.0, 1.0)
    y = side * X[:, 0] ** 2 + 0.2 * generator.standard_normal(600)
    federation = Federation.split(X, y, whose, level="agent")
    fit = MixedLinearRegression(features=PolynomialFeatures(2, include_bias=False), random_state=0).fit_on(federation)
    labels, chances = federation.assign(fit)
    assert len(set(zip(labels, np.arange(60) % 3 == 0))) == 2
    assert chances.min() > 0.99


def test_shared_columns_of_phi_are_known_after_loading(tmp_path):
    data = make_mixed_regression(300, 3, 2, snr=4, random_state=0)
    phi = PolynomialFeatures(2, include_bias=False)
    fit = MixedLinearRegression(2, features=phi, shared=[7], random_state=0).fit(data.X, data.y)
    fit.save(tmp_path / "model.json")
    loaded = MixedLinearRegression.load(tmp_path / "model.json")
    assert loaded.parameter_names_ == fit.parameter_names_
    assert loaded.n_parameters_ == fit.n_parameters_ == 2 * 10 - 1 + 2
    np.testing.assert_array_equal(loaded.covariance(data.X, data.y), fit.covariance(data.X, data.y))
