"""What ``converged_`` means: nothing worth having is left to gain in any parameter, and the curvature is a maximum's.

The judge is plain NumPy: the likelihood written out, differentiated numerically.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from longer import long
from wmlr import EM, GDA, GEM, MixedLinearRegression
from wmlr.core.query import Query
from wmlr.core.round import Sampled, Sums
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation, Privacy
from wmlr.methods.polish import Curvature
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.missing import MissingInformation

Array = NDArray[np.float64]
WORTH = 1e-3


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def log_density(residuals: Array, sigma: Array, dof: float | None) -> Array:
    z = residuals / sigma
    if dof is None:
        return np.asarray(-0.5 * z**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi))
    constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log(dof * np.pi)
    return np.asarray(constant - np.log(sigma) - (dof + 1) / 2 * np.log1p(z**2 / dof))


def symmetric_likelihood(X: Array, y: Array, groups: Array | None = None) -> Callable[[Array], float]:
    """Parameters: beta, log sigma."""

    def value(theta: Array) -> float:
        lines = X @ theta[:-1]
        joint = np.stack([log_density(y - sign * lines, np.exp(theta[-1]), None) for sign in (1, -1)], axis=1)
        if groups is not None:
            joint = np.stack([np.bincount(groups, column) for column in joint.T], axis=1)
        return float(np.sum(np.logaddexp(*joint.T) - np.log(2)))

    return value


def likelihood(
    X: Array, y: Array, k: int, shared_sigma: bool, dof: float | None = None, groups: Array | None = None
) -> Callable[[Array], float]:
    """Parameters: coefficients with the intercept last, component by component; log sigma; logits."""
    rows = np.column_stack([X, np.ones(len(y))])
    p = rows.shape[1]

    def value(theta: Array) -> float:
        B, rest = theta[: k * p].reshape(k, p), theta[k * p :]
        sigma = np.exp(np.full(k, rest[0]) if shared_sigma else rest[:k])
        logits = np.append(rest[1 if shared_sigma else k :], 0.0)
        joint = log_density(y[:, None] - rows @ B.T, sigma, dof)
        if groups is not None:
            joint = np.stack([np.bincount(groups, column) for column in joint.T], axis=1)
        return float(np.sum(np.logaddexp.reduce(joint + logits - np.logaddexp.reduce(logits), axis=1)))

    return value


def parameters(fit: Any) -> Array:
    if fit.symmetric:
        return np.append(fit.coef_[0], np.log(fit.sigma_[0]))
    logs = np.log(fit.weights_)
    sigma = np.log(fit.sigma_[:1] if fit.shared_sigma else fit.sigma_)
    return np.concatenate([np.column_stack([fit.coef_, fit.intercept_]).ravel(), sigma, logs[:-1] - logs[-1]])


def derivatives(value: Callable[[Array], float], at: Array, step: float = 1e-4) -> tuple[Array, Array]:
    """Gradient and Hessian by central differences."""
    n = len(at)
    shifts = step * np.eye(n)
    gradient = np.array([(value(at + e) - value(at - e)) / (2 * step) for e in shifts])
    hessian = np.empty((n, n))
    middle = value(at)
    for i in range(n):
        hessian[i, i] = (value(at + shifts[i]) - 2 * middle + value(at - shifts[i])) / step**2
        for j in range(i):
            corners = [value(at + a * shifts[i] + b * shifts[j]) * a * b for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = hessian[j, i] = sum(corners) / (4 * step**2)
    return gradient, hessian


def left_to_gain(value: Callable[[Array], float], fit: Any) -> tuple[float, float]:
    """The gain Newton's step promises, and the smallest eigenvalue of minus the Hessian, its diagonal made one."""
    gradient, hessian = derivatives(value, parameters(fit))
    scale = 1 / np.sqrt(np.abs(np.diag(hessian)))
    curvature = -hessian * np.outer(scale, scale)
    return (
        0.5 * float(gradient * scale @ np.linalg.solve(curvature, gradient * scale)),
        float(np.linalg.eigvalsh(curvature)[0]),
    )


def is_a_maximum(value: Callable[[Array], float], fit: Any, worth: float = WORTH) -> bool:
    gain, least = left_to_gain(value, fit)
    return abs(gain) < worth and least > 0


