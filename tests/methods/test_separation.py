"""Coefficients without a finite estimate: they are told as such, and have no standard error."""

import warnings

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression


def fit_quietly(model, *data, **roles):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(*data, **roles)
    return model, " ".join(str(one.message) for one in said)


def levels(codes):
    return (codes[:, None] == np.arange(1, codes.max() + 1)).astype(float)


def counts_with_an_empty_level(seed=0, n=240):
    """Two groups of counts, one of which has only zeros at the third level."""
    rng = np.random.default_rng(seed)
    codes, kind = np.arange(n) % 3, (np.arange(n) // 3) % 2
    mean = np.array([[12.0, 20.0, 16.0], [3.0, 1.5, 0.0]])[kind, codes]
    return levels(codes), rng.poisson(mean), kind


@pytest.mark.parametrize("family", ["poisson", "binomial", "negative-binomial"])
def test_one_regression_with_a_level_of_zeros_has_the_errors_of_the_rows_without_it(family):
    rng = np.random.default_rng(1)
    codes = np.arange(150) % 3
    y = rng.negative_binomial(2, 0.4, 150) if family != "binomial" else rng.integers(0, 2, 150)
    y[codes == 2] = 0
    kept = codes < 2
    fit, said = fit_quietly(MixedLinearRegression(1, family=family, random_state=0), levels(codes), y)
    without = MixedLinearRegression(1, family=family, random_state=0).fit(levels(codes)[kept, :1], y[kept])
    assert "separation" in said
    assert "alpha" in said
    assert not fit.converged_
    errors = dict(zip(fit.parameter_names_, np.sqrt(np.diag(fit.covariance(levels(codes), y)))))
    expected = np.sqrt(np.diag(without.covariance(levels(codes)[kept, :1], y[kept])))
    assert np.isnan(errors.pop("x1[1]"))
    np.testing.assert_allclose(list(errors.values()), expected, rtol=1e-4)


@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_a_mixture_names_the_coefficient_that_runs_away(method):
    X, y, kind = counts_with_an_empty_level()
    groups = np.arange(len(y)) // 6 * 2 + kind  # rows of one kind share their component
    model = MixedLinearRegression(2, family="poisson", method=method, random_state=0)
    fit, said = fit_quietly(model, X, y, groups=groups)
    assert "separation" in said
    assert "told apart" not in said
    summary = fit.summary(X, y, groups=groups)
    assert dict(summary.facts)["no standard error"] == "x1[2]"
    assert "e+" not in str(summary)
    ridge, said = fit_quietly(model.set_params(alpha=1.0), X, y, groups=groups)
    assert ridge.converged_
    assert not said
    assert np.isfinite(ridge.covariance(X, y, groups=groups)).all()


def test_perfectly_separated_successes_have_no_errors_at_all():
    x = np.linspace(-1, 1, 40)[:, None]
    y = (x[:, 0] > 0.31).astype(int)
    fit, said = fit_quietly(MixedLinearRegression(1, family="binomial", max_iter=60), x, y)
    assert "separation" in said
    assert np.isnan(fit.covariance(x, y)).all()


def test_a_gate_that_tells_components_apart_without_a_doubt_is_told():
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=300), rng.choice([-1.0, 1.0], 300)
    y = np.where(w > 0, 5.0 + x, -5.0 - x) + 0.3 * rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "w": w, "y": y})
    fit, said = fit_quietly(MixedLinearRegression(2, formula="y ~ x", gate="~ w", random_state=0), frame)
    assert "gate" in said
    assert "separation" in said
    assert "told apart" not in said
    assert dict(fit.summary(frame).facts)["no standard error"].startswith("gate w[1]")


def test_a_coefficient_that_no_row_of_its_component_speaks_of_has_no_error():
    rng = np.random.default_rng(3)
    n, kind = 300, np.arange(300) // 5 % 2
    level = ((np.arange(n) % 5 == 0) & (kind == 0)).astype(float)
    X = np.column_stack([rng.normal(size=n), level])
    y = np.where(kind == 0, 100.0 + 2 * X[:, 0] + 5 * level, -100.0 - X[:, 0]) + rng.normal(size=n)
    fit, said = fit_quietly(MixedLinearRegression(2, random_state=0), X, y, groups=np.arange(n) // 5)
    summary = fit.summary(X, y, groups=np.arange(n) // 5)
    assert dict(summary.facts)["no standard error"] == ("x1[2]" if fit.intercept_[0] > 0 else "x1[1]")
    assert "say nothing of one of its coefficients" in said


def test_an_ordinary_fit_with_large_errors_keeps_them():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 3))
    y = rng.poisson(np.exp(0.2 + 0.3 * x[:, 0]))
    fit, said = fit_quietly(MixedLinearRegression(2, family="poisson", random_state=0), x, y)
    assert "separation" not in said
    assert np.isfinite(fit.covariance(x, y)).all() or "no standard error" in dict(fit.summary(x, y).facts)


def test_counts_that_vary_no_more_than_poisson_have_no_interval_of_sigma_beyond_reason():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 1))
        y = rng.poisson(np.exp(1.0 + 0.4 * x[:, 0]))
        fit, said = fit_quietly(MixedLinearRegression(1, family="negative-binomial"), x, y)
        intervals = fit.confidence_intervals(x, y)
        low, high = intervals["(sigma)"]
        assert fit.converged_
        assert dict(fit.summary(x, y).facts)["converged"] == "yes"
        assert (np.isnan(low) and np.isnan(high) and "Poisson" in said) or (low == 0 and high < 0.5)


def test_a_point_mass_that_counts_have_no_use_for_is_named():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    y = rng.poisson(np.exp(1.5 + 0.4 * x[:, 0]))
    with pytest.raises(ValueError, match="the point mass at 0 was left with less than one row"):
        MixedLinearRegression(2, family=["poisson", "point-mass"], random_state=0).fit(x, y)
