"""Amounts and shares that were recorded coarsely: a component on one value of y has a likelihood without bound."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.federated import Federation


def stays(seed: int = 0, n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Days in hospital: a sixth of the rows are of two days exactly."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, 1))
    y = np.ceil(generator.gamma(2.0, np.exp(1.5 + 0.3 * X[:, 0]) / 2.0))
    y[generator.random(n) < 1.0 / 6.0] = 2.0
    return X, y


def shares() -> tuple[np.ndarray, np.ndarray]:
    """In hundredths: a sixth of them are .05 exactly."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((1200, 1))
    mean = 1.0 / (1.0 + np.exp(-0.5 * X[:, 0]))
    y = np.clip(np.round(generator.beta(4.0 * mean, 4.0 * (1.0 - mean)), 2), 0.01, 0.99)
    y[generator.random(1200) < 1.0 / 6.0] = 0.05
    return X, y


def fit(family: str, X: np.ndarray, y: np.ndarray, k: int = 2) -> MixedLinearRegression:
    model = MixedLinearRegression(k, family=family, shared_sigma=False, search="quick", random_state=0)
    with pytest.warns(UserWarning, match="what rounding y leaves"):
        return model.fit(X, y)


@pytest.mark.parametrize(
    ("family", "rows", "grain", "deviation"),
    [("gamma", stays, 1.0, lambda y: y), ("beta", shares, 0.01, lambda y: np.sqrt(y * (1.0 - y)))],
)
def test_no_component_is_narrower_than_what_rounding_y_leaves(family, rows, grain, deviation) -> None:
    X, y = rows()
    found = fit(family, X, y)
    shared = found.responsibilities(X, y)
    deviations = found.sigma_ * np.exp(np.log(deviation(y)) @ shared / shared.sum(axis=0))
    assert deviations.min() == pytest.approx(grain / np.sqrt(12.0), rel=0.05)
    assert found.degenerate_
    assert found.converged_


def test_a_spike_is_worth_the_same_wherever_it_lies_and_in_every_unit_of_ten() -> None:
    X, y = stays()
    days, tenths = fit("gamma", X, y), fit("gamma", X, 10.0 * y)
    assert tenths.log_likelihood_ + len(y) * np.log(10.0) == pytest.approx(days.log_likelihood_, abs=0.01)
    np.testing.assert_allclose(np.sort(tenths.sigma_), np.sort(days.sigma_), rtol=1e-3)


def test_agents_with_whole_days_find_what_one_fit_does() -> None:
    X, y = stays(n=600)
    together = fit("gamma", X, y)
    model = MixedLinearRegression(2, family="gamma", shared_sigma=False, random_state=0)
    with pytest.warns(UserWarning, match="what rounding y leaves"):
        apart = model.fit_on(Federation.split(X, y, np.arange(600) % 5))
    assert apart.log_likelihood_ == pytest.approx(together.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(apart.coef_, together.coef_, rtol=1e-3, atol=1e-4)


def test_one_sigma_on_few_values_is_said_to_be_on_values() -> None:
    generator = np.random.default_rng(3)
    X, y = generator.standard_normal((300, 1)), generator.choice([2.0, 5.0], 300)
    model = MixedLinearRegression(2, family="gamma", random_state=0)
    with pytest.warns(UserWarning, match="values of y, not lines"), pytest.warns(UserWarning, match="to its floor"):
        model.fit(X, y)


def test_components_far_apart_keep_the_deviations_that_they_have() -> None:
    """A narrow component of large whole amounts is none of the floor's business."""
    generator = np.random.default_rng(4)
    X, low = generator.standard_normal((800, 1)), generator.random(800) < 0.5
    small, large = generator.gamma(1 / 0.09, np.exp(1.5) * 0.09, 800), generator.gamma(1 / 4e-4, 900.0 * 4e-4, 800)
    y = np.maximum(np.round(np.where(low, small, large)), 1.0)
    found = MixedLinearRegression(2, family="gamma", shared_sigma=False, random_state=0).fit(X, y)
    assert not found.degenerate_
    assert found.sigma_.min() == pytest.approx(0.02, rel=0.1)
