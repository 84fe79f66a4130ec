"""Agents that lie in a federation: who is left out, and how far they move the fit."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from liars import LIES, Liar, LyingFederation, change, fitted, honest_agents, trusting, two_faced
from typer.testing import CliRunner

from longer import long
from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.core.round import Rows
from wmlr.federated import Federation, Privacy
from wmlr.metrics import coefficient_error

NINE = list(LIES)[:9]
OTHERS = list(LIES)[9:]
LATE = {
    "y x 5",
    "-3 x'1 + noise for y",
    "all sums and rows x 1000",
    "only what has a sign, turned",
    "the same, after 5 honest answers",
}
"""Lies that are found late, and told by other tests as well, or in another test's way."""


def without(agents, liars, k=2):
    return fitted(Federation([rows for place, rows in enumerate(agents) if place not in liars]), k)


@cache
def rest_of(seed, *liars):
    """The fit of the honest agents among those of a seed."""
    return without(honest_agents(seed), liars)


@pytest.mark.parametrize("lie", [long(lie) if lie in LATE else lie for lie in LIES])
def test_one_liar_of_ten_is_named_and_does_not_move_the_fit(lie):
    agents = honest_agents(0)
    federation = LyingFederation.of(agents, {3: LIES[lie]()}, trust="majority")
    assert change(fitted(federation), rest_of(0, 3)) < 1e-8
    assert list(federation.left_out) == [3]
    assert federation.left_out[3]


@pytest.mark.parametrize("lie", [long(lie) if lie == "another data set's rows" else lie for lie in NINE])
def test_three_liars_of_ten_are_named_and_do_not_move_the_fit(lie):
    agents, liars = honest_agents(1), {0, 3, 7}
    federation = LyingFederation.of(agents, {place: LIES[lie]() for place in liars}, trust="majority")
    assert change(fitted(federation), rest_of(1, *sorted(liars))) < 1e-8
    assert set(federation.left_out) == liars


def test_three_liars_that_lie_in_three_ways_are_named():
    agents = honest_agents(2)
    lies = {1: LIES["y x 5"](), 4: LIES["another data set's rows"](), 8: LIES["random sums"]()}
    federation = LyingFederation.of(agents, lies, trust="majority")
    assert change(fitted(federation), without(agents, lies)) < 1e-8
    assert set(federation.left_out) == set(lies)


@pytest.mark.parametrize("places", [(3,), long((0, 3, 7))])
def test_liars_that_tell_the_truth_where_they_are_judged_do_not_move_the_fit(places):
    """One of ten moved it by three times its length: the last fit, of those that were judged, nobody looked at."""
    agents = honest_agents(0)
    liars = {place: two_faced(agents[place], lambda X, y: 5.0 * y) for place in places}
    found = fitted(LyingFederation.of(agents, liars, trust="majority"), search="auto")
    assert min(change(found, rest_of(0, *places)), change(found, fitted(Federation(agents)))) < 1e-6


def test_a_lie_in_the_search_alone_takes_no_component_away():
    """A component emptied, and to the fit of one that was left nobody's rows were an exception."""
    agents = honest_agents(0)
    X, y = agents[3]
    other = Rows(X, y + 15.0 * X.sum(axis=1), index=np.arange(len(y)))

    def say(sums, query, liar):
        return query.answer(other) if "CandidateScores" in query.label else sums

    federation = LyingFederation.of(agents, {3: Liar(say=say)}, trust="majority")
    found = fitted(federation)
    assert len(found.coef_) == 2
    assert change(found, rest_of(0, 3)) < 1e-8
    assert list(federation.left_out) == [3]


@pytest.mark.parametrize(("places", "shift"), [((3,), 0.06), ((0, 3, 7), 0.3)])
def test_liars_whose_rows_outweigh_all_others_are_named(places, shift):
    """Columns ten times as large say a hundred times as much: beside that, what the others' rows say was nothing."""
    agents, rest = honest_agents(0), rest_of(0, *places)
    direction = np.random.default_rng(5).standard_normal(5)
    direction /= np.linalg.norm(direction)

    def rows(own, generator):
        X, z = 10.0 * own[0], generator.integers(2, size=len(own[1]))
        coef = (rest.coef_ + shift * np.linalg.norm(rest.coef_, axis=1)[:, None] * direction)[z]
        return X, (X * coef).sum(axis=1) + np.broadcast_to(rest.sigma_, 2)[z] * generator.standard_normal(len(X))

    federation = LyingFederation.of(agents, {place: Liar(rows=rows) for place in places}, trust="majority")
    assert change(fitted(federation), rest) < 1e-8
    assert set(federation.left_out) == set(places)


