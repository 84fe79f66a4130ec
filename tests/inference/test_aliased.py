"""Columns that follow from others have no estimate and no error, and do not count, as in R."""

import warnings

import numpy as np
import pytest

from wmlr import MixedLinearRegression

pytestmark = pytest.mark.filterwarnings("ignore:the . features span only:UserWarning")


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    x, level = generator.standard_normal(500), generator.integers(3, size=500)
    first = generator.random(500) < 0.6
    y = np.where(first, 1 + 2 * x, -1 - x) + np.array([0.0, 1.0, -0.5])[level] + 0.5 * generator.standard_normal(500)
    return x, np.eye(3)[level], y


def fitted(X, y, **settings):
    return MixedLinearRegression(2, random_state=0, tol=1e-10, **settings).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"shared_sigma": False}, {"method": "em"}, {"robust": True}], ids=str)
def test_redundant_columns_change_neither_errors_nor_criteria(data, settings):
    x, levels, y = data
    plain = np.column_stack([x, levels[:, 1:]])
    whole = np.column_stack([plain, np.full(500, 7.0), levels[:, 0]])
    least, most = fitted(plain, y, **settings), fitted(whole, y, **settings)
    assert (most.aliased_, least.aliased_) == (("x3", "x4"), ())
    assert most.n_parameters_ == least.n_parameters_
    assert most.bic(whole, y) == pytest.approx(least.bic(plain, y), abs=1e-5)
    np.testing.assert_allclose(most.coef_[:, :3], least.coef_, atol=1e-5)
    np.testing.assert_array_equal(most.coef_[:, 3:], 0.0)
    np.testing.assert_allclose(most.predict(whole), least.predict(plain), atol=1e-5)
    for errors in ("observed", "sandwich"):
        wanted = least.confidence_intervals(plain, y, errors=errors)
        found = most.confidence_intervals(whole, y, errors=errors)
        for name in wanted.names:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_what_follows_from_others_has_no_estimate_and_no_error(data):
    x, _, y = data
    X = np.column_stack([x, np.full(500, 3.0)])
    fit = fitted(X, y)
    found = fit.confidence_intervals(X, y)
    places = [found.names.index("x1[1]"), found.names.index("x1[2]")]
    for values in (found.estimates, found.errors, found.lower, found.upper):
        assert np.all(np.isnan(values[places]))
        assert np.isfinite(np.delete(values, places)).all()
    text = str(fit.summary(X, y))
    assert "\nx1\n" in text
    assert "no estimate:" in text
    assert "nan" not in text
    with pytest.raises(ValueError, match="'x1\\[1\\] = 0' has no standard error"):
        fit.wald_test("x1[1] = 0", X, y)
    assert fit.wald_test("x0[1] = x0[2]", X, y).df == 1


def test_a_full_coding_has_the_errors_of_200_refits(data):
    """The errors are those of the estimator that is reported: a bootstrap of it agrees."""
    x, levels, y = data
    X = np.column_stack([x, levels])
    fit = MixedLinearRegression(2, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = fit.bootstrap(X, y, n_boot=200, random_state=0)
    errors = fit.confidence_intervals(X, y).errors
    known = np.isfinite(errors)
    assert known.sum() == len(errors) - 2
    np.testing.assert_allclose(draws.errors[known], errors[known], rtol=0.25)


def test_a_shared_column_gives_way_to_one_that_each_component_has(data):
    x, _, y = data
    own = fitted(x[:, None], y)
    both = fitted(np.column_stack([x, x]), y, shared=[0])
    assert both.aliased_ == ("x0",)
    assert both.log_likelihood_ == pytest.approx(own.log_likelihood_, abs=1e-5)
    assert both.n_parameters_ == own.n_parameters_


def test_more_columns_than_rows_count_by_rank():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((10, 15)), generator.standard_normal(10)
    with pytest.warns(UserWarning, match=r"the 15 features span only 9 directions .* \(number 9, 10, 11"):
        fit = MixedLinearRegression(1).fit(X, y)
    assert fit.n_parameters_ == 9 + 1 + 1
    assert fit.aliased_ == tuple(f"x{i}" for i in range(9, 15))


def test_a_saved_fit_knows_what_was_left_out(data, tmp_path):
    x, levels, y = data
    fit = fitted(np.column_stack([x, levels]), y)
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    assert again.aliased_ == fit.aliased_ == ("x3",)
    assert again.n_parameters_ == fit.n_parameters_


@pytest.mark.filterwarnings("ignore:the 12 features span only:UserWarning")
@pytest.mark.parametrize("seed", range(4))
def test_nearly_collinear_columns_lose_nothing_of_what_they_span(seed):
    """Twelve random waves on a line are collinear to a dozen digits; whatever is left out, the fit is as good."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, 600)
    waves = np.cos(np.outer(x, 2.0 * generator.standard_normal(12)) + generator.uniform(0, 2 * np.pi, 12))
    y = np.sin(4 * x) + 0.1 * generator.standard_normal(600)
    fit = MixedLinearRegression(1).fit(waves, y)
    left = np.column_stack([waves, np.ones(600)])
    residual = y - left @ np.linalg.lstsq(left, y, rcond=1e-7)[0]
    assert fit.sigma_[0] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=0.02)
