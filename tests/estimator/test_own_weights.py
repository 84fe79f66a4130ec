"""Groups, or agents, that have mixing weights of their own."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.federated import Federation

AGENTS, ROWS, K = 60, 30, 3
LINES = np.array([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])


def drawn(seed=0, agents=AGENTS, rows=ROWS):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(K, 0.4), agents)
    X = generator.standard_normal((agents * rows, 2))
    owner = np.repeat(np.arange(agents), rows)
    component = np.array([generator.choice(K, p=weights[agent]) for agent in owner])
    y = (X * LINES[component]).sum(axis=1) + 0.7 * generator.standard_normal(len(X))
    return X, y, owner, weights


@pytest.fixture(scope="module")
def data():
    return drawn()


@pytest.fixture(scope="module")
def parts(data):
    """Seen agents; of the last fifth, which is new, half of the rows to learn from and half to be predicted."""
    owner = data[2]
    new = owner >= 0.8 * AGENTS
    late = np.arange(len(owner)) % 2 == 1
    return ~new, new & ~late, new & late


@pytest.fixture(scope="module")
def fit(data, parts):
    X, y, owner, _ = data
    seen = parts[0]
    settings = {"gate": "group", "fit_intercept": False, "random_state": 0, "search": "quick"}
    return MixedLinearRegression(K, **settings).fit(X[seen], y[seen], groups=owner[seen])


def oracle(X, y, weights):
    densities = -0.5 * ((y[:, None] - X @ LINES.T) ** 2 / 0.49 + np.log(2 * np.pi * 0.49))
    return float(np.log((weights * np.exp(densities)).sum(axis=1)).mean())


def alone(X, y, owner, learned, held):
    """The mean log-likelihood of new agents' rows by a fit to the other rows of each."""
    values = []
    for agent in np.unique(owner[held]):
        own, other = learned & (owner == agent), held & (owner == agent)
        model = MixedLinearRegression(K, fit_intercept=False, random_state=0, search="quick").fit(X[own], y[own])
        values.append(model.score(X[other], y[other]))
    return float(np.mean(values))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_agents_are_predicted_better_than_by_common_weights_or_alone_and_near_the_oracle(fit, data, parts):
    X, y, owner, weights = data
    seen, learned, held = parts
    best = oracle(X[held], y[held], weights[owner[held]])
    fit.learn_groups(X[learned], y[learned], groups=owner[learned])
    own = fit.score(X[held], y[held], groups=owner[held])
    common = MixedLinearRegression(K, fit_intercept=False, random_state=0, search="quick").fit(X[seen], y[seen])
    assert own > common.score(X[held], y[held]) + 0.05
    assert own > alone(X, y, owner, learned, held) + 0.05
    assert own > best - 0.02 * abs(best)
    order = np.argsort(-fit.mixture_.weights)
    assert fit.mixture_.prior[order].sum() == pytest.approx(1.2, abs=0.6)


def test_a_federation_gives_the_central_fit(data):
    X, y, owner, _ = data
    start = LINES + 0.3
    settings = {"gate": "group", "fit_intercept": False, "start": start}
    central = MixedLinearRegression(K, **settings).fit(X, y, groups=owner)
    agents = [(X[owner == agent], y[owner == agent]) for agent in range(AGENTS)]
    shared = MixedLinearRegression(K, **settings).fit_on(Federation(agents, level="agent"))
    np.testing.assert_allclose(shared.coef_, central.coef_, atol=1e-8)
    np.testing.assert_allclose(shared.mixture_.prior, central.mixture_.prior, rtol=1e-7)
    assert np.all(np.diff([record["log_likelihood"] for record in central.history_]) > -1e-7)
    errors = np.sqrt(np.diag(central.covariance(X, y, groups=owner)))
    assert np.all((errors > 0.01) & (errors < 0.1))


def test_a_saved_model_remembers_its_groups_and_their_law(fit, data, tmp_path):
    X, _, owner, _ = data
    fit.save(tmp_path / "model.json")
    read = MixedLinearRegression.load(tmp_path / "model.json")
    np.testing.assert_array_equal(read.mixture_.prior, fit.mixture_.prior)
    np.testing.assert_array_equal(read.predict(X[:90], groups=owner[:90]), fit.predict(X[:90], groups=owner[:90]))
    np.testing.assert_allclose(read.predict(X[:2], groups=["no", "one"]), fit.predict(X[:2]))


def test_groups_are_needed(data):
    with pytest.raises(ValueError, match="pass groups="):
        MixedLinearRegression(K, gate="group").fit(data[0], data[1])


def test_groups_that_do_not_differ_converge_to_common_weights():
    """Their law grows without bound, which EM's steps alone take hundreds of iterations for."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    lines = np.where(generator.random(400)[:, None] < 0.4, [2.0, 1.0], [-1.0, 3.0])
    y = (X * lines).sum(axis=1) + 0.5 * generator.standard_normal(400)
    own = MixedLinearRegression(2, gate="group", random_state=0).fit(X, y, groups=np.arange(400) % 20)
    common = MixedLinearRegression(2, random_state=0).fit(X, y)
    assert own.converged_
    assert own.n_iter_ < 60
    assert own.log_likelihood_ == pytest.approx(common.log_likelihood_, abs=0.02)
    np.testing.assert_allclose(own.weights_, common.weights_, atol=1e-3)
