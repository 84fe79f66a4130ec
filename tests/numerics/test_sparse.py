"""A sparse X gives the dense fit, and is never made dense."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from longer import long
from wmlr import GDA, MixedLinearRegression
from wmlr.core.round import Rows, Sampled, join
from wmlr.numerics import kernels
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.numerics.sparse import Csr
from wmlr.statistics import compiled
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.products import FourthProducts, Products, Scales
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore


def sparse_problem(n, d, density, symmetric=False, seed=0):
    """A CSR matrix, and a response of two regressions on it."""
    generator = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, format="csr", rng=generator, data_sampler=generator.standard_normal)
    X.data *= 2.0 / np.sqrt(density * d)
    coef = 3.0 * generator.standard_normal((2, d))
    coef = np.stack([coef[0], -coef[0]]) if symmetric else coef
    labels = generator.integers(2, size=n // 5 + 1).repeat(5)[:n]
    y = (X @ coef.T + (0 if symmetric else 1))[np.arange(n), labels] + generator.standard_normal(n)
    return X, y, labels


def rows_of(kind, n, seed=1):
    """What goes with the rows besides X and y."""
    generator = np.random.default_rng(seed)
    weight = generator.integers(0, 4, n).astype(float) if kind == "weighted" else None
    groups = generator.permutation(np.arange(n) // 5) if kind == "shuffled groups" else None
    return {"sample_weight": weight, "groups": np.arange(n) // 5 if kind == "grouped" else groups}


def assert_same(ours, theirs, rtol=1e-8):
    for name in ("coef_", "intercept_", "weights_", "sigma_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=rtol, atol=1e-9, err_msg=name)


METHODS = {
    "wmlr": {},
    "em": {"method": "em"},
    "gem": {"method": "gem"},
    "gda": {"solver": "gda", "max_iter": 15},
    "gda, noise drawn": {"solver": GDA(expectation="frozen"), "max_iter": 15},
}


KINDS = ["plain", "weighted", "grouped", "shuffled groups"]
CASES = list(itertools.product(METHODS, [True, False], KINDS))


@pytest.mark.parametrize(("method", "symmetric", "kind"), [long(*c) if n % 3 else c for n, c in enumerate(CASES)])
def test_a_sparse_fit_is_the_dense_fit(method, symmetric, kind):
    X, y, _ = sparse_problem(400, 6, 0.4, symmetric)
    model = MixedLinearRegression(2, symmetric=symmetric, random_state=0, **METHODS[method])
    more = rows_of(kind, 400)
    dense = model.fit(X.toarray(), y, **more)
    assert_same(MixedLinearRegression(**model.get_params()).fit(X, y, **more), dense)


@pytest.mark.parametrize(
    "options",
    [
        {"robust": True},
        {"shared": [1], "fit_intercept": False},
        {"alpha": 10.0, "shared_sigma": False},
        {"n_init": 3, "start": "random"},
        {"solver": "reduction", "equal_weights": True},
        {"solver": GDA(local_steps=2), "max_iter": 10},
    ],
    ids=str,
)
def test_options_do_not_mind_sparsity(options):
    X, y, _ = sparse_problem(500, 5, 0.5)
    model = MixedLinearRegression(2, random_state=0, **options)
    dense = model.fit(X.toarray(), y)
    assert_same(MixedLinearRegression(**model.get_params()).fit(X, y), dense)


def test_a_fitted_model_reads_sparse_rows():
    X, y, labels = sparse_problem(300, 4, 0.5)
    model = MixedLinearRegression(2, random_state=0).fit(X, y, groups=labels)
    whole = X.toarray()
    for name in ("predict", "predict_components", "predict_quantile"):
        np.testing.assert_allclose(getattr(model, name)(X), getattr(model, name)(whole), rtol=1e-10)
    for name in ("responsibilities", "assign", "score", "bic", "icl"):
        np.testing.assert_allclose(
            getattr(model, name)(X, y, groups=labels), getattr(model, name)(whole, y, groups=labels), rtol=1e-8
        )
    np.testing.assert_array_equal(model.sample(X, 3)[1], model.sample(whole, 3)[1])
    alone = MixedLinearRegression(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(alone.covariance(X, y), alone.covariance(whole, y), rtol=1e-7, atol=1e-10)
    assert str(alone.summary(X, y)) == str(alone.summary(whole, y))


def test_the_bootstrap_draws_sparse_rows():
    X, y, _ = sparse_problem(200, 3, 0.6)
    model = MixedLinearRegression(2, random_state=0).fit(X, y)
    found = model.bootstrap(X, y, n_boot=3, kind="rows", random_state=0)
    wanted = model.bootstrap(X.toarray(), y, n_boot=3, kind="rows", random_state=0)
    np.testing.assert_allclose(found.draws, wanted.draws, rtol=1e-6)


def test_cross_validation_and_transformers_take_sparse_rows():
    X, y, _ = sparse_problem(300, 4, 0.5)
    search = GridSearchCV(MixedLinearRegression(random_state=0), {"n_components": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"n_components": 2}
    scaled = MixedLinearRegression(2, features=StandardScaler(with_mean=False), random_state=0).fit(X, y)
    plain = MixedLinearRegression(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), atol=1e-5)


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_formats_are_copied_once_and_that_is_said(form):
    X, y, _ = sparse_problem(200, 4, 0.5)
    wanted = MixedLinearRegression(2, random_state=0).fit(X, y)
    with pytest.warns(DataConversionWarning, match=f"format '{form}' and is copied to 'csr' once"):
        found = MixedLinearRegression(2, random_state=0).fit(X.asformat(form), y)
    assert_same(found, wanted)
    np.testing.assert_allclose(found.predict(X.asformat(form)), wanted.predict(X))


def test_csr_is_not_copied_and_repeated_entries_are_not_the_users_trouble():
    X, y, _ = sparse_problem(200, 4, 0.5)
    assert np.shares_memory(Csr.of(X).data, X.data)
    assert np.shares_memory(Csr.of(sp.csr_matrix(X))[10:20].data, X.data)
    rows = X.tocoo()
    order = np.random.default_rng(0).permutation(2 * len(rows.data))
    twice = [np.tile(part, 2)[order] for part in (rows.data / 2, rows.row, rows.col)]
    by_row = np.argsort(twice[1], kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(twice[1], minlength=200)))
    messy = sp.csr_array((twice[0][by_row], twice[2][by_row], indptr), shape=X.shape)
    before = messy.data.copy()
    found = MixedLinearRegression(2, random_state=0).fit(messy, y)
    assert_same(found, MixedLinearRegression(2, random_state=0).fit(X, y))
    np.testing.assert_array_equal(messy.data, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_refused_by_place(bad):
    X, y, _ = sparse_problem(50, 4, 0.9)
    X = X.tolil()
    X[7, 2] = bad
    kind = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=rf"X contains {kind} \(row 7, column 2\)"):
        MixedLinearRegression(2).fit(X.tocsr(), y)


def test_nobody_makes_it_dense_by_accident():
    X = Csr.of(sparse_problem(20, 4, 0.5)[0])
    for careless in (np.asarray, np.sum, lambda x: np.column_stack([x, np.ones(20)])):
        with pytest.raises(TypeError):
            careless(X)


def test_rows_are_cut_and_joined_as_those_of_an_array():
    matrix, y, _ = sparse_problem(60, 5, 0.4)
    whole, X = matrix.toarray(), Csr.of(matrix)
    some = np.random.default_rng(0).integers(60, size=25)
    for chosen in (slice(7, 31), slice(3, 3), slice(0, 60, 2), some, whole[:, 0] > 0):
        np.testing.assert_array_equal(X[chosen].dense(), whole[chosen])
    np.testing.assert_array_equal(X[10:40][:, 3], whole[10:40, 3])
    rows = Rows(X, y, starts=np.arange(0, 60, 4), index=np.arange(60))
    dense = replace(rows, X=whole)
    ours, theirs = Sampled(Moments(), 0.5).rows(rows), Sampled(Moments(), 0.5).rows(dense)
    np.testing.assert_array_equal(ours.index, theirs.index)
    np.testing.assert_array_equal(join([ours, rows]).X.dense(), join([theirs, dense]).X)


def queries(d, k, generator):
    """Statistics on d columns with an intercept for k components."""
    B, G = generator.standard_normal((2, d + 1, 2 * k)) / np.sqrt(d)
    b, log_weights, s2 = B[:, 0], np.log(generator.dirichlet(np.full(k, 3.0))), 0.5 + generator.random(k)
    exact = GaussHermite(6)
    return [
        SymmetricScore(b, 0.7, B[:, 1]),
        MixtureScore(B[:, :k], log_weights, s2),
        MixtureScore(B[:, :k], log_weights, s2, grams=True),
        SymmetricMinimax(b, G[:, :2], 0.7, exact, 1.3),
        SymmetricMinimax(b, G[:, :2], 0.7, Drawn(3), 1.3),
        Minimax(B[:, :k], G, log_weights, s2, 0.6, exact, 1.1),
        Moments(intercept=True, fourth=True),
        FourthMoments(b),
        Scales(intercept=True),
        Products(B),
        FourthProducts(B, b),
        ObservedInformation(B[:, :k], np.exp(log_weights), s2),
    ]


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("kind", ["plain", "weighted", "grouped"])
def test_every_statistic_of_sparse_rows_is_that_of_dense_ones(monkeypatch, loops, kind):
    monkeypatch.setattr(compiled, "WORTHWHILE", 0 if loops else np.inf)
    generator = np.random.default_rng(5)
    X, y, _ = sparse_problem(700, 5, 0.4)
    X.data.setflags(write=False)
    weight = generator.random(700) * (generator.random(700) > 0.2) if kind == "weighted" else None
    starts = np.unique(np.append(generator.integers(0, 700, 100), 0)) if kind == "grouped" else None
    sparse = Rows(Csr.of(X), y, weight, starts, np.arange(700))
    dense = replace(sparse, X=X.toarray())
    for query in queries(5, 3, generator):
        if isinstance(query, Minimax) and starts is not None:
            continue
        wanted = query.answer(dense)
        for name, value in query.answer(sparse).items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-9, err_msg=f"{query} {name}")


def test_single_precision_is_kept(monkeypatch):
    monkeypatch.setattr(compiled, "WORTHWHILE", 0)
    X, y, _ = sparse_problem(300, 4, 0.5)
    single = X.astype(np.float32)
    assert Csr.of(single).dtype == np.float32
    assert kernels.gram(Csr.of(single), None, intercept=True).dtype == np.float64
    found = MixedLinearRegression(2, random_state=0).fit(single, y)
    wanted = MixedLinearRegression(2, random_state=0).fit(single.toarray(), y)
    assert_same(found, wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("method", "symmetric"),
    [
        *[("wmlr", False), ("em", True), ("gem", True), ("gda", False)],
        *[long("wmlr", True), long("em", False), long("gem", False), long("gda", True)],
    ],
)
def test_no_dense_copy_of_many_rows_is_made(method, symmetric):
    n, d = 100_000, 500
    X, y, _ = sparse_problem(n, d, 0.005, symmetric)
    options = METHODS[method] | {"max_iter": 2}

    def fit_and_look(X, y):
        model = MixedLinearRegression(2, symmetric=symmetric, random_state=0, **options).fit(X, y)
        model.responsibilities(X, y)
        model.score(X, y)

    fit_and_look(X[:20_000], y[:20_000])  # compiles what it needs, which takes long where memory is traced
    tracemalloc.start()
    try:
        fit_and_look(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n * d * 8 / 8
