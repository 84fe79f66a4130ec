"""Choosing k."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import wmlr
from wmlr import MixedLinearRegression
from wmlr.datasets import load_co2, make_mixed_regression
from wmlr.methods.search import fitting
from wmlr.metrics import coefficient_error
from wmlr.selection import REACH, bic_price, choice, fit_each


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(400, 2, 3, snr=15, random_state=5)


@pytest.mark.parametrize("criterion", ["bic", "aic", "icl", "cv"])
def test_every_criterion_finds_three_lines(data, criterion):
    chosen = wmlr.select_components(data.X, data.y, range(1, 5), criterion, folds=3)
    assert chosen.best == 3
    assert coefficient_error(chosen.estimator.coef_, data.coef) < 0.1
    assert chosen.values[2] == min(chosen.values)


def test_the_same_seed_chooses_by_the_same_values(data):
    one, two = (wmlr.select_components(data.X, data.y, (1, 2), "cv", folds=3) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)


def test_values_are_the_fits_own(data):
    chosen = wmlr.select_components(data.X, data.y, [1, 3], estimator=MixedLinearRegression(shared_sigma=False))
    for k, line in zip((1, 3), chosen.table()):
        fit = MixedLinearRegression(k, shared_sigma=False, random_state=0).fit(data.X, data.y)
        assert line["bic"] == fit.bic(data.X, data.y)
        assert line["aic"] == pytest.approx(-2 * fit.log_likelihood_ + 2 * fit.n_parameters_)
        assert line["icl"] >= line["bic"]
        assert line["n_parameters"] == fit.n_parameters_
        assert line["best"] == (k == 3)
    np.testing.assert_array_equal(chosen.values, [line["bic"] for line in chosen.table()])


def test_one_component_is_least_squares(data):
    chosen = wmlr.select_components(data.X, data.y, [1], "cv", folds=4)
    design = np.column_stack([data.X, np.ones(400)])
    wanted, left = np.linalg.lstsq(design, data.y)[:2]
    np.testing.assert_allclose([*chosen.estimator.coef_[0], *chosen.estimator.intercept_], wanted, rtol=1e-9)
    np.testing.assert_allclose(chosen.estimator.sigma_, np.sqrt(left / 400), rtol=1e-9)


def test_groups_count_once_and_stay_together():
    data = make_mixed_regression(300, 1, 2, snr=2, groups=10, random_state=1)
    chosen = wmlr.select_components(data.X, data.y, [1, 2], groups=data.groups)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, groups=data.groups)
    assert chosen.table()[1]["bic"] == pytest.approx(-2 * fit.log_likelihood_ + np.log(30) * fit.n_parameters_)
    held = wmlr.select_components(data.X, data.y, [1, 2], "cv", groups=data.groups, folds=3)
    assert held.best == 2


def test_features_and_frames_are_held_out_too():
    co2 = load_co2()
    from sklearn.preprocessing import PolynomialFeatures

    base = MixedLinearRegression(features=PolynomialFeatures(2, include_bias=False))
    by_features = wmlr.select_components(co2.data, co2.target, [1], "cv", estimator=base)
    squares = pd.DataFrame(np.column_stack([co2.data, co2.data**2]), columns=["GNP", "GNP^2"])
    by_columns = wmlr.select_components(squares, co2.target, [1], "cv")
    np.testing.assert_allclose(by_features.values, by_columns.values, rtol=1e-6)


def test_a_formula_and_its_groups():
    npreg = pd.read_csv(Path(__file__).parent / "data" / "npreg.csv")
    base = MixedLinearRegression(shared_sigma=False)
    chosen = wmlr.select_components(npreg, None, [1, 2], formula="yn ~ x + I(x**2) | id2", estimator=base)
    assert chosen.table()[1]["log_likelihood"] == pytest.approx(-561.5537, abs=1e-4)
    assert chosen.table()[1]["bic"] == pytest.approx(2 * 561.5537 + 9 * np.log(50), abs=1e-3)
    held = wmlr.select_components(npreg, None, [1, 2], "cv", formula="yn ~ x + I(x**2) | id2", estimator=base)
    assert held.best == 2


def test_reads_as_a_table(data):
    chosen = wmlr.select_components(data.X, data.y, [1, 3])
    text = str(chosen)
    assert text.splitlines()[0] == "components by bic"
    assert text.splitlines()[-1].endswith("best")
    assert f"{chosen.values[0]:.4f}" in text
    assert "<table>" in chosen._repr_html_()


def test_refusals(data):
    with pytest.raises(ValueError, match="whole numbers of at least 1"):
        wmlr.select_components(data.X, data.y, [0, 1])
    with pytest.raises(ValueError, match="y is missing"):
        wmlr.select_components(data.X)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_weight_of_two_is_the_row_twice_in_every_criterion(grouped):
    data = make_mixed_regression(240, 2, snr=8, groups=4 if grouped else None, random_state=3)
    weight = np.where(data.X[:, 0] > 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(data.y)), weight.astype(int))
    groups, more = (data.groups, data.groups[twice]) if grouped else (None, None)
    once = wmlr.select_components(data.X, data.y, [1, 2], groups=groups, sample_weight=weight)
    both = wmlr.select_components(data.X[twice], data.y[twice], [1, 2], groups=more)
    for found, wanted in zip(once.table(), both.table()):
        for name in ("log_likelihood", "aic", "bic", "icl"):
            assert found[name] == pytest.approx(wanted[name], rel=1e-7), name
    fit = once.estimator
    repeated = fit.score(data.X[twice], data.y[twice], groups=more)
    assert fit.score(data.X, data.y, weight, groups) == pytest.approx(repeated)


def test_a_row_of_no_weight_does_not_count(data):
    weight = np.ones(len(data.y))
    weight[::5] = 0.0
    kept = weight > 0
    fit = MixedLinearRegression(3, random_state=0).fit(data.X, data.y, weight)
    assert fit.bic(data.X, data.y, sample_weight=weight) == pytest.approx(fit.bic(data.X[kept], data.y[kept]))


def test_cross_validation_takes_what_the_other_criteria_take():
    data = make_mixed_regression(300, 2, 2, snr=5, random_state=0)
    frame = pd.DataFrame(data.X, columns=["age", "size"])
    shared = MixedLinearRegression(shared=["age"], random_state=0)
    assert wmlr.select_components(frame, data.y, (1, 2), "cv", estimator=shared).best in (1, 2)
    sparse = csr_matrix(data.X)
    dense = wmlr.select_components(data.X, data.y, (1, 2), "cv")
    np.testing.assert_allclose(wmlr.select_components(sparse, data.y, (1, 2), "cv").values, dense.values, rtol=1e-6)
    with pytest.raises(ValueError, match="leaves out whole groups, 5 times in turn, and there are 3"):
        wmlr.select_components(data.X, data.y, (1, 2), "cv", groups=np.arange(300) % 3)


@pytest.mark.parametrize("whole", [False, True])
def test_lines_without_noise_are_found(whole):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 200).astype(float) if whole else rng.normal(size=200)
    y = np.where(rng.random(200) < 0.5, 2 * x + 1, -3 * x)
    with pytest.warns(UserWarning, match="y has next to no noise around the components"):
        found = wmlr.select_components(x[:, None], y, range(1, 4))
    assert found.best == 2
    assert sorted(found.estimator.coef_.ravel().round(3)) == [-3.0, 2.0]
    assert found.remarks == ("", "", "only 2 components are apart")


def test_components_that_are_values_of_y_are_named_and_never_the_best():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    rating = np.clip(np.round(3 + 0.4 * x[:, 0] + rng.normal(size=400)), 1, 5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        longer = MixedLinearRegression(search=20_000)  # "auto" would look at five components quickly
        found = wmlr.select_components(x, rating, range(1, 6), estimator=longer)
    assert found.remarks[4] == "components are values of y"
    assert found.values.argmin() == 4
    assert found.best < 5
    assert not any("values of y" in str(one.message) for one in said)  # of the chosen fit this is not true
    with pytest.warns(UserWarning, match="less than rounding y to 1 leaves: the components are values of y"):
        fit = MixedLinearRegression(5, random_state=0).fit(x, rating)
    assert fit.degenerate_


def test_a_chosen_fit_says_that_a_component_has_hardly_more_rows_than_coefficients():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X.sum(axis=1) + rng.normal(size=200)
    y[:15] = 4 - 3 * X[:15, 0] + 0.01 * rng.normal(size=15)
    each = MixedLinearRegression(shared_sigma=False, random_state=0)
    with pytest.warns(UserWarning, match="fewer than three rows for each coefficient: it may be chance"):
        found = wmlr.select_components(X, y, (1, 2), estimator=each)
    assert found.best == 2
    assert found.estimator.weights_.min() * 200 < 3 * 7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_less_likely_than_one_of_fewer_components_is_said_to_be_no_maximum_and_never_the_best(data):
    good = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    far_off = np.full((3, data.X.shape[1] + 1), 50.0) + np.arange(3)[:, None]
    bad = MixedLinearRegression(3, method="em", start=far_off, max_iter=1, sigma=20.0).fit(data.X, data.y)
    assert bad.log_likelihood_ < good.log_likelihood_
    lines = [{"log_likelihood": one.log_likelihood_, "bic": bic} for one, bic in ((good, 2.0), (bad, 1.0))]
    chosen = choice("bic", (2, 3), [good, bad], lines)
    assert chosen.best == 2
    assert chosen.remarks == ("", "less likely than 2: no maximum, raise n_init")
    assert "less likely" in str(chosen)


@pytest.fixture(scope="module")
def one_line():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(100, 8))
    return X, X.sum(axis=1) + rng.normal(size=100)


QUICK = MixedLinearRegression(search="quick")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_without_three_rows_for_each_parameter_is_said_and_never_the_best(one_line):
    found = wmlr.select_components(*one_line, [1, 2, 5], estimator=MixedLinearRegression(search="auto"))
    assert [line["n_parameters"] for line in found.table()] == [10, 20, 50]
    assert found.values.argmin() == 2
    assert found.best == 1
    assert found.remarks == ("", "", "not three rows for each parameter")


def test_numbers_up_to_one_end_where_there_are_not_three_rows_for_each_parameter(one_line):
    with pytest.warns(UserWarning, match="4 components and more are not tried, with 40 parameters for 100 rows"):
        found = wmlr.select_components(*one_line, estimator=QUICK)
    assert found.n_components == (1, 2, 3)
    assert found.best == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("alpha", "weight"), [(100.0, None), (0.0, np.full(100, 2))])
def test_a_ridge_and_rows_that_count_twice_allow_more_components(one_line, alpha, weight):
    ridge = MixedLinearRegression(search="quick", alpha=alpha)
    assert wmlr.select_components(*one_line, 4, estimator=ridge, sample_weight=weight).n_components == (1, 2, 3, 4)


def test_a_search_that_begins_at_a_smaller_fit_takes_a_part_of_the_steps_of_one_by_itself(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20))
    y = X.sum(axis=1) + rng.standard_t(4, size=400)
    step = (400 + 21) * 2 * 21**2
    monkeypatch.setattr(fitting, "MOST_PRODUCTS", fitting.MOST_PRODUCTS * 2000 * step / 2e11)
    monkeypatch.setattr(fitting, "MOST_FROM_SMALLER", fitting.MOST_FROM_SMALLER * 2000 * step / 2e11)
    alone = MixedLinearRegression(2, random_state=0)
    beside = MixedLinearRegression(2, random_state=0)
    beside.start_from_smaller(MixedLinearRegression(1).fit(X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 2 * beside.fit(X, y).search_.steps < alone.fit(X, y).search_.steps
    assert beside.log_likelihood_ >= alone.log_likelihood_ - 1e-6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_components_that_are_one_and_the_same_line_are_said_to_be():
    x = np.linspace(0, 1, 40)[:, None]
    found = wmlr.select_components(x, 3 * x[:, 0] + 1, [1, 2])
    assert found.best == 1
    assert found.remarks == ("", "all components are the same")


def test_only_numbers_that_may_be_the_best_are_searched_for_long():
    data = make_mixed_regression(500, 6, 3, snr=10, random_state=5)
    asked = []

    def fit(model):
        if isinstance(model.start, str):
            asked.append((model.n_components, model.search))
        return model.fit(data.X, data.y)

    fits = fit_each(MixedLinearRegression(random_state=0), range(1, 6), fit, price=lambda: bic_price(len(data.y)))
    worth = [one.log_likelihood_ - bic_price(len(data.y)) * one.n_parameters_ for one in fits]
    assert [k for k, search in asked if search == "quick"] == [1, 2, 3, 4, 5]
    longer = [k for k, search in asked if search == "auto"]
    assert longer == [k for k in range(2, 6) if worth[k - 1] > max(worth) - REACH]
    assert 3 in longer
    assert 5 not in longer
    alone = MixedLinearRegression(3, random_state=0).fit(data.X, data.y)
    assert fits[2].log_likelihood_ == pytest.approx(alone.log_likelihood_, abs=1e-3)
    assert fits[2].search == "auto"