@pytest.mark.parametrize("method", ["wmlr", "em"])
@pytest.mark.parametrize(("n", "d", "snr"), [long(100_000, 5, 0.8), (100_000, 3, 2.0), (20_000, 8, 0.5)])
def test_a_symmetric_fit_of_many_rows_ends_at_the_maximum_in_sigma_too(method: str, n: int, d: int, snr: float) -> None:
    data = make_mixed_regression(n, d, 2, snr=snr, symmetric=True, random_state=0)
    fit = MixedLinearRegression(2, symmetric=True, method=method, random_state=0).fit(data.X, data.y)
    assert fit.converged_
    assert is_a_maximum(symmetric_likelihood(data.X, data.y), fit)


@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_a_symmetric_fit_of_groups_ends_at_the_maximum(method: str) -> None:
    data = make_mixed_regression(30_000, 3, 2, snr=0.4, symmetric=True, groups=10_000, random_state=3)
    fit = MixedLinearRegression(2, symmetric=True, method=method, random_state=0)
    fit.fit(data.X, data.y, groups=data.groups)
    assert fit.converged_
    assert is_a_maximum(symmetric_likelihood(data.X, data.y, np.unique(data.groups, return_inverse=True)[1]), fit)


@pytest.mark.parametrize(
    ("method", "shared_sigma"), [("wmlr", False), ("em", True), long("wmlr", True), long("em", False)]
)
def test_a_fit_of_many_rows_ends_at_the_maximum_in_every_parameter(method: str, shared_sigma: bool) -> None:
    data = make_mixed_regression(70_000, 2, 2, snr=1.5, weights=[0.7, 0.3], random_state=1)
    fit = MixedLinearRegression(2, method=method, shared_sigma=shared_sigma, random_state=0).fit(data.X, data.y)
    assert fit.converged_
    assert is_a_maximum(likelihood(data.X, data.y, 2, shared_sigma), fit)


@pytest.mark.parametrize("method", ["wmlr", "em"])
def test_a_fit_with_students_noise_ends_at_the_maximum(method: str) -> None:
    data = make_mixed_regression(20_000, 2, 2, snr=2.0, random_state=2)
    noise = np.random.default_rng(0).standard_t(4, 20_000)
    y = data.y + 0.5 * noise
    fit = MixedLinearRegression(2, method=method, robust=True, random_state=0).fit(data.X, y)
    assert fit.converged_
    assert is_a_maximum(likelihood(data.X, y, 2, True, dof=4.0), fit)


@pytest.mark.parametrize("seeds", [range(6), long(range(6, 24))])
def test_no_saddle_is_called_converged(seeds: range) -> None:
    judged = 0
    for seed in seeds:
        data = make_mixed_regression(100, 3, 2, snr=0.3, random_state=seed)
        fit = MixedLinearRegression(2, shared_sigma=False, search="quick", random_state=0)
        with quiet():
            fit.fit(data.X, data.y)
        value = likelihood(data.X, data.y, 2, False)
        if fit.converged_ and len(fit.weights_) == 2 and fit.sigma_.min() > 1e-2:
            judged += 1
            assert is_a_maximum(value, fit), seed
    assert judged >= 0.4 * len(seeds)


def test_a_saddle_is_left_where_it_climbs() -> None:
    """Two components that start as one stand on a saddle of the symmetric likelihood: beta = 0."""
    data = make_mixed_regression(2_000, 3, 2, snr=2.0, symmetric=True, random_state=0)
    for method in ("wmlr", "em"):
        fit = MixedLinearRegression(2, symmetric=True, method=method, start=np.full((1, 3), 1e-9), random_state=0)
        fit.fit(data.X, data.y)
        best = MixedLinearRegression(2, symmetric=True, random_state=0).fit(data.X, data.y)
        assert fit.converged_
        assert fit.log_likelihood_ == pytest.approx(best.log_likelihood_, abs=1e-3)


def test_equal_starts_of_two_components_come_apart() -> None:
    data = make_mixed_regression(1_000, 2, 2, snr=5.0, random_state=4)
    fit = MixedLinearRegression(2, start=np.zeros((2, 2)), random_state=0).fit(data.X, data.y)
    best = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    assert fit.log_likelihood_ == pytest.approx(best.log_likelihood_, abs=1e-3)