@pytest.mark.long
def test_no_honest_agent_is_blamed_for_liars_that_lie_now_and_then():
    """Whoever came last to a fit that a liar among the others spoilt, every other time, was left out in its place."""

    def now_and_then(sums, query, liar):
        return LIES["only what has a sign, turned"]().say(sums, query, liar) if liar.answered % 2 else sums

    liars = {place: Liar(say=now_and_then) for place in (0, 3, 7)}
    federation = LyingFederation.of(honest_agents(0), liars, trust="majority")
    found = fitted(federation)
    assert set(federation.left_out) <= set(liars)
    assert change(found, rest_of(0)) < 0.01


@pytest.mark.parametrize("lie", ["y x 1000", "y + 1000", "another data set's rows", "-3 x'1 + noise for y"])
def test_the_same_lies_move_a_fit_that_trusts_all(lie):
    agents = honest_agents(0)
    assert change(fitted(trusting(agents, {3: LIES[lie]()})), rest_of(0, 3)) > 0.05


@pytest.mark.parametrize("lie", [long("y x 1000"), long("y x 5"), "-3 x'1 + noise for y"])
def test_a_liar_among_agents_of_one_component_each_is_named(lie):
    agents = honest_agents(3, rows=100, level="agent")
    federation = LyingFederation.of(agents, {2: LIES[lie]()}, trust="majority", level="agent")
    found = fitted(federation)
    rest = fitted(Federation([rows for place, rows in enumerate(agents) if place != 2], level="agent"))
    assert list(federation.left_out) == [2]
    assert change(found, rest) < 1e-8


@pytest.mark.parametrize("family", ["poisson", long("student")])
def test_a_liar_is_named_whatever_the_family(family):
    generator = np.random.default_rng(0)
    slopes, agents = np.array([[1.0, 0.5, -0.5], [-1.0, 0.5, 0.8]]), []
    for _ in range(10):
        X = generator.standard_normal((150, 3))
        line = (X * slopes[(generator.random(150) < 0.4).astype(int)]).sum(axis=1)
        noisy = 3.0 * line + 0.3 * generator.standard_t(3, 150)
        agents.append((X, noisy if family == "student" else generator.poisson(np.exp(0.7 * line + 1.0)).astype(float)))

    def found(federation):
        return MixedLinearRegression(2, family=family, search="quick", random_state=0).fit_on(federation)

    federation = LyingFederation.of(agents, {3: LIES["y x 5"]()}, trust="majority")
    assert change(found(federation), found(Federation(agents[:3] + agents[4:]))) < 1e-8
    assert list(federation.left_out) == [3]


def honest_federations(seeds):
    """Federations whose agents differ honestly: in their components, features, numbers of rows, and a little in all."""
    generator = np.random.default_rng(seeds[0])
    for seed in seeds:
        yield "alike", honest_agents(seed), {}
        yield "components", honest_agents(seed, level="agent"), {"level": "agent"}
        slopes = generator.standard_normal((2, 5))
        agents = []
        for _ in range(10):
            rows = int(generator.integers(60, 600))
            X = generator.standard_normal((rows, 5)) * generator.uniform(0.3, 3.0, 5) + generator.standard_normal(5)
            own = slopes[(generator.random(rows) < generator.uniform(0.2, 0.8)).astype(int)]
            agents.append((X, (X * own).sum(axis=1) + 0.5 * generator.standard_normal(rows)))
        yield "features, rows and shares", agents, {}
        yield (
            "slopes",
            [(X, y + X @ (0.1 * generator.standard_normal(5))) for X, y in honest_agents(seed)],
            {},
        )


@pytest.mark.parametrize("seeds", [[0], long([1, 2])])
def test_an_honest_federation_loses_nothing_by_caution(seeds):
    for name, agents, settings in honest_federations(seeds):
        federation = Federation(agents, trust="majority", **settings)
        found = fitted(federation)
        assert not federation.left_out, (name, federation.left_out)
        assert change(found, fitted(Federation(agents, **settings))) < 1e-8, name


