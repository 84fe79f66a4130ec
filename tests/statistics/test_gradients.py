"""Every gradient against finite differences of the value it belongs to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmlr.core.round import Rows
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.numerics.kernels import LOG_2PI
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "d": st.integers(1, 4),
        "weighted": st.booleans(),
        "grouped": st.booleans(),
        "intercept": st.booleans(),
        "drawn": st.booleans(),
    }
)


def rows_of(problem, n=12):
    generator = np.random.default_rng(problem["seed"])
    X, y = generator.standard_normal((n, problem["d"])), 2 * generator.standard_normal(n)
    weight = generator.uniform(0.2, 2, n) if problem["weighted"] else None
    starts = np.array([0, 3, 4, 9]) if problem["grouped"] else None
    return Rows(X, y, weight, starts, np.arange(n)), generator


def differences(function, at, step=1e-5):
    slopes = np.empty_like(at)
    for place in np.ndindex(at.shape):
        ahead, behind = at.copy(), at.copy()
        ahead[place] += step
        behind[place] -= step
        slopes[place] = (function(ahead) - function(behind)) / (2 * step)
    return slopes


def close(found, wanted):
    scale = 1.0 + np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, atol=1e-6 * scale)


@given(problems)
@settings(max_examples=40)
def test_symmetric_minimax(problem):
    rows, generator = rows_of(problem)
    p = problem["d"] + problem["intercept"]
    beta, gamma = generator.standard_normal(p), 0.5 * generator.standard_normal((p, 2))
    expectation = Drawn(3, samples=2) if problem["drawn"] else GaussHermite(12)

    def at(b, g):
        return SymmetricMinimax(b, g, 0.6, expectation, 1.3).answer(rows)

    gradients = at(beta, gamma)["gradients"]
    close(-gradients[:, 0], differences(lambda b: float(at(b, gamma)["value"]), beta))
    if not (problem["drawn"] and problem["weighted"] and problem["grouped"]):
        close(gradients[:, 1:], differences(lambda g: float(at(beta, g)["value"]), gamma))


@given(problems)
@settings(max_examples=30)
def test_minimax_of_three_components(problem):
    rows, generator = rows_of(problem | {"grouped": problem["grouped"] and problem["drawn"]})
    p, k = problem["d"] + problem["intercept"], 3
    beta, gamma = generator.standard_normal((p, k)), generator.standard_normal((p, 2 * k))
    log_weights = np.log(generator.dirichlet(np.ones(k)))
    expectation = Drawn(3, samples=2) if problem["drawn"] else GaussHermite(9)
    s2 = generator.uniform(0.3, 1.0, k)

    def at(b, g):
        return Minimax(b, g, log_weights, s2, 0.8, expectation, 1.2).answer(rows)

    gradients = at(beta, gamma)["gradients"]
    close(-gradients[:, :k], differences(lambda b: float(at(b, gamma)["value"]), beta))
    close(gradients[:, k:], differences(lambda g: float(at(beta, g)["value"]), gamma))


@given(problems)
@settings(max_examples=40)
def test_symmetric_score(problem):
    rows, generator = rows_of(problem)
    p = problem["d"] + problem["intercept"]
    beta, s2 = generator.standard_normal(p), 0.7
    mean = 0.3 * generator.standard_normal(p)
    sums = SymmetricScore(beta, s2, mean).answer(rows)
    X = np.column_stack([rows.X, np.ones(len(rows))]) if problem["intercept"] else rows.X
    w = np.ones(len(rows)) if rows.weight is None else rows.weight
    score = (sums["h"] - X.T @ (w * (X @ beta))) / s2
    close(score, differences(lambda b: float(SymmetricScore(b, s2, mean).answer(rows)["log_likelihood"]), beta))
    left = w @ (rows.y - X @ mean) ** 2 - 2 * float(sums["tyu"]) + float(sums["uu"])
    slope = differences(
        lambda v: float(SymmetricScore(beta, float(v), mean).answer(rows)["log_likelihood"]), np.array(s2)
    )
    close((left / s2 - w.sum()) / (2 * s2), slope)


@given(problems)
@settings(max_examples=40)
def test_mixture_score(problem):
    rows, generator = rows_of(problem)
    p, k = problem["d"] + problem["intercept"], 3
    B, s2 = generator.standard_normal((p, k)), generator.uniform(0.4, 2, k)
    log_weights = np.log(generator.dirichlet(np.ones(k)))
    sums = MixtureScore(B, log_weights, s2, grams=True).answer(rows)

    def value(b, v=s2, lw=log_weights):
        return float(MixtureScore(b, lw, v).answer(rows)["log_likelihood"])

    close(sums["score"] / s2, differences(value, B))
    close((sums["squares"] / s2 - sums["mass"]) / (2 * s2), differences(lambda v: value(B, v), s2))
    close(sums["units"], differences(lambda lw: value(B, s2, lw), log_weights))
    X = np.column_stack([rows.X, np.ones(len(rows))]) if problem["intercept"] else rows.X
    np.testing.assert_allclose(
        sums["grams"].sum(axis=0), X.T @ (X * (1 if rows.weight is None else rows.weight[:, None]))
    )


@given(problems)
@settings(max_examples=25)
def test_observed_information_is_minus_the_hessian(problem):
    rows, generator = rows_of(problem)
    p, k = problem["d"] + problem["intercept"], 3
    B, sigma = generator.standard_normal((p, k)), generator.uniform(0.7, 1.5, k)
    logits = generator.standard_normal(k - 1)

    def value(theta):
        b = theta[: k * p].reshape(k, p).T
        s2 = np.exp(2 * theta[k * p : k * p + k])
        full = np.append(theta[k * p + k :], 0.0)
        return float(MixtureScore(b, full - np.log(np.exp(full).sum()), s2).answer(rows)["log_likelihood"])

    theta = np.concatenate([B.T.ravel(), np.log(sigma), logits])
    weights = np.exp(np.append(logits, 0.0))
    found = ObservedInformation(B, weights / weights.sum(), sigma**2).answer(rows)["information"]
    hessian = np.stack(
        [differences(lambda t, i=i: differences_at(value, t, i), theta, 1e-4) for i in range(len(theta))]
    )
    np.testing.assert_allclose(found, -hessian, atol=2e-4 * (1 + np.abs(hessian).max()))


def differences_at(function, at, place, step=1e-4):
    ahead, behind = at.copy(), at.copy()
    ahead[place] += step
    behind[place] -= step
    return (function(ahead) - function(behind)) / (2 * step)


def test_log_likelihood_is_the_mixture_density():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((50, 3)), generator.standard_normal(50)
    beta, s2 = generator.standard_normal(3), 0.8
    densities = [np.exp(-((y - sign * X @ beta) ** 2) / (2 * s2) - 0.5 * (LOG_2PI + np.log(s2))) for sign in (1, -1)]
    wanted = np.log(0.5 * densities[0] + 0.5 * densities[1]).sum()
    assert float(SymmetricScore(beta, s2).answer(Rows(X, y))["log_likelihood"]) == pytest.approx(wanted, rel=1e-12)
