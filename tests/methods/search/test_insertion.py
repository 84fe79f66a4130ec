"""Moves by trial: other components in the place of a dropped one, beside those that stay."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from wmlr.core.repeats import merge
from wmlr.core.round import Rows, run_steps
from wmlr.engines.arrays import ArrayRows
from wmlr.methods.search import climbing, insertion, moves
from wmlr.methods.search.effort import Effort
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import SAME_PLACE, Population, match
from wmlr.methods.task import Task
from wmlr.model.gates import FixedWeights
from wmlr.numerics.coordinates import white_frame
from wmlr.numerics.crowd_loops import LEVELS, _crowd_around, _turn
from wmlr.numerics.insertion_loops import insert
from wmlr.statistics.insertions import CROWD, MISSES, WINDOW, Trials
from wmlr.statistics.moments import Moments

LINES = np.array([[2.0, 1, 0], [-2, 1, 0], [0, -1, 3]])
WEIGHTS = np.array([[0.45, 0.45, 0.1]])


@pytest.fixture
def problem():
    """Three components, and a mixture that has the first twice in the place of the third."""
    generator = np.random.default_rng(2)
    X = generator.standard_normal((400, 3))
    labels = generator.choice(3, 400, p=WEIGHTS[0])
    y = (X * LINES[labels]).sum(axis=1) + 0.2 * generator.standard_normal(400)
    rows = ArrayRows(X, y)
    task = Task(n_components=3, intercept=True, shared_sigma=False, in_one_place=True)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    true = frame.inside(np.column_stack([LINES, np.zeros(3)]).T).T
    wrong = np.stack([true[0], true[1], true[0]])
    here = Population.of(wrong[None], WEIGHTS, np.full((1, 3), 0.04), np.zeros(1, int), 0)
    return rows, landscape, here, true


def trials(count, q, **changed):
    size = (1, count)
    usual = Trials(
        salts=np.random.default_rng(3).integers(2**62, size=size).astype(np.uint64),
        rules=np.full(size, MISSES),
        caps=np.full(size, 20.0),
        wanted=np.full(size, 2.0 * q),
        shares=np.full(size, 0.1),
        variances=np.zeros(size),
        along=np.zeros((*size, q + 1)),
        centres=np.zeros((*size, q)),
        spans=np.zeros((*size, 1, q)),
    )
    return replace(usual, **changed)


LAST = np.array([2])


def test_a_trial_finds_the_component_that_the_others_leave(problem):
    rows, landscape, here, true = problem
    found = run_steps(landscape.insert(here, LAST, trials(8, 4), 15), rows)
    best = found["values"][0].argmax()
    np.testing.assert_allclose(found["coef"][0, best], true[2], atol=0.15)
    assert found["weights"][0, best] == pytest.approx(0.1, abs=0.03)
    assert found["s2"][0, best] == pytest.approx(0.04, rel=0.6)


def test_a_trial_meets_its_rows_though_they_hardly_differ_in_one_direction():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((300, 2))
    few = np.arange(300) < 12
    X[few, 1] = 1.0 + 0.02 * X[few, 1]
    lines = np.where(few[:, None], [1.0, 50.0], [-1.0, 0.0])
    y = (X * lines).sum(axis=1) + 0.01 * generator.standard_normal(300)
    rows = ArrayRows(X, y)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    task = Task(n_components=2, intercept=True, shared_sigma=True, in_one_place=True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    true = frame.inside(np.array([[-1.0, 0, 0], [1.0, 50, 0]]).T).T
    here = Population.of(true[None], np.array([[0.96, 0.04]]), np.full((1, 2), 1e-4), np.zeros(1, int), 0)
    own = trials(4, 3, rules=np.ones((1, 4), dtype=np.int64), wanted=np.full((1, 4), 11.0))
    found = run_steps(landscape.insert(here, np.array([1]), own, 0), rows)
    lines = frame.to_data(found["coef"][0].T).T
    left = y[few, None] - X[few] @ lines[:, :2].T - lines[:, 2]
    assert np.abs(left).max() < 0.1


def test_the_value_is_that_of_the_whole_mixture_and_never_falls(problem):
    rows, landscape, here, _ = problem
    values = [run_steps(landscape.insert(here, LAST, trials(6, 4), steps), rows)["values"][0] for steps in (2, 3, 9)]
    assert np.all(np.diff(values, axis=0) >= -1e-9)
    before = run_steps(landscape.insert(here, LAST, trials(6, 4), 2), rows)
    coef, weights, s2 = (np.repeat(part, 6, axis=0) for part in (here.coef, here.weights, here.s2))
    coef[:, 2], s2[:, 2] = before["coef"][0], before["s2"][0]
    new = before["weights"][0]
    weights[:, :2] *= ((1 - new) / weights[:, :2].sum(axis=1))[:, None]
    weights[:, 2] = new
    whole = Population.of(coef, weights, s2, np.zeros(6, int), 0)
    value = run_steps(landscape.step(whole), rows).value
    kept = landscape.guard_penalty(s2) - landscape.guard_penalty(s2[:, 2:])  # of the components that stay
    np.testing.assert_allclose(value + kept - 400 * landscape.task.family.log_constant, values[1], rtol=1e-9)


def test_trials_belong_to_the_content_of_rows_and_not_to_their_place(problem):
    rows, landscape, here, _ = problem
    order = np.random.default_rng(0).permutation(400)
    shuffled = ArrayRows(rows.X[order], rows.y[order])
    one, two = (run_steps(landscape.insert(here, LAST, trials(4, 4), 5), some) for some in (rows, shuffled))
    np.testing.assert_allclose(one["coef"], two["coef"], rtol=1e-7, atol=1e-9)
    assert np.ptp(one["values"]) > 1e-3


def test_a_component_is_shaken_by_rows_of_its_own(problem):
    rows, landscape, here, true = problem
    right = replace(here, coef=true[None])
    own = trials(5, 4, rules=np.full((1, 5), 2), wanted=np.full((1, 5), 25.0))
    found = run_steps(landscape.insert(right, LAST, own, 1), rows)
    np.testing.assert_allclose(found["coef"][0], np.repeat(true[2:], 5, axis=0), atol=0.3)


def test_a_trial_of_few_columns_leaves_its_regression_in_these_alone(problem):
    rows, landscape, here, _ = problem
    columns = landscape.column_directions
    spans = np.zeros((1, 5, 2, 4))
    spans[:, :, 0], spans[:, 1:, 1] = columns[3], columns[1]
    few = trials(5, 4, centres=np.tile(here.coef[:, :1], (1, 5, 1)), spans=spans, wanted=np.full((1, 5), 3.0))
    moved = run_steps(landscape.insert(here, LAST, few, 0), rows)["coef"][0] - here.coef[0, 0]
    raw = moved @ landscape.transform.T
    np.testing.assert_allclose(raw[:, [0, 2]], 0.0, atol=1e-9)
    np.testing.assert_allclose(raw[0, 1], 0.0, atol=1e-9)
    assert np.all(np.abs(raw[1:, [1, 3]]) > 1e-3)


def test_two_rows_show_a_component_that_differs_from_another_in_one_column():
    """Of nine coefficients nobody draws ten rows of a component of 8%, where two of them are drawn soon."""
    generator = np.random.default_rng(7)
    X = generator.standard_normal((600, 8))
    lines = np.tile(generator.standard_normal(8), (2, 1))
    lines[1, 4] += 3.0
    y = (X * lines[(generator.random(600) < 0.08).astype(int)]).sum(axis=1) + 0.05 * generator.standard_normal(600)
    rows = ArrayRows(X, y)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    task = Task(n_components=2, intercept=True, shared_sigma=False, in_one_place=True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    true = frame.inside(np.column_stack([lines, np.zeros(2)]).T).T
    here = Population.of(true[None, [0, 0]], np.array([[0.9, 0.1]]), np.full((1, 2), 0.0025), np.zeros(1, int), 0)
    use = moves.Use(np.array([[9.0, 1e-6]]), np.ones((1, 2, 3)), 600 * np.array([[0.92, 0.08]]))
    children = run_steps(insertion.insert(landscape, here, use, np.zeros(12, int), np.random.default_rng(0)), rows)
    gaps = np.linalg.norm(children.coef[:, 1] - true[1], axis=1)
    assert gaps.min() < 0.1


def test_a_trial_may_begin_at_a_stretch_of_one_column(problem):
    """A curve's stretches are components of which few rows drawn anywhere are all of one."""
    _, landscape, here, _ = problem
    generator = np.random.default_rng(5)
    X = generator.uniform(-2.0, 2.0, (300, 3))
    y = np.abs(X[:, 1]) + 0.01 * generator.standard_normal(300)
    rows = ArrayRows(X, y)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    landscape = Landscape.of(frame, landscape.task, 1.0, lambda query: query)
    along = np.zeros((1, 12, 5))
    along[..., :4] = np.linalg.pinv(frame.basis).T[1]
    stretches = trials(12, 4, rules=np.full((1, 12), WINDOW), shares=np.full((1, 12), 0.2), along=along)
    found = run_steps(landscape.insert(here, LAST, stretches, 1), rows)
    arms = frame.inside(np.array([[0.0, 1, 0, 0], [0, -1, 0, 0]]).T).T
    gaps = np.linalg.norm(found["coef"][0][:, None] - arms, axis=2)
    assert np.mean(gaps.min(axis=1) < 0.15) >= 0.75
    assert np.all(gaps.min(axis=0) < 0.02)