@pytest.mark.parametrize(("n", "weights", "seed"), [(40, (0.9, 0.1), 0), (60, (0.8, 0.2), 1), (200, (0.95, 0.05), 3)])
def test_gem_with_a_ridge_stays_within_the_data(n: int, weights: tuple[float, float], seed: int) -> None:
    data = make_mixed_regression(n, 3, 2, snr=5.0, weights=weights, random_state=seed)
    fit = MixedLinearRegression(2, method="gem", alpha=20, random_state=0)
    with quiet():
        fit.fit(data.X, data.y)
    assert np.abs(fit.coef_).max() < 1e2
    assert fit.weights_.min() * n >= 1.0


@pytest.mark.parametrize("symmetric", [True, False])
def test_gem_with_steps_too_long_says_what_to_lower(symmetric: bool) -> None:
    data = make_mixed_regression(400, 3, 2, snr=5.0, symmetric=symmetric, random_state=0)
    fit = MixedLinearRegression(
        2, symmetric=symmetric, method=GEM(alpha=20.0, capped=False), start="random", random_state=0, max_iter=200
    )
    with pytest.warns(ConvergenceWarning, match="alpha"):
        fit.fit(data.X, data.y)
    assert not fit.converged_
    assert np.abs(fit.coef_).max() < 1e6


@pytest.mark.parametrize("symmetric", [True, False])
def test_gda_with_steps_too_long_says_what_to_lower(symmetric: bool) -> None:
    data = make_mixed_regression(400, 3, 2, snr=5.0, symmetric=symmetric, random_state=0)
    fit = MixedLinearRegression(
        2, symmetric=symmetric, solver=GDA(alpha_max=50.0, alpha_min=50.0), random_state=0, max_iter=200
    )
    with pytest.warns(ConvergenceWarning, match="alpha_max"):
        fit.fit(data.X, data.y)
    assert not fit.converged_
    assert np.abs(fit.coef_).max() < 1e6


