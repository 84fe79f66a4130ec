from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from wmlr.families import Student
from wmlr.inference.fisher import cramer_rao, fisher_information
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array


def scaled_gap(a: Array, b: Array) -> float:
    """Largest difference of two information matrices, the diagonal of b scaled to 1."""
    scale = np.sqrt(np.diag(b))
    return float(np.abs((a - b) / scale / scale[:, None]).max())


def scores(mixture: Mixture, X: Array, y: Array, shared_sigma: bool, intercept: bool) -> Array:
    """Scores of the free parameters at each row, by central differences of the log-likelihood."""
    k, d = mixture.coef.shape
    width = d + intercept

    def unpack(theta: Array) -> Mixture:
        vectors, rest = theta[: k * width].reshape(k, width), theta[k * width :]
        count = 1 if shared_sigma else k
        logits = np.append(rest[count:], 0.0)
        return Mixture(
            vectors[:, :d],
            vectors[:, d] if intercept else mixture.intercept,
            np.exp(logits) / np.exp(logits).sum(),
            np.broadcast_to(np.exp(rest[:count]), (k,)),
        )

    vectors = np.column_stack([mixture.coef, mixture.intercept]) if intercept else mixture.coef
    log_sigma = np.log(mixture.sigma[:1] if shared_sigma else mixture.sigma)
    theta = np.concatenate([vectors.ravel(), log_sigma, np.log(mixture.weights[:-1] / mixture.weights[-1])])
    step = 1e-5
    return np.column_stack(
        [
            (unpack(theta + move).log_likelihood(X, y) - unpack(theta - move).log_likelihood(X, y)) / (2 * step)
            for move in step * np.eye(len(theta))
        ]
    )


