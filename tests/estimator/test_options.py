"""Ridge, shared columns, robustness, restarts, and what happens at the edges."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from longer import long
from wmlr import EM, GDA, GEM, MixedLinearRegression
from wmlr.core.round import Rows
from wmlr.datasets import load_co2, load_no, load_tone, make_mixed_regression
from wmlr.engines import ArrayRows
from wmlr.families import Student
from wmlr.methods import Reduction, Refreshed
from wmlr.metrics import coefficient_error
from wmlr.model.mixture import Mixture
from wmlr.statistics.robust import Trimmed
from wmlr.statistics.score import MixtureScore

REFERENCE = [
    (load_tone, 141.1984, [0.6977, 0.3023], [[1.91638, 0.04255], [-0.01927, 0.99230]], [0.04619, 0.13283]),
    (load_co2, -66.93977, [0.754921, 0.245079], [[8.678987, -0.023344], [1.415150, 0.676596]], [2.049315, 0.809389]),
    (load_no, 122.0384, [0.5103, 0.4897], [[1.24708, -0.08300], [0.56499, 0.08502]], [0.02414, 0.04331]),
]


@pytest.mark.parametrize(("load", "log_likelihood", "weights", "lines", "sigma"), REFERENCE)
@pytest.mark.parametrize("method", ["wmlr", "em"])
@pytest.mark.parametrize("seeds", [range(3), long(range(3, 20))])
def test_published_fits_from_every_seed(load, log_likelihood, weights, lines, sigma, method, seeds):
    data = load()
    for seed in seeds:
        fit = MixedLinearRegression(2, shared_sigma=False, method=method, random_state=seed).fit(data.data, data.target)
        assert fit.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-4)
        np.testing.assert_allclose(fit.weights_, weights, rtol=2e-4)
        np.testing.assert_allclose(np.column_stack([fit.intercept_, fit.coef_]), lines, rtol=6e-4)
        np.testing.assert_allclose(fit.sigma_, sigma, rtol=3e-4)


def test_one_sigma_on_the_tone_data():
    tone = load_tone()
    assert MixedLinearRegression(2, random_state=0).fit(tone.data, tone.target).log_likelihood_ == pytest.approx(
        107.2567, abs=1e-3
    )


def npreg():
    from pathlib import Path

    table = np.genfromtxt(
        Path(__file__).parents[1] / "data" / "npreg.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    x = table["x"]
    return np.column_stack([x, x**2]), table["yn"], np.char.strip(table["id2"].astype(str), '"')


@pytest.mark.parametrize("seeds", [range(3), long(range(3, 20))])
def test_npreg_by_rows_and_by_groups(seeds):
    X, y, groups = npreg()
    for seed in seeds:
        rows = MixedLinearRegression(2, shared_sigma=False, random_state=seed).fit(X, y)
        assert rows.log_likelihood_ == pytest.approx(-642.5320, abs=1e-3)
        np.testing.assert_allclose(np.sort(rows.sigma_), [3.444, 3.451], atol=1.5e-3)
        grouped = MixedLinearRegression(2, shared_sigma=False, random_state=seed).fit(X, y, groups=groups)
        assert grouped.log_likelihood_ == pytest.approx(-561.5537, abs=1e-3)
        lines = np.column_stack([grouped.intercept_, grouped.coef_])
        lines = lines[np.argsort(lines[:, 0])]
        np.testing.assert_allclose(lines, [[-0.1298, 4.7050, 0.0451], [14.6390, 9.8812, -0.9737]], atol=2e-3)


@pytest.mark.parametrize(("method", "solver"), [("wmlr", "auto"), ("wmlr", "gda"), ("em", "auto"), ("gem", "auto")])
@pytest.mark.parametrize("k", [2, 3])
def test_groups_by_every_method(method, solver, k):
    data = make_mixed_regression(1500, 4, k, snr=1.5, groups=10, random_state=1)
    fit = MixedLinearRegression(k, method=method, solver=solver, random_state=0, max_iter=200)
    fit.fit(data.X, data.y, groups=data.groups)
    oracle = np.stack([np.linalg.lstsq(data.X[data.labels == j], data.y[data.labels == j])[0] for j in range(k)])
    assert coefficient_error(fit.coef_, data.coef) < 1.6 * coefficient_error(oracle, data.coef)


def test_one_component_with_a_ridge_is_scikit_learns():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((20, 40)), generator.standard_normal(20) + 2
    ours, theirs = MixedLinearRegression(1, alpha=3.0).fit(X, y), Ridge(alpha=3.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-10)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_)


@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_a_ridge_needs_no_full_rank_and_its_objective_never_falls(method):
    data = make_mixed_regression(60, 40, 2, snr=10, random_state=0)
    X = np.column_stack([data.X, data.X[:, 0]])
    settings = {"method": method, "search": "quick", "random_state": 0}
    fit = MixedLinearRegression(2, alpha=2.0, **settings).fit(X, data.y)
    np.testing.assert_allclose(fit.coef_[:, 0], fit.coef_[:, -1], atol=1e-8)
    assert np.all(np.diff([record["objective"] for record in fit.history_]) >= -1e-9)
    stronger = MixedLinearRegression(2, alpha=200.0, **settings).fit(X, data.y)
    assert np.linalg.norm(stronger.coef_) < np.linalg.norm(fit.coef_)


@pytest.mark.parametrize("method", ["wmlr", "em"])
@pytest.mark.parametrize("shared_sigma", [True, False])
def test_shared_columns_have_one_coefficient(method, shared_sigma):
    generator = np.random.default_rng(1)
    X = generator.standard_normal((3000, 4)) @ generator.standard_normal((4, 4))
    coef = np.array([[1, 2, 3, 0.5], [1, -2, 3, -0.5]])
    y = (X * coef[generator.integers(2, size=3000)]).sum(axis=1) + 0.5 * generator.standard_normal(3000)
    settings = {"method": method, "shared_sigma": shared_sigma, "random_state": 0}
    fit = MixedLinearRegression(2, shared=[0, 2], **settings).fit(X, y)
    np.testing.assert_allclose(fit.coef_[0, [0, 2]], fit.coef_[1, [0, 2]], atol=1e-9)
    assert coefficient_error(fit.coef_, coef) < 0.03
    free = MixedLinearRegression(2, **settings).fit(X, y)
    assert free.log_likelihood_ >= fit.log_likelihood_
    with pytest.raises(ValueError, match=r"shared names a column that is not there \(got 'age'"):
        MixedLinearRegression(2, shared=["age"]).fit(X, y)


@pytest.mark.parametrize(("k", "d", "n"), [(2, 5, 2000), (3, 8, 6000), (2, 16, 4000)])
@pytest.mark.parametrize("seeds", [[0], long([1, 2])])
def test_gross_outliers_hardly_move_a_robust_fit(k, d, n, seeds):
    for seed in seeds:
        data = make_mixed_regression(n, d, k, snr=5, random_state=seed)
        generator = np.random.default_rng(seed)
        y = data.y + 100 * generator.uniform(-1, 1, n) * (generator.random(n) < 0.05)
        clean = MixedLinearRegression(k, random_state=0).fit(data.X, data.y)
        robust = MixedLinearRegression(k, robust=True, random_state=0).fit(data.X, y)
        assert coefficient_error(robust.coef_, data.coef) < 2 * coefficient_error(clean.coef_, data.coef)
        assert np.all(np.diff([record["log_likelihood"] for record in robust.history_]) >= -1e-6)
        assert robust.score(data.X, y) * n == pytest.approx(robust.log_likelihood_)


def test_students_score_is_the_gradient_and_tends_to_the_normal_one(generator):
    X, y = generator.standard_normal((30, 2)), generator.standard_normal(30)
    B, log_weights, s2 = generator.standard_normal((2, 2)), np.log([0.4, 0.6]), np.array([0.5, 0.9])
    rows = Rows(X, y)
    near = MixtureScore(B, log_weights, s2, family=Student(1e9)).answer(rows)
    normal = MixtureScore(B, log_weights, s2).answer(rows)
    for name in normal:
        np.testing.assert_allclose(near[name], normal[name], rtol=1e-5)
    score = MixtureScore(B, log_weights, s2, family=Student(3.0)).answer(rows)["score"] / s2
    step = 1e-6
    for place in np.ndindex(B.shape):
        ahead, behind = B.copy(), B.copy()
        ahead[place] += step
        behind[place] -= step
        rise = [
            float(MixtureScore(b, log_weights, s2, family=Student(3.0)).answer(rows)["log_likelihood"])
            for b in (ahead, behind)
        ]
        assert score[place] == pytest.approx((rise[0] - rise[1]) / (2 * step), abs=1e-5)
    heavy = Mixture(B.T, np.zeros(2), np.exp(log_weights), np.sqrt(s2), family=Student(3.0))
    wanted = float(MixtureScore(B, log_weights, s2, family=Student(3.0)).answer(rows)["log_likelihood"])
    assert heavy.log_likelihood(X, y).sum() == pytest.approx(wanted)


def test_trimming_keeps_whole_groups():
    X, y = np.ones((6, 1)), np.array([0.0, 1.0, 50.0, 0.5, 0.2, 0.1])
    from wmlr.statistics.moments import Moments

    by_row = Trimmed(Moments(), -2.0, 2.0).answer(Rows(X, y))
    by_group = Trimmed(Moments(), -2.0, 2.0).answer(Rows(X, y, starts=np.array([0, 2, 4])))
    assert float(by_row["rows"]) == 5
    assert float(by_group["rows"]) == 4


def test_restarts_keep_the_likeliest():
    data = make_mixed_regression(400, 6, 4, snr=4, random_state=2)
    settings = {"start": "random", "random_state": 3}
    one = MixedLinearRegression(4, **settings).fit(data.X, data.y)
    ten = MixedLinearRegression(4, n_init=10, **settings).fit(data.X, data.y)
    again = MixedLinearRegression(4, n_init=10, n_jobs=2, **settings).fit(data.X, data.y)
    assert ten.log_likelihood_ >= one.log_likelihood_
    np.testing.assert_array_equal(ten.coef_, again.coef_)


@pytest.mark.filterwarnings("ignore:a component's variance")
def test_emptied_components():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 1))
    y = 2 * X[:, 0] + 0.1 * generator.standard_normal(60)
    start = np.array([[2.0, 0.0], [2.0, 500.0]])
    settings = {"start": start, "max_iter": 50}
    with pytest.raises(ValueError, match="one of 2 components was left with less than one row"):
        MixedLinearRegression(2, on_empty="raise", **settings).fit(X, y)
    with pytest.warns(UserWarning, match="1 component is fitted instead"):
        fit = MixedLinearRegression(2, on_empty="drop", **settings).fit(X, y)
    assert fit.coef_.shape == (1, 1)
    assert fit.predict(X).shape == (60,)


def test_a_singular_likelihood_is_caught_and_said():
    co2 = load_co2()
    with pytest.warns(UserWarning, match="variance fell to its floor"):
        plain = MixedLinearRegression(4, shared_sigma=False, guard=False, random_state=0).fit(co2.data, co2.target)
    assert plain.sigma_.min() > 0
    with pytest.warns(UserWarning, match="likelihood has no bound near it"):
        fit = MixedLinearRegression(4, shared_sigma=False, random_state=0).fit(co2.data, co2.target)
    assert fit.sigma_.min() > 5 * plain.sigma_.min()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, r"alpha must be a number of at least 0 \(got -1\)"),
        ({"robust": -2}, r"robust must be True, False or positive degrees of freedom \(got -2\)"),
        ({"on_empty": "keep"}, r"on_empty must be 'reseed', 'drop' or 'raise' \(got 'keep'\)"),
        ({"symmetric": True, "robust": True}, "robust= is for free components: set symmetric=False"),
        ({"solver": "gda", "alpha": 1.0}, "alpha= needs method='em' or 'gem', or method='wmlr' with solver='auto'"),
        ({"robust": True, "solver": "gda"}, "robust= needs method='em', or method='wmlr' with solver='auto'"),
        ({"shared": [0], "method": "gem"}, "shared= needs method='em'"),
        ({"solver": "reduction"}, "solver='reduction' needs equal_weights=True"),
    ],
)
def test_combinations_that_make_no_sense(settings, message):
    data = make_mixed_regression(50, 2, 2, snr=3, random_state=0)
    with pytest.raises(ValueError, match=message):
        MixedLinearRegression(**settings).fit(data.X, data.y)


def test_group_edges_survive_blocks():
    data = make_mixed_regression(500, 3, 3, snr=3, groups=7, random_state=0)
    task_rows = [ArrayRows(data.X, data.y, groups=data.groups, block_rows=size) for size in (500, 60)]
    fits = [MixedLinearRegression(3, random_state=0).fit_on(rows) for rows in task_rows]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 50.0, 1e5])
@pytest.mark.parametrize("robust", [False, True])
def test_a_shift_of_y_shifts_the_intercepts_and_nothing_else(offset, robust):
    data = load_tone()
    settings = {"shared_sigma": False, "robust": robust, "random_state": 0}
    plain = MixedLinearRegression(2, **settings).fit(data.data, data.target)
    fit = MixedLinearRegression(2, **settings).fit(data.data, data.target + offset)
    assert fit.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(fit.coef_, plain.coef_, atol=1e-3)
    np.testing.assert_allclose(fit.intercept_ - offset, plain.intercept_, atol=1e-3)
    np.testing.assert_allclose(fit.sigma_, plain.sigma_, rtol=1e-3)


def test_one_component_far_from_zero_is_least_squares():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 1))
    y = X[:, 0] + 0.01 * generator.standard_normal(300) + 1000
    fit = MixedLinearRegression(1).fit(X, y)
    left = y - np.column_stack([X, np.ones(300)]) @ np.linalg.lstsq(np.column_stack([X, np.ones(300)]), y)[0]
    assert fit.sigma_[0] == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "em", "solver": "gda"}, "solver='gda' is of method='wmlr' (got method='em')"),
        ({"sigma": 0.1, "shared_sigma": False}, "sigma= is the known noise of all components"),
        ({"symmetric": True, "shared_sigma": False}, "symmetric=True has one sigma"),
        ({"start": np.zeros((2, 2)), "n_init": 5}, "n_init=5 starts from one given array would all be the same"),
        ({"equal_weights": "yes"}, "equal_weights must be True or False (got 'yes')"),
    ],
)
def test_settings_that_say_nothing_together_are_refused(settings, said):
    data = load_tone()
    with pytest.raises(ValueError) as error:
        MixedLinearRegression(2, **settings).fit(data.data, data.target)
    assert said in str(error.value)


def test_a_row_without_a_group_is_named():
    data = load_tone()
    groups = np.arange(len(data.target)) // 5 * 1.0
    groups[7] = np.nan
    with pytest.raises(ValueError, match="groups has no label in row 7"):
        MixedLinearRegression(2).fit(data.data, data.target, groups=groups)


def test_a_fit_that_did_not_converge_says_so():
    data = load_tone()
    fit = MixedLinearRegression(2, method="em", start="random", max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iteration without converging: raise max_iter"):
        fit.fit(data.data, data.target)
    assert not fit.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        MixedLinearRegression(2, method="em", max_iter=1, tol=0.0, random_state=0).fit(data.data, data.target)


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"method": EM(), "robust": True}, {"method": "em", "robust": True}),
        ({"method": EM(), "shared": [0], "alpha": 1.0}, {"method": "em", "shared": [0], "alpha": 1.0}),
        ({"solver": Refreshed(), "alpha": 1.0}, {"alpha": 1.0}),
        ({"method": Refreshed(), "robust": 3.0}, {"robust": 3.0}),
        ({"method": GEM(), "alpha": 1.0}, {"method": "gem", "alpha": 1.0}),
    ],
    ids=str,
)
def test_a_method_s_settings_go_where_its_name_does(settings, same):
    data = make_mixed_regression(200, 2, 2, snr=3, random_state=0)
    given = MixedLinearRegression(2, random_state=0, **settings).fit(data.X, data.y)
    named = MixedLinearRegression(2, random_state=0, **same).fit(data.X, data.y)
    np.testing.assert_array_equal(given.coef_, named.coef_)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "em", "solver": GDA()}, "is of method='wmlr' (got method='em')"),
        ({"method": EM(), "solver": "gda"}, "solver='gda' is of method='wmlr'"),
        ({"method": EM(), "solver": GDA()}, "is of method='wmlr'"),
        ({"solver": GDA(), "alpha": 1.0}, "alpha= needs method='em' or 'gem', or method='wmlr' with solver='auto'"),
        ({"method": GDA(), "robust": True}, "robust= needs method='em'"),
        ({"method": GEM(), "shared": [0]}, "shared= needs method='em'"),
        ({"solver": Reduction()}, "solver='reduction' needs equal_weights=True and shared_sigma=True"),
        (
            {"method": 3},
            "method must be one of 'wmlr', 'em', 'gem', 'mix-irls', 'altmin' (got 3), or a method with its settings",
        ),
        ({"method": EM}, "method must be one of 'wmlr', 'em', 'gem', 'mix-irls', 'altmin' (got <class"),
        (
            {"solver": None},
            "solver must be one of 'auto', 'gda', 'reduction' (got None), or a solver with its settings",
        ),
    ],
    ids=str,
)
def test_settings_of_a_method_are_refused_where_its_name_is(settings, said):
    data = make_mixed_regression(50, 2, 2, snr=3, random_state=0)
    with pytest.raises(ValueError) as error:
        MixedLinearRegression(2, **settings).fit(data.X, data.y)
    assert said in str(error.value)


@pytest.mark.parametrize("settings", [{}, {"method": "em"}, {"robust": True}, {"shared_sigma": False}], ids=str)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("total", [1.0, 0.01])
def test_no_component_is_dropped_because_the_weights_are_small(settings, grouped, total):
    data = make_mixed_regression(300, 2, 2, snr=4, groups=3 if grouped else None, random_state=0)
    plain = MixedLinearRegression(2, random_state=0, **settings).fit(data.X, data.y, groups=data.groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.filterwarnings("error", "a component was left with less than one row")
        fit = MixedLinearRegression(2, random_state=0, **settings).fit(
            data.X, data.y, sample_weight=np.full(300, total / 300), groups=data.groups
        )
    if not grouped:  # in a group a row of weight 1/300 is so little of a row that the components are the same
        assert fit.mixture_.n_components == 2
        np.testing.assert_allclose(fit.coef_, plain.coef_, atol=1e-3)


def test_large_weights_keep_no_component_that_holds_less_than_one_row():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 1))
    y = X[:, 0] + generator.standard_normal(60)
    start = np.array([[1.0], [40.0]])
    for weight in (1e-3, 1.0, 1e6):
        with pytest.raises(ValueError, match="one of 2 components was left with less than one row"):
            MixedLinearRegression(2, start=start, on_empty="raise", sigma=1.0, random_state=0).fit(
                X, y, sample_weight=np.full(60, weight)
            )


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_the_floor_of_variances_does_not_grow_with_the_mean_of_y_where_a_column_is_constant(offset):
    data = load_tone()
    X = np.column_stack([data.data, np.ones(len(data.target))])
    plain = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(data.data, data.target)
    settings = {"fit_intercept": False, "shared_sigma": False, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # how sure the search is of its maximum
        fit = MixedLinearRegression(2, **settings).fit(X, data.target + offset)
    np.testing.assert_allclose(fit.sigma_, plain.sigma_, rtol=1e-2)
