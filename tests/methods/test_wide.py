"""Many columns: products lead where the matrix leads, and no matrix of the columns is made."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.base import clone

from longer import long
from wmlr import GDA, GEM, MixedLinearRegression, Reduction
from wmlr.core.round import Rows, add
from wmlr.core.round import run as carry
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows
from wmlr.engines.arrays import single_blas
from wmlr.families import Student
from wmlr.methods import EM, Refreshed, wide
from wmlr.methods.krylov import leading_eigenpairs, solve
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.model.gates import EQUAL, FREE
from wmlr.numerics.coordinates import WIDE, scale_frame
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.products import FourthProducts, PosteriorProducts, Products, Scales
from wmlr.statistics.score import MixtureScore


def correlated(n, d, k, *, symmetric, snr=4.0, seed=1):
    """Columns of very different size, correlated, and off centre where there is an intercept."""
    data = make_mixed_regression(n, d, k, snr=snr, symmetric=symmetric, random_state=seed)
    generator = np.random.default_rng(seed)
    turn = np.eye(d) + 0.1 * generator.standard_normal((d, d))
    X = data.X @ turn * np.exp(generator.standard_normal(d)) + (0.0 if symmetric else 2.0)
    return X, data.y


def run(method, rows):
    """A method carried to its end, with one thread for its small matrices."""
    with single_blas(rows.n_features):
        return carry(method, rows)


def carried(steps, answer):
    """Steps driven by a function that answers their queries."""
    query = next(steps)
    while True:
        try:
            query = steps.send(answer(query))
        except StopIteration as stop:
            return stop.value


def assert_same(ours, theirs, rtol=1e-6):
    a, b = ours.mixture.ordered(), theirs.mixture.ordered()
    for name in ("coef", "intercept", "weights", "sigma"):
        one, other = getattr(a, name), getattr(b, name)
        assert np.linalg.norm(one - other) <= rtol * max(np.linalg.norm(other), 1e-3), name


@pytest.mark.parametrize("solver", [Refreshed(), EM()], ids=["wmlr", "em"])
@pytest.mark.parametrize(
    "options",
    [
        {"symmetric": True},
        {"symmetric": True, "ridge": 30.0},
        {"n_components": 1},
        {"n_components": 2},
        {"n_components": 3, "ridge": 20.0, "shared_sigma": False},
        {"n_components": 2, "shared": (0, 3)},
        {"n_components": 2, "family": Student(4.0)},
        {"n_components": 2, "sigma": 1.0, "gate": EQUAL},
    ],
    ids=str,
)
def test_products_lead_where_the_matrix_leads(solver, options):
    symmetric = options.get("symmetric", False)
    X, y = correlated(900, 12, options.get("n_components", 2), symmetric=symmetric)
    more = () if solver == EM() else (np.random.default_rng(0).uniform(0.5, 2, 900), np.arange(900) // 3)
    task = Task(
        **{"intercept": not symmetric, "gate": EQUAL if symmetric else FREE, "tol": 1e-13, "max_iter": 2000} | options
    )
    by_matrix = run(solver.fit(task), ArrayRows(X, y, *more))
    by_products = run(solver.fit(replace(task, wide=True)), ArrayRows(X, y, *more))
    assert_same(by_products, by_matrix)
    values = [record["objective"] for record in by_products.history]
    assert np.all(np.diff(values) >= -1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_gradient_em_ends_at_the_same_maximum(symmetric):
    X, y = correlated(2000, 6, 2, symmetric=symmetric)
    task = Task(
        symmetric=symmetric, intercept=not symmetric, gate=EQUAL if symmetric else FREE, tol=1e-12, max_iter=20_000
    )
    by_matrix = run(EM().fit(replace(task, tol=1e-13)), ArrayRows(X, y))
    assert_same(run(GEM().fit(replace(task, wide=True)), ArrayRows(X, y)), by_matrix)


def test_the_reduction_is_the_same():
    X, y = correlated(2000, 8, 2, symmetric=False)
    task = Task(intercept=True, gate=EQUAL, tol=1e-13)
    by_matrix = run(Reduction().fit(task), ArrayRows(X, y))
    assert_same(run(Reduction().fit(replace(task, wide=True)), ArrayRows(X, y)), by_matrix)


@pytest.mark.parametrize("symmetric", [True, False])
def test_descent_ascent_takes_the_same_steps_in_the_same_coordinates(symmetric):
    data = make_mixed_regression(1000, 6, 2, snr=4, symmetric=symmetric, random_state=0)
    reference = data.coef[0] / 5 if symmetric else data.coef
    task = Task(symmetric=symmetric, gate=EQUAL if symmetric else FREE, start=data.coef, tol=1e-10, max_iter=200)
    task = replace(
        task, sigma=1.0 if symmetric else None
    )  # the unit of its steps, else from a direction found otherwise
    solver = GDA(coordinates="raw", reference=reference, lam=1.0)
    by_matrix = run(solver.fit(task), ArrayRows(data.X, data.y))
    assert_same(run(solver.fit(replace(task, wide=True)), ArrayRows(data.X, data.y)), by_matrix)
    scaled_columns = run(GDA(lam=1.0).fit(replace(task, wide=True)), ArrayRows(data.X, data.y))
    assert coefficient_error(scaled_columns.mixture.coef, data.coef) < 0.05


@pytest.mark.parametrize("grouped", [True, False])
def test_descent_ascent_knows_groups_from_light_rows(grouped):
    data = make_mixed_regression(600, 3, 2, snr=4, groups=2, random_state=0)
    rows = ArrayRows(data.X, data.y, np.full(600, 0.5), data.groups if grouped else None)
    task = Task(start=data.coef, tol=1e-10, max_iter=20)
    solver = GDA(coordinates="raw", reference=data.coef, lam=1.0)
    assert_same(run(solver.fit(replace(task, wide=True)), rows), run(solver.fit(task), rows), 1e-5)


def test_local_steps_need_white_columns():
    with pytest.raises(ValueError, match="local_steps=2 needs the columns whitened"):
        GDA(local_steps=2).fit(Task(wide=True))


def test_conjugate_gradients_solve_each_system():
    generator = np.random.default_rng(0)
    matrices = [np.cov(generator.standard_normal((12, 40))) + s * np.eye(12) for s in (0.1, 1.0)]
    right = generator.standard_normal((12, 2))
    diagonal = np.stack([np.diag(matrix) for matrix in matrices], axis=1)

    def product(V):
        return (yield V)

    def answer(V):
        return np.stack([matrix @ v for matrix, v in zip(matrices, V.T)], axis=1)

    X, images = carried(solve(product, right, diagonal, 1e-12), answer)
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(X[:, i], np.linalg.solve(matrix, right[:, i]), rtol=1e-8)
    np.testing.assert_allclose(images, answer(X), rtol=1e-8)


def test_conjugate_gradients_find_the_shortest_solution():
    half = np.random.default_rng(1).standard_normal((20, 5))
    matrix, right = half @ half.T, half @ np.arange(1.0, 6.0)

    def product(V):
        return (yield V)

    X, _ = carried(solve(product, right[:, None], np.ones((20, 1)), 1e-12), lambda V: matrix @ V)
    np.testing.assert_allclose(X[:, 0], np.linalg.pinv(matrix) @ right, rtol=1e-7)


def test_the_search_finds_the_leading_eigenvectors():
    generator = np.random.default_rng(2)
    M, half = generator.standard_normal((30, 30)), generator.standard_normal((30, 90))
    M, B = M + M.T, half @ half.T / 90

    def pencil(V):
        return (yield V)

    values, vectors = carried(
        leading_eigenpairs(pencil, generator.standard_normal((30, 4)), 2, 1e-9, 30), lambda V: (M @ V, B @ V)
    )
    wanted, exact = eigh(M, B)
    np.testing.assert_allclose(values, wanted[::-1][:2], rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.diag(vectors.T @ B @ exact[:, ::-1][:, :2])), 1.0, atol=1e-6)


@pytest.mark.parametrize("grouped", [True, False])
def test_products_are_those_of_the_matrices_and_add_up(grouped):
    generator = np.random.default_rng(3)
    X, y = correlated(120, 4, 2, symmetric=False)
    weight = generator.random(120)
    starts = np.arange(0, 120, 6) if grouped else None
    rows = Rows(X, y, weight, starts)
    halves = [
        Rows(X[part], y[part], weight[part], np.arange(0, 60, 6) if grouped else None)
        for part in (slice(0, 60), slice(60, 120))
    ]
    V, mean = generator.standard_normal((5, 3)), generator.standard_normal(5)
    moments, fourth = Moments(intercept=True).answer(rows), FourthMoments(mean).answer(rows)
    scales = Scales(intercept=True).answer(rows)
    np.testing.assert_allclose(scales["xx"], np.diag(moments["gram"])[:4])
    np.testing.assert_allclose(scales["x"], moments["gram"][:, -1])
    np.testing.assert_allclose(Products(V).answer(rows)["gram"], moments["gram"] @ V)
    found = FourthProducts(V, mean).answer(rows)
    np.testing.assert_allclose(found["fourth"], fourth["fourth"] @ V)
    np.testing.assert_allclose(found["growth"], fourth["fourth"][:, -1])
    if grouped:
        np.testing.assert_allclose(found["pairs"], fourth["pairs"] @ V)
    coef, log_weights, s2 = generator.standard_normal((5, 2)), np.log([0.3, 0.7]), np.array([1.0, 2.0])
    grams = MixtureScore(coef, log_weights, s2, grams=True).answer(rows)["grams"]
    query = PosteriorProducts(coef, log_weights, s2, V[:, :2])
    wanted = np.stack([gram @ v for gram, v in zip(grams, V[:, :2].T)], axis=1)
    np.testing.assert_allclose(query.answer(rows)["grams"], wanted)
    for one in (Scales(intercept=True), Products(V), FourthProducts(V, mean), query):
        whole = one.answer(rows)
        for name, value in add(one.answer(half) for half in halves).items():
            np.testing.assert_allclose(value, whole[name], err_msg=name)


def test_scaled_coordinates_go_there_and_back():
    X, y = correlated(200, 5, 2, symmetric=False)
    X[:, 2] = 7.0
    frame = scale_frame(Scales(intercept=True).answer(Rows(X, y)), True)
    coef = np.random.default_rng(0).standard_normal((6, 3))
    coef[2] = 0.0
    np.testing.assert_allclose(frame.to_data(frame.inside(coef)), coef, atol=1e-10)
    columns = np.column_stack([X, np.ones(200)]) @ frame.to_data(np.eye(6))
    np.testing.assert_allclose(columns[:, [0, 1, 3, 4]].std(axis=0), 1.0)
    np.testing.assert_allclose(columns[:, :5].mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(columns[:, 2], 0.0)
    np.testing.assert_allclose(frame.mean_of(np.column_stack([X, np.ones(200)]).T @ y), columns.T @ y / 200, atol=1e-8)


class Listened(ArrayRows):
    """Rows that remember what they were asked."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.asked = []

    def total(self, query):
        self.asked.append(type(query).__name__)
        return super().total(query)