@pytest.mark.parametrize("settings", [{"method": "gem"}, {"solver": "gda"}, {"method": "em"}, {"solver": "auto"}])
def test_every_method_honours_on_empty(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = X @ [1.0, 2.0] + 0.1 * rng.standard_normal(60)
    start = np.array([[1.0, 2.0, 0.0], [50.0, 50.0, 400.0], [-50.0, 60.0, -500.0], [70.0, 0.0, 600.0]])
    model = MixedLinearRegression(4, start=start, random_state=0, on_empty="raise", **settings)
    with pytest.raises(ValueError, match="left with less than one row"), quiet():
        model.fit(X, y)
    with quiet():
        model.set_params(on_empty="drop").fit(X, y)
    assert model.weights_.min() * 60 >= 1.0


@pytest.mark.parametrize("symmetric", [True, False])
def test_gem_converges_to_the_maximum_or_does_not_say_so(symmetric: bool) -> None:
    data = make_mixed_regression(1_000, 2, 2, snr=1.5, symmetric=symmetric, random_state=0)
    value = symmetric_likelihood(data.X, data.y) if symmetric else likelihood(data.X, data.y, 2, True)
    for tol in (1e-3, 1e-6):
        fit = MixedLinearRegression(
            2, symmetric=symmetric, method=GEM(alpha=0.1), tol=tol, random_state=0, max_iter=3_000
        )
        with quiet():
            fit.fit(data.X, data.y)
        assert fit.converged_
        assert is_a_maximum(value, fit)


def test_em_with_settings_of_its_own_is_judged_alike() -> None:
    data = make_mixed_regression(2_000, 2, 2, snr=0.5, symmetric=True, random_state=5)
    with quiet():
        fit = MixedLinearRegression(2, symmetric=True, method=EM(), tol=1e-2, random_state=0).fit(data.X, data.y)
    assert not fit.converged_ or is_a_maximum(symmetric_likelihood(data.X, data.y), fit)


def private(data: Any, epsilon: float, rounds: int = 12) -> Federation:
    agents = [(data.X[i::100], data.y[i::100]) for i in range(100)]
    return Federation(agents, privacy=Privacy(epsilon=epsilon, rounds=rounds, rows=len(data.y) / 100, seed=0))


def test_a_private_fit_lost_in_noise_does_not_say_that_it_converged() -> None:
    data = make_mixed_regression(2_000, 2, 2, snr=2.0, symmetric=True, random_state=0)
    fit = MixedLinearRegression(2, symmetric=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match="noise"):
        fit.fit_on(private(data, 0.5))
    assert not fit.converged_


def test_a_private_gda_without_a_start_is_refused_before_any_round() -> None:
    data = make_mixed_regression(2_000, 2, 3, snr=2.0, random_state=0)
    rows = private(data, 5.0)
    with pytest.raises(ValueError, match="start"):
        MixedLinearRegression(3, solver="gda", random_state=0).fit_on(rows)
    assert rows.rounds_left == 12


def test_a_curvature_learns_from_steps_what_a_sample_did_not_know(generator: np.random.Generator) -> None:
    """Of a parabola: after a step in each direction the curvature is known, and one more leads to the top."""
    root = generator.standard_normal((4, 4))
    true, top = root @ root.T + np.eye(4), generator.standard_normal(4)
    bend, here = Curvature(np.diag(np.diag(true)), np.eye(4), uncertain=0.1), np.zeros(4)
    left = []
    for _ in range(9):
        score = true @ (top - here)
        step, promised = bend.newton(score)
        left.append(promised)
        bend = bend.learn(step, true @ step)
        here = here + step
    np.testing.assert_allclose(here, top, atol=1e-9)
    np.testing.assert_allclose(bend.matrix, np.diag(np.diag(true)))
    plain = Curvature(np.diag(np.diag(true)), np.eye(4)).newton
    stay = np.zeros(4)
    for _ in range(9):
        stay = stay + plain(true @ (top - stay))[0]
    assert np.abs(stay - top).max() > 100 * np.abs(here - top).max()


def test_steps_that_are_like_no_parabola_teach_nothing() -> None:
    bend = Curvature(np.eye(2), np.eye(2))
    step = np.array([1.0, 0.0])
    assert bend.learn(step, -step).learned is None
    assert bend.learn(step, 9.0 * step).learned is None
    assert bend.learn(step, 2.0 * step).learned is not None
    assert Curvature(np.eye(2), np.eye(2), drift=np.eye(2)).learn(step, 2.0 * step).learned is None


def test_a_curvature_that_is_made_definite_has_nothing_learned_in_its_way() -> None:
    bend = Curvature(np.diag([1.0, -0.1]), np.eye(2)).learn(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    assert bend.learned is not None
    step, promised = bend.make_definite().newton(np.array([1.0, 1.0]))
    assert np.isfinite(promised)
    assert np.all(step > 0.5)


@pytest.mark.parametrize("snr", [1.0, 2.0])
def test_a_pair_of_many_rows_never_asks_all_of_them_for_the_curvature(snr: float) -> None:
    data = make_mixed_regression(60_000, 60, snr=snr, symmetric=True, random_state=0)
    rows = Listening(data.X, data.y)
    with quiet():
        fit = MixedLinearRegression(2, symmetric=True, random_state=0).fit_on(rows)
    assert fit.converged_
    assert rows.shares
    assert max(rows.shares) < 0.5


class Listening(ArrayRows):
    """Rows that note for which share of them each curvature was asked."""

    def __init__(self, X: Array, y: Array) -> None:
        super().__init__(X, y)
        self.shares: list[float] = []

    def total(self, query: Query) -> Sums:
        asked, share = (query.query, query.share) if isinstance(query, Sampled) else (query, 1.0)
        if isinstance(asked, (MissingInformation, ObservedInformation)):
            self.shares.append(share)
        return super().total(query)


def test_components_that_overlap_are_judged_by_a_sample_that_grows() -> None:
    data = make_mixed_regression(200_000, 5, 2, snr=2.0, random_state=0)
    rows = Listening(data.X, data.y)
    with quiet():
        fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    assert fit.converged_
    assert len(rows.shares) > 1
    assert sum(rows.shares) < 0.2
    whole = fit.covariance(data.X, data.y)
    assert np.linalg.eigvalsh(np.linalg.inv(whole))[0] > 0
