"""What a family of noise says of itself agrees: density, slope, distribution, quantiles, draws."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import kstest, laplace, norm
from scipy.stats import t as student

from wmlr.families import NORMAL, Laplace, Student

FAMILIES = [NORMAL, Student(1.0), Student(4.0), Student(30.0), Laplace()]


def outside(noise):
    return {"normal": norm(), "laplace": laplace()}.get(noise.name) or student(noise.dof)


@pytest.mark.parametrize("noise", FAMILIES)
def test_density_distribution_and_quantiles_are_those_of_the_law(noise):
    law = outside(noise)
    z = np.array([-30.0, -3.0, -0.1, 0.0, 1.0, 8.0])
    np.testing.assert_allclose(noise.log_density(z), law.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(noise.cdf(z), law.cdf(z), rtol=1e-10)
    np.testing.assert_allclose(noise.quantile(np.array([1e-6, 0.3, 0.9])), law.ppf([1e-6, 0.3, 0.9]), rtol=1e-9)
    slope = (noise.log_density(z + 1e-6) - noise.log_density(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(noise.slope(z), slope, atol=1e-6)
    np.testing.assert_allclose(-z * noise.weight(z), slope, atol=1e-6)
    z = z[z != 0]
    bend = -(noise.slope(z + 1e-6) - noise.slope(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(noise.curvature(z), bend, atol=1e-6)


@pytest.mark.parametrize("noise", FAMILIES)
def test_draws_follow_the_law(noise):
    draws = noise.draw(np.random.default_rng(0), 5000)
    assert kstest(draws, outside(noise).cdf).pvalue > 1e-3


@pytest.mark.parametrize("noise", FAMILIES)
def test_the_density_is_below_a_level_beyond_its_reach(noise):
    level = np.array([-1.5, -10.0, -40.0])
    assert np.all(noise.log_density(noise.reach(level)) < level)


@pytest.mark.parametrize("noise", FAMILIES)
def test_gauss_s_rule_on_the_panels_integrates_the_density(noise):
    ends = noise.panels(4)
    pieces = [integrate.fixed_quad(lambda z: np.exp(noise.log_density(z)), a, b, n=16)[0] for a, b in pairwise(ends)]
    assert sum(pieces) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("noise", FAMILIES[:4])
@pytest.mark.parametrize("log_ratio", [-1.0, 0.0, 2.0])
def test_weighted_densities_are_equal_where_they_cross(noise, log_ratio):
    factor, constant = noise.crossing(np.array([log_ratio]))
    other = np.sqrt(np.array([3.0, 10.0]) - np.minimum(constant, 0.0) / factor)
    here = np.sqrt(factor * other**2 + constant)
    np.testing.assert_allclose(noise.log_density(here) - noise.log_density(other), -log_ratio, atol=1e-12)
