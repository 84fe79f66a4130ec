"""The same method on any blocks and threads gives the same answer."""

import tracemalloc

import numpy as np
import pytest

from wmlr.core.round import (
    Finished,
    Report,
    Sampled,
    Together,
    run,
    run_steps,
    run_together,
    side_by_side,
    with_relay,
    without_reports,
)
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows
from wmlr.methods import EM, GDA, GEM, PrintedEM, Reduction, Refreshed
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL
from wmlr.model.mixture import Mixture
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

METHODS = {
    "refreshed": (Refreshed(), Task(symmetric=True)),
    "refreshed k=3": (Refreshed(), Task(n_components=3, intercept=True, max_iter=20)),
    "gda": (GDA(), Task(symmetric=True, max_iter=10)),
    "gda frozen": (GDA(expectation="frozen"), Task(symmetric=True, max_iter=10, start="random")),
    "gda fresh": (GDA(expectation="fresh", samples=2), Task(symmetric=True, max_iter=10)),
    "gda k=3": (GDA(nodes=6), Task(n_components=3, max_iter=5)),
    "em": (EM(), Task(n_components=2, shared_sigma=False)),
    "gem": (GEM(), Task(symmetric=True, max_iter=20)),
    "printed": (PrintedEM(reciprocal=False), Task(symmetric=True, max_iter=20)),
    "reduction": (Reduction(), Task(gate=EQUAL)),
}


