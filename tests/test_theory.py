"""The theorems as functions: their formulas by hand, their assumptions named when they fail."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm
from scipy.stats import t as student

from wmlr import GDA, theory
from wmlr.datasets import make_mixed_regression
from wmlr.families import NORMAL, Student
from wmlr.model.mixture import Mixture


def test_step_sizes_by_hand():
    steps = theory.step_sizes(lam=4.0, eta=1.0, reference_norm=1.0)
    assert pytest.approx(4 + 4 * (1 + 0.25 + 1)) == steps.L
    assert steps.kappa == pytest.approx(steps.L / 2)
    assert steps.alpha_max == pytest.approx(1 / steps.L)
    assert steps.alpha_min == pytest.approx(1 / (steps.kappa**2 * steps.L))


def test_gda_takes_the_theorem_s_steps_from_here():
    steps = theory.step_sizes(5.0, 2.0, 0.7)
    assert GDA(steps="theorem", regularizer="halved").step_sizes(5.0, 2.0, 0.7) == (steps.alpha_max, steps.alpha_min)


def test_the_theorem_s_steps_are_those_of_the_regulariser_that_is_used():
    """lambda times the squared distances, as printed, is the same problem as 2 lambda / 2 times them."""
    printed, halved = GDA(steps="theorem"), GDA(steps="theorem", regularizer="halved")
    assert printed.step_sizes(2.5, 2.0, 0.7) == halved.step_sizes(5.0, 2.0, 0.7)
    assert theory.step_sizes(2.5, 2.0, 0.7, regularizer="printed") == theory.step_sizes(5.0, 2.0, 0.7)
    bound = theory.iteration_bound(5.0, 2.0, 0.7, delta=0.5, epsilon=0.1)
    assert theory.iteration_bound(2.5, 2.0, 0.7, delta=0.5, epsilon=0.1, regularizer="printed") == bound
    with pytest.raises(ValueError, match=r"eta=2, lam=1.9\): raise lam above 2,"):
        theory.step_sizes(1.9, 2.0, 0.7, regularizer="printed")


def test_iteration_bound_grows_with_the_inverse_square_of_epsilon():
    bound = theory.iteration_bound(4.0, 1.0, 1.0, delta=0.5, epsilon=0.1)
    assert theory.iteration_bound(4.0, 1.0, 1.0, delta=0.5, epsilon=0.01) == pytest.approx(100 * bound)
    L, kappa = 13.0, 6.5
    assert bound == pytest.approx((kappa**2 * L * 0.5 + kappa * L**2 * 0.25) / 0.01)


@pytest.mark.parametrize(
    ("call", "assumption"),
    [
        (lambda: theory.step_sizes(2.0, 1.0), r"eta = C\^2 E\[y\^2\] below lam / 2"),
        (lambda: theory.step_sizes(4.0, 1.0, radius=2.0), r"C\^2 below lam / 2"),
        (lambda: theory.step_sizes(-1.0, 1.0), "lam must be positive"),
        (lambda: theory.iteration_bound(4.0, 1.0, 1.0, delta=-1.0, epsilon=0.1), "delta"),
        (lambda: theory.c_transform_constant(np.eye(2), [1.0, 1.0], [[1.0, 0.0]]), "max|gamma|"),
        (lambda: theory.duality_gap_bound(1.0, 0.0, 0.1), "sigma must be positive"),
        (lambda: theory.duality_gap_bound(1.0, 1.0, 1.5), "P_err is a probability"),
        (lambda: theory.generalization_bound(100, 5, 1.0, 2.0, 0.1, radius=2.0), r"max\(C, sigma\) at most 1"),
        (lambda: theory.generalization_bound(100, 5, 2.0, 1.0, 0.1), "eta below lam"),
        (lambda: theory.generalization_bound(100, 5, 0.1, 1.0, 0.5), "lower delta"),
        (lambda: theory.correlation_condition([1.0], [[1.0]]), "needs a reference"),
        (lambda: theory.correlation_condition([0.0], [[1.0]], reference=[1.0]), "zero vector"),
    ],
)
def test_a_failed_assumption_is_named(call, assumption):
    with pytest.raises(ValueError, match=assumption):
        call()


def test_c_transform_constant_bounds_the_c_transform():
    """Proposition 2 on a grid: the sup in the c-transform, computed outright, stays below its bound."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (200, 1))
    y = generator.standard_normal(200)
    gammas = np.array([[0.4], [-0.3]])
    constant = theory.c_transform_constant(X, y, gammas)
    candidates = np.linspace(-12, 12, 4001)

    def psi(x, values):
        first, second = values * gammas[0, 0] * x, values * gammas[1, 0] * x
        return np.log(np.cosh(first)) - np.log(np.cosh(second))

    transforms = [np.max(psi(x, candidates) - 0.5 * (value - candidates) ** 2) for (x,), value in zip(X, y)]
    plain = [psi(x, value) for (x,), value in zip(X, y)]
    for reference in (-0.3, 0.0, 0.4):
        distance = float(np.sum((gammas - reference) ** 2))
        assert np.mean(transforms) <= np.mean(plain) + constant * distance + 1e-12