@pytest.mark.parametrize("options", [{}, {"symmetric": True}, {"method": "em"}, {"method": "gem"}, {"solver": "gda"}])
def test_an_estimator_asks_for_the_matrix_of_few_columns_only(monkeypatch, options):
    X, y = correlated(300, 5, 2, symmetric=True)
    for limit, there in ((4, False), (5, True)):
        monkeypatch.setattr("wmlr.estimator.fitting.WIDE", limit)
        rows = Listened(X, y)
        MixedLinearRegression(2, random_state=0, max_iter=3, **options).fit_on(rows)
        assert ("Moments" in rows.asked) is there


def test_fewer_rows_than_columns_give_the_shortest_fit(monkeypatch):
    monkeypatch.setattr("wmlr.estimator.fitting.WIDE", 10)
    generator = np.random.default_rng(0)
    X, y = (
        generator.standard_normal((30, 50)) * np.exp(generator.standard_normal(50)) + 1.0,
        generator.standard_normal(30),
    )
    with pytest.warns(UserWarning, match=r"fewer rows \(30\) than columns \(50\)"):
        fit = MixedLinearRegression(1, tol=1e-14).fit(X, y)
    scale = X.std(axis=0)
    shortest = np.linalg.lstsq((X - X.mean(axis=0)) / scale, y - y.mean(), rcond=None)[0] / scale
    np.testing.assert_allclose(fit.coef_[0], shortest, rtol=1e-5, atol=1e-7)
    with pytest.warns(UserWarning, match="fewer rows"):
        two = MixedLinearRegression(2, random_state=0).fit(X, y)
    assert np.all(np.isfinite(two.coef_))
    assert np.isfinite(two.log_likelihood_)


