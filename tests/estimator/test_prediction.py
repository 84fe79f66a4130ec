"""Density, distribution, quantiles and regions against integrals, simulation and each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm, t

from wmlr import MixedLinearRegression, Mixture
from wmlr.datasets import load_tone, make_mixed_regression
from wmlr.families import NORMAL, Student
from wmlr.model.predictive import Predictive
from wmlr.numerics.roots import roots

LEVELS = np.array([1e-6, 0.01, 0.25, 0.5, 0.9, 0.9999])


def predictive(seed, k, n=40, dof=None):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(k), n)
    return Predictive(
        generator.normal(0, 4, (n, k)), weights, generator.uniform(0.2, 2, k), NORMAL if dof is None else Student(dof)
    )


@given(seed=st.integers(0, 10_000), k=st.integers(1, 4), dof=st.sampled_from([None, 3.0]))
@settings(max_examples=25)
def test_quantile_inverts_cdf(seed, k, dof):
    law = predictive(seed, k, dof=dof)
    found = law.quantile(LEVELS)
    np.testing.assert_allclose(law.cdf(found), np.broadcast_to(LEVELS, found.shape), atol=1e-11)
    again = law.take(np.arange(5)).quantile(law.take(np.arange(5)).cdf(law.means[:5, :1])[0])
    assert abs(again[0, 0] - law.means[0, 0]) < 1e-8


@given(seed=st.integers(0, 10_000), k=st.integers(1, 4), dof=st.sampled_from([None, 3.0]))
@settings(max_examples=25)
def test_highest_density_region_is_what_it_says(seed, k, dof):
    law = predictive(seed, k, dof=dof)
    region = law.highest_density(0.9)
    for row, pieces in enumerate(region):
        one = law.take([row])
        mass = one.cdf(pieces.reshape(1, -1)).reshape(-1, 2)
        assert (mass[:, 1] - mass[:, 0]).sum() == pytest.approx(0.9, abs=1e-9)
        edges = one.log_density(pieces.reshape(1, -1))
        assert np.ptp(edges) < 1e-6
        assert np.all(np.diff(pieces.ravel()) > 0)
    assert np.all(region.counts <= k if dof is None else region.counts >= 1)
    assert np.all(region.lengths <= law.central(0.9).lengths + 1e-7)


def test_one_normal_is_a_normal():
    law = Predictive(np.array([[2.0]]), np.ones((1, 1)), np.array([3.0]))
    ends = norm.ppf([0.025, 0.975], 2, 3)
    np.testing.assert_allclose(law.highest_density(0.95)[0], [ends], atol=1e-9)
    np.testing.assert_allclose(law.central(0.95)[0], [ends], atol=1e-9)


def test_student_noise():
    law = Predictive(np.array([[2.0]]), np.ones((1, 1)), np.array([3.0]), Student(4.0))
    np.testing.assert_allclose(law.quantile(LEVELS)[0], t.ppf(LEVELS, 4, 2, 3), rtol=1e-9)
    np.testing.assert_allclose(law.log_density(LEVELS[None])[0], t.logpdf(LEVELS, 4, 2, 3))
    np.testing.assert_allclose(
        law.slope(LEVELS[None])[0],
        (law.log_density(LEVELS[None] + 1e-6) - law.log_density(LEVELS[None] - 1e-6))[0] / 2e-6,
        rtol=1e-6,
    )


def test_far_components_share_the_level():
    law = Predictive(np.array([[0.0, 1e6]]), np.full((1, 2), 0.5), np.array([1e-3, 1.0]))
    assert law.highest_density(0.95).counts.tolist() == [2]
    gone = Predictive(np.array([[0.0, 50.0]]), np.array([[1.0, 0.0]]), np.ones(2))
    np.testing.assert_allclose(gone.highest_density(0.95)[0], [norm.ppf([0.025, 0.975])], atol=1e-9)
    np.testing.assert_allclose(gone.quantile(LEVELS)[0], norm.ppf(LEVELS), atol=1e-9)


def test_roots_stay_between_their_ends():
    low, high = np.array([[0.0, 0.0, 0.0]]), np.array([[2.0, 2.0, 2.0]])
    shift = np.array([1.0, -1.0, 9.0])
    found = roots(lambda x, rows: x**3 - shift, low, high, 1e-12)
    np.testing.assert_allclose(found, [[1.0, 0.0, 2.0]], atol=1e-12)


@pytest.fixture(scope="module")
def tone():
    return load_tone()


@pytest.fixture(scope="module")
def fit(tone):
    return MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)


def test_density_and_cdf(fit, tone):
    X = tone.data[:3]
    grid = np.linspace(0, 4, 4001)[None]
    density = fit.predict_density(X, grid)
    assert density.shape == (3, 4001)
    np.testing.assert_allclose(integrate.simpson(density, x=grid[0], axis=1), 1.0, atol=1e-6)
    cdf = fit.predict_cdf(X, grid)
    np.testing.assert_allclose(np.gradient(cdf, grid[0], axis=1)[:, 10:-10], density[:, 10:-10], atol=2e-3)
    np.testing.assert_allclose(
        fit.predict_density(X, tone.target[:3]), np.exp(fit.mixture_.log_likelihood(X, tone.target[:3]))
    )
    np.testing.assert_array_equal(fit.predict_cdf(X, 2.0), fit.predict_cdf(X, [[2.0]])[:, 0])
    with pytest.raises(ValueError, match=r"y must have 3 rows, or be a grid of shape \(1, m\) \(got shape \(4,\)\)"):
        fit.predict_density(X, np.zeros(4))
    with pytest.raises(ValueError, match="y is missing"):
        fit.predict_cdf(X)


def test_quantiles_of_the_fit(fit, tone):
    assert fit.predict_quantile(tone.data).shape == (150,)
    found = fit.predict_quantile(tone.data, [0.1, 0.5, 0.9])
    assert found.shape == (150, 3)
    for place, q in enumerate([0.1, 0.5, 0.9]):
        np.testing.assert_allclose(fit.predict_cdf(tone.data, found[:, place]), q, atol=1e-11)
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        fit.predict_quantile(tone.data, 95)


def test_regions_cover_by_simulation(fit, tone):
    X = np.repeat(tone.data[::15], 4000, axis=0)
    y, _ = fit.sample(X, random_state=0)
    for kind in ("hdr", "central"):
        region = fit.predict_interval(tone.data[::15], 0.8, kind)
        inside = [np.any([(low <= part) & (part <= high) for low, high in pieces], axis=0).mean()
                  for pieces, part in zip(region, y.reshape(10, 4000))]  # fmt: skip
        assert np.abs(np.array(inside) - 0.8).max() < 0.03
        assert len(region) == 10
        assert region.to_frame().columns.tolist() == ["row", "lower", "upper"]


def test_regions_are_two_where_the_density_has_two_hills(fit):
    apart, together = fit.predict_interval(np.array([[1.4], [2.02]]))
    assert len(apart) == 2
    assert len(together) == 1
    one = fit.predict_interval(np.array([[1.4]]), kind="central")
    assert one.counts.tolist() == [1]
    assert one.contains([1.7])[0]
    assert not fit.predict_interval(np.array([[1.4]])).contains(1.7)[0]
    with pytest.raises(ValueError, match="kind must be 'hdr' or 'central'"):
        fit.predict_interval(np.ones((1, 1)), kind="shortest")
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        fit.predict_interval(np.ones((1, 1)), level=95)


@pytest.fixture(scope="module")
def grouped():
    data = make_mixed_regression(600, 2, 2, snr=3, groups=6, random_state=0)
    labels = np.array([f"g{group}" for group in data.groups])
    return data, labels, MixedLinearRegression(2, random_state=0).fit(data.X, data.y, groups=labels)


def test_known_groups_use_their_posterior(grouped):
    data, labels, fit = grouped
    assert sorted(set(labels)) == fit.group_labels_.tolist()
    shares = fit.responsibilities(data.X, data.y, labels)
    means = fit.predict_components(data.X)
    np.testing.assert_allclose(fit.predict(data.X, groups=labels), (means * shares).sum(axis=1))
    assert np.mean((fit.predict(data.X, groups=labels) - data.y) ** 2) < np.mean((fit.predict(data.X) - data.y) ** 2)
    new = np.array(["never seen"] * 600)
    np.testing.assert_array_equal(fit.predict(data.X, groups=new), fit.predict(data.X))
    mixed = np.where(np.arange(600) % 2, labels, new)
    np.testing.assert_array_equal(fit.predict(data.X, groups=mixed)[::2], fit.predict(data.X)[::2])
    assert (
        fit.predict_interval(data.X[:9], groups=labels[:9]).lengths.sum()
        < fit.predict_interval(data.X[:9]).lengths.sum()
    )
    median = fit.predict_quantile(data.X, 0.5, groups=labels)
    np.testing.assert_allclose(fit.predict_cdf(data.X, median, groups=labels), 0.5)


def test_groups_are_remembered_by_the_fit_that_had_them(grouped, tmp_path):
    data, labels, fit = grouped
    fit.save(tmp_path / "m.json")
    again = MixedLinearRegression.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict(data.X, groups=labels), fit.predict(data.X, groups=labels))
    plain = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, groups=labels).fit(data.X, data.y)
    assert not hasattr(plain, "group_labels_")
    with pytest.raises(ValueError, match="remembers no groups"):
        plain.predict(data.X, groups=labels)
    with pytest.raises(ValueError, match="one label per row"):
        fit.predict(data.X, groups=labels[:5])


@pytest.mark.parametrize(
    "labels", [[3, 1, 2], [0.5, 1.5, 2.5], ["b", "a", "c"], ["2020-01-01", "2021-01-01", "1999-05-05"]]
)
def test_labels_of_every_kind_are_kept(labels, tmp_path):
    kinds = np.array(labels, dtype="datetime64[D]" if "-" in str(labels[0]) else None)
    data = make_mixed_regression(90, 1, 2, snr=8, groups=30, random_state=0)
    groups = np.repeat(kinds, 30)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, groups=groups)
    fit.save(tmp_path / "m.json")
    again = MixedLinearRegression.load(tmp_path / "m.json")
    assert again.group_labels_.dtype == fit.group_labels_.dtype
    np.testing.assert_array_equal(again.predict(data.X, groups=groups), fit.predict(data.X, groups=groups))


def test_weights_count_in_a_groups_posterior():
    data = make_mixed_regression(120, 2, 2, snr=2, groups=4, random_state=0)
    twice = np.repeat(np.arange(120), 2)
    weighted = MixedLinearRegression(2, random_state=0).fit(data.X, data.y, np.full(120, 2.0), data.groups)
    explicit = MixedLinearRegression(2, random_state=0).fit(data.X[twice], data.y[twice], groups=data.groups[twice])
    np.testing.assert_allclose(weighted.group_responsibilities_, explicit.group_responsibilities_, atol=1e-6)


def test_students_mixture_samples_its_own_noise():
    like = Mixture(np.zeros((1, 1)), np.zeros(1), np.ones(1), np.ones(1), family=Student(3.0))
    y, labels = like.sample(np.zeros((20_000, 1)), np.random.default_rng(0))
    assert labels.max() == 0
    np.testing.assert_allclose(np.quantile(y, [0.05, 0.95]), t.ppf([0.05, 0.95], 3), atol=0.15)


def test_responsibilities_are_bayes(fit, tone):
    X, y = tone.data[:5], tone.target[:5]
    means = fit.predict_components(X)
    joint = fit.weights_ * norm.pdf(y[:, None], means, fit.sigma_)
    np.testing.assert_allclose(fit.responsibilities(X, y), joint / joint.sum(axis=1, keepdims=True))
