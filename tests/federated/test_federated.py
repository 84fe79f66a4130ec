"""Agents in one process: the central fit, wherever the rows are; and an account of every round."""

import json
import sys
import time
import tracemalloc
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

from longer import long
from terminal import run_on_terminal
from wmlr import MixedLinearRegression
from wmlr.core.round import Sampled, Together, run
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.federated import ErrorTrace, Federation, Ledger, Participation, Round, error_against_bytes
from wmlr.federated.ledger import floats_in
from wmlr.methods import EM, GDA, GEM, IFCA, FederatedEM, Refreshed
from wmlr.methods.partial import partial
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.model.gates import EQUAL, FREE
from wmlr.numerics.expectations import GaussHermite
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import SymmetricMinimax
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

SYMMETRIC = Task(symmetric=True, gate=EQUAL, max_iter=25)
THREE = Task(n_components=3, intercept=True, max_iter=8, search="quick")
METHODS = {
    "refreshed": (Refreshed(), SYMMETRIC),
    "refreshed, k=3": (Refreshed(), THREE),
    "F-WMLR": (GDA(), SYMMETRIC),
    "F-WMLR, drawn noise": (GDA(expectation="frozen", coordinates="raw"), SYMMETRIC),
    "F-WMLR, k=3": (GDA(nodes=4), THREE),
    "exact F-EM": (EM(), SYMMETRIC),
    "exact F-EM, k=3": (EM(), THREE),
    "F-EM": (FederatedEM(inner=5), SYMMETRIC),
    "F-EM, k=3": (FederatedEM(inner=3), THREE),
    "F-GEM": (GEM(capped=False, coordinates="raw", alpha=0.2), SYMMETRIC),
    "F-GEM, k=3": (GEM(), THREE),
    "IFCA": (IFCA(), SYMMETRIC),
    "IFCA, k=3": (IFCA(), THREE),
}


def sizes_of(kind, n):
    """Agents' numbers, row by row."""
    generator = np.random.default_rng(5)
    if kind == "even":
        return np.arange(n) // 6
    if kind == "alone":
        return np.arange(n)
    sizes = generator.integers(1, 15, size=n)
    ids = np.repeat(np.arange(n), sizes)[:n]
    return generator.permutation(ids) if kind == "scattered" else ids


def iterates(solver, task, engine):
    places = []
    fit = run(solver.fit(task), engine, lambda report: places.append(report.mixture))
    return fit, [np.concatenate([m.coef.ravel(), m.intercept, m.weights, m.sigma]) for m in places]


@pytest.mark.parametrize("level", ["row", "agent"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "scattered") for name in METHODS),
        *((name, kind) for name in ("refreshed", "F-WMLR", "exact F-EM, k=3") for kind in ("even", "uneven", "alone")),
    ],
)
def test_a_federated_run_is_the_central_one(name, level, kind):
    solver, task = METHODS[name]
    ids = sizes_of(kind, 720)
    k = task.n_components
    data = make_mixed_regression(720, 5, k, snr=4, symmetric=task.symmetric, groups=ids, random_state=3)
    central = ArrayRows(data.X, data.y, groups=np.unique(ids, return_inverse=True)[1] if level == "agent" else None)
    wanted, path = iterates(solver, task, central)
    fit, federated = iterates(solver, task, Federation.split(data.X, data.y, ids, level=level))
    assert fit.n_iter == wanted.n_iter
    for ours, theirs in zip(federated, path, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    assert fit.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-10)


def test_the_estimator_fits_on_a_federation(generator):
    data = make_mixed_regression(1200, 4, 2, snr=6, groups=10, random_state=0)
    order = generator.permutation(1200)
    federation = Federation.split(data.X[order], data.y[order], data.groups[order], level="agent")
    ours = MixedLinearRegression(random_state=1).fit_on(federation)
    theirs = MixedLinearRegression(random_state=1).fit(data.X, data.y, groups=data.groups)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)
    last = ours.history_[-1]
    assert last["rounds"] <= len(ours.ledger_) == len(federation.ledger)
    assert last["answered"] == last["asked"] == 120 * last["rounds"]
    again = MixedLinearRegression(random_state=1).fit_on(federation)
    assert len(again.ledger_) == len(ours.ledger_)
    assert again.history_[0]["rounds"] == ours.history_[0]["rounds"]
    np.testing.assert_allclose(
        ours.covariance_on(federation), theirs.covariance(data.X, data.y, groups=data.groups), rtol=1e-6, atol=1e-12
    )