@pytest.mark.parametrize("gate", [None, FixedWeights((0.45, 0.45, 0.1))], ids=["free weights", "known weights"])
def test_the_move_leads_to_the_maximum_and_not_back_to_what_was_dropped(problem, gate):
    rows, landscape, here, true = problem
    if gate is not None:
        landscape = replace(landscape, task=replace(landscape.task, gate=gate))
    use = moves.Use(np.array([[9.0, 9.0, 1e-6]]), np.ones((1, 3, 3)), 400 * WEIGHTS)
    children = run_steps(insertion.insert(landscape, here, use, np.zeros(8, int), np.random.default_rng(1)), rows)
    assert 8 <= len(children) <= 8 * insertion.KEPT_TRIALS
    np.testing.assert_allclose(children.weights.sum(axis=1), 1.0)
    changed = np.any(children.coef != here.coef, axis=2)
    assert np.all(changed.sum(axis=1) == 1)
    gaps = np.sum((children.coef - here.coef)[changed] ** 2, axis=1) / 0.04
    assert np.all(gaps >= SAME_PLACE**2)
    ends = run_steps(climbing.converge(landscape, children), rows)
    best = ends.coef[ends.value.argmax()]
    np.testing.assert_allclose(best[match(true, best)], true, atol=0.15)


