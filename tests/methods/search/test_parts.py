"""The rooms of the search one by one: seeds, sources, moves, climbing, populations."""

from dataclasses import replace

import numpy as np
import pytest

from wmlr.core.round import Rows, add, run_steps
from wmlr.engines.arrays import ArrayRows, answer_in_pieces
from wmlr.methods.search import climbing, fitting, moves, seeding, sources, stages
from wmlr.methods.search.effort import Effort
from wmlr.methods.search.generations import Breeding, generations
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, join, match
from wmlr.methods.search.seeding import Seeds
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL, FixedWeights
from wmlr.numerics.coordinates import white_frame
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.grain import Grain, Repeats, coarsest, has_common_value
from wmlr.statistics.moments import Moments
from wmlr.statistics.seeds import (
    OWN,
    SHARP,
    SOFT,
    SURE,
    UNEXPLAINED,
    UNIFORM,
    ComponentUse,
    NearestSquares,
    SeedFits,
    residual_quantile,
)


@pytest.fixture
def problem():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((400, 3))
    lines = np.array([[2.0, 1, 0], [-2, 1, 0], [0, -1, 3]])
    labels = generator.choice(3, 400, p=[0.45, 0.45, 0.1])
    y = (X * lines[labels]).sum(axis=1) + 0.2 * generator.standard_normal(400)
    rows = ArrayRows(X, y)
    task = Task(n_components=3, intercept=True, shared_sigma=False)
    frame = white_frame(rows.total(Moments(intercept=True)), True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    inside = frame.inside(np.column_stack([lines, np.zeros(3)]).T).T
    true = Population.of(inside[None], np.array([[0.45, 0.45, 0.1]]), np.full((1, 3), 0.04), np.zeros(1, int), 0)
    return rows, landscape, true


def queries(generator):
    q, k = 3, 2
    coef, weights, s2 = generator.standard_normal((2, k, q)), np.full((2, k), 0.5), np.array([[1.0, 2.0], [0.5, 0.5]])
    transform = generator.standard_normal((5, q))
    rule = np.array([UNIFORM, UNEXPLAINED, OWN, SOFT, SHARP])
    c = len(rule)
    seeds = SeedFits(
        transform, generator.standard_normal((c, q)), coef, weights, s2, np.array([0, 1, 0, 1, 0]),
        np.array([-1, 0, 1, 1, -1]), rule, np.full(c, 6.0), np.array([0.3, 0.1, 0.0, 0.0, 0.0]),
        np.array([0.0, 0.0, 2.0, 1.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0, 0.5]), 7, 32, 1.0,
    )  # fmt: skip
    return [
        seeds,
        ComponentUse(transform, coef, weights, s2, np.array([6.0, 20.0])),
        NearestSquares(transform, coef),
        CandidateScores(transform, coef, weights, s2),
        Grain(),
    ]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("grouped", [False, True])
def test_answers_of_two_blocks_add_up_to_the_answer_of_both(place, grouped, generator):
    X, y = generator.standard_normal((60, 4)), np.round(generator.standard_normal(60), 2)
    weight = generator.uniform(0.5, 2.0, 60)
    query = queries(generator)[place]

    def rows(first, last):
        starts = np.arange(0, last - first, 5) if grouped else None
        return Rows(X[first:last], y[first:last], weight[first:last], starts)

    whole, halves = query.answer(rows(0, 60)), add([query.answer(rows(0, 25)), query.answer(rows(25, 60))])
    assert whole.keys() == halves.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(value, halves[name], rtol=1e-10, atol=1e-10)


def test_candidate_sums_are_those_of_each_component_alone(generator):
    X, y = generator.standard_normal((80, 4)), generator.standard_normal(80)
    for columns in (3, 45):
        transform = np.random.default_rng(1).standard_normal((5, columns))
        coef = generator.standard_normal((2, 2, columns)) * 0.1
        weights, s2 = np.array([[0.3, 0.7], [0.5, 0.5]]), np.array([[1.0, 2.0], [0.5, 0.4]])
        sums = CandidateScores(transform, coef, weights, s2).answer(Rows(X, y))
        Z = X @ transform[:4] + transform[4]
        E = y[:, None] - Z @ coef[1].T
        joint = weights[1] * np.exp(-0.5 * E**2 / s2[1]) / np.sqrt(s2[1])
        shares = joint / joint.sum(axis=1, keepdims=True)
        gram = (Z * shares[:, :1]).T @ Z
        np.testing.assert_allclose(sums["grams"][1, 0], gram[np.triu_indices(columns)], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums["moments"][1, 1], Z.T @ (shares[:, 1] * y), rtol=1e-9, atol=1e-9)
        assert sums["log_likelihood"][1] == pytest.approx(np.log(joint.sum(axis=1)).sum())


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_use_of_components_is_that_of_each_mixture_alone_however_many_there_are(k, generator):
    """Against sums by hand; threads that share the mixtures out change no digit."""
    X, y, g = generator.standard_normal((300, 3)), generator.standard_normal(300), 21
    coef, s2 = generator.standard_normal((g, k, 3)), generator.uniform(0.2, 2.0, (g, k))
    weights, caps = generator.dirichlet(np.ones(k), g), np.array([2.0, 6.0])
    query = ComponentUse(np.eye(3), coef, weights, s2, caps)
    found = query.answer(Rows(X, y))
    for m in range(g):
        distances = (y - coef[m] @ X.T) ** 2 / s2[m][:, None]
        joint = (weights[m] / np.sqrt(s2[m]))[:, None] * np.exp(-0.5 * distances)
        shares = joint / joint.sum(axis=0)
        np.testing.assert_allclose(found["own"][m], shares.sum(axis=1))
        np.testing.assert_allclose(found["loss"][m], -np.log1p(-np.minimum(shares, SURE)).sum(axis=1), rtol=1e-6)
        for j in range(k):
            others = np.delete(distances, j, axis=0).min(axis=0, initial=caps.max())
            np.testing.assert_allclose(found["unexplained"][m, j], [np.minimum(others, cap).sum() for cap in caps])
    shared_out = answer_in_pieces(query, Rows(X, y), 2)
    assert all(np.array_equal(found[name], shared_out[name]) for name in found)


def test_draws_belong_to_the_content_of_rows_and_not_to_their_place(problem):
    rows, landscape, _ = problem
    order = np.random.default_rng(0).permutation(400)
    shuffled = ArrayRows(rows.X[order], rows.y[order], block_rows=64)
    seeds = Seeds.uniform(np.tile(landscape.centre, (6, 1)), np.full(6, 12 / 400), np.zeros(6))
    one, _ = run_steps(seeding.fit(landscape, seeds, None, 3), rows)
    two, _ = run_steps(seeding.fit(landscape, seeds, None, 3), shuffled)
    np.testing.assert_allclose(one, two, rtol=1e-8)
    other, _ = run_steps(seeding.fit(landscape, seeds, None, 4), rows)
    assert np.abs(one - other).max() > 1e-3
    assert np.abs(one[0] - one[1]).max() > 1e-3


def test_a_robust_seed_finds_the_component_that_the_others_leave(problem):
    rows, landscape, true = problem
    count = 6
    every = np.zeros(count, dtype=np.int64)
    seeds = Seeds(
        np.tile(landscape.centre, (count, 1)), every,
        every + 2,
        every + SHARP, np.ones(count), np.zeros(count),
        np.ones(count),
    )  # fmt: skip
    shares = 0.5 * np.full(count, 0.4) ** np.linspace(0, 1, 5)[:, None]
    found = run_steps(seeding.fit_robustly(landscape, seeds, true, 1, shares), rows)
    assert np.linalg.norm(found - true.coef[0, 2], axis=1).min() < 0.1


def test_quantiles_of_residuals_come_from_histograms(generator):
    sizes = np.abs(generator.standard_normal(20_000))
    query = SeedFits(
        np.ones((1, 1)), np.zeros((1, 1)), np.zeros((0, 1, 1)), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(1, int),
        -np.ones(1, int), np.zeros(1, int), np.ones(1), np.zeros(1), np.zeros(1), np.full(1, 1e9), 0, 128, 1.0,
    )  # fmt: skip
    histogram = query.answer(Rows(np.ones((len(sizes), 1)), sizes))["histogram"]
    for share in (0.1, 0.5, 0.9):
        found = residual_quantile(histogram, np.array([share]), 1.0)[0]
        assert found == pytest.approx(np.quantile(sizes, share), rel=0.03)


@pytest.mark.parametrize("source", ["draws", "elemental_fits", "weighted_fits", "sequential_fits", "level_draws"])
def test_every_source_leads_to_the_truth_from_some_candidate(problem, source):
    rows, landscape, true = problem
    lineage, generator = np.zeros(30, dtype=np.int64), np.random.default_rng(0)
    if source == "draws":
        candidates = sources.draws(landscape, lineage, generator)
    elif source == "elemental_fits":
        candidates = run_steps(sources.elemental_fits(landscape, lineage, generator, 1.0), rows)
    else:
        candidates = run_steps(getattr(sources, source)(landscape, lineage, generator), rows)
    assert candidates.coef.shape == (30, 3, 4)
    np.testing.assert_allclose(candidates.weights.sum(axis=1), 1.0)
    assert np.all(candidates.s2 > 0)
    ends = run_steps(climbing.converge(landscape, candidates), rows)
    best = run_steps(climbing.converge(landscape, true), rows).value[0]
    assert ends.value.max() >= best - 0.05


@pytest.fixture(scope="module")
def unbalanced():
    """Four components of 40 columns, the smallest with hardly more rows than coefficients."""
    generator = np.random.default_rng(0)
    lines = generator.standard_normal((4, 40))
    labels = generator.choice(4, 640, p=[0.4, 0.3, 0.2, 0.1])
    X = generator.standard_normal((640, 40))
    y = (X * lines[labels]).sum(axis=1) + 0.01 * generator.standard_normal(640)
    rows = ArrayRows(X, y)
    frame = white_frame(rows.total(Moments(intercept=False)), False)
    task = Task(n_components=4, intercept=False, shared_sigma=True)
    landscape = Landscape.of(frame, task, 1.0, lambda query: query)
    coef, weights = frame.inside(lines.T).T[None], np.array([[0.4, 0.3, 0.2, 0.1]])
    return rows, landscape, Population.of(coef, weights, np.full((1, 4), 1e-4), np.zeros(1, int), 0)


def test_components_of_many_columns_are_found_one_by_one(unbalanced):
    rows, landscape, true = unbalanced
    found = run_steps(sources.sequential_fits(landscape, np.zeros(4, int), np.random.default_rng(0)), rows).coef
    gaps = np.linalg.norm(found[:, :, None] - true.coef[0], axis=3)
    assert np.all(gaps.min(axis=1) < 0.1)


def test_what_ends_clearly_below_the_best_of_many_columns_is_left(unbalanced):
    rows, landscape, true = unbalanced
    search = stages.SearchProblem(landscape, None, 1.0, True)
    others = sources.draws(landscape, np.zeros(2, int), np.random.default_rng(0))
    first = run_steps(climbing.run_em(landscape, join(true, others), 5), rows)
    known = run_steps(stages._first_maxima(search, Effort(), first), rows)
    assert len(known) == 1
    assert known.value[0] >= run_steps(climbing.converge(landscape, true), rows).value[0] - 0.01


def test_climbing_never_lowers_the_guarded_likelihood(problem):
    rows, landscape, _ = problem
    candidates = sources.draws(landscape, np.zeros(8, dtype=np.int64), np.random.default_rng(1))
    values = []
    for _ in range(30):
        candidates = run_steps(landscape.step(candidates), rows)
        values.append(candidates.value)
    assert np.all(np.diff(values, axis=0) >= -1e-8 * np.abs(values[-1]).max())


def test_the_guard_is_what_the_page_says(problem):
    rows, landscape, true = problem
    value = run_steps(landscape.step(true), rows).value[0]
    plain = rows.total(landscape.query(true))["log_likelihood"][0] - 0.5 * 400 * np.log(2 * np.pi)
    ratio = landscape.common / true.s2[0]
    assert value == pytest.approx(plain - (ratio - np.log(ratio)).sum() / 400, rel=1e-12)
    assert landscape.plain_value(run_steps(landscape.step(true), rows))[0] != value


@pytest.mark.parametrize(
    "kind",
    [*moves.DRAWING_MOVES, *moves.WEIGHING_MOVES, *moves.BLIND_MOVES, *moves.CLOSING_MOVES, moves.JITTER, moves.LEVEL],
    ids=lambda kind: kind.name,
)
def test_a_move_changes_one_component_alone(problem, kind):
    rows, landscape, true = problem
    use = run_steps(moves.component_use(landscape, true), rows)
    chosen = np.zeros(8, dtype=np.int64)
    children = run_steps(moves.offspring(landscape, true, use, chosen, (kind,), np.random.default_rng(0), 1.0), rows)
    changed = np.any(children.coef != true.coef, axis=2).sum(axis=1)
    assert np.all(changed <= 1)
    assert changed.max() == 1
    np.testing.assert_allclose(children.weights.sum(axis=1), 1.0)
    assert np.all(np.isfinite(children.coef))


def test_the_use_of_a_component_is_what_the_likelihood_loses(problem):
    rows, landscape, true = problem
    use = run_steps(moves.component_use(landscape, true), rows)
    E = rows.y[:, None] - (rows.X @ landscape.transform[:3] + landscape.transform[3]) @ true.coef[0].T
    joint = true.weights[0] * np.exp(-0.5 * E**2 / 0.04)
    shares = np.minimum(joint / joint.sum(axis=1, keepdims=True), 1 - 1e-12)
    np.testing.assert_allclose(use.loss[0], -np.log1p(-shares).sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(use.own[0], shares.sum(axis=0), rtol=1e-6)


def test_crossing_takes_each_component_from_either_parent(problem):
    _, landscape, true = problem
    other = Population.of(true.coef + 10.0, true.weights, true.s2, true.lineage, 0)
    both = join(true, other)
    child = moves.cross(landscape, both, np.zeros(5, int), np.ones(5, int), np.random.default_rng(0))
    taken = np.isclose(child.coef, true.coef).all(axis=2) | np.isclose(child.coef, other.coef).all(axis=2)
    assert taken.all()
    assert np.any(child.coef != true.coef)


def test_maxima_are_distinct_by_value_within_a_lineage_and_counted():
    coef = np.zeros((4, 1, 1))
    ones = np.ones((4, 1))
    population = replace(
        Population.of(coef, ones, ones, np.array([0, 0, 0, 1]), 0), value=np.array([1.0, 5.0, 5.01, 5.0])
    )
    kept = population.distinct()
    assert kept.value.tolist() == [5.01, 5.0, 1.0]
    assert kept.found.tolist() == [2, 1, 1]


def test_components_are_matched_one_to_one():
    lines = np.array([[0.0, 1.0], [5.0, 5.0], [2.0, 0.0]])
    assert match(lines, lines[[2, 0, 1]]).tolist() == [1, 2, 0]


def test_halving_leaves_what_stands_at_a_known_maximum(problem):
    rows, landscape, true = problem
    known = run_steps(climbing.converge(landscape, true), rows)
    near = Population.of(known.coef[:, ::-1] + 1e-4, known.weights[:, ::-1], known.s2[:, ::-1], known.lineage, 0)
    assert near.near(known).tolist() == [True]
    left = run_steps(climbing.halve(landscape, near, ((1.0, 2, 1.0), (1.0, 2, 1.0)), known), rows)
    assert len(left) == 0


def test_the_climb_leaves_what_nears_a_known_maximum_or_lies_hopelessly_below_all(problem):
    rows, landscape, true = problem
    known = run_steps(climbing.converge(landscape, true), rows)
    near = Population.of(known.coef + 0.5, known.weights, known.s2, known.lineage, 0)
    assert not near.near(known).any()
    assert len(run_steps(climbing.settle(landscape, near, known), rows)) == 0
    alike = np.tile(landscape.centre, (1, 3, 1))
    saddle = Population.of(alike, known.weights, np.full((1, 3), landscape.common), known.lineage, 0)
    ends = run_steps(climbing.converge(landscape, saddle), rows)
    assert len(ends) == 1
    assert ends.value[0] < known.value[0] - 1.0
    slow = replace(saddle, coef=alike + 1e-3 * np.arange(3)[None, :, None])
    assert len(run_steps(climbing.settle(landscape, slow, known), rows)) == 0


def in_one_place(landscape, **changed):
    return replace(landscape, task=replace(landscape.task, in_one_place=True, **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"shared_sigma": True},
        {"sigma": 0.2},
        {"gate": EQUAL},
        {"gate": FixedWeights((0.5, 0.4, 0.1)), "shared_sigma": True},
    ],
    ids=["a sigma each", "one sigma", "known sigma", "equal weights", "fixed weights"],
)
def test_candidates_that_climb_by_themselves_end_where_rounds_lead_them(problem, changed):
    """Step by step the same EM: the same ends, the same number of steps, the same candidates left on their way."""
    rows, landscape, true = problem
    landscape = replace(in_one_place(landscape, **changed), guard=0.0 if changed else landscape.guard)
    first = sources.draws(landscape, np.tile(np.arange(2), 12), np.random.default_rng(4))
    first = replace(first, weights=landscape.task.gate.step(first.weights), origin=np.arange(len(first)))
    known = run_steps(climbing.converge(landscape, join(true, replace(true, lineage=np.ones(1, int)))), rows)
    for plain in (0, 4):
        spent = [stages.SearchSpending() for _ in range(2)]
        ends = [
            run_steps(count.count(climbing.settle(replace(landscape, by_rounds=way), first, maxima, plain)), rows)
            for maxima in (None, known)
            for count, way in zip(spent, (False, True))
        ]
        assert spent[0].rounds < 4 < spent[1].rounds
        assert spent[0].steps == spent[1].steps
        for here, there in (ends[:2], ends[2:]):
            assert len(here) == len(there)
            order = [np.argsort(one.origin) for one in (here, there)]
            for name in ("origin", "value", "coef", "weights", "s2"):
                pair = [getattr(one, name)[places] for one, places in zip((here, there), order)]
                np.testing.assert_allclose(*pair, rtol=1e-6, atol=1e-7)


def test_candidates_that_climb_by_themselves_have_the_weights_that_are_known(problem):
    rows, landscape, _ = problem
    landscape = in_one_place(landscape, gate=FixedWeights((0.5, 0.4, 0.1)))
    drawn = sources.draws(landscape, np.zeros(3, int), np.random.default_rng(4))
    ended = run_steps(climbing.converge(landscape, drawn), rows)
    np.testing.assert_allclose(ended.weights, [(0.5, 0.4, 0.1)] * len(ended))


def test_where_no_loop_is_at_hand_candidates_climb_by_rounds(problem, monkeypatch):
    rows, landscape, true = problem
    near = replace(true, coef=true.coef + 0.1)
    by_itself = run_steps(climbing.converge(in_one_place(landscape), near), rows)
    monkeypatch.setenv("WMLR_KERNELS", "numpy")
    by_rounds = run_steps(climbing.converge(in_one_place(landscape), near), rows)
    np.testing.assert_allclose(by_itself.value, by_rounds.value)


def test_a_candidate_that_is_lost_in_rounding_climbs_by_rounds(problem):
    rows, landscape, true = problem
    lost = replace(true, coef=np.full_like(true.coef, np.nan))
    ends = run_steps(in_one_place(landscape).climb(join(true, lost), climbing.ClimbPlan(5, 0)), rows)
    assert [len(part) for part in ends] == [1, 1]
    assert np.isnan(ends[1].coef).all()


def test_the_variance_around_a_regression_is_that_of_its_own_rows(problem):
    rows, landscape, true = problem
    found = run_steps(seeding.variance_around(landscape, true.coef[0], np.array([0.45, 0.45, 0.1])), rows)
    np.testing.assert_allclose(found[:2], 0.04, rtol=0.5)


def test_a_level_is_a_value_of_the_response_whatever_the_features(problem):
    rows, landscape, _ = problem
    candidates = run_steps(sources.level_draws(landscape, np.zeros(40, dtype=np.int64), np.random.default_rng(3)), rows)
    raw = candidates.coef[:, 0] @ landscape.transform.T
    np.testing.assert_allclose(raw[:, :-1], 0.0, atol=1e-9)
    single = np.abs(raw[:, -1:] - rows.y).min(axis=1) < 1e-9
    assert 5 < single.sum() < 30


def test_a_search_ends_with_independent_lineages_that_agree(problem):
    rows, landscape, true = problem
    search = stages.SearchProblem(landscape, None, 1.0, True)
    effort, spent, generator = Effort(), stages.SearchSpending(), np.random.default_rng(0)
    state = run_steps(spent.count(stages.first_stage(search, effort, generator)), rows)
    state = run_steps(spent.count(generations(search, effort, state, generator, spent, ())), rows)
    best = run_steps(climbing.converge(landscape, true), rows).value[0]
    assert state.maxima.value[0] >= best - 0.05
    assert state.lineages_agree
    assert spent.steps > 0
    assert spent.rounds > 0


@pytest.mark.parametrize("search", ["auto", "quick"])
def test_a_search_on_a_sample_may_cost_what_one_on_all_rows_may(problem, search):
    """A step on a sample counts as its share of one on all rows, wherever steps are counted."""
    _, landscape, true = problem
    for share in (1.0, 0.25):
        some = replace(landscape, share=share, task=replace(landscape.task, search=search))
        seen = stages.SearchProblem(some, None, 1.0, True)
        counted = some.query(true).em_steps({})
        steps = fitting._effort(seen).steps / counted
        assert steps * fitting._step_cost(seen) == pytest.approx(fitting.MOST_PRODUCTS)


def two_that_agree_and_one_below(rows, landscape, true):
    three = join(*(replace(true, lineage=true.lineage + number) for number in range(3)))
    maxima = run_steps(climbing.converge(landscape, three), rows)
    return replace(maxima, value=maxima.value - [0.0, 0.0, 50.0])


@pytest.mark.parametrize(("enough", "restarts", "begun"), [(2, 4, 1), (3, 4, 2), (9, 2, 3), (9, 0, 1)])
def test_islands_begin_anew_until_the_best_was_reached_often_enough(problem, enough, restarts, begun):
    rows, landscape, true = problem
    search = stages.SearchProblem(landscape, None, 1.0, True)
    maxima = two_that_agree_and_one_below(rows, landscape, true)
    begins = []

    def stage(problem, effort, generator, before):
        begins.append(before)
        yield from ()
        return stages.SearchState(maxima, maxima.value)

    effort = Effort(lineages=3, patience=0, patience_agreed=0, offspring=4, enough=enough, restarts=restarts)
    spent, generator = stages.SearchSpending(), np.random.default_rng(0)
    state = stages.SearchState(maxima, maxima.value)
    state = run_steps(generations(search, effort, state, generator, spent, (stage,)), rows)
    assert 1 + len(begins) == begun
    assert len(state.reached) == 3 * begun
    assert int(np.sum(state.reached >= state.reached.max() - 0.05)) >= 2 * begun


@pytest.mark.parametrize(("early", "begun"), [(True, [3, 6, 6]), (False, [3, 3, 3])])
def test_islands_that_disagree_are_followed_by_more_of_them(problem, monkeypatch, early, begun):
    rows, landscape, true = problem
    search = stages.SearchProblem(landscape, None, 1.0, True)
    maxima = two_that_agree_and_one_below(rows, landscape, true)
    dealt, deal = [], Population.deal_to_islands

    def watched(population, count):
        dealt.append(3 * count)
        return deal(population, count)

    def stage(problem, effort, generator, before):
        yield from ()
        return stages.SearchState(maxima, maxima.value)

    monkeypatch.setattr(Population, "deal_to_islands", watched)
    effort = Effort(lineages=3, patience=0, patience_agreed=0, offspring=4, enough=99, restarts=2, early=early)
    spent, state = stages.SearchSpending(), stages.SearchState(maxima, maxima.value)
    run_steps(generations(search, effort, state, np.random.default_rng(0), spent, (stage,)), rows)
    assert dealt == begun


def test_an_island_gives_up_by_itself_while_others_go_on(problem):
    rows, landscape, true = problem
    search = stages.SearchProblem(landscape, None, 1.0, True)
    effort, generator = Effort(patience=3, patience_agreed=3, offspring=6), np.random.default_rng(0)
    spent = stages.SearchSpending()
    bred = []

    class Watched(Breeding):
        def _next(self, known):
            bred.append(np.unique(known.lineage).tolist())
            return (yield from super()._next(known))

    far = run_steps(climbing.run_em(landscape, replace(true, coef=true.coef + 3.0, lineage=true.lineage + 1), 1), rows)
    first = join(run_steps(climbing.converge(landscape, true), rows), far)
    done = run_steps(Watched(search, effort, moves.DRAWING_MOVES, generator, spent).run(first), rows)
    assert bred[:3] == [[0, 1]] * 3
    assert len(bred) == spent.generations
    assert bred[-1] == [1]
    assert set(done.lineage) == {0, 1}
    assert np.all(done.highest() >= first.highest())


@pytest.mark.parametrize(("below", "generations"), [(0.5, 6), (5.0, 3)])
def test_islands_that_agree_go_on_while_new_maxima_come_up_near_the_best(problem, below, generations):
    rows, landscape, true = problem
    search = stages.SearchProblem(landscape, None, 1.0, True)
    spent = stages.SearchSpending()

    class Finding(Breeding):
        """Three generations each bring a lower maximum; after that nothing comes."""

        def _next(self, known):
            yield from ()
            spent.generations += 1
            if spent.generations > 3:
                return known
            others = replace(true, value=known.highest()[:1] - below - 0.1 * spent.generations)
            return join(known, others, replace(others, lineage=others.lineage + 1))

    first = replace(true, value=np.zeros(1))
    first = join(first, replace(first, lineage=first.lineage + 1))
    breeding = Finding(search, Effort(patience_agreed=3), (), np.random.default_rng(0), spent)
    run_steps(breeding.run(first), rows)
    assert spent.generations == generations


def test_a_value_that_many_rows_share_is_seen_whoever_holds_them():
    generator = np.random.default_rng(0)
    for n in (100, 3_000, 30_000):
        y = generator.standard_normal(n)
        alone = Repeats().answer(Rows(np.zeros((n, 1)), y))
        assert not has_common_value(alone)
        y[: n // 2][::3] = 0.0
        y[3] = -0.0
        parts = [Repeats().answer(Rows(np.zeros((len(part), 1)), part)) for part in (y[: n // 3], y[n // 3 :])]
        assert has_common_value(add(parts))


def test_the_grain_of_y_is_the_coarsest_power_of_ten():
    generator = np.random.default_rng(0)
    X = np.zeros((50, 1))
    for y, grain in [
        (generator.integers(0, 9, 50).astype(float), 1.0),
        (100.0 * generator.integers(1, 9, 50), 100.0),
        (generator.integers(0, 999, 50) / 100, 0.01),
        (generator.standard_normal(50), 0.0),
    ]:
        assert coarsest(Grain().answer(Rows(X, y))) == grain