def vectors(mixture):
    return np.concatenate([mixture.coef.ravel(), mixture.intercept, mixture.weights, mixture.sigma])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_and_threads_change_nothing(name, weighted):
    solver, task = METHODS[name]
    k = task.n_components
    data = make_mixed_regression(1501, 7, k, snr=4, symmetric=task.symmetric, random_state=3)
    weight = np.random.default_rng(0).uniform(0.5, 2, 1501) if weighted else None
    reference = run(solver.fit(task), ArrayRows(data.X, data.y, weight, block_rows=1501, n_jobs=1))
    for block_rows, threads in [(1501, 2), (400, 1), (400, 2), (37, 2)]:
        other = run(solver.fit(task), ArrayRows(data.X, data.y, weight, block_rows=block_rows, n_jobs=threads))
        assert other.n_iter == reference.n_iter
        np.testing.assert_allclose(vectors(other.mixture), vectors(reference.mixture), rtol=1e-10, atol=1e-10)
        for ours, theirs in zip(other.history, reference.history):
            assert ours["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-10)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_thread_count_does_not_touch_a_single_bit(threads):
    data = make_mixed_regression(3000, 5, 2, snr=3, symmetric=True, random_state=1)
    query = SymmetricScore(data.coef[0], 1.0)
    alone = ArrayRows(data.X, data.y, block_rows=100, n_jobs=1).total(query)
    many = ArrayRows(data.X, data.y, block_rows=100, n_jobs=threads).total(query)
    for name, value in alone.items():
        assert np.array_equal(value, many[name]), name


def test_groups_are_never_split():
    groups = np.random.default_rng(0).integers(0, 60, 500)
    codes = np.unique(groups, return_inverse=True)[1]
    X, y = np.random.default_rng(1).standard_normal((500, 3)), np.arange(500.0)
    seen = []
    for rows in ArrayRows(X, y, groups=codes, block_rows=40):
        sizes = np.diff(np.append(rows.starts, len(rows)))
        labels = np.repeat(np.arange(len(sizes)), sizes)
        own = codes[rows.y.astype(int)]
        for label in np.unique(labels):
            assert len(np.unique(own[labels == label])) == 1
        seen.extend(np.unique(own))
    assert sorted(seen) == sorted(set(seen)) == list(range(60))


def test_together_answers_as_apart(generator):
    X, y = generator.standard_normal((200, 4)), generator.standard_normal(200)
    rows = ArrayRows(X, y, block_rows=64)
    queries = (Moments(fourth=True), SymmetricScore(np.ones(4), 1.0), SymmetricScore(np.zeros(4), 2.0))
    together = Together(queries)
    for query, sums in zip(queries, together.split_sums(rows.total(together))):
        for name, value in rows.total(query).items():
            np.testing.assert_array_equal(sums[name], value)


def test_moments_asked_for_twice_are_computed_once(monkeypatch, generator):
    rows = ArrayRows(generator.standard_normal((30, 2)), generator.standard_normal(30))
    asked: list[Moments] = []
    plain = Moments.answer
    monkeypatch.setattr(Moments, "answer", lambda query, block: asked.append(query) or plain(query, block))
    together = Together((Moments(), Moments(fourth=True), Moments()))
    first, second, third = together.split_sums(rows.total(together))
    assert asked == [Moments(), Moments(fourth=True)]
    assert "fourth" in second
    for name, value in first.items():
        np.testing.assert_array_equal(third[name], value)


def test_methods_run_together_as_apart():
    data = make_mixed_regression(800, 4, 2, snr=3, symmetric=True, random_state=0)
    rows = ArrayRows(data.X, data.y)
    task = Task(symmetric=True, max_iter=15)
    solvers = [Refreshed(), EM(), GEM(), GDA(lam=0.3), GDA(lam=0.6)]
    for fit, solver in zip(run_together([solver.fit(task) for solver in solvers], rows), solvers):
        alone = run(solver.fit(task), rows)
        np.testing.assert_allclose(fit.mixture.coef, alone.mixture.coef, rtol=1e-9)  # products of several states round
        assert len(fit.history) == len(alone.history)
        for line, own in zip(fit.history, alone.history):
            assert line == pytest.approx(own, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_sample_depends_on_the_rows_and_not_on_their_order(generator, grouped):
    X, y = generator.standard_normal((5000, 12)), generator.standard_normal(5000)
    groups = np.repeat(np.arange(1000), 5) if grouped else None
    order = np.concatenate([g * 5 + generator.permutation(5) for g in generator.permutation(1000)])
    moved = None if groups is None else groups[order]
    query = Sampled(Moments(), 0.3, seed=7)
    first = ArrayRows(X, y, groups=groups, block_rows=333).total(query)
    second = ArrayRows(X[order], y[order], groups=moved, block_rows=700).total(query)
    assert float(first["rows"]) == float(second["rows"])
    assert 1200 < float(first["rows"]) < 1800
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-9, atol=1e-9)
    other_seed = ArrayRows(X, y, groups=groups).total(Sampled(Moments(), 0.3, seed=8))
    assert float(other_seed["yy"]) != float(first["yy"])


@pytest.mark.parametrize("grouped", [False, True])
def test_a_sample_is_the_same_whichever_was_drawn_before(grouped):
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((4000, 3)), generator.standard_normal(4000)
    engine = ArrayRows(X, y, groups=np.arange(4000) // 4 if grouped else None, block_rows=500)
    for share in (0.01, 0.02, 0.04, 0.3, 0.05, 0.005):
        query = Sampled(Moments(), share, seed=3)
        apart = ArrayRows(X, y, groups=np.arange(4000) // 4 if grouped else None, block_rows=4000)
        alone = query.answer(next(iter(apart)))
        for name, value in engine.total(query).items():
            np.testing.assert_allclose(value, alone[name], rtol=1e-12)


@pytest.mark.parametrize("task", [Task(symmetric=True), Task(n_components=3, intercept=True)])
def test_row_order_does_not_matter(task):
    data = make_mixed_regression(6000, 5, task.n_components, snr=4, symmetric=task.symmetric, random_state=5)
    order = np.random.default_rng(0).permutation(6000)
    one = run(Refreshed().fit(task), ArrayRows(data.X, data.y)).mixture.ordered()
    two = run(Refreshed().fit(task), ArrayRows(data.X[order], data.y[order])).mixture.ordered()
    np.testing.assert_allclose(vectors(two), vectors(one), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("order", ["C", "F"])
def test_features_are_not_copied(order):
    n, d = 200_000, 16
    X = np.asarray(np.random.default_rng(0).standard_normal((n, d)), order=order)
    y = X @ np.ones(d) + np.random.default_rng(1).standard_normal(n)
    run(Refreshed().fit(Task(symmetric=True, max_iter=2)), ArrayRows(X, y))
    tracemalloc.start()
    for query in (
        SymmetricScore(np.ones(d), 1.0),
        MixtureScore(np.ones((d + 1, 3)), np.log(np.ones(3) / 3), np.ones(3)),
    ):
        ArrayRows(X, y).total(query)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2


def counting(n):
    """A method that asks n times, reports in between, and returns what it heard."""
    heard = []
    for turn in range(n):
        yield Report({"iteration": float(turn)}, Mixture.of([[1.0]]))
        heard.append((yield Moments())["weight"])
    return heard


def test_a_method_behind_a_relay_hears_what_its_relay_returns():
    def relay(query):
        return {"weight": 2 * (yield query)["weight"]}

    rows = ArrayRows(np.ones((5, 1)), np.ones(5))
    assert run_steps(without_reports(counting(2)), rows) == [5.0, 5.0]
    assert run_steps(without_reports(with_relay(counting(2), relay)), rows) == [10.0, 10.0]
    marked = with_relay(counting(1), report=lambda report: Report({"seen": 1.0}, report.mixture))
    assert next(marked).record == {"seen": 1.0}
    assert run_steps(marked, rows) == [5.0]


def test_a_relay_may_end_the_method_and_hands_interrupts_into_it():
    closed = []

    def method():
        try:
            yield Moments()
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            closed.append(True)

    def ending(said):
        raise Finished("ended")
        yield said

    with pytest.raises(StopIteration) as stop:
        next(with_relay(method(), ending))
    assert stop.value.value == "ended"
    assert closed == [True]
    passed = without_reports(method())
    next(passed)
    with pytest.raises(StopIteration) as stop:
        passed.throw(KeyboardInterrupt())
    assert stop.value.value == "interrupted"


def test_generators_share_rounds_each_beginning_some_after_the_one_before():
    asked = []

    def steps(name, count):
        heard = []
        for _ in range(count):
            sums = yield Moments()
            asked[-1].append(name)
            heard.append(float(sums["n"]))
        return name, heard

    def drive(method, answer):
        try:
            query = next(method)
            while True:
                asked.append([])
                query = method.send({f"{place}/n": answer + place for place in range(len(query.queries))})
        except StopIteration as stop:
            return stop.value

    outcomes = drive(side_by_side([steps("a", 3), steps("b", 4), steps("c", 1)], 2, lambda: False), 0.0)
    assert asked == [["a"], ["a"], ["a", "b"], ["b"], ["b", "c"], ["b"]]
    assert outcomes == [("a", [0.0, 0.0, 0.0]), ("b", [1.0, 0.0, 0.0, 0.0]), ("c", [1.0])]
    asked.clear()
    closed = side_by_side([steps("a", 3), steps("b", 9)], 1, lambda: len(asked) >= 4)
    assert drive(closed, 0.0) == [("a", [0.0, 0.0, 0.0])]
    assert len(asked) == 4
