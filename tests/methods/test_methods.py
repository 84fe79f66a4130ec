"""What each method promises, on problems small enough to try many."""

import numpy as np
import pytest

from longer import long
from wmlr import GDA, GEM, MixedLinearRegression, PrintedEM, Reduction
from wmlr.core.round import run
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows
from wmlr.methods import EM, Refreshed
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.model.gates import EQUAL, FREE


def random_problem(seed):
    """A problem of random size, law of x, weights and groups, with a task that fits it or does not."""
    generator = np.random.default_rng(seed)
    n, d = int(generator.integers(20, 300)), int(generator.integers(1, 6))
    symmetric = bool(generator.integers(2))
    k = 2 if symmetric else int(generator.integers(1, 5))
    X = generator.standard_normal((n, d))
    if generator.integers(3) == 0:
        X = generator.standard_t(3, (n, d))
    if generator.integers(3) == 0:
        X = X @ generator.standard_normal((d, d)) + generator.standard_normal(d)
    coef = generator.uniform(0.2, 6) * generator.standard_normal((k, d))
    y = (X @ coef.T)[np.arange(n), generator.integers(k, size=n)] + generator.standard_normal(n)
    weight = generator.uniform(0, 3, n) if generator.integers(3) == 0 else None
    groups = np.sort(generator.integers(0, n // 3 + 1, n)) if generator.integers(3) == 0 else None
    groups = None if groups is None else np.unique(groups, return_inverse=True)[1]
    task = Task(
        n_components=k,
        symmetric=symmetric,
        intercept=bool(generator.integers(2)) and not symmetric,
        gate=EQUAL if symmetric or bool(generator.integers(2)) else FREE,
        shared_sigma=bool(generator.integers(2)),
        sigma=1.0 if generator.integers(4) == 0 else None,
        start=["auto", "random"][generator.integers(2)],
        max_iter=40,
        tol=1e-9,
        seed=seed,
        search="quick",
    )
    return ArrayRows(X, y, weight, groups), task


@pytest.mark.parametrize("solver", [EM(), Refreshed()], ids=["em", "refreshed"])
@pytest.mark.filterwarnings("ignore:the .* features span")
@pytest.mark.parametrize("seeds", [range(50), long(range(50, 200))])
def test_the_likelihood_never_falls(solver, seeds):
    for seed in seeds:
        rows, task = random_problem(seed)
        fit = run(solver.fit(task), rows)
        values = np.array([record["log_likelihood"] for record in fit.history])
        assert np.all(np.isfinite(values)), seed
        assert np.all(np.diff(values) >= -1e-9 * (1 + np.abs(values[:-1]))), (seed, task)


@pytest.mark.parametrize("symmetric", [True, False])
def test_refreshed_ends_where_em_ends(symmetric):
    data = make_mixed_regression(3000, 6, 2, snr=3, symmetric=symmetric, random_state=1)
    settings = {"symmetric": symmetric, "tol": 1e-12, "max_iter": 1000, "random_state": 0}
    ours = MixedLinearRegression(2, **settings).fit(data.X, data.y)
    theirs = MixedLinearRegression(2, method="em", **settings).fit(data.X, data.y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(ours.sigma_, theirs.sigma_, atol=2e-5)


def test_em_is_the_hand_written_one():
    data = make_mixed_regression(400, 3, 2, snr=2, symmetric=True, random_state=2)
    X, y = data.X, data.y
    start = np.array([1.0, 0.5, -0.5])
    fit = run(
        EM().fit(Task(symmetric=True, sigma=1.0, start=np.stack([start, -start]), max_iter=5, tol=0)), ArrayRows(X, y)
    )
    beta = start
    for _ in range(5):
        beta = np.linalg.solve(X.T @ X, X.T @ (np.tanh(y * (X @ beta)) * y))
    np.testing.assert_allclose(fit.mixture.coef[0], beta, rtol=1e-9)


def test_em_as_printed_is_the_printed_one():
    data = make_mixed_regression(400, 3, 2, snr=2, symmetric=True, random_state=2)
    X, y = data.X, data.y
    start = np.array([1.0, 0.5, -0.5])
    task = Task(symmetric=True, start=np.stack([start, -start]), max_iter=4, tol=0)
    fit = run(PrintedEM().fit(task), ArrayRows(X, y))
    beta, s2 = start, 1.0
    for _ in range(4):
        w = 1 / (1 + np.exp(-2 * y * (X @ beta) / s2))
        beta = X.T @ ((2 * w - 1) * y) / len(y)
        s2 = 1 / np.mean(w * (y - X @ beta) ** 2 + (1 - w) * (y + X @ beta) ** 2)
    np.testing.assert_allclose(fit.mixture.coef[0], beta, rtol=1e-8)
    np.testing.assert_allclose(fit.mixture.sigma, np.sqrt(s2), rtol=1e-8)
    with pytest.raises(ValueError, match="symmetric=True"):
        PrintedEM().fit(Task())


def test_gem_is_the_printed_one():
    data = make_mixed_regression(400, 3, 2, snr=2, symmetric=True, random_state=2)
    X, y = data.X, data.y
    start = np.array([1.0, 0.5, -0.5])
    task = Task(symmetric=True, start=np.stack([start, -start]), max_iter=6, tol=0)
    fit = run(GEM(alpha=0.3, capped=False, coordinates="raw", sigma2_start=1.0).fit(task), ArrayRows(X, y))
    beta, s2 = start, 1.0
    for _ in range(6):
        w = 1 / (1 + np.exp(-2 * y * (X @ beta) / s2))
        squares = np.mean(w * (y - X @ beta) ** 2 + (1 - w) * (y + X @ beta) ** 2)
        slope = X.T @ (w * (y - X @ beta) + (w - 1) * (y + X @ beta)) / len(y) / s2
        beta, s2 = beta + 0.3 * slope, s2 + 0.3 * (squares / (2 * s2**2) - 1 / (2 * s2))
    np.testing.assert_allclose(fit.mixture.coef[0], beta, rtol=1e-8)
    np.testing.assert_allclose(fit.mixture.sigma, np.sqrt(s2), rtol=1e-8)


def test_gda_is_the_algorithm_box():
    data = make_mixed_regression(300, 3, 2, snr=2, symmetric=True, random_state=4)
    X, y, lam = data.X, data.y, 0.6
    start, reference = np.array([1.0, 0.5, -0.5]), np.array([0.6, 0.0, 0.8])
    task = Task(symmetric=True, sigma=1.0, start=np.stack([start, -start]), max_iter=7, tol=0)
    fit = run(GDA(lam=lam, nodes=40, reference=reference, coordinates="raw").fit(task), ArrayRows(X, y))
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    beta, gammas = start, [reference.copy(), reference.copy()]
    for _ in range(7):
        Y = (X @ beta)[:, None] + points
        slopes, ups = np.zeros(3), []
        for gamma, sign in zip(gammas, (1, -1)):
            v = X @ gamma
            model = np.tanh(Y * v[:, None])
            slopes -= sign * X.T @ (v * (model @ weights)) / len(y)
            moment = y * np.tanh(y * v) - (Y * model) @ weights
            ups.append(sign * X.T @ moment / len(y) - 2 * lam * (gamma - reference))
        beta = beta - slopes / (20 * lam)
        gammas = [gamma + up / (2 * lam) for gamma, up in zip(gammas, ups)]
    np.testing.assert_allclose(fit.mixture.coef[0], beta, rtol=1e-7)


@pytest.mark.parametrize(
    "solver",
    [
        GDA(),
        GDA(extragradient=True),
        GDA(regularizer="halved"),
        GDA(coordinates="raw"),
        GDA(lam=0.4, alpha_max=0.9, alpha_min=0.12),
        GDA(expectation="fresh", samples=4),
    ],
    ids=str,
)
@pytest.mark.parametrize("sigma", [None, 1.0])
def test_gda_and_its_options_find_beta(solver, sigma):
    data = make_mixed_regression(8000, 6, snr=4, symmetric=True, random_state=0)
    fit = MixedLinearRegression(solver=solver, symmetric=True, sigma=sigma, random_state=0).fit(data.X, data.y)
    assert coefficient_error(fit.coef_, data.coef) < 0.03


def test_gda_of_three_components_improves_on_its_start():
    data = make_mixed_regression(4000, 6, 3, snr=4, random_state=1)
    fit = MixedLinearRegression(3, solver=GDA(nodes=12), max_iter=150, random_state=0).fit(data.X, data.y)
    assert coefficient_error(fit.coef_, data.coef) < 0.05
    assert fit.history_[-1]["gradient_norm"] < 0.1 * fit.history_[0]["gradient_norm"]


@pytest.mark.parametrize("rows_per_group", [None, 5])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_minimax_objective_that_is_reported_has_the_gradient_that_is_reported(symmetric, rows_per_group):
    data = make_mixed_regression(300, 3, 2, snr=2, symmetric=symmetric, groups=rows_per_group, random_state=0)
    small, none = 1e-6, 1e-14

    def change(**alphas):
        """What one step of beta, or of gamma, changes the objective by; and the gradient's square before it."""
        reference = None if symmetric else data.coef + 1.0
        solver = GDA(lam=0.5, expectation="frozen", samples=8, reference=reference, **alphas)
        start = "random" if symmetric else data.coef + 0.5
        model = MixedLinearRegression(
            2, solver=solver, symmetric=symmetric, fit_intercept=False, sigma=1.0, equal_weights=True, start=start,
            max_iter=1, tol=0, random_state=0,
        )  # fmt: skip
        first, second = model.fit(data.X, data.y, groups=data.groups).history_
        return second["objective"] - first["objective"], first["gradient_norm"] ** 2

    (fall, square), (rise, _) = change(alpha_min=small, alpha_max=none), change(alpha_min=none, alpha_max=small)
    assert rise - fall == pytest.approx(small * square, rel=1e-3)


def test_the_theorems_steps_descend_slowly_but_surely():
    data = make_mixed_regression(500, 2, snr=1, symmetric=True, random_state=0)
    solver = GDA(lam=80.0, steps="theorem", regularizer="halved", coordinates="raw", nodes=24)
    fit = MixedLinearRegression(solver=solver, symmetric=True, sigma=1.0, max_iter=200, tol=0).fit(data.X, data.y)
    norms = [record["gradient_norm"] for record in fit.history_]
    assert norms[-1] < norms[1]
    with pytest.raises(ValueError, match=r"eta = .* below lam \(got eta=.*, lam=0.1\)"):
        MixedLinearRegression(solver=GDA(lam=0.1, steps="theorem"), symmetric=True).fit(data.X, data.y)


@pytest.mark.parametrize("method", ["wmlr", "em", "gem", GDA(lam=0.36)], ids=["wmlr", "em", "gem", "gda"])
def test_sigma_known_or_not(method):
    data = make_mixed_regression(20_000, 5, snr=2, sigma=0.5, symmetric=True, random_state=0)
    settings = {"solver": method} if isinstance(method, GDA) else {"method": method}
    free = MixedLinearRegression(symmetric=True, **settings).fit(data.X, data.y)
    known = MixedLinearRegression(symmetric=True, sigma=0.5, **settings).fit(data.X, data.y)
    assert free.sigma_[0] == pytest.approx(0.5, rel=0.03)
    assert known.sigma_[0] == 0.5
    assert coefficient_error(free.coef_, data.coef) < 0.05
    assert coefficient_error(known.coef_, data.coef) < 0.05


@pytest.mark.parametrize("method", ["wmlr", "em", "gem"])
def test_three_components_by_every_method(method):
    data = make_mixed_regression(6000, 8, 3, snr=5, weights=[0.5, 0.3, 0.2], random_state=3)
    X = data.X + 2.0
    fit = MixedLinearRegression(3, method=method, random_state=0, max_iter=500).fit(X, data.y)
    assert coefficient_error(fit.coef_, data.coef) < 0.06
    np.testing.assert_allclose(fit.weights_, [0.5, 0.3, 0.2], atol=0.03)
    np.testing.assert_allclose(fit.intercept_, -2 * fit.coef_.sum(axis=1), atol=0.3)


def test_the_reduction_agrees_with_the_direct_fit():
    data = make_mixed_regression(40_000, 4, 2, snr=3, random_state=0)
    X, y = data.X, data.y + 1.5
    reduced = MixedLinearRegression(solver="reduction", equal_weights=True).fit(X, y)
    direct = MixedLinearRegression(equal_weights=True).fit(X, y)
    assert coefficient_error(reduced.coef_, direct.coef_) < 0.03
    np.testing.assert_allclose(reduced.intercept_, 1.5, atol=0.1)
    assert reduced.log_likelihood_ < direct.log_likelihood_
    with pytest.raises(ValueError, match="equal_weights=True"):
        Reduction().fit(Task())


def test_one_component_is_least_squares():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((100, 3)), generator.standard_normal(100)
    fit = MixedLinearRegression(1).fit(X, y)
    coef, residuals, *_ = np.linalg.lstsq(np.column_stack([X, np.ones(100)]), y, rcond=None)
    np.testing.assert_allclose(np.append(fit.coef_[0], fit.intercept_), coef, rtol=1e-9)
    assert fit.sigma_[0] == pytest.approx(np.sqrt(residuals[0] / 100), rel=1e-9)


def test_bad_settings_name_the_value():
    with pytest.raises(ValueError, match=r"lam must be positive \(got -1\)"):
        GDA(lam=-1)
    with pytest.raises(ValueError, match=r"regularizer must be one of 'printed', 'halved' \(got 'none'\)"):
        GDA(regularizer="none")
    with pytest.raises(ValueError, match=r"alpha must be positive \(got 0\)"):
        GEM(alpha=0)