@pytest.mark.filterwarnings("error")
def test_a_ridge_makes_fewer_rows_than_columns_a_problem_like_others():
    X, y = correlated(60, 80, 1, symmetric=False)
    task = Task(n_components=1, intercept=True, ridge=20.0, tol=1e-13, max_iter=500)
    by_matrix = run(EM().fit(task), ArrayRows(X, y))
    assert_same(run(EM().fit(replace(task, wide=True)), ArrayRows(X, y)), by_matrix, 1e-5)
    two = replace(task, n_components=2, sigma=1.0, search="quick")
    by_matrix = run(EM().fit(two), ArrayRows(X, y))
    near = np.column_stack([by_matrix.mixture.coef, by_matrix.mixture.intercept]) * 1.01
    assert_same(run(EM().fit(replace(two, wide=True, start=near)), ArrayRows(X, y)), by_matrix, 1e-4)


@pytest.mark.parametrize(("n", "d", "limit"), [(8_000, 1_200, 1_000), long(20_000, 3_000, WIDE)])
def test_thousands_of_columns_without_their_matrix(monkeypatch, n, d, limit):
    monkeypatch.setattr("wmlr.estimator.fitting.WIDE", limit)
    data = make_mixed_regression(n, d, 2, snr=2, symmetric=True, groups=20, random_state=0)
    model = MixedLinearRegression(2, symmetric=True, random_state=0, tol=1e-13)
    clone(model).set_params(max_iter=1).fit(data.X, data.y, groups=data.groups)  # imports and compiles what it needs
    tracemalloc.start()
    try:
        model.fit(data.X, data.y, groups=data.groups)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert d > limit
    assert peak < d * d * 8
    beta, s2 = model.coef_[0], model.sigma_[0] ** 2
    u = data.X @ beta
    signs = np.tanh(np.bincount(data.groups, data.y * u) / s2)[data.groups]
    score = data.X.T @ (signs * data.y - u) / n
    assert np.linalg.norm(score) < 2e-7 * np.linalg.norm(beta)
    assert model.converged_
    assert coefficient_error(model.coef_, data.coef) < 0.25


