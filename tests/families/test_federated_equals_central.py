"""Every family with every gate: agents come to the iterates of one fit of all rows, and to its standard errors."""

import numpy as np
import pytest

from wmlr import MixedLinearRegression, Mixture
from wmlr.families import family
from wmlr.federated import Federation

FAMILIES = [
    "normal", "student", "laplace", "poisson", "negative-binomial", "binomial", "gamma", "beta",
    ["poisson", "point-mass"], ["negative-binomial", "poisson"], ["normal", "student"],
]  # fmt: skip
GATES = {"free": None, "equal": "equal", "fixed": [0.55, 0.45], "columns": [1], "group": "group"}
N, AGENTS = 240, 6
ITERATIONS = 4
IDS = {"ids": lambda given: given if isinstance(given, str) else "+".join(given)}
ALIKE = [given for given in FAMILIES if family(given).weights_alike]
OTHERS = [given for given in FAMILIES if given not in ALIKE]


def rows_of(law):
    generator = np.random.default_rng(7)
    X = generator.standard_normal((N, 2))
    high = {"log": (2.5, 0.6), "logit": (1.2, -1.0)}.get(law.predictor_scale, (2.0, -2.0))
    lines = np.array([[0.4, -0.3], [-0.4, 0.3]])
    truth = Mixture(lines, np.array(high), np.array([0.55, 0.45]), np.full(2, 0.4), family=law)
    y, _ = truth.sample(X, generator)
    start = np.column_stack([lines, np.array(high)]) + 0.1 * generator.standard_normal((2, 3))
    return X, y, start, np.arange(N) % AGENTS


def each_with_some(families):
    """Every family with every gate; in a short run every third of these."""
    return [
        pytest.param(
            given,
            gate,
            id=f"{IDS['ids'](given)}-{name}",
            marks=() if (place + number) % 3 == 0 else pytest.mark.long,
        )
        for place, given in enumerate(families)
        for number, (name, gate) in enumerate(GATES.items())
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("given", "gate"), each_with_some(FAMILIES))
def test_agents_come_to_the_fit_of_all_rows(given, gate):
    check_agents(given, gate, "wmlr")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("given", "gate"), each_with_some(ALIKE))
def test_agents_come_to_the_fit_of_all_rows_by_em(given, gate):
    check_agents(given, gate, "em")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("gate", [None, [1], "group"], ids=["free", "columns", "group"])
@pytest.mark.parametrize("given", OTHERS, **IDS)
def test_em_takes_the_very_steps_of_the_refreshed_solver_where_rows_weigh_differently(given, gate):
    """So that what agents come to by the one they come to by the other."""
    X, y, start, agents = rows_of(family(given))
    settings = {"family": given, "gate": gate, "start": start, "max_iter": ITERATIONS}
    groups = agents if gate == "group" else None
    one, other = (MixedLinearRegression(2, method=name, **settings).fit(X, y, groups=groups) for name in ("wmlr", "em"))
    assert one.history_ == other.history_
    np.testing.assert_array_equal(one.coef_, other.coef_)


def check_agents(given, gate, method):
    X, y, start, agents = rows_of(family(given))
    settings = {"family": given, "gate": gate, "method": method, "start": start, "max_iter": ITERATIONS}
    central, federated = (MixedLinearRegression(2, **settings) for _ in range(2))
    central.fit(X, y, groups=agents if gate == "group" else None)
    engine = Federation.split(X, y, agents, level="agent" if gate == "group" else "row")
    federated.fit_on(engine)
    assert federated.n_iter_ == central.n_iter_
    for name in ("coef_", "intercept_", "weights_", "sigma_"):
        np.testing.assert_allclose(getattr(federated, name), getattr(central, name), rtol=1e-8, atol=1e-8)
    if gate == [1]:
        np.testing.assert_allclose(federated.gate_coef_, central.gate_coef_, rtol=1e-8, atol=1e-8)
    assert federated.log_likelihood_ == pytest.approx(central.log_likelihood_, rel=1e-10)
    if gate != "group":
        theirs = federated.covariance_on(engine)
        np.testing.assert_allclose(theirs, central.covariance(X, y), rtol=1e-6, atol=1e-8 * np.nanmax(np.abs(theirs)))


def test_agents_whose_rows_are_told_apart_nowhere_have_no_weights_of_their_own():
    X, y, start, agents = rows_of(family("normal"))
    with pytest.raises(ValueError, match="level='agent'"):
        MixedLinearRegression(2, gate="group", start=start).fit_on(Federation.split(X, y, agents))
