"""Mix-IRLS and AltMin: what their papers promise, and the same iterates wherever the rows are."""

import numpy as np
import pytest

from wmlr import AltMin, MixedLinearRegression, MixIRLS
from wmlr.core.round import Rows, add, run
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.statistics.cluster_score import ClusterScore
from wmlr.statistics.irls import InverseSquareScore, RedescendingScore, ResidualHistogram, inverse_square_shares


def drawn(n, d, weights, sigma, seed, outliers=0.0):
    """The published setting: normal features, normal coefficients, a share of responses that belong nowhere."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(weights), n, p=weights)
    X, coef = generator.standard_normal((n, d)), generator.standard_normal((len(weights), d))
    y = np.einsum("ij,ij->i", X, coef[labels]) + sigma * generator.standard_normal(n)
    astray = generator.random(n) < outliers
    return X, np.where(astray, 3.0 * np.sqrt(d) * generator.standard_normal(n), y), coef, labels


def fitted(X, y, k, method, seed=0, **settings):
    model = MixedLinearRegression(k, method=method, fit_intercept=False, random_state=seed, n_jobs=1, **settings)
    return model.fit(X, y)


def test_unbalanced_components_in_many_dimensions_are_found():
    found = []
    for seed in range(4):
        X, y, coef, _ = drawn(1300, 100, [0.7, 0.2, 0.1], 0.01, seed)
        found.append(coefficient_error(fitted(X, y, 3, "mix-irls", seed).coef_, coef) < 0.02)
    assert sum(found) >= 3


def test_the_second_phase_ends_at_least_squares_with_the_known_labels():
    X, y, coef, labels = drawn(3000, 20, [0.5, 0.3, 0.2], 1e-3, 0)
    model = fitted(X, y, 3, "mix-irls")
    assert model.converged_
    assert len(model.history_) > 3
    known = np.stack([np.linalg.lstsq(X[labels == j], y[labels == j], rcond=None)[0] for j in range(3)])
    assert coefficient_error(model.coef_, known) < 3e-4
    assert coefficient_error(model.coef_, coef) < 1.3 * coefficient_error(known, coef)
    np.testing.assert_allclose(model.weights_, [0.5, 0.3, 0.2], atol=0.03)


def test_outliers_are_left_out():
    X, y, coef, _ = drawn(1500, 10, [0.6, 0.4], 0.01, 1, outliers=0.1)
    robust = fitted(X, y, 2, MixIRLS(outliers=0.1), 1)
    assert coefficient_error(robust.coef_, coef) < 5e-3
    assert np.all(robust.sigma_ < 0.05)
    assert coefficient_error(robust.coef_, coef) < 0.1 * coefficient_error(fitted(X, y, 2, "mix-irls", 1).coef_, coef)


def test_an_unknown_number_of_components_is_found():
    X, y, coef, _ = drawn(2000, 10, [0.5, 0.3, 0.2], 1e-3, 2)
    model = fitted(X, y, 8, MixIRLS(unknown_k=True, outliers=0.02, oversampling=2.0))
    assert len(model.coef_) == 3
    assert coefficient_error(model.coef_, coef) < 1e-3


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_the_objective_of_altmin_never_falls(symmetric, grouped):
    data = make_mixed_regression(600, 5, 2, snr=3, symmetric=symmetric, groups=3, random_state=0)
    groups = data.groups if grouped else None
    for seed in range(3):
        model = MixedLinearRegression(2, method="altmin", symmetric=symmetric, random_state=seed)
        model.fit(data.X, data.y, groups=groups)
        objective = np.array([record["objective"] for record in model.history_])
        assert model.converged_
        assert np.all(np.diff(objective) >= -1e-12 * np.abs(objective[1:]))
        assert objective[-1] > objective[0]


def test_altmin_ends_where_every_row_has_its_closest_line_and_every_line_its_rows():
    X, y, coef, _ = drawn(2000, 5, [0.6, 0.4], 0.1, 3)
    model = fitted(X, y, 2, "altmin", n_init=5)
    chosen = np.abs(y[:, None] - X @ model.coef_.T).argmin(axis=1)
    for j in range(2):
        own = np.linalg.lstsq(X[chosen == j], y[chosen == j], rcond=None)[0]
        np.testing.assert_allclose(model.coef_[j], own, atol=1e-6)
    assert coefficient_error(model.coef_, coef) < 0.02


@pytest.mark.parametrize("method", [MixIRLS(outliers=0.05), MixIRLS(unknown_k=True), AltMin()])
@pytest.mark.parametrize("level", ["row", "agent"])
def test_agents_and_arrays_give_the_same_iterates(method, level):
    data = make_mixed_regression(900, 4, 3, snr=20, groups=6, random_state=4)
    task = Task(n_components=3, intercept=True, max_iter=60, seed=5)
    here, there = [], []
    rows = ArrayRows(data.X, data.y, groups=data.groups if level == "agent" else None)
    one = run(method.fit(task), rows, lambda report: here.append(report.mixture))
    federation = Federation.split(data.X, data.y, data.groups, level=level)
    two = run(method.fit(task), federation, lambda report: there.append(report.mixture))
    assert one.n_iter == two.n_iter
    assert len(here) == len(there) > 1
    for ours, theirs in zip(here, there):
        np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-7)


@pytest.mark.parametrize("method", ["mix-irls", "altmin"])
def test_a_weight_of_two_is_the_row_twice(method, generator):
    data = make_mixed_regression(300, 3, 2, snr=20, random_state=6)
    counts = generator.integers(0, 3, 300)
    rows = np.repeat(np.arange(300), counts)
    model = MixedLinearRegression(2, method=method, random_state=0)
    weighted = model.fit(data.X, data.y, sample_weight=counts).coef_
    np.testing.assert_allclose(weighted, model.fit(data.X[rows], data.y[rows]).coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["mix-irls", "altmin"])
def test_scales_and_means_of_columns_change_nothing(method):
    data = make_mixed_regression(800, 3, 2, snr=20, random_state=7)
    model = MixedLinearRegression(2, method=method, random_state=0)
    plain = model.fit(data.X, data.y).predict_components(data.X)
    scale = np.array([1e-4, 1.0, 1e4])
    moved = model.fit(data.X * scale + scale, 5.0 * data.y + 100).predict_components(data.X * scale + scale)
    np.testing.assert_allclose(moved, 5.0 * plain + 100, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("grouped", [True, False])
def test_the_sums_of_two_blocks_add_to_those_of_both(grouped, generator):
    X, y, w = generator.standard_normal((40, 3)), generator.standard_normal(40), generator.uniform(0, 2, 40)
    coef, found = generator.standard_normal((4, 2)), generator.standard_normal((4, 1))
    starts = np.arange(0, 20, 4) if grouped else None
    whole = None if starts is None else np.concatenate([starts, starts + 20])
    log_weights, s2 = np.log([0.5, 0.5]), np.ones(2)
    for query in (
        ResidualHistogram(coef, found, np.array([0.5]), np.geomspace(0.01, 10, 20)),
        RedescendingScore(coef[:, 0], 0.7, found, np.array([0.5])),
        RedescendingScore(coef[:, 0], 0.7, found, np.array([0.5]), trimmed=True),
        InverseSquareScore(coef, log_weights, s2, 0.8),
        ClusterScore(coef, log_weights, s2, grams=True),
    ):
        halves = [query.answer(Rows(X[part], y[part], w[part], starts)) for part in (slice(0, 20), slice(20, 40))]
        both = query.answer(Rows(X, y, w, whole))
        for name, value in add(halves).items():
            np.testing.assert_allclose(value, both[name], atol=1e-12, err_msg=f"{type(query).__name__} {name}")


def test_clear_shares_are_hard_and_small_ones_nothing():
    shares = inverse_square_shares(np.array([[1.0, 10.0, 10.0], [1.0, 1.0, 3.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(shares, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0, 0.5]])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"outliers": 1.0}, "outliers must be a share from 0 to less than 1"),
        ({"oversampling": 0.5}, "oversampling must be at least 1"),
        ({"tuning": 0.0}, "tuning must be positive"),
        ({"threshold": 1.0}, "threshold must be between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        MixIRLS(**settings)


def test_a_pair_of_opposite_components_is_refused_by_the_sequential_method():
    with pytest.raises(ValueError, match="set symmetric=False"):
        MixedLinearRegression(2, symmetric=True, method="mix-irls").fit(np.ones((5, 1)), np.arange(5.0))


def test_settings_of_the_baselines_come_back_from_a_file(tmp_path):
    data = make_mixed_regression(200, 2, 2, snr=20, random_state=8)
    model = MixedLinearRegression(2, method=MixIRLS(outliers=0.1), random_state=0).fit(data.X, data.y)
    model.save(tmp_path / "model.json")
    assert MixedLinearRegression.load(tmp_path / "model.json").method == MixIRLS(outliers=0.1)
