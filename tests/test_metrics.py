from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit.laws import wasserstein2 as brute_force
from wmlr.families import Student
from wmlr.metrics import coefficient_error, wasserstein2, wasserstein2_rows
from wmlr.model.mixture import Mixture

numbers = st.floats(-5, 5)
ORIGIN = np.zeros((1, 1))


def line(*components: tuple[float, float, float]) -> Mixture:
    """A mixture of normals (weight, mean, sigma), the same at every x."""
    weights, means, sigma = np.array(components, dtype=float).T
    return Mixture(np.zeros((len(means), 1)), means, weights / weights.sum(), sigma)


@st.composite
def mixtures(draw):
    k = draw(st.integers(1, 3))
    part = st.tuples(st.floats(0.05, 1.0), st.floats(-20, 20), st.floats(0.05, 3.0))
    return line(*[draw(part) for _ in range(k)])


@given(
    coef=arrays(float, (3, 4), elements=numbers),
    change=arrays(float, (3, 4), elements=st.floats(-1, 1)),
    order=st.permutations(range(3)),
)
@settings(max_examples=50, deadline=None)
def test_relabelling_changes_nothing(coef, change, order):
    coef[0, 0] += 6.0
    error = coefficient_error(coef + change, coef)
    assert coefficient_error((coef + change)[list(order)], coef) == pytest.approx(error)
    assert error <= np.linalg.norm(change) / np.linalg.norm(coef) + 1e-12


@given(b=arrays(float, 4, elements=numbers), change=arrays(float, 4, elements=st.floats(-1, 1)))
@settings(max_examples=50, deadline=None)
def test_a_vector_is_a_symmetric_pair(b, change):
    b[0] += 6.0
    e = b + change
    expected = min(np.linalg.norm(e - b), np.linalg.norm(e + b)) / np.linalg.norm(b)
    pair_e, pair_b = np.stack([-e, e]), np.stack([b, -b])
    for estimated, true in ((e, b), (-e, b), (pair_e, b), (e, pair_b), (pair_e, pair_b)):
        assert coefficient_error(estimated, true) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("estimated", "true", "message"),
    [
        (np.ones(3), np.ones(2), r"same shape.*\(got \(3,\) and \(2,\)\)"),
        (np.ones((3, 2)), np.ones(2), r"\(got \(3, 2\) and \(2,\)\)"),
        (np.ones((2, 2)), np.ones((3, 2)), r"\(got \(2, 2\) and \(3, 2\)\)"),
        (1.0, 1.0, r"\(got \(\) and \(\)\)"),
        ([np.nan, 1.0], [1.0, 1.0], "estimated must be finite"),
        ([1.0, 1.0], [0.0, 0.0], "true must not be all zero"),
    ],
)
def test_coefficient_error_refuses(estimated, true, message):
    with pytest.raises(ValueError, match=message):
        coefficient_error(estimated, true)


@given(m=st.floats(-50, 50), s=st.floats(0.1, 10), t=st.floats(0.1, 10))
@settings(max_examples=50, deadline=None)
def test_single_normals_have_the_closed_form(m, s, t):
    distance = wasserstein2(line((1, 0, s)), line((1, m, t)), ORIGIN)
    assert distance == pytest.approx(np.hypot(m, s - t), abs=1e-4, rel=1e-4)


def test_relabelled_components_are_at_distance_zero():
    a = line((0.9, -10, 0.1), (0.1, 10, 2.0), (0.5, 0, 1.0))
    b = line((0.1, 10, 2.0), (0.5, 0, 1.0), (0.9, -10, 0.1))
    assert wasserstein2(a, b, ORIGIN) < 1e-6


@given(a=mixtures(), b=mixtures(), c=mixtures())
@settings(max_examples=50, deadline=None)
def test_it_is_a_metric(a, b, c):
    ab, bc, ac = (wasserstein2(p, q, ORIGIN) for p, q in ((a, b), (b, c), (a, c)))
    assert wasserstein2(a, a, ORIGIN) < 1e-6
    assert wasserstein2(b, a, ORIGIN) == pytest.approx(ab, abs=1e-9)
    assert ac <= ab + bc + 1e-9


@given(a=mixtures(), shift=st.floats(-100, 100))
@settings(max_examples=30, deadline=None)
def test_a_shift_costs_its_length(a, shift):
    moved = Mixture(a.coef, a.intercept + shift, a.weights, a.sigma)
    assert wasserstein2(a, moved, ORIGIN) == pytest.approx(abs(shift), abs=1e-6)