@pytest.mark.parametrize(("n", "d", "part"), [(20_000, 5_000, 8), long(80_000, 20_000, 30)])
def test_thousands_of_sparse_columns(n, d, part):
    size = 50
    generator = np.random.default_rng(0)
    X = sp.random_array((n, d), density=20 / d, format="csr", rng=generator, data_sampler=generator.standard_normal)
    coef = generator.standard_normal((2, d))
    groups = np.arange(n) // size
    labels = generator.integers(2, size=n // size)[groups]
    y = (X @ coef.T)[np.arange(n), labels] + 0.5 * generator.standard_normal(n)
    model = MixedLinearRegression(2, alpha=1.0, random_state=0, max_iter=8)
    clone(model).set_params(max_iter=1).fit(X, y, groups=groups)  # imports and compiles what it needs
    tracemalloc.start()
    try:
        model.fit(X, y, groups=groups)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < d * d * 8 / part
    agreement = np.mean(model.assign(X, y, groups) == labels)
    assert max(agreement, 1 - agreement) > 0.9


def test_the_norm_of_the_columns_is_never_exceeded():
    X, y = correlated(500, 12, 2, symmetric=False)
    X = X @ (np.eye(12) + 0.5)
    rows = ArrayRows(X, y)
    frame = carried(wide.survey(Task(intercept=True), stretched=True), rows.total)
    W = np.column_stack([X, np.ones(500)]) @ frame.to_data(np.eye(13))
    top = np.linalg.eigvalsh(W.T @ W / 500)[-1]
    assert 0.8 < top <= 1.0 + 1e-9
