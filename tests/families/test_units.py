"""The unit that amounts are measured in says nothing: the log-likelihood moves by its logarithm, and sigma stays."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.families import Gamma


def amounts(link: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    x, second = generator.uniform(size=300), generator.random(300) < 0.4
    predictor = np.where(second, 2.0 + x, 0.3 + 0.4 * x) if link == "inverse" else np.where(second, 2.0 - x, x - 1.0)
    mean = 1.0 / predictor if link == "inverse" else np.exp(predictor)
    return x[:, None], generator.gamma(8.0, mean / 8.0)


@pytest.mark.parametrize("unit", [1e-9, 1e4])
@pytest.mark.parametrize("link", ["log", "inverse"])
@pytest.mark.parametrize("options", [{"shared_sigma": False}, {"method": "em"}])
def test_the_unit_of_amounts_changes_nothing_else(link: str, unit: float, options: dict[str, object]) -> None:
    X, y = amounts(link)
    fits = [
        MixedLinearRegression(2, family=Gamma(link=link), random_state=0, **options).fit(X, c * y) for c in (1.0, unit)
    ]
    one, other = fits
    assert other.log_likelihood_ + len(y) * np.log(unit) == pytest.approx(one.log_likelihood_, abs=1e-4)
    np.testing.assert_allclose(np.sort(other.sigma_), np.sort(one.sigma_), rtol=1e-3)
    found = np.sort(other.coef_[:, 0]) * (unit if link == "inverse" else 1.0)
    np.testing.assert_allclose(found, np.sort(one.coef_[:, 0]), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e4])
def test_one_regression_is_r_s_where_least_squares_of_the_inverses_are_negative(unit: float) -> None:
    """R: glm(y ~ x, family = Gamma) with MASS's gamma.shape."""
    x = np.array([57.0, 59.0, 61.0, 64.0, 67.0, 69.0, 72.0, 74.0, 76.0, 79.0, 81.0, 84.0, 87.0, 90.0, 93.0, 96.0])
    y = np.array([1.0, 9.0, 14.0, 11.0, 18.0, 21.0, 13.0, 41.0, 22.0, 35.0, 59.0, 63.0, 48.0, 97.0, 115.0, 167.0])
    fit = MixedLinearRegression(1, family=Gamma(link="inverse"), random_state=0).fit(x[:, None], unit * y)
    assert fit.log_likelihood_ + len(y) * np.log(unit) == pytest.approx(-66.97024832, abs=1e-4)
    np.testing.assert_allclose(
        np.array([fit.intercept_[0], fit.coef_[0, 0]]) * unit, [0.167346766291, -0.001698126374], rtol=1e-3
    )
