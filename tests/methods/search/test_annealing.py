"""Moves by exchange: rows that change components one at a time, as a likelihood with new fits would have it."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from wmlr.core.repeats import merge
from wmlr.core.round import Rows, run_steps
from wmlr.engines.arrays import ArrayRows
from wmlr.methods.search import annealing
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL
from wmlr.numerics import exchange_loops
from wmlr.numerics.coordinates import white_frame
from wmlr.statistics.exchanges import Exchanges
from wmlr.statistics.moments import Moments

N, K = 60, 3


def drawn_problem(seed=0, n=N, weighted=False, **task):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, 2))
    lines = np.array([[2.0, 1], [-2, 1], [0, -3]])[generator.integers(K, size=n)]
    y = (X * lines).sum(axis=1) + 0.3 * generator.standard_normal(n)
    weight = generator.integers(1, 4, n).astype(float) if weighted else None
    rows = ArrayRows(X, y, weight)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    settings = {"shared_sigma": False} | task
    wanted = Task(n_components=K, intercept=True, in_one_place=True, **settings)
    landscape = Landscape.of(frame, wanted, 1.0, lambda query: query)
    coef = frame.least_squares + generator.standard_normal((1, K, 3))
    return rows, landscape, Population.of(coef, np.full((1, K), 1 / K), np.full((1, K), 1.0), np.zeros(1, int), 0)


def classification_likelihood(Z, y, weight, label, law, weights, s2):
    """Of labelled rows, each component fitted to its own by least squares; the variances are guarded."""
    value, squares, masses = 0.0, [], []
    for j in range(K):
        own = label == j
        root = np.sqrt(weight[own])
        coef = np.linalg.lstsq(Z[own] * root[:, None], y[own] * root, rcond=None)[0]
        squares.append(float(weight[own] @ (y[own] - Z[own] @ coef) ** 2))
        masses.append(float(weight[own].sum()))
        value += masses[j] * (np.log(weights[j]) if law.fixed else np.log(masses[j] / weight.sum()))
    if law.known:
        return value - 0.5 * sum(squares) / s2[0]
    if law.shared:
        variance = max(sum(squares) / sum(masses), law.floor)
        return value - 0.5 * (sum(masses) * np.log(variance) + sum(squares) / variance)
    for square, mass in zip(squares, masses):
        variance = max((square + 2 * law.hold * law.common) / (mass + 2 * law.hold), law.floor)
        value -= 0.5 * (mass * np.log(variance) + square / variance)
        value -= law.hold * (law.common / variance + np.log(variance / law.common))
    return value


SETTINGS = {
    "a sigma each": {},
    "one sigma": {"shared_sigma": True},
    "known sigma, equal weights": {"sigma": 0.5, "gate": EQUAL},
    "weighted": {"weighted": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_a_sweep_draws_components_by_the_likelihood_with_both_fitted_anew(settings, temperature):
    rows, landscape, here = drawn_problem(**settings)
    Z, y = np.column_stack([rows.X, np.ones(N)]) @ landscape.transform, rows.y
    weight = np.ones(N) if rows.weight is None else rows.weight / rows.weight.mean()
    law = landscape._climb_law().of_rows(Rows(rows.X, rows.y))
    generator = np.random.default_rng(1)
    label, order, draws = np.arange(N) % K, generator.permutation(N), generator.random(N)
    weights, s2 = here.weights[0], landscape.allowed_variance(here.s2)[0]
    y, s2 = y / np.sqrt(law.floor), s2 / law.floor
    law = replace(law, floor=1.0, common=law.common / law.floor)
    table = np.ascontiguousarray(np.column_stack([Z, y, weight]))
    A, numbers = np.ascontiguousarray(table.T), np.array(astuple(law))
    coef, inverse, squares, mass = np.zeros((K, 3)), np.empty((K, 3, 3)), np.empty(K), np.empty(K)
    room, hats, found = np.empty((6 + 4, 4)), np.empty((K, N)), label.copy()
    fitted = found, numbers, coef, inverse, squares, mass, np.empty((4, 4)), np.empty((5, exchange_loops.TILE)), room
    assert exchange_loops._fit_labels(A, *fitted)
    exchange_loops._leverages(A, inverse, hats)
    exchange_loops._sweep(table, hats, order, draws, temperature, numbers, np.log(weights), s2, found, coef, inverse,
                          squares, mass, room)  # fmt: skip
    for i in order:
        if weight[label == label[i]].sum() - weight[i] < 4:
            continue
        values = []
        for j in range(K):
            there = np.where(np.arange(N) == i, j, label)
            values.append(classification_likelihood(Z, y, weight, there, law, weights, s2) / temperature)
        own_first = np.argsort(np.arange(K) != label[i], kind="stable")
        chances = np.exp(np.array(values) - max(values))[own_first]
        label[i] = own_first[min(int(np.sum(np.cumsum(chances) <= draws[i] * chances.sum())), K - 1)]
    np.testing.assert_array_equal(found, label)
    after = coef.copy()
    assert exchange_loops._fit_labels(A, *fitted)
    np.testing.assert_allclose(after, coef, rtol=1e-6, atol=1e-8)


def test_cold_exchanges_climb_until_hardly_a_row_would_rather_be_elsewhere():
    rows, landscape, here = drawn_problem(n=200)
    values = []
    for salt in range(3):
        values.append(float(run_steps(landscape.step(here), rows).value[0]))
        found = run_steps(landscape.exchange(here, np.array([salt], dtype=np.uint64), np.full((1, 30), 1e-6)), rows)
        assert found.pop("done")[0] == 1
        here = replace(here, **found)
    assert values[1] > values[0] + 100
    assert values[2] > values[1] - 2


def test_exchanges_belong_to_the_content_of_rows_and_not_to_their_place():
    rows, landscape, here = drawn_problem(n=200)
    order = np.random.default_rng(0).permutation(200)
    shuffled = ArrayRows(rows.X[order], rows.y[order])
    temperatures = np.full((1, 5), 1.0)
    salts = np.array([[3], [4]], dtype=np.uint64)
    one, two = (run_steps(landscape.exchange(here, salts[0], temperatures), some) for some in (rows, shuffled))
    np.testing.assert_allclose(one["coef"], two["coef"], rtol=1e-7, atol=1e-9)
    other = run_steps(landscape.exchange(here, salts[1], temperatures), rows)
    assert np.abs(one["coef"] - other["coef"]).max() > 1e-3


def test_weights_of_any_size_lead_to_the_same_exchanges():
    rows, landscape, here = drawn_problem(n=120, weighted=True)
    law = landscape._climb_law()
    temperatures, salts = np.full((1, 4), 1.0), np.ones(1, dtype=np.uint64)
    query = Exchanges(landscape.transform, here.coef, here.weights, here.s2, salts, temperatures, law)
    lines = np.column_stack([rows.X, np.ones(120)])
    one, two = (query.answer(Rows(lines, rows.y, rows.weight * size)) for size in (1.0, 1e-4))
    np.testing.assert_allclose(one["coef"], two["coef"], rtol=1e-6)


def test_copies_of_a_row_move_as_one():
    rows, landscape, here = drawn_problem(n=80)
    merged = merge(Rows(np.repeat(rows.X, 2, axis=0), np.repeat(rows.y, 2)))
    twice = ArrayRows(merged.X, merged.y, merged.weight)
    one, two = (run_steps(annealing.anneal(landscape, here, np.random.default_rng(0)), some) for some in (rows, twice))
    assert len(merged) == 80
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-6)


def test_nothing_comes_of_it_where_no_loop_is_at_hand(monkeypatch):
    monkeypatch.setattr("wmlr.statistics.exchanges.loops_can_answer", lambda *args: False)
    rows, landscape, here = drawn_problem()
    assert len(run_steps(annealing.anneal(landscape, here, np.random.default_rng(0)), rows)) == 0


def test_nothing_comes_of_no_mixtures():
    rows, landscape, here = drawn_problem()
    none = here.take(np.zeros(0, dtype=np.int64))
    assert len(run_steps(annealing.anneal(landscape, none, np.random.default_rng(0)), rows)) == 0
