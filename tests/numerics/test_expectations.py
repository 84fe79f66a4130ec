"""Expectations under the model, against numerical integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from wmlr.core.round import run
from wmlr.engines import ArrayRows
from wmlr.inference.fisher import cramer_rao
from wmlr.methods import GDA
from wmlr.methods.task import Task
from wmlr.numerics.expectations import Drawn, GaussHermite, automatic_nodes


def integrals(u, v, sigma):
    """E log cosh(y v), E tanh(y v) and E y tanh(y v) for y ~ N(u, sigma^2)."""

    def expect(function):
        points = np.unique([-u / sigma, 0.0])
        return quad(
            lambda e: function(u + sigma * e) * norm.pdf(e),
            -12,
            12,
            points=points,
            limit=400,
            epsabs=1e-13,
            epsrel=1e-13,
        )[0]

    log_cosh = lambda z: abs(z) + np.log1p(np.exp(-2 * abs(z))) - np.log(2)  # noqa: E731
    return (
        expect(lambda y: log_cosh(y * v)),
        expect(lambda y: np.tanh(y * v)),
        expect(lambda y: y * np.tanh(y * v)),
    )


GRID = [(u, v, sigma) for u in (-3.0, -0.4, 0.0, 1.1, 8.0) for v in (-0.5, 0.07, 0.4) for sigma in (0.2, 1.0)]


@pytest.mark.parametrize(("u", "v", "sigma"), GRID)
def test_quadrature_converges(u, v, sigma):
    wanted = np.array(integrals(u, v, sigma))
    errors = []
    for nodes in (4, 16, 64):
        found = GaussHermite(nodes).log_cosh(np.array([u]), np.array([v]), sigma, None, None, None)
        errors.append(np.abs(np.array([part[0] for part in found]) - wanted).max())
    assert errors[2] < 1e-8
    assert errors[1] <= errors[0] + 1e-12
    assert errors[2] <= errors[1] + 1e-9


def test_quadrature_on_a_group_is_the_integral_over_all_its_rows(generator):
    u, v, sigma = generator.standard_normal(3), 0.3 * generator.standard_normal(3), 0.7
    value, T, moment = GaussHermite(48).log_cosh(u, v, sigma, None, np.array([0]), None)
    y = u + sigma * np.random.default_rng(0).standard_normal((400_000, 3))
    z = y @ v
    assert value[0] == pytest.approx(np.log(np.cosh(z)).mean(), abs=3e-3)
    np.testing.assert_allclose(T, np.full(3, np.tanh(z).mean()), atol=3e-3)
    np.testing.assert_allclose(moment, (y * np.tanh(z)[:, None]).mean(axis=0), atol=4e-3)


def test_drawn_noise_belongs_to_its_row():
    noise = Drawn(seed=5, samples=3)
    whole, shares = noise.offsets(np.arange(1000), 1000)
    part, _ = noise.offsets(np.arange(400, 700), 300)
    np.testing.assert_array_equal(whole[400:700], part)
    assert shares.sum() == pytest.approx(1.0)
    assert np.abs(np.corrcoef(whole.T) - np.eye(3)).max() < 0.1
    assert abs(whole.mean()) < 0.06
    assert abs(whole.std() - 1) < 0.05
    fresh, _ = Drawn(seed=5, samples=3, turn=1).offsets(np.arange(1000), 1000)
    assert abs(np.corrcoef(whole[:, 0], fresh[:, 0])[0, 1]) < 0.1


def test_drawn_noise_tends_to_the_quadrature():
    u, v = np.full(1, 0.8), np.full(1, 0.9)
    exact = GaussHermite(64).log_cosh(u, v, 1.0, None, None, None)
    drawn = Drawn(seed=1, samples=50_000).log_cosh(u, v, 1.0, None, None, np.array([3]))
    for a, b in zip(exact, drawn):
        assert a[0] == pytest.approx(b[0], abs=8e-3)


@pytest.mark.parametrize("snr", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_the_automatic_node_count_is_enough(paper_problem, snr):
    data = paper_problem(4000, snr, 0, d=8)
    rows = ArrayRows(data.X, data.y)
    task = Task(symmetric=True, max_iter=400, tol=1e-10)
    chosen = run(GDA().fit(task), rows).mixture
    full = run(GDA(nodes=96).fit(task), rows).mixture
    bound = cramer_rao(data.mixture, data.X)
    error = np.sqrt(np.diag(bound.covariance)[:8])
    assert np.abs((chosen.coef[0] - full.coef[0]) / error).max() < 0.02
    assert automatic_nodes(snr) <= 48
