from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmlr.datasets import load_co2, load_no, load_tone, make_mixed_regression


def test_symmetric_pair_has_the_length_and_noise_asked_for():
    rows = make_mixed_regression(20_000, 5, snr=3.0, sigma=0.5, symmetric=True, random_state=0)
    assert np.array_equal(rows.coef[0], -rows.coef[1])
    assert np.allclose(np.linalg.norm(rows.coef, axis=1), 1.5)
    noise = rows.y - np.einsum("nd,nd->n", rows.X, rows.coef[rows.labels])
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert np.allclose(rows.X.T @ rows.X / len(rows.X), np.eye(5), atol=0.05)
    assert rows.labels.mean() == pytest.approx(0.5, abs=0.02)
    assert rows.mixture.symmetric
    assert rows.groups is None


def test_general_components_are_drawn_with_their_weights():
    shares = [0.6, 0.3, 0.1]
    rows = make_mixed_regression(20_000, 4, 3, snr=2.0, weights=shares, random_state=1)
    assert rows.coef.shape == (3, 4)
    assert np.allclose(np.linalg.norm(rows.coef, axis=1), 2.0)
    assert np.bincount(rows.labels) / 20_000 == pytest.approx(shares, abs=0.02)
    assert np.array_equal(rows.mixture.weights, shares)
    assert not rows.mixture.symmetric


@given(
    n=st.integers(1, 60),
    d=st.integers(1, 5),
    k=st.integers(1, 4),
    size=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_rows_of_a_group_share_their_label(n, d, k, size, seed):
    rows = make_mixed_regression(n, d, k, snr=1.0, groups=size, random_state=seed)
    assert rows.X.shape == (n, d)
    assert rows.groups is not None
    assert np.array_equal(rows.groups, np.arange(n) // size)
    for group in np.unique(rows.groups):
        assert len(set(rows.labels[rows.groups == group])) == 1
    assert rows.labels.max() < k


def test_group_ids_may_be_names_in_any_order():
    names = np.array(["b", "a", "b", "c", "a", "b"] * 30)
    rows = make_mixed_regression(180, 2, 3, snr=1.0, groups=names, random_state=3)
    assert np.array_equal(rows.groups, names)
    assert all(len(set(rows.labels[names == name])) == 1 for name in "abc")


def test_a_seed_repeats_and_generators_move_on():
    def draw(random_state):
        return make_mixed_regression(10, 2, snr=1.0, random_state=random_state).y

    assert np.array_equal(draw(7), draw(7))
    assert np.array_equal(draw(7), draw(np.random.default_rng(7)))
    assert np.array_equal(draw(np.random.RandomState(7)), draw(np.random.RandomState(7)))
    for source in (np.random.default_rng(7), np.random.RandomState(7), None):
        assert not np.array_equal(draw(source), draw(source))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"snr": -1}, r"snr must be positive \(got -1\)"),
        ({"snr": float("nan")}, r"snr must be positive \(got nan\)"),
        ({"sigma": 0.0}, r"sigma must be positive \(got 0.0\)"),
        ({"n_samples": 0}, r"n_samples must be a positive integer \(got 0\)"),
        ({"n_features": 2.5}, r"n_features must be a positive integer \(got 2.5\)"),
        ({"n_components": True}, r"n_components must be a positive integer \(got True\)"),
        ({"n_components": 3, "symmetric": True}, r"symmetric=True needs n_components=2 \(got 3\)"),
        ({"weights": [1.0]}, r"shape \(2,\) \(got shape \(1,\)\)"),
        ({"weights": [2.0, 1.0]}, r"divide them by their sum \(got \[2. 1.\]\)"),
        ({"weights": [1.5, -0.5]}, "non-negative"),
        ({"weights": [np.nan, 1.0]}, "non-negative"),
        ({"groups": 0}, r"positive integer \(got 0\)"),
        ({"groups": [1, 2]}, r"one id per row, shape \(10,\) \(got shape \(2,\)\)"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_mixed_regression(**{"n_samples": 10, "n_features": 2, "snr": 1.0} | arguments)


@pytest.mark.parametrize(
    ("load", "n", "feature", "target", "first"),
    [
        (load_tone, 150, "stretchratio", "tuned", (1.35, 1.461)),
        (load_co2, 28, "GNP", "CO2", (19.02, 14.7)),
        (load_no, 88, "NO", "Equivalence", (3.741, 0.907)),
    ],
)
def test_published_studies_load(load, n, feature, target, first):
    study = load()
    assert study.data.shape == (n, 1)
    assert study.target.shape == (n,)
    assert study.feature_names == [feature]
    assert study.target_name == target
    assert (study.data[0, 0], study.target[0]) == first
    assert f"{target} ~ {feature}" in study.DESCR


def test_countries_come_with_co2():
    study = load_co2()
    assert study.country.shape == (28,)
    assert list(study.country[:3]) == ["CAN", "MEX", "USA"]


def test_published_fits_reach_the_likelihood_in_their_description():
    from wmlr.model.mixture import Mixture

    study = load_co2()
    mixture = Mixture(
        coef=np.array([[-0.023344], [0.676596]]),
        intercept=np.array([8.678987, 1.415150]),
        weights=np.array([0.754921, 0.245079]),
        sigma=np.array([2.049315, 0.809389]),
    )
    assert mixture.log_likelihood(study.data, study.target).sum() == pytest.approx(-66.93977, abs=1e-4)