def test_several_starts_share_their_rounds():
    data = make_mixed_regression(600, 3, 2, snr=6, groups=10, random_state=0)
    federation = Federation.split(data.X, data.y, data.groups)
    fit = MixedLinearRegression(n_init=2, random_state=0).fit_on(federation)
    assert fit.history_[-1]["rounds"] <= len(fit.ledger_)


def test_a_list_of_agents_and_a_split_are_the_same():
    ids = sizes_of("uneven", 300)
    data = make_mixed_regression(300, 3, snr=5, symmetric=True, groups=ids, random_state=1)
    agents = [(data.X[ids == agent], data.y[ids == agent]) for agent in np.unique(ids)]
    listed, split = Federation(agents, level="agent"), Federation.split(data.X, data.y, ids, level="agent")
    assert repr(listed) == repr(split)
    query = SymmetricScore(data.coef[0], 1.0)
    for name, value in listed.total(query).items():
        np.testing.assert_allclose(value, split.total(query)[name], rtol=1e-12)


def test_the_data_are_not_copied():
    data = make_mixed_regression(400, 3, snr=5, symmetric=True, groups=10, random_state=1)
    agents = [(data.X[i : i + 10], data.y[i : i + 10]) for i in range(0, 400, 10)]
    for federation in (Federation(agents), Federation.split(data.X, data.y, data.groups)):
        assert np.shares_memory(federation.rows_of(0).X, data.X) or np.shares_memory(federation._roster.X, data.X)
    apart = [(data.X[i : i + 10].copy(), data.y[i : i + 10].copy()) for i in range(0, 400, 10)]
    np.testing.assert_array_equal(Federation(apart)._roster.X, data.X)


@pytest.mark.parametrize("level", ["row", "agent"])
@pytest.mark.parametrize("weighting", ["rows", "agents"])
def test_a_round_adds_what_each_agent_would_answer(level, weighting):
    ids = sizes_of("scattered", 240)
    data = make_mixed_regression(240, 3, 2, snr=5, random_state=2)
    federation = Federation.split(data.X, data.y, ids, level=level, weighting=weighting)
    queries = (Moments(fourth=True), MixtureScore(data.coef.T, np.log([0.4, 0.6]), np.ones(2), grams=True))
    together = Together(queries)
    for query, sums in zip(queries, together.split_sums(federation.total(together)), strict=True):
        wanted = {}
        for agent in range(federation.n_agents):
            count = 240 / (federation.n_agents * federation.sizes[agent]) if weighting == "agents" else 1.0
            for name, value in query.answer(federation.rows_of(agent)).items():
                wanted[name] = wanted.get(name, 0.0) + count * value
        for name, value in wanted.items():
            np.testing.assert_allclose(sums[name], value, rtol=1e-10, atol=1e-9, err_msg=name)


def test_agents_weighed_alike_are_rows_weighed_by_their_agents_size():
    ids = sizes_of("uneven", 900)
    data = make_mixed_regression(900, 4, 2, snr=5, random_state=4)
    weight = 900 / (len(np.unique(ids)) * np.bincount(ids)[ids])
    ours = MixedLinearRegression(random_state=0).fit_on(Federation.split(data.X, data.y, ids, weighting="agents"))
    theirs = MixedLinearRegression(random_state=0).fit(data.X, data.y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert ours.log_likelihood_ == pytest.approx(theirs.log_likelihood_, rel=1e-9)


@pytest.mark.parametrize("seeds", [[0], long([1, 2, 3])])
def test_a_few_large_agents_have_a_start(seeds):
    for seed in seeds:
        data = make_mixed_regression(60_000, 3, snr=3, symmetric=True, groups=20_000, random_state=seed)
        federation = Federation.split(data.X, data.y, data.groups, level="agent")
        fit = MixedLinearRegression(symmetric=True, random_state=seed).fit_on(federation)
        assert coefficient_error(fit.coef_, data.coef) < 0.01


@pytest.fixture(scope="module")
def table_two():
    """The paper's 10,000 agents with 10 rows each, d=128: y at a signal-to-noise ratio, and the oracle's error."""
    generator = np.random.default_rng(11)
    X = generator.standard_normal((100_000, 128))
    direction = generator.standard_normal(128)
    direction /= np.linalg.norm(direction)
    sign = np.repeat(generator.choice([-1.0, 1.0], 10_000), 10)
    signal, noise = sign * (X @ direction), generator.standard_normal(100_000)
    miss = np.linalg.solve(X.T @ X, X.T @ (sign * noise))

    def at(snr):
        return X, snr * signal + noise, snr * direction, float(np.linalg.norm(miss)) / snr

    return at


AGENTS = np.repeat(np.arange(10_000), 10)


@cache
def fitted(table_two, snr, **more):
    X, y, beta, oracle = table_two(snr)
    federation = Federation.split(X, y, AGENTS, level="agent", **more)
    fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation)
    return fit, coefficient_error(fit.coef_[0], beta) / oracle