@given(u=st.floats(0.01, 15.0), sigma=st.floats(0.1, 10.0))
@settings(max_examples=20, deadline=None)
def test_a_row_of_a_symmetric_pair_against_adaptive_quadrature(u, sigma):
    def expect(function):
        center, value = sorted({0.0, u}), lambda t: function(t) * norm.pdf(t - u)
        return quad(value, u - 9, u + 9, points=center, limit=200, epsabs=1e-12)[0]

    def slope(t):
        return t * np.tanh(t * u) - u

    def spread(t):
        return t**2 - 2 * t * u * np.tanh(t * u) + u**2 - 1

    found = fisher_information(Mixture.symmetric_pair([u * sigma], sigma), [[1.0]])
    expected = [
        expect(lambda t: slope(t) ** 2) / sigma**2,
        expect(lambda t: slope(t) * spread(t)) / sigma,
        expect(lambda t: spread(t) ** 2),
    ]
    assert found[[0, 0, 1], [0, 1, 1]] * [sigma**2, sigma, 1] == pytest.approx(
        np.array(expected) * [sigma**2, sigma, 1], abs=2e-5
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_one_component_is_least_squares(intercept):
    X = np.random.default_rng(0).standard_normal((50, 3))
    design = np.column_stack([X, np.ones(50)]) if intercept else X
    expected = np.zeros((design.shape[1] + 1,) * 2)
    expected[:-1, :-1] = design.T @ design / 4.0
    expected[-1, -1] = 100.0
    found = fisher_information(Mixture.of([[1.0, -2.0, 0.5]], 2.0), X, intercept=intercept)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("sigma_known", [False, True])
def test_a_symmetric_pair_is_a_constrained_pair(sigma_known):
    generator = np.random.default_rng(1)
    beta, X = generator.standard_normal(3), generator.standard_normal((200, 3))
    options = {"sigma_known": sigma_known}
    pair = Mixture.symmetric_pair(beta, 0.7)
    general = fisher_information(Mixture.of([beta, -beta], 0.7), X, equal_weights=True, **options)
    tail = np.zeros((0, 3)) if sigma_known else np.zeros((1, 3))
    jacobian = np.block([[np.vstack([np.eye(3), -np.eye(3), tail]), np.eye(len(general))[:, 6:]]])
    assert fisher_information(pair, X, **options) == pytest.approx(jacobian.T @ general @ jacobian, abs=1e-4)


@pytest.mark.parametrize(("shared_sigma", "intercept"), list(itertools.product([True, False], repeat=2)))
def test_it_is_the_variance_of_the_score(shared_sigma, intercept):
    generator = np.random.default_rng(2)
    mixture = Mixture(
        coef=np.array([[1.0, 0.5], [-1.0, 1.0], [0.0, -2.0]]),
        intercept=np.array([0.5, 0.0, -1.0]),
        weights=np.array([0.5, 0.3, 0.2]),
        sigma=np.full(3, 0.6) if shared_sigma else np.array([0.3, 0.6, 1.2]),
    )
    design = generator.standard_normal((200, 2))
    X = np.tile(design, (250, 1))
    y, _ = mixture.sample(X, generator)
    drawn = scores(mixture, X, y, shared_sigma, intercept)
    products = drawn[:, :, None] * drawn[:, None, :]
    found = fisher_information(mixture, design, shared_sigma=shared_sigma, intercept=intercept) / len(design)
    standard_error = products.std(axis=0) / np.sqrt(len(X))
    assert np.all(np.abs(products.mean(axis=0) - found) < 5.0 * standard_error)
    assert np.all(np.diag(standard_error) < 0.05 * np.diag(found))


def test_narrow_components_inside_wide_ones_are_resolved():
    mixture = Mixture(np.array([[1.0], [0.2]]), np.zeros(2), np.array([0.4, 0.6]), np.array([2.0, 0.01]))
    X = np.linspace(-2, 2, 9)[:, None]
    found = fisher_information(mixture, X, shared_sigma=False)
    finer = fisher_information(mixture, X, shared_sigma=False, nodes=1024)
    assert scaled_gap(found, finer) < 1e-6


def test_options_only_drop_rows_and_add_scales():
    generator = np.random.default_rng(3)
    X, mixture = generator.standard_normal((40, 2)), Mixture.of(generator.standard_normal((3, 2)), 0.8, [0.2, 0.3, 0.5])
    full = fisher_information(mixture, X, shared_sigma=False)
    assert full.shape == (6 + 3 + 2,) * 2
    assert full == pytest.approx(full.T)
    assert np.linalg.eigvalsh(full)[0] > 0
    known = fisher_information(mixture, X, sigma_known=True, equal_weights=True)
    assert known == pytest.approx(full[:6, :6])
    shared = fisher_information(mixture, X)
    assert shared[6, 6] == pytest.approx(full[6:9, 6:9].sum())
    assert shared[:6, 7:] == pytest.approx(full[:6, 9:])


def test_rows_add_and_their_order_does_not_matter():
    generator = np.random.default_rng(4)
    X, mixture = generator.standard_normal((6_000, 2)), Mixture.of([[1.0, 0.0], [0.0, 2.0]])
    whole = fisher_information(mixture, X)
    halves = fisher_information(mixture, X[:1_234]) + fisher_information(mixture, X[1_234:])
    assert halves == pytest.approx(whole, rel=1e-10, abs=1e-8)
    assert fisher_information(mixture, generator.permutation(X)) == pytest.approx(whole, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize(
    ("n", "snr", "gaussian"), [(1e4, 1, 0.1609), (1e4, 10, 0.01167), (1e5, 1, 0.05087), (1e5, 10, 0.003691)]
)
def test_the_papers_settings(n, snr, gaussian):
    pair = Mixture.symmetric_pair(snr * np.eye(128)[3], 1.0)
    assert cramer_rao(pair, n=n).relative_error == pytest.approx(gaussian, rel=1e-3)


def test_drawn_rows_cost_a_little_more_than_their_average():
    """Inverting a Gram of n drawn rows instead of its mean costs about n / (n - d) in variance."""
    n, d = 10_000, 128
    X = np.random.default_rng(0).standard_normal((n, d))
    pair = Mixture.symmetric_pair(10 * np.eye(d)[0], 1.0)
    found = cramer_rao(pair, X).relative_error
    assert found == pytest.approx(0.01175, rel=5e-3)
    assert found == pytest.approx(cramer_rao(pair, n=n).relative_error * np.sqrt(n / (n - d)), rel=5e-3)


@pytest.mark.parametrize("sigma", [0.1, 3.0])
def test_strong_signals_reach_least_squares_with_known_labels(sigma):
    n, d, snr = 1_000, 6, 1e5
    pair = Mixture.symmetric_pair(snr * sigma * np.eye(d)[0], sigma)
    assert cramer_rao(pair, n=n).relative_error == pytest.approx(np.sqrt(d / n) / snr, rel=1e-4)
    labelled = Mixture.of(snr * sigma * np.eye(d)[:3], sigma, [0.5, 0.25, 0.25])
    expected = np.sqrt(d / n * (2 + 4 + 4)) / (snr * np.sqrt(3))
    assert cramer_rao(labelled, n=n).relative_error == pytest.approx(expected, rel=2e-3)


def test_the_gaussian_average_is_what_many_rows_give():
    generator = np.random.default_rng(5)
    root = np.array([[2.0, 0, 0, 0], [0.5, 1.0, 0, 0], [0, -0.3, 0.7, 0], [0.1, 0, 0, 1.0]])
    X = generator.standard_normal((40_000, 4)) @ root.T
    pair = Mixture.symmetric_pair([1.0, -0.5, 0.2, 0.0], 0.8)
    shifted = Mixture(
        np.array([[1.0, 0.0, 1.0, 0.0], [-0.5, 1.0, 0.0, 0.5]]), np.array([0.5, -1.0]), np.array([0.7, 0.3]), np.ones(2)
    )
    for mixture, options in ((pair, {}), (shifted, {"intercept": True}), (shifted, {})):
        many = cramer_rao(mixture, X, **options)
        average = cramer_rao(mixture, n=len(X), covariance=root @ root.T, **options)
        assert scaled_gap(many.information, average.information) < 0.03
        assert many.relative_error == pytest.approx(average.relative_error, rel=0.01)
        assert average.covariance @ average.information == pytest.approx(np.eye(len(average.covariance)), abs=1e-8)


def test_the_general_gaussian_average_agrees_with_the_symmetric_one():
    beta = np.array([1.0, 2.0, -1.0])
    exact = cramer_rao(Mixture.symmetric_pair(beta, 1.0), n=1, sigma_known=True).information
    general = cramer_rao(Mixture.of([beta, -beta]), n=1, sigma_known=True, equal_weights=True).information
    jacobian = np.vstack([np.eye(3), -np.eye(3)])
    assert jacobian.T @ general @ jacobian == pytest.approx(exact, abs=1e-3)


@given(
    scales=st.lists(st.floats(-4, 4), min_size=3, max_size=3),
    unit=st.floats(-3, 3),
    symmetric=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_units_of_x_and_y_do_not_matter(scales, unit, symmetric):
    generator = np.random.default_rng(6)
    X, coef = generator.standard_normal((60, 3)), 2.0 * generator.standard_normal((2, 3))
    stretch, size = 10.0 ** np.array(scales), 10.0**unit

    def spread(X, coef, sigma):
        mixture = Mixture.symmetric_pair(coef[0], sigma) if symmetric else Mixture.of(coef, sigma)
        return np.sqrt(np.diag(cramer_rao(mixture, X).covariance))

    plain, scaled = spread(X, coef, 1.0), spread(X * stretch, size * coef / stretch, size)
    vectors = 1 if symmetric else 2
    plain[: 3 * vectors] *= np.tile(size / stretch, vectors)
    assert scaled == pytest.approx(plain, rel=1e-6)


def test_less_knowledge_never_helps():
    mixture = Mixture.of([[1.0, 0.0], [-0.5, 1.0]])
    errors = [
        cramer_rao(mixture, n=100, **options).relative_error
        for options in (
            {"sigma_known": True, "equal_weights": True},
            {"equal_weights": True},
            {},
            {"shared_sigma": False},
            {"shared_sigma": False, "intercept": True},
        )
    ]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: cramer_rao(m), "give the rows X, or a positive number n"),
        (lambda m: cramer_rao(m, n=-5), r"\(got n=-5\)"),
        (lambda m: cramer_rao(m, np.eye(2), n=3), "leave out n"),
        (lambda m: cramer_rao(m, n=3, covariance=np.eye(3)), r"covariance must be \(2, 2\)"),
        (lambda m: cramer_rao(m, n=3, covariance=np.ones((2, 2))), "positive definite"),
        (lambda m: cramer_rao(m, [[1.0, 1.0]]), "singular"),
        (lambda m: cramer_rao(m, [[1.0, 0.0]]), "zero for parameter 1"),
        (lambda m: cramer_rao(Mixture.of(0 * m.coef), n=3), "all zero"),
        (lambda m: fisher_information(m, np.eye(3)), r"X must have 2 columns.*\(got 3\)"),
        (lambda m: fisher_information(m, [[np.nan, 1.0]]), "NaN"),
        (lambda m: fisher_information(m, np.eye(2), nodes=2), r"nodes must be at least 16 \(got 2\)"),
        (lambda m: fisher_information(Mixture.of(m.coef, [1.0, 2.0]), np.eye(2)), "pass shared_sigma=False"),
        (lambda m: fisher_information(Mixture.of(m.coef, 0.0), np.eye(2)), "sigma of a mixture must be positive"),
        (lambda m: fisher_information(Mixture.symmetric_pair([1.0], 1.0), [[1.0]], intercept=True), "no intercepts"),
        (
            lambda m: fisher_information(Mixture(m.coef, m.intercept, m.weights, m.sigma, True), np.eye(2)),
            "beta and -beta",
        ),
        (
            lambda m: fisher_information(
                Mixture(np.array([[1.0], [-1.0]]), m.intercept, np.array([0.9, 0.1]), m.sigma, True), [[1.0]]
            ),
            "weights .5 and .5",
        ),
    ],
)
def test_impossible_questions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Mixture.of([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("dof", [1.0, 4.0, 25.0])
def test_one_student_regression_has_the_closed_form(dof):
    """Information (dof+1)/(dof+3) / sigma^2 of the mean and 2 dof/(dof+3) of log sigma, per row."""
    X = np.array([[1.0], [3.0]])
    one = replace(Mixture.of([[3.0]], sigma=2.0), family=Student(dof))
    expected = np.diag([(dof + 1) / (dof + 3) * 10.0 / 4.0, 2 * 2 * dof / (dof + 3)])
    np.testing.assert_allclose(fisher_information(one, X), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("symmetric", [False, True])
def test_students_information_is_the_mean_outer_product_of_scores(symmetric, generator):
    X = generator.standard_normal((4, 2))
    if symmetric:
        truth = replace(Mixture.symmetric_pair([1.0, -0.5], 0.7), family=Student(5.0))
        theta, settings = np.array([1.0, -0.5, np.log(0.7)]), {}
    else:
        truth = replace(Mixture.of([[1.0, 0.0], [-1.0, 0.5]], [0.7, 1.2], [0.3, 0.7]), family=Student(5.0))
        theta = np.array([1.0, 0.0, -1.0, 0.5, np.log(0.7), np.log(1.2), np.log(0.3 / 0.7)])
        settings = {"shared_sigma": False}

    def at(theta):
        if symmetric:
            return replace(Mixture.symmetric_pair(theta[:2], np.exp(theta[2])), family=Student(5.0))
        share = 1 / (1 + np.exp(-theta[6]))
        return replace(Mixture.of(theta[:4].reshape(2, 2), np.exp(theta[4:6]), [share, 1 - share]), family=Student(5.0))

    total, n = np.zeros((len(theta), len(theta))), 200_000
    for row in X:
        rows = np.tile(row, (n, 1))
        y, _ = truth.sample(rows, generator)
        scores = [
            (at(theta + step).log_likelihood(rows, y) - at(theta - step).log_likelihood(rows, y)) / 2e-5
            for step in 1e-5 * np.eye(len(theta))
        ]
        total += np.array(scores) @ np.array(scores).T / n
    found = fisher_information(truth, X, **settings)
    scale = np.sqrt(np.diag(total))
    np.testing.assert_allclose(found / np.outer(scale, scale), total / np.outer(scale, scale), atol=0.02)
