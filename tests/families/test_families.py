"""What a family of noise says of itself agrees: density, slope, distribution, quantiles, draws."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import kstest, norm
from scipy.stats import t as student

from wmlr.families import NORMAL, Student

FAMILIES = [None, 1.0, 4.0, 30.0]


def family(dof):
    return NORMAL if dof is None else Student(dof)


def outside(dof):
    return norm() if dof is None else student(dof)


@pytest.mark.parametrize("dof", FAMILIES)
def test_density_distribution_and_quantiles_are_those_of_the_law(dof):
    noise, law = family(dof), outside(dof)
    z = np.array([-30.0, -3.0, -0.1, 0.0, 1.0, 8.0])
    np.testing.assert_allclose(noise.log_density(z), law.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(noise.cdf(z), law.cdf(z), rtol=1e-10)
    np.testing.assert_allclose(noise.quantile(np.array([1e-6, 0.3, 0.9])), law.ppf([1e-6, 0.3, 0.9]), rtol=1e-9)
    slope = (noise.log_density(z + 1e-6) - noise.log_density(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(noise.slope(z), slope, atol=1e-6)


@pytest.mark.parametrize("dof", FAMILIES)
def test_draws_follow_the_law(dof):
    draws = family(dof).draw(np.random.default_rng(0), 5000)
    assert kstest(draws, outside(dof).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dof", FAMILIES)
def test_the_density_is_below_a_level_beyond_its_reach(dof):
    noise = family(dof)
    level = np.array([-1.5, -10.0, -40.0])
    assert np.all(noise.log_density(noise.reach(level)) < level)


@pytest.mark.parametrize("dof", FAMILIES)
def test_gauss_s_rule_on_the_panels_integrates_the_density(dof):
    noise = family(dof)
    ends = noise.panels(4)
    pieces = [integrate.fixed_quad(lambda z: np.exp(noise.log_density(z)), a, b, n=16)[0] for a, b in pairwise(ends)]
    assert sum(pieces) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("dof", FAMILIES)
@pytest.mark.parametrize("log_ratio", [-1.0, 0.0, 2.0])
def test_weighted_densities_are_equal_where_they_cross(dof, log_ratio):
    noise = family(dof)
    factor, constant = noise.crossing(np.array([log_ratio]))
    other = np.sqrt(np.array([3.0, 10.0]) - np.minimum(constant, 0.0) / factor)
    here = np.sqrt(factor * other**2 + constant)
    np.testing.assert_allclose(noise.log_density(here) - noise.log_density(other), -log_ratio, atol=1e-12)