def test_bayes_error_against_integration():
    mixture = Mixture.symmetric_pair([1.5], 0.7)
    X = np.array([[1.0], [-0.4], [0.0]])
    expected = np.mean([norm.cdf(-abs(1.5 * x) / 0.7) for (x,) in X])
    assert theory.bayes_error(mixture, X) == pytest.approx(expected)
    general = Mixture.of([[1.5], [-1.5]], 0.7)
    assert theory.bayes_error(general, X) == pytest.approx(expected, rel=1e-12)

    three = Mixture.of([[0.0], [2.0], [5.0]], [0.5, 1.0, 0.8], [0.2, 0.5, 0.3])

    def largest(value):
        return max(w * norm.pdf(value, m, s) for w, m, s in zip(three.weights, (0.0, 2.0, 5.0), three.sigma))

    right = integrate.quad(largest, -8, 14, limit=400)[0]
    assert theory.bayes_error(three, np.array([[1.0]])) == pytest.approx(1 - right, abs=1e-7)


def normal_density(z):
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def student_density(dof):
    level = student(dof).pdf(0.0)
    return lambda z: level * (1 + z**2 / dof) ** (-(dof + 1) / 2)


def overlap(mixture, at):
    """The Bayes error at one row, by adaptive integration between generously many places."""
    means = mixture.means(np.array([[at]]))[0]
    density = normal_density if mixture.family is NORMAL else student_density(mixture.family.dof)

    def others(value):
        shares = mixture.weights * density((value - means) / mixture.sigma) / mixture.sigma
        return shares.sum() - shares.max()

    reach = np.concatenate([[0.0], np.geomspace(0.1, 1e9, 80)])
    ends = np.unique((means[:, None, None] + mixture.sigma[:, None, None] * np.stack([reach, -reach])).ravel())
    return sum(integrate.quad(others, low, high, limit=200)[0] for low, high in pairwise(ends))


def test_components_far_apart_or_of_different_scales_have_their_own_bayes_error():
    apart = Mixture.of([[0.0], [1000.0]], 0.01)
    assert theory.bayes_error(apart, [[1.0]]) == 0.0
    needle = Mixture.of([[0.0], [0.0]], [0.01, 5.0])
    assert theory.bayes_error(needle, [[1.0]]) == pytest.approx(overlap(needle, 1.0), rel=1e-6)
    assert theory.bayes_error(needle, [[1.0]]) == pytest.approx(0.0030, abs=5e-5)


@pytest.mark.parametrize("dof", [None, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("weights", [[0.2, 0.5, 0.3], [0.98, 0.01, 0.01]])
def test_bayes_error_is_that_of_the_mixture_s_own_noise(dof, weights):
    three = replace(
        Mixture.of([[0.0], [2.0], [2.5]], [0.5, 1.0, 0.2], weights), family=NORMAL if dof is None else Student(dof)
    )
    assert theory.bayes_error(three, [[1.0]]) == pytest.approx(overlap(three, 1.0), rel=1e-5)


def test_a_component_without_weight_does_not_count_in_the_bayes_error():
    two = Mixture.of([[0.0], [2.0]], [1.0, 0.5], [0.4, 0.6])
    three = Mixture.of([[0.0], [2.0], [1.0]], [1.0, 0.5, 1.0], [0.4, 0.6, 0.0])
    assert theory.bayes_error(three, [[1.0]]) == pytest.approx(theory.bayes_error(two, [[1.0]]), rel=1e-12)
    assert theory.bayes_error(Mixture.of([[1.0]]), [[1.0]]) == 0.0


def test_duality_gap_bound_vanishes_where_the_components_are_told_apart():
    assert theory.duality_gap_bound(3.0, 1.0, 0.0) == 0.0
    assert theory.duality_gap_bound(3.0, 1.0, 0.0001) == pytest.approx(16 * 11 * 0.01 + 2 * 10 * 0.1)


def test_the_spectral_reference_points_at_beta():
    data = make_mixed_regression(20_000, 6, snr=5, symmetric=True, random_state=0)
    condition = theory.correlation_condition(data.coef[0], data.X, data.y)
    assert condition.cosine > 0.99
    assert condition.probability == pytest.approx(condition.gaussian, abs=0.02)
    assert not condition.holds


def test_one_feature_always_meets_the_correlation_condition():
    data = make_mixed_regression(500, 1, snr=1, symmetric=True, random_state=0)
    assert theory.correlation_condition(data.coef[0], data.X, data.y).holds


def test_generalization_bound_shrinks_as_the_root_of_n_over_d():
    few = theory.generalization_bound(1_000, 10, 0.5, 1.0, 0.05)
    many = theory.generalization_bound(4_000, 10, 0.5, 1.0, 0.05)
    assert few.value == pytest.approx(2 * many.value)
    assert few.gradient == pytest.approx(2 * few.value)
    assert theory.generalization_bound(4_000, 40, 0.5, 1.0, 0.05).value == pytest.approx(few.value)


def test_eta_from_data():
    X, y = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([1.0, 2.0])
    assert theory.data_eta(X, y) == pytest.approx((25 + 4) / 2)
    assert theory.data_eta(X, y, worst_case=True) == pytest.approx(25 * 2.5)