@pytest.mark.parametrize("seed", [0, long(1)])
def test_the_published_adversarial_setting_of_federated_mixtures_is_borne(seed):
    """Ten tasks of 200 rows, ten features, five components; one task says y = -3 x'1 + noise."""
    generator = np.random.default_rng(seed)
    slopes = 2.0 * generator.standard_normal((5, 10))

    def task():
        X, own = generator.standard_normal((200, 10)), generator.choice(5, 200, p=generator.dirichlet(np.full(5, 5.0)))
        return X, (X * slopes[own]).sum(axis=1) + generator.standard_normal(200)

    agents = [task() for _ in range(10)]
    federation = LyingFederation.of(agents, {0: LIES["-3 x'1 + noise for y"]()}, trust="majority")
    errors = [
        coefficient_error(fit.coef_, slopes)
        for fit in (fitted(federation, 5), without(agents, {0}, 5), fitted(trusting(agents, {0: LIES[OTHERS[0]]()}), 5))
    ]
    assert errors[0] <= 1.1 * errors[1]
    assert errors[2] > 5 * errors[1]
    assert list(federation.left_out) == [0]


def test_standard_errors_are_those_of_the_agents_that_were_fitted():
    agents = honest_agents(0)
    federation = LyingFederation.of(agents, {3: LIES["y x 1000"]()}, trust="majority")
    found = fitted(federation)
    rest = Federation(agents[:3] + agents[4:])
    wanted = fitted(rest).covariance_on(rest)
    np.testing.assert_allclose(found.covariance_on(federation), wanted, rtol=1e-6, atol=1e-6 * np.diag(wanted).min())


def test_a_liar_that_waits_for_the_standard_errors_is_left_out_of_them():
    agents = honest_agents(0)
    liar = Liar(say=LIES["random sums"]().say, honest=10**9)
    federation = LyingFederation.of(agents, {3: liar}, trust="majority")
    found = fitted(federation)
    assert not federation.left_out
    liar.honest = 0
    found.covariance_on(federation)
    assert list(federation.left_out) == [3]


@pytest.mark.parametrize("trust", ["all", "majority"])
def test_influence_says_how_far_the_fit_moves_without_each_agent(trust):
    agents = honest_agents(4, rows=200)
    federation = Federation(agents, trust=trust)
    found = fitted(federation)
    rounds = len(federation.ledger)
    found.covariance_on(federation)
    influence = federation.ledger.influence
    assert len(federation.ledger) - rounds == 2
    for place in (0, 5):
        rest = without(agents, {place})
        size = np.linalg.norm(np.column_stack([found.coef_, found.intercept_]))
        moved = np.column_stack([rest.coef_ - found.coef_, rest.intercept_ - found.intercept_])
        assert influence.moved[place] == pytest.approx(np.linalg.norm(moved) / size, rel=0.25)
    assert [record["standard_errors"] for record in influence.records()] == sorted(influence.errors, reverse=True)


def test_the_majority_needs_agents_to_compare_and_answers_without_noise():
    agents = honest_agents(0, agents=2)
    with pytest.raises(ValueError, match="at least 3 agents"):
        MixedLinearRegression(random_state=0).fit_on(Federation(agents, trust="majority"))
    with pytest.raises(ValueError, match="leave one of them out"):
        Federation(agents, trust="majority", privacy=Privacy(epsilon=1.0))
    with pytest.raises(ValueError, match=r"trust must be 'all' or 'majority' \(got 'none'\)"):
        Federation(agents, trust="none")


def test_the_command_line_names_a_liar(tmp_path):
    columns = [f"x{number}" for number in range(1, 6)]
    frames = []
    for place, (X, y) in enumerate(honest_agents(0, rows=100)):
        frame = pd.DataFrame(X, columns=columns)
        frames.append(frame.assign(y=-y if place == 3 else y, agent=f"site-{place}"))
    pd.concat(frames).to_csv(tmp_path / "rows.csv", index=False)
    words = ["simulate", str(tmp_path / "rows.csv"), "--target", "y", "--agent-column", "agent", "--trust", "majority"]
    report = tmp_path / "page.html"
    printed = CliRunner().invoke(app, [*words, "--report", str(report)], prog_name="wmlr")
    assert printed.exit_code == 0, printed.output
    assert "agent site-3 was left out: its rows contradict the others'" in printed.output
    assert "without one agent the fit moves furthest for site-" in printed.output
    assert "Influence of agents" in report.read_text()