@pytest.mark.parametrize("snr", [1, long(5), long(10), 20])
def test_table_two_takes_a_few_rounds(table_two, snr):
    fit, ratio = fitted(table_two, snr)
    assert fit.converged_
    assert len(fit.ledger_) <= 7
    assert [entry.answered for entry in fit.ledger_] == [10_000] * len(fit.ledger_)
    assert ratio <= (1.06 if snr == 1 else 1.03)
    assert fit.sigma_[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("snr", [1, long(20)])
def test_half_the_agents_per_round_are_enough(table_two, snr):
    fit, ratio = fitted(table_two, snr, participation=0.5)
    assert fit.converged_
    assert len(fit.ledger_) <= 30
    assert ratio <= 1.5
    assert {entry.asked for entry in fit.ledger_} == {5_000}
    assert fit.sigma_[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("snr", [1, long(20)])
def test_dropping_out_changes_little(table_two, snr):
    _, whole = fitted(table_two, snr)
    fit, ratio = fitted(table_two, snr, dropout=0.3)
    assert abs(ratio - whole) < 0.25 * whole
    for entry in fit.ledger_:
        assert entry.asked == 10_000
        assert 6_700 < entry.answered < 7_300


def test_late_answers_are_paid_for_and_left_out(table_two):
    fit, ratio = fitted(table_two, 5, participation=0.4, late=0.2)
    assert ratio < 1.3
    entry = fit.ledger_[-1]
    assert 600 < entry.late < 1_000
    assert entry.answered + entry.late == entry.asked
    assert entry.bytes == entry.asked * (entry.bytes_down + entry.bytes_up)


def test_a_round_costs_what_a_central_pass_costs(table_two):
    X, y, beta, _ = table_two(10)
    federation = Federation.split(X, y, AGENTS, level="agent")
    central = ArrayRows(X, y, groups=AGENTS, n_jobs=default_threads())
    for query in (
        SymmetricScore(beta, 1.0),
        SymmetricMinimax(beta / 10, np.stack([beta, beta], axis=1) / 10, 1.0, GaussHermite(8)),
    ):
        for attempt in range(5):
            spent = {federation: [], central: []}
            for _ in range(7):
                for engine, seconds in spent.items():
                    begun = time.perf_counter()
                    engine.total(query)
                    seconds.append(time.perf_counter() - begun)
            if min(spent[federation]) <= 1.5 * min(spent[central]):
                break
            assert attempt < 4, spent


def test_memory_stays_small(table_two):
    X, y, _, _ = table_two(10)
    agents = [(X[i : i + 10], y[i : i + 10]) for i in range(0, 100_000, 10)]
    tracemalloc.start()
    MixedLinearRegression(symmetric=True, random_state=0).fit_on(Federation(agents, level="agent"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_two_hundred_thousand_agents():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((1_000_000, 3))
    sign = np.repeat(generator.choice([-1.0, 1.0], 200_000), 5)
    y = sign * (X @ [1.0, 2.0, -1.0]) + generator.standard_normal(1_000_000)
    federation = Federation.split(X, y, np.repeat(np.arange(200_000), 5), level="agent", participation=0.3)
    fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation)
    assert coefficient_error(fit.coef_[0], [1.0, 2.0, -1.0]) < 0.005


@pytest.mark.parametrize(
    "solver", [Refreshed(), EM(), GEM(), GDA(nodes=4, local_steps=2), FederatedEM(inner=3), IFCA()]
)
@pytest.mark.parametrize("symmetric", [True, False])
def test_every_method_bears_changing_agents(solver, symmetric):
    k, d = (2, 6) if symmetric else (3, 4)
    data = make_mixed_regression(6_000, d, k, snr=8, symmetric=symmetric, groups=40, random_state=1)
    truth = data.labels[::40]
    federation = Federation.split(data.X, data.y, data.groups, level="agent", participation=0.5, seed=2)
    task = Task(n_components=k, symmetric=symmetric, gate=EQUAL if symmetric else FREE, max_iter=25)
    fit = run(partial(solver, task, federation.answering), federation)
    oracle = np.concatenate([
        np.linalg.lstsq(data.X[data.labels == j], data.y[data.labels == j])[0] - data.coef[j] for j in range(k)
    ])  # fmt: skip
    oracle_error = np.linalg.norm(oracle) / np.linalg.norm(data.coef) / (np.sqrt(2) if symmetric else 1)
    assert coefficient_error(fit.mixture.coef, data.coef) < 2.5 * oracle_error
    assert fit.mixture.sigma == pytest.approx(np.ones(k), abs=0.1)
    chosen = federation.assign(fit.mixture)[0]
    assert len(set(zip(chosen.tolist(), truth.tolist()))) == k


def test_who_takes_part_is_decided_by_the_seed():
    there = Participation(0.25, 0.2, 0.1, seed=4)
    first, again = there.draw(3, 1000), there.draw(3, 1000)
    np.testing.assert_array_equal(first.answered, again.answered)
    assert first.asked == 250
    assert not np.array_equal(first.answered, there.draw(4, 1000).answered)
    assert there.answering == pytest.approx(0.25 * 0.8 * 0.9)
    assert Participation().draw(0, 7).mask(7) is None


def test_some_agents_stand_for_all():
    data = make_mixed_regression(2000, 3, 2, snr=5, groups=10, random_state=0)
    federation = Federation.split(data.X, data.y, data.groups, participation=0.3, seed=1)
    sums = federation.total(Moments())
    assert float(sums["weight"]) == pytest.approx(2000)
    np.testing.assert_allclose(sums["gram"] / 2000, np.eye(3), atol=0.2)
    other = Federation.split(data.X, data.y, data.groups, participation=0.3, seed=1).total(Moments())
    np.testing.assert_array_equal(sums["gram"], other["gram"])


def test_a_round_that_nobody_answers_is_held_again():
    data = make_mixed_regression(40, 2, 2, snr=5, groups=20, random_state=0)
    federation = Federation.split(data.X, data.y, data.groups, dropout=0.9, seed=0)
    federation.total(Moments())
    assert sum(entry.answered > 0 for entry in federation.ledger) == 1
    federation = Federation.split(data.X, data.y, data.groups, dropout=1 - 1e-9)
    with pytest.raises(RuntimeError, match="no agent answered in 100 rounds"):
        federation.total(Moments())


@pytest.mark.parametrize("coordinates", ["raw", "whitened"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_local_steps_of_a_single_agent_are_steps(coordinates, symmetric):
    data = make_mixed_regression(500, 4, 2, snr=3, symmetric=symmetric, random_state=0)
    task = Task(symmetric=symmetric, gate=EQUAL, sigma=1.0, intercept=not symmetric, tol=0.0)
    one = Federation([(data.X, data.y)])
    steps = run(GDA(coordinates=coordinates, nodes=6).fit(Task(**vars(task) | {"max_iter": 12})), one)
    leaps = run(GDA(coordinates=coordinates, nodes=6, local_steps=4).fit(Task(**vars(task) | {"max_iter": 3})), one)
    np.testing.assert_allclose(leaps.mixture.coef, steps.mixture.coef, rtol=1e-9)
    assert leaps.n_iter == 3


@pytest.mark.parametrize("kind", ["even", "uneven"])
def test_local_steps_average_over_the_agents(kind, generator):
    ids = sizes_of(kind, 120)
    data = make_mixed_regression(120, 3, snr=3, symmetric=True, random_state=0)
    federation = Federation.split(data.X, data.y, ids, level="agent")
    gamma = generator.standard_normal((3, 2))
    state = SymmetricMinimax(generator.standard_normal(3), gamma, 1.0, GaussHermite(6))
    query = LocalSteps(state, 3, 0.05, 0.1, 0.7, gamma + 0.1, np.diag([1.0, 2.0, 0.5]))
    sums = federation.total(query)
    apart = [query.answer(federation.rows_of(agent)) for agent in range(federation.n_agents)]
    for name, value in sums.items():
        np.testing.assert_allclose(value, sum(answer[name] for answer in apart), rtol=1e-10, atol=1e-10)


def test_local_steps_save_rounds_where_agents_have_many_rows():
    data = make_mixed_regression(8000, 4, snr=5, symmetric=True, groups=400, random_state=0)
    rounds = {}
    for steps in (1, 5):
        federation = Federation.split(data.X, data.y, data.groups)
        fit = MixedLinearRegression(symmetric=True, solver=GDA(local_steps=steps), tol=1e-5).fit_on(federation)
        rounds[steps] = len(fit.ledger_)
        assert coefficient_error(fit.coef_, data.coef) < 0.03
    assert rounds[5] < 0.6 * rounds[1]


def test_inner_rounds_lie_between_gradient_em_and_em():
    data = make_mixed_regression(2000, 4, snr=2, symmetric=True, random_state=0)
    start = np.array([[1.0, 0.2, -0.5, 0.3]])
    one = ArrayRows(data.X, data.y)
    task = Task(symmetric=True, gate=EQUAL, start=np.vstack([start, -start]), max_iter=4, tol=0.0)
    by_gem, path = iterates(GEM(alpha=0.3), task, one)
    by_one, same = iterates(FederatedEM(alpha=0.3, inner=1), task, one)
    for ours, theirs in zip(same, path, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    by_em, path = iterates(EM(), task, one)
    by_many, same = iterates(FederatedEM(alpha=0.5, inner=400, nu=0.0), task, one)
    for ours, theirs in zip(same[1:], path[1:]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert by_many.history[1]["inner"] == 400
    assert by_em.log_likelihood == pytest.approx(by_many.log_likelihood, rel=1e-9)
    assert by_gem.n_iter == by_one.n_iter


def test_inner_rounds_end_when_the_gradient_is_short():
    data = make_mixed_regression(4000, 4, 2, snr=6, groups=10, random_state=1)
    federation = Federation.split(data.X, data.y, data.groups, level="agent")
    fit = MixedLinearRegression(method=FederatedEM(), random_state=0).fit_on(federation)
    inner = [record["inner"] for record in fit.history_[1:]]
    assert all(1 <= rounds <= 50 for rounds in inner)
    assert coefficient_error(fit.coef_, data.coef) < 0.02
    assert fit.sigma_ == pytest.approx([1.0, 1.0], abs=0.05)
    with pytest.raises(ValueError, match=r"inner must be at least 1 \(got 0\)"):
        FederatedEM(inner=0)
    with pytest.raises(ValueError, match=r"nu must not be negative \(got -1\)"):
        FederatedEM(nu=-1)


@pytest.mark.parametrize("kind", ["uneven", "scattered"])
def test_each_agent_and_a_new_one_have_a_component(kind):
    ids = sizes_of(kind, 600)
    data = make_mixed_regression(600, 3, 2, snr=6, groups=ids, random_state=2)
    federation = Federation.split(data.X, data.y, ids, level="agent", weighting="agents")
    fit = MixedLinearRegression(random_state=0).fit_on(federation)
    shares = federation.responsibilities(fit)
    component, probability = federation.assign(fit)
    for number, agent in enumerate(federation.agent_ids):
        mine = ids == agent
        new = fit.responsibilities(data.X[mine], data.y[mine], groups=np.zeros(mine.sum()))
        np.testing.assert_allclose(shares[number], new[0], atol=1e-12)
        assert component[number] == new[0].argmax()
        assert probability[number] == pytest.approx(new[0].max())
    by_row = Federation.split(data.X, data.y, ids).responsibilities(fit.mixture_)
    mine = ids == federation.agent_ids[3]
    np.testing.assert_allclose(by_row[3], fit.responsibilities(data.X[mine], data.y[mine]).mean(axis=0))


def test_the_ledger_counts_what_travels():
    data = make_mixed_regression(300, 4, snr=5, symmetric=True, groups=10, random_state=0)
    federation = Federation.split(data.X, data.y, data.groups)
    federation.total(Moments())
    federation.total(SymmetricScore(np.ones(4), 1.0))
    first, second = federation.ledger
    assert (first.asked, first.answered, first.floats_down) == (30, 30, 2)
    assert first.floats_up == 10 + 4 + 6
    assert (second.floats_down, second.floats_up, second.bytes_up) == (5, 4 + 5, 72)
    totals = federation.ledger.totals()
    assert totals["rounds"] == 2
    assert totals["bytes"] == 30 * 8 * (2 + 20 + 5 + 9)
    assert federation.ledger.kinds() == {"Moments": 1, "SymmetricScore": 1}
    assert floats_in({"a": np.ones((3, 3)), "b": np.arange(9.0).reshape(3, 3), "c": np.ones((2, 3, 3))}) == 6 + 9 + 12
    assert len(federation.ledger.since(1)) == 1


def test_the_ledger_reads_as_a_table():
    ledger = Ledger([Round("Moments", 10, 9, 1, 2, 40), *[Round("Score", 10, 9, 0, 5, 9)] * 3])
    lines = ledger.table().splitlines()
    assert lines[0].split()[:4] == ["round", "query", "asked", "answered"]
    assert len(lines) == 8
    assert lines[-1].split()[0] == "all"
    merged = ledger.table(merged=True)
    assert "2-4" in merged
    assert len(merged.splitlines()) == 6
    assert str(ledger) == ledger.table()
    assert repr(ledger) == "Ledger(4 rounds, 36 answers, 6.5 kB)"
    html = ledger._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == 6
    assert ledger.records()[0]["floats_up"] == 40
    assert ledger.records()[1]["bytes"] == 10 * 40 + 9 * 72
    assert lines[0].count("/agent") == 4
    assert lines[0].endswith("bytes, all agents")
    json.dumps(ledger.records())


def test_error_against_bytes_is_drawn():
    data = make_mixed_regression(2000, 4, snr=5, symmetric=True, groups=10, random_state=0)
    traces = {}
    for name, method in {"refreshed": Refreshed(), "IFCA": IFCA()}.items():
        traces[name] = ErrorTrace(data.coef)
        federation = Federation.split(data.X, data.y, data.groups, level="agent")
        MixedLinearRegression(symmetric=True, method=method, random_state=0).fit_on(federation, traces[name])
        assert np.all(np.diff(traces[name].bytes) > 0)
        until = list(federation.ledger)[: traces[name].rounds[-1]]  # one more may show that nothing is to be gained
        assert len(federation.ledger) - len(until) <= 1
        assert traces[name].bytes[-1] == sum(one.bytes for one in until)
    axes = error_against_bytes(traces, bound=0.01).axes[0]
    assert len(axes.lines) == 3
    with pytest.raises(ValueError, match="traces is empty"):
        error_against_bytes({})


def agents_with(change):
    agents = [[np.ones((4, 2)), np.ones(4)] for _ in range(5)]
    change(agents[3])
    return [tuple(agent) for agent in agents]


def features_become(value):
    def change(agent):
        agent[0] = value

    return change


def spoil(place, row, value):
    def change(agent):
        agent[place] = agent[place].copy()
        agent[place][row] = value

    return change


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ([], "a federation needs at least one agent"),
        (agents_with(features_become(np.ones((4, 3)))), "agent 3 has 3 features where agent 0 has 2"),
        (agents_with(features_become(np.ones((3, 2)))), "agent 3 has 3 rows of X but 4 of y"),
        (agents_with(features_become(np.ones(4))), r"X of agent 3 must be two-dimensional \(got shape \(4,\)\)"),
        (agents_with(features_become(np.full((4, 2), "a"))), "X of agent 3 must be numbers"),
        (agents_with(spoil(0, (2, 1), np.nan)), r"X of agent 3 contains NaN \(row 2, column 1\)"),
        (agents_with(spoil(1, 1, np.inf)), r"y of agent 3 contains infinity \(row 1\)"),
        ([(np.ones((2, 2)), np.ones(2)), (np.ones((0, 2)), np.ones(0))], "agent 1 has no rows"),
        ([np.ones(3)], "agent 0 must be a pair"),
    ],
)
def test_bad_agents_are_named(agents, message):
    with pytest.raises(ValueError, match=message):
        Federation(agents)


def test_bad_splits_are_named():
    X, y = np.ones((4, 2)), np.ones(4)
    with pytest.raises(ValueError, match="one entry per row"):
        Federation.split(X, y, [1, 2])
    with pytest.raises(ValueError, match="agent_ids has no value in row 2"):
        Federation.split(X, y, [1.0, 1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="agent_ids has no value in row 1"):
        Federation.split(X, y, np.array(["a", None, "b", "b"], dtype=object))
    with pytest.raises(ValueError, match="got no rows"):
        Federation.split(np.ones((0, 2)), np.ones(0), [])
    X[2, 0] = np.nan
    with pytest.raises(ValueError, match=r"X of agent 1 \(b\) contains NaN \(row 0, column 0\)"):
        Federation.split(X, y, ["a", "a", "b", "a"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "rows"}, r"level must be 'row' or 'agent' \(got 'rows'\)"),
        ({"weighting": "row"}, r"weighting must be 'rows' or 'agents' \(got 'row'\)"),
        ({"participation": 0.0}, r"participation must be above 0 and at most 1 \(got 0.0\)"),
        ({"dropout": 1.0}, r"dropout must be at least 0 and below 1 \(got 1.0\)"),
        ({"late": -0.1}, r"late must be at least 0 and below 1 \(got -0.1\)"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Federation([(np.ones((2, 2)), np.ones(2))], **settings)


@pytest.fixture
def sales(tmp_path):
    data = make_mixed_regression(600, 2, snr=8, symmetric=True, groups=6, random_state=0)
    lines = [f"{a!r},{b!r},{y!r},shop{g}" for (a, b), y, g in zip(data.X.tolist(), data.y.tolist(), data.groups)]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(["a,b,y,shop", *lines]) + "\n")
    return path


def simulate(*words):
    from wmlr.cli import app

    return CliRunner().invoke(app, ["simulate", *map(str, words)], prog_name="wmlr")


def test_the_command_prints_the_fit_and_the_ledger(sales, tmp_path):
    common = [sales, "--target", "y", "--agent-column", "shop", "--level", "agent", "--symmetric"]
    result = simulate(*common, "--agents-out", tmp_path / "shops.csv", "--out", tmp_path / "model.json")
    assert result.exit_code == 0, result.stderr
    assert "Moments" in result.stdout
    assert "100 agents with 6 rows each" in result.stdout
    assert (tmp_path / "shops.csv").read_text().startswith("shop,component,probability,rows\nshop0,")
    assert MixedLinearRegression.load(tmp_path / "model.json").n_features_in_ == 2
    for method in ("gda", "em", "fem", "gem", "ifca"):
        common += ["--max-iter", "12"]
        told = json.loads(simulate(*common, "--method", method, "--participation", "0.5", "--json").stdout)
        assert told["n_agents"] == 100
        assert {entry["asked"] for entry in told["ledger"]} == {50}
        assert told["totals"]["rounds"] == len(told["ledger"])


def test_the_command_refuses_in_one_line(sales):
    bad = simulate(sales, "--target", "y", "--agent-column", "town")
    assert bad.exit_code == 2
    assert "no column 'town' for --agent-column" in bad.stderr
    assert simulate(sales, "--target", "y", "--agent-column", "shop", "--method", "x").exit_code == 2
    local = simulate(sales, "--target", "y", "--agent-column", "shop", "--local-steps", "3")
    assert "use --method gda" in local.stderr


def test_a_terminal_shows_the_rounds_as_they_come(sales):
    command = [sys.executable, "-m", "wmlr.cli", "simulate", str(sales), "--target", "y", "--agent-column", "shop"]
    printed, seen = run_on_terminal([*command, "--json"])
    assert "100 agents" in seen
    assert "log-likelihood" in seen
    assert json.loads(printed)["converged"]


def test_a_sample_without_a_single_agent_sums_to_nothing():
    data = make_mixed_regression(3000, 5, snr=5, groups=300, random_state=1)
    federation = Federation.split(data.X, data.y, data.groups, level="agent")
    sums = federation.total(Sampled(Moments(), 1e-9))
    assert float(sums["weight"]) == 0.0
    assert MixedLinearRegression(2, random_state=0).fit_on(federation).converged_
