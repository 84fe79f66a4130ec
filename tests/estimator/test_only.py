"""Components that differ: columns that only some have, and coefficients that are known."""

import numpy as np
import pytest
from scipy import sparse

from wmlr import MixedLinearRegression
from wmlr.federated import Federation

K, N = 3, 400
COEF = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [-3.0, -2.0, 1.0]])
ONLY = {"x0": [1, 3], "x1": [2, 3]}


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, 3))
    labels = generator.choice(K, N, p=[0.5, 0.3, 0.2])
    y = (X * COEF[labels]).sum(axis=1) + np.array([0.0, 1.0, -1.0])[labels] + 0.5 * generator.standard_normal(N)
    return X, y, labels


def test_components_have_the_columns_that_only_names_and_keep_their_numbers(data):
    X, y, _ = data
    fit = MixedLinearRegression(K, only=ONLY, random_state=0).fit(X, y)
    assert fit.coef_[0, 1] == fit.coef_[1, 0] == 0.0
    np.testing.assert_allclose(fit.coef_, COEF, atol=0.2)
    assert fit.n_parameters_ == K * 4 - 2 + 1 + 2 == len(fit.parameter_names_) == len(fit.covariance(X, y))
    assert "x1[1]" not in fit.parameter_names_
    assert "x1" not in str(fit.summary(X, y)).split("component 2")[0].split("component 1")[1]


def test_every_search_reaches_the_same_maximum_whatever_the_order_that_components_are_found_in(data):
    X, y, _ = data
    values = [MixedLinearRegression(K, only=ONLY, random_state=seed).fit(X, y).log_likelihood_ for seed in range(5)]
    np.testing.assert_allclose(values, values[0], atol=1e-6)


def test_known_coefficients_are_those_of_a_fit_to_what_they_leave(data):
    X, y, _ = data
    held = MixedLinearRegression(K, fixed={2: dict.fromkeys(range(1, K + 1), 0.8)}, random_state=0).fit(X, y)
    rest = MixedLinearRegression(K, random_state=0).fit(X[:, :2], y - 0.8 * X[:, 2])
    np.testing.assert_allclose(held.coef_, np.column_stack([rest.coef_, np.full(K, 0.8)]), atol=1e-6)
    assert held.log_likelihood_ == pytest.approx(rest.log_likelihood_, abs=1e-8)
    np.testing.assert_allclose(np.diag(held.covariance(X, y)), np.diag(rest.covariance(X[:, :2], y - 0.8 * X[:, 2])))


def test_a_column_is_common_to_those_that_have_it_and_an_intercept_may_be_left_out(data):
    X, y, _ = data
    settings = {"shared": ["x2"], "only": {"x2": [1, 2], "(intercept)": [2, 3]}, "random_state": 0}
    fit = MixedLinearRegression(K, **settings).fit(X, y)
    assert fit.coef_[0, 2] == pytest.approx(fit.coef_[1, 2], abs=1e-12)
    assert fit.coef_[2, 2] == fit.intercept_[0] == 0.0
    assert fit.parameter_names_.count("x2") == 1
    assert fit.n_parameters_ == K * 2 + 1 + 2 + 1 + 2


@pytest.mark.parametrize("settings", [{}, {"shared": ["x2"], "alpha": 2.0}, {"shared_sigma": False, "method": "em"}])
def test_federated_equals_central(data, settings):
    X, y, _ = data
    model = MixedLinearRegression(K, only=ONLY, start=np.column_stack([COEF, np.zeros(K)]), **settings)
    central = model.fit(X, y).coef_
    agents = [(X[part], y[part]) for part in np.array_split(np.arange(N), 4)]
    np.testing.assert_allclose(model.fit_on(Federation(agents)).coef_, central, atol=1e-8)


def test_groups_weights_and_sparse_columns_go_with_it(data):
    X, y, labels = data
    order = np.argsort(labels, kind="stable")
    groups, weight = np.arange(N) // 4, np.random.default_rng(1).uniform(0.5, 2.0, N)
    dense = MixedLinearRegression(K, only=ONLY, random_state=0).fit(X[order], y[order], weight, groups)
    thin = MixedLinearRegression(K, only=ONLY, random_state=0).fit(sparse.csr_array(X[order]), y[order], weight, groups)
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(dense.coef_, COEF, atol=0.2)


def test_a_bootstrap_keeps_components_apart_and_a_file_what_was_asked(data, tmp_path):
    X, y, _ = data
    fit = MixedLinearRegression(K, only=ONLY, fixed={"x2": {3: 1.0}}, random_state=0).fit(X, y)
    drawn = fit.bootstrap(X, y, n_boot=4, random_state=0)
    assert drawn.draws.shape[1] == len(drawn.names)
    np.testing.assert_allclose(drawn.draws.mean(axis=0), drawn.estimates, atol=0.2)
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    assert again.only == ONLY
    assert again.parameter_names_ == fit.parameter_names_


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"only": {"x9": [1]}}, "names a column that is not there"),
        ({"only": {"x0": [4]}}, "names component 4, and there are 3"),
        ({"only": ["x0"]}, "must be a dictionary"),
        ({"fixed": {"x0": [1]}}, "must be a dictionary"),
        ({"only": {"x0": [1]}, "fixed": {"x0": {2: 1.0}}}, "which only= takes out"),
        ({"only": {"x0": [1]}, "method": "gem"}, "only= needs method="),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(data, settings, said):
    X, y, _ = data
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression(K, **settings).fit(X, y)


def test_a_term_of_a_formula_stands_for_its_columns(data):
    X, y, _ = data
    kinds = np.array(["low", "mid", "top"])[np.random.default_rng(5).integers(0, 3, N)]
    frame = {"a": X[:, 0], "b": X[:, 1], "kind": kinds, "y": y}
    fit = MixedLinearRegression(2, formula="y ~ a * kind + b", shared="~ kind + b", only={"a:kind": [1]})
    constraints = fit.set_params(search="quick", random_state=0).fit(frame).fitted_.constraints
    names = fit.formula_.names
    assert {names[place] for place in constraints.shared} == {"kind[T.mid]", "kind[T.top]", "b"}
    assert {names[column] for _, column, _ in constraints.held} == {"a:kind[T.mid]", "a:kind[T.top]"}
    with pytest.raises(ValueError, match="must be a list of columns, or terms"):
        MixedLinearRegression(2, shared="a").fit(X, y)