def test_weight_moved_between_far_modes_travels_the_gap():
    """Narrow modes a distance L apart: a weight p that changes sides costs sqrt(p) L."""
    a, b = line((0.7, 0, 1e-5), (0.3, 1000, 1e-5)), line((0.6, 0, 1e-5), (0.4, 1000, 1e-5))
    assert wasserstein2(a, b, ORIGIN) == pytest.approx(np.sqrt(0.1) * 1000, rel=1e-6)


def test_it_agrees_with_sorted_samples():
    a, b = line((0.75, -3, 0.5), (0.25, 4, 1.0)), line((0.5, -2, 1.0), (0.3, 1, 0.2), (0.2, 6, 2.0))
    n, generator = 1_000_000, np.random.default_rng(0)
    samples = [np.sort(m.sample(np.zeros((n, 1)), generator)[0]) for m in (a, b)]
    empirical = np.sqrt(np.mean((samples[0] - samples[1]) ** 2))
    assert wasserstein2(a, b, ORIGIN) == pytest.approx(empirical, rel=5e-3)


def test_it_is_the_distance_of_the_mixtures_own_noise():
    normal = line((0.6, -1.0, 1.0), (0.4, 2.0, 0.5))
    heavy = replace(normal, family=Student(4.0))
    assert wasserstein2(normal, heavy, ORIGIN) == pytest.approx(brute_force(normal, heavy), rel=2e-3)
    other = replace(line((0.5, -1.0, 1.2), (0.5, 2.0, 0.7)), family=Student(3.0))
    assert wasserstein2(heavy, other, ORIGIN) == pytest.approx(brute_force(heavy, other), rel=2e-3)


@pytest.mark.parametrize("dof", [2.1, 2.5, 4.0, 50.0])
def test_students_of_two_scales_have_the_closed_form(dof):
    a, b = (replace(line((1.0, 0.0, scale)), family=Student(dof)) for scale in (1.0, 3.0))
    assert wasserstein2(a, b, ORIGIN) == pytest.approx(2.0 * np.sqrt(dof / (dof - 2.0)), rel=1e-3)
    assert wasserstein2(a, a, ORIGIN) == 0.0


def test_noise_without_a_variance_has_no_distance():
    cauchy = replace(line((1.0, 0.0, 1.0)), family=Student(1.0))
    with pytest.raises(ValueError, match="1 degrees of freedom has no variance"):
        wasserstein2(cauchy, line((1.0, 0.0, 1.0)), ORIGIN)


def test_it_averages_over_the_rows():
    X = np.random.default_rng(0).standard_normal((20, 3))
    a, b = Mixture.of([[1.0, 2.0, 0.0]], 1.0), Mixture.of([[0.0, 2.0, 1.0]], 1.5)
    rows = wasserstein2_rows(a, b, X)
    assert rows == pytest.approx(np.hypot(X @ (a.coef - b.coef)[0], 0.5), abs=1e-4)
    assert wasserstein2(a, b, X) == pytest.approx(rows.mean())


def test_a_fitted_estimator_will_do():
    X = np.random.default_rng(0).standard_normal((5, 2))
    pair, other = Mixture.symmetric_pair([1.0, 1.0], 1.0), Mixture.of([[1.0, 0.0]])
    expected = wasserstein2_rows(pair, other, X)
    assert np.array_equal(wasserstein2_rows(SimpleNamespace(mixture_=pair), other, X), expected)


def test_an_estimator_maps_its_own_features():
    X = np.random.default_rng(0).uniform(1.0, 2.0, (5, 2))
    logs = np.log(X)
    pair, other = Mixture.symmetric_pair([1.0, 1.0], 1.0), Mixture.of([[1.0, 0.0]])
    mapped = SimpleNamespace(mixture_=pair, predict_components=lambda rows: pair.means(np.log(rows)))
    shifted = Mixture.of(np.zeros((1, 2)))
    assert np.array_equal(wasserstein2_rows(mapped, shifted, X), wasserstein2_rows(pair, shifted, logs))
    assert not np.allclose(wasserstein2_rows(mapped, other, X), wasserstein2_rows(pair, other, X))


def test_unusable_models_and_rows_are_refused():
    good = Mixture.of([[1.0, 2.0]])
    with pytest.raises(TypeError, match="Mixture or a fitted estimator"):
        wasserstein2(good, "model", np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"X must have 2 columns.*\(got 3\)"):
        wasserstein2(good, good, np.ones((1, 3)))
    with pytest.raises(ValueError, match="sigma of a mixture must be positive"):
        wasserstein2(good, Mixture.of([[1.0, 2.0]], 0.0), np.ones((1, 2)))