def test_rows_that_repeat_wait_for_no_machine_code_of_their_own(problem):
    _, landscape, here, _ = problem
    X = np.random.default_rng(6).standard_normal((400, 3))
    twice = Rows(np.tile(X, (2, 1)), np.tile(X[:, 0], 2))
    for rows in (twice, merge(twice)):
        place = SimpleNamespace(total=lambda query, rows=rows: query.answer(rows))
        assert np.isfinite(run_steps(landscape.insert(here, LAST, trials(5, 4), 1), place)["values"]).any()
    assert len(insert.signatures) == 1


def test_where_no_loop_is_at_hand_nothing_comes_of_a_trial(problem):
    _, landscape, here, _ = problem
    use = moves.Use(np.ones((1, 3)), np.ones((1, 3, 3)), 400 * WEIGHTS)
    grouped = ArrayRows(np.ones((5, 3)), np.arange(5.0), groups=np.arange(5) // 2)
    assert (
        len(run_steps(insertion.insert(landscape, here, use, np.zeros(3, int), np.random.default_rng(1)), grouped)) == 0
    )


def test_maxima_are_dealt_to_islands_one_after_the_other():
    many = Population.of(np.zeros((5, 2, 1)), np.full((5, 2), 0.5), np.ones((5, 2)), np.array([0, 0, 0, 1, 0]), 0)
    many = replace(many, value=np.array([1.0, 4.0, 3.0, 9.0, 2.0]))
    dealt = many.deal_to_islands(2)
    assert dealt.lineage.tolist() == [0, 0, 1, 1, 2, 3]
    assert dealt.value.tolist() == [4.0, 2.0, 3.0, 1.0, 9.0, 9.0]
    assert many.deal_to_islands(1).value.tolist() == [4.0, 3.0, 2.0, 1.0, 9.0]


def test_islands_are_small_where_steps_are_cheap():
    assert Effort.of("auto", 1, 5, True, cheap=True).islands == 2
    assert Effort.of("thorough", 1, 5, True, cheap=True).islands == 4
    assert Effort.of("auto", 1, 5, False).islands == Effort.of("quick", 1, 5, True, cheap=True).islands == 1


def test_maxima_near_the_best_are_a_crowd():
    many = Population.of(np.zeros((5, 2, 1)), np.full((5, 2), 0.5), np.ones((5, 2)), np.array([0, 0, 0, 1, 0]), 0)
    many = replace(many, value=np.array([1.0, 4.0, 3.5, 9.0, 3.0]))
    np.testing.assert_allclose(many.crowd(2.0, 3), [1.0 + 0.75 + 0.5, 1.0, 0.0])
    np.testing.assert_allclose(replace(many, value=many.value + 70.0).crowd(2.0), [2.25, 1.0])


def test_all_islands_join_with_all_that_they_keep():
    for cheap in (True, False):
        effort = Effort.of("auto", 3, 5, True, cheap=cheap)
        joined = effort.of_all_islands
        assert joined.kept == 3 * effort.islands * effort.kept
        assert joined.offspring // joined.islands == 3 * effort.islands * (effort.offspring // effort.islands)


def crossing(generator, n=500, share=0.08):
    """A narrow component that crosses a wide one: each of its rows the wide one explains as well as its own."""
    X = generator.standard_normal((n, 2))
    narrow = generator.random(n) < share
    lines = np.array([[0.0, 0.0, 0.0], [0.4, -0.3, 0.0]])
    noise = np.where(narrow, 0.01, 1.0) * generator.standard_normal(n)
    return ArrayRows(X, (X * lines[narrow.astype(int), :2]).sum(axis=1) + noise), lines


@pytest.mark.parametrize("seed", range(3))
def test_a_narrow_component_that_crosses_a_wide_one_shows_by_the_crowd_around_it(seed):
    rows, lines = crossing(np.random.default_rng(seed))
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    task = Task(n_components=2, intercept=True, shared_sigma=False, in_one_place=True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    wide, narrow = frame.inside(lines.T).T
    here = Population.of(np.array([[wide, wide]]), np.array([[0.9, 0.1]]), np.ones((1, 2)), np.zeros(1, int), 0)
    crowds = trials(20, 3, rules=np.full((1, 20), CROWD))
    found = run_steps(landscape.insert(here, np.array([1]), crowds, 10), rows)
    close = (np.linalg.norm(found["coef"][0] - narrow, axis=1) < 0.05) & (found["s2"][0] < 0.03**2)
    assert close.mean() >= 0.1
    np.testing.assert_allclose(found["weights"][0, close], 0.08, atol=0.04)
    others = run_steps(landscape.insert(here, np.array([1]), trials(20, 3), 10), rows)
    assert (np.linalg.norm(others["coef"][0] - narrow, axis=1) < 0.05).mean() < close.mean()


def test_a_crowd_belongs_to_the_content_of_rows_and_not_to_their_place():
    rows, lines = crossing(np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(len(rows.y))
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    landscape = Landscape.of(
        frame, Task(n_components=2, intercept=True, shared_sigma=False, in_one_place=True), 1.0, lambda query: query
    )
    wide = frame.inside(lines.T).T[0]
    here = Population.of(np.array([[wide, wide]]), np.array([[0.9, 0.1]]), np.ones((1, 2)), np.zeros(1, int), 0)
    crowds = trials(4, 3, rules=np.full((1, 4), CROWD))
    one, two = (
        run_steps(landscape.insert(here, np.array([1]), crowds, 3), some)
        for some in (rows, ArrayRows(rows.X[order], rows.y[order]))
    )
    np.testing.assert_allclose(one["coef"], two["coef"], rtol=1e-6, atol=1e-8)


def test_rows_around_a_line_count_for_more_than_the_mixture_would_have_there():
    """Against a count by hand: the largest n log(n/m) - n + m over reaches halved again and again."""
    generator = np.random.default_rng(2)
    residuals, height = generator.standard_normal(200), np.full(200, 0.4)
    residuals[:30] *= 1e-3
    repeats = np.where(generator.random(200) < 0.2, 2.0, 1.0)
    reach = np.maximum(np.abs(residuals), 1e-6) * height
    gains = []
    for level in range(4, 40):
        seen, expected = repeats[reach < 2.0**-level].sum() - 3, repeats.sum() * 2.0 ** (1 - level)
        gains.append(seen * np.log(seen / expected) - seen + expected if seen > expected else 0.0)
    gain, share = _crowd_around(residuals.copy(), height, repeats, 1e-6, 3, np.zeros(LEVELS + 1))
    assert gain == pytest.approx(max(gains))
    level = 4 + int(np.argmax(gains))
    assert share == pytest.approx(repeats[reach < 2.0**-level].sum() / repeats.sum())


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_turned_about_its_rows_to_where_it_meets_the_most(seed):
    """Against all lines that meet the same rows and one more."""
    generator = np.random.default_rng(seed)
    n, q = 400, 5
    Z = generator.standard_normal((n, q))
    narrow = np.arange(n) < 40
    y = np.where(narrow, Z.sum(axis=1) + 1e-3 * generator.standard_normal(n), 3.0 * generator.standard_normal(n))
    A = np.vstack([Z.T, y, np.ones(n)])
    kept = generator.choice(40, q - 1, replace=False)
    line, other = (np.linalg.solve(Z[[*kept, row]], y[[*kept, row]]) for row in (100, 200))
    height, repeats, counts = np.full(n, 0.1), np.ones(n), np.zeros(LEVELS + 1)
    gain, share, far, row = _turn(A, line, other, height, repeats, 1e-6, q, counts, np.empty(n), np.empty(n))
    turned = line + far * (other - line)
    assert narrow[row]
    assert share == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(Z[row] @ turned, y[row], atol=1e-9)
    np.testing.assert_allclose(turned, 1.0, atol=0.05)
    near, beyond = y - Z @ line, y - Z @ other
    every = []
    for met in np.setdiff1d(np.arange(n), kept):
        turn = near[met] / (near[met] - beyond[met])
        every.append(_crowd_around(near + turn * (beyond - near), height, repeats, 1e-6, q, counts)[0])
    assert 0.7 * max(every) <= gain <= max(every) * (1 + 1e-9)
