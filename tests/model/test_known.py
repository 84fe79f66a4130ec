"""Rows whose component is known."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from wmlr import MixedLinearRegression
from wmlr.core.roles import RoleRows, Roles
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.statistics.information import ObservedInformation

K, N = 3, 360


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((N, 2))
    labels = generator.choice(K, N, p=[0.2, 0.3, 0.5])
    coef = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    y = (X * coef[labels]).sum(axis=1) + np.array([0.0, 1.0, -1.0])[labels] + 0.7 * generator.standard_normal(N)
    return X, y, labels, np.where(generator.random(N) < 0.2, labels, -1)


def joint(fit, X, y, known):
    lines = norm.logpdf(y[:, None], X @ fit.coef_.T + fit.intercept_, fit.sigma_) + np.log(fit.weights_)
    return np.where((known[:, None] >= 0) & (known[:, None] != np.arange(K)), -np.inf, lines)


def test_a_known_row_counts_in_its_component_alone(data):
    X, y, _, known = data
    fits = [
        MixedLinearRegression(K, shared_sigma=False, random_state=seed).fit_on(ArrayRows(X, y, beside={"known": known}))
        for seed in range(4)
    ]
    for fit in fits:
        lines = joint(fit, X, y, known)
        assert fit.log_likelihood_ == pytest.approx(logsumexp(lines, axis=1).sum(), abs=1e-8)
        shares = np.exp(lines - logsumexp(lines, axis=1)[:, None])
        np.testing.assert_allclose(fit.weights_, shares.mean(axis=0), atol=1e-6)
        assert fit.log_likelihood_ == pytest.approx(fits[0].log_likelihood_, abs=1e-6)


def test_rows_that_are_all_known_give_each_component_its_own_least_squares(data):
    X, y, labels, _ = data
    fit = MixedLinearRegression(K, shared_sigma=False, random_state=0).fit_on(ArrayRows(X, y, beside={"known": labels}))
    design = np.column_stack([X, np.ones(N)])
    for j in range(K):
        own = labels == j
        expected = np.linalg.lstsq(design[own], y[own], rcond=None)[0]
        np.testing.assert_allclose(np.append(fit.coef_[j], fit.intercept_[j]), expected, atol=1e-8)
    np.testing.assert_allclose(fit.weights_, np.bincount(labels) / N, atol=1e-10)


def test_a_known_row_makes_its_group_known(data):
    X, y, labels, known = data
    order = np.argsort(labels, kind="stable")
    groups = np.arange(N) // 3
    whole = labels[order].reshape(-1, 3)
    same = np.repeat((whole == whole[:, :1]).all(axis=1), 3)
    rows = ArrayRows(X[order], y[order], None, groups, beside={"known": np.where(same, known[order], -1)})
    fit = MixedLinearRegression(K, random_state=0).fit_on(rows)
    np.testing.assert_allclose(fit.weights_, np.bincount(labels) / N, atol=0.05)


def test_agents_labels_in_a_column_give_the_central_fit(data):
    X, y, _, known = data
    start = np.column_stack([[[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], np.zeros(K)])
    model = MixedLinearRegression(K, start=start)
    central = model.fit_on(ArrayRows(X, y, beside={"known": known})).coef_
    table = np.column_stack([X, known])
    agents = Federation([(table[part], y[part]) for part in np.array_split(np.arange(N), 4)])
    rows = RoleRows(agents, Roles((0, 1), {"known": (2,)}, frozenset({"known"})))
    np.testing.assert_allclose(model.fit_on(rows).coef_, central, atol=1e-8)


def test_labels_add_information(data):
    X, y, _, known = data
    fit = MixedLinearRegression(K, random_state=0).fit_on(ArrayRows(X, y, beside={"known": known}))
    query = ObservedInformation(np.column_stack([fit.coef_, fit.intercept_]).T, fit.weights_, fit.sigma_**2)
    errors = [
        np.diag(np.linalg.inv(ArrayRows(X, y, beside=beside).total(query)["information"]))
        for beside in ({"known": known}, {})
    ]
    assert errors[0][-2:].sum() < errors[1][-2:].sum()


def test_methods_that_do_not_know_of_labels_refuse_them(data):
    X, y, _, known = data
    with pytest.raises(ValueError, match="labels= needs free components"):
        MixedLinearRegression(K, method="gem").fit_on(ArrayRows(X, y, beside={"known": known}))


def test_fit_takes_labels_and_refuses_what_they_cannot_be(data):
    X, y, _, known = data
    fit = MixedLinearRegression(K, random_state=0).fit(X, y, labels=known)
    there = MixedLinearRegression(K, random_state=0).fit_on(ArrayRows(X, y, beside={"known": known}))
    np.testing.assert_array_equal(fit.coef_, there.coef_)
    assert fit.score(X, y, labels=known) * N == pytest.approx(fit.log_likelihood_, abs=1e-8)
    shares = fit.responsibilities(X, y, labels=known)
    np.testing.assert_array_equal(shares.argmax(axis=1)[known >= 0], known[known >= 0])
    assert np.diag(fit.covariance(X, y, labels=known))[-2:].sum() < np.diag(fit.covariance(X, y))[-2:].sum()
    with pytest.raises(ValueError, match="draws rows without labels"):
        fit.bootstrap(X, y)
    with pytest.raises(ValueError, match=r"from 0 to 2 \(got 3\)"):
        MixedLinearRegression(K).fit(X, y, labels=np.where(known < 0, 3, known))
    with pytest.raises(ValueError, match="one number per row"):
        MixedLinearRegression(K).fit(X, y, labels=known[:5])
    with pytest.raises(ValueError, match="has two labels"):
        MixedLinearRegression(K).fit(X, y, groups=np.zeros(N), labels=known)


def test_labels_go_with_rows_that_have_gaps(data):
    X, y, _, known = data
    holes = X.copy()
    holes[::7, 0] = np.nan
    whole = ~np.isnan(holes[:, 0])
    dropped = MixedLinearRegression(K, missing="drop", random_state=0).fit(holes, y, labels=known)
    kept = MixedLinearRegression(K, random_state=0).fit(X[whole], y[whole], labels=known[whole])
    np.testing.assert_allclose(dropped.coef_, kept.coef_, atol=1e-10)
