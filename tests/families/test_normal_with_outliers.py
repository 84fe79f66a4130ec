"""Normal noise among outliers: the family by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from wmlr.core.round import run_steps
from wmlr.engines.arrays import ArrayRows
from wmlr.families import NormalWithOutliers
from wmlr.methods.starts import usual_range, whole_range

LAW = NormalWithOutliers(share=0.2, low=-6.0, high=9.0)
Y = np.array([-5.0, -0.3, 0.4, 2.5, 8.0])


def log_density(predictor, log_sigma, odds):
    law = NormalWithOutliers(share=1 / (1 + np.exp(-odds)), low=-6.0, high=9.0)
    return law.log_likelihood(Y, np.asarray(predictor), np.exp(log_sigma))


def test_the_density_is_a_share_of_each_law():
    inside = quad(
        lambda y: float(np.exp(LAW.log_likelihood(np.array(y), np.array(0.5), np.array(0.7)))), -6, 9, limit=200
    )
    assert inside[0] == pytest.approx(1.0, abs=1e-8)
    assert LAW.clean_probability(np.array(0.5), np.array(0.5), np.array(0.7)) > 0.95
    assert LAW.clean_probability(np.array(8.9), np.array(0.5), np.array(0.7)) < 1e-20
    assert LAW.clean_probability(np.array(1e6), np.array(0.5), np.array(0.7)) == 0.0


def test_derivatives_are_those_of_the_log_density():
    place, step = np.array([0.2, np.log(0.8), np.log(0.25)]), 1e-4
    found = LAW.derivatives(Y, np.asarray(place[0]), np.asarray(np.exp(2 * place[1])))
    own = found.own
    assert own is not None
    axes = step * np.eye(3)

    def first(i):
        return (log_density(*(place + axes[i])) - log_density(*(place - axes[i]))) / (2 * step)

    def second(i, j):
        ends = [log_density(*(place + a * axes[i] + b * axes[j])) * a * b for a in (1, -1) for b in (1, -1)]
        return -sum(ends) / (4 * step**2)

    for value, wanted in (
        (found.predictor, first(0)),
        (found.log_sigma, first(1)),
        (own.first, first(2)),
        (found.predictor_twice, second(0, 0)),
        (found.mixed, second(0, 1)),
        (found.log_sigma_twice, second(1, 1)),
        (own.with_predictor, second(0, 2)),
        (own.with_log_sigma, second(1, 2)),
        (own.twice, second(2, 2)),
    ):
        np.testing.assert_allclose(value, wanted, atol=2e-5)


def test_draws_have_their_share_of_outliers():
    y = LAW.sample(np.random.default_rng(0), np.zeros(20_000), np.full(20_000, 0.01))
    assert np.mean(np.abs(y) > 0.1) == pytest.approx(0.2, abs=0.01)
    assert y.min() > -6
    assert y.max() < 9


@pytest.mark.parametrize(("share", "far"), [(0.0, 1.0), (0.3, 30.0), (0.3, 1e6), (0.01, 1e9)])
def test_the_usual_range_leaves_outliers_out_and_the_whole_range_holds_every_y(share, far):
    generator = np.random.default_rng(3)
    y = 5.0 + generator.standard_normal(4000)
    astray = generator.random(4000) < share
    y[astray] = far * generator.uniform(0.5, 1.0, astray.sum())
    rows = ArrayRows(np.zeros((4000, 1)), y)
    low, high = run_steps(usual_range(float(y.mean()), float(y.std()), 2 / 3), rows)
    assert 5.0 - 7.0 < low < 5.0 - 2.5
    assert 5.0 + 2.5 < high < 5.0 + 7.0
    ends = run_steps(whole_range(low, high), rows)
    assert ends[0] <= y.min()
    assert ends[1] > y.max()
    assert ends[1] - ends[0] < 1.03 * (max(y.max(), high) - min(y.min(), low))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"share": 0.0}, "between 0 and 1"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"low": 2.0, "high": 2.0}, "range of y"),
    ],
)
def test_numbers_that_make_no_law_are_refused(numbers, words):
    with pytest.raises(ValueError, match=words):
        NormalWithOutliers(**numbers)
