"""The benchmarks run, at sizes that take no time, and the page of results says what the results say."""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import linregress, t

from wmlr import MixedLinearRegression, bench
from wmlr.bench import _measure, choice, climb, federation, first, kernels, own, page, peers, scaling, torch
from wmlr.bench.first import HEAVY, first_fit, time_import

DOCS = Path(__file__).parents[2] / "docs"


def silent(text):
    pass


def assert_written(result, tmp_path):
    """A result is a table of text, and JSON that comes back as it was."""
    assert all(len(row) == len(result.columns) and all(isinstance(cell, str) for cell in row) for row in result.rows)
    written = json.loads(bench.write(result, tmp_path).read_text())
    assert written["numbers"] == json.loads(json.dumps(result.numbers))
    assert {"processor", "numpy", "wmlr"} <= set(written["machine"])


def test_the_suites_are_the_modules_without_underscores_and_the_page_is_none_of_them():
    assert {"climb", "coverage", "dask", "fit", "kernels", "peers", "recovery", "scaling", "torch"} <= set(
        bench.suite_names()
    )
    assert "page" not in bench.suite_names()
    assert not [name for name in bench.suite_names() if name.startswith("_")]


def test_a_choice_is_held_against_a_fit_of_the_largest_number(tmp_path):
    result = choice.run(silent, sizes=((60, 1, 2),), largest=2, times=1)
    assert_written(result, tmp_path)
    assert [limit["bound"] for limit in result.numbers["limits"]] == ["at most 2"]


def test_own_weights_are_held_against_common_ones_single_agents_and_oracles(tmp_path):
    result = own.run(silent, agents=10, sizes=(12,), seeds=1)
    assert_written(result, tmp_path)
    found = result.numbers["draws"][0]
    assert found["oracle that learns weights"] < found["oracle that knows weights"]
    assert len(result.numbers["limits"]) == 4


def test_kernels_are_measured_on_every_layout_with_and_without_numba(tmp_path, monkeypatch):
    monkeypatch.setattr(_measure, "SETTLE", 0.0)
    result = kernels.run(silent, n_samples=3000, n_features=4, large=4000, times=1)
    assert_written(result, tmp_path)
    found = result.numbers["iterations"]
    assert {one["rows"] for one in found} == {layout.name for layout in kernels.LAYOUTS}
    assert all(one["ratio"] == one["seconds"] / one["floor"] > 0 for one in found)
    limits = result.numbers["limits"]
    as_they_are, otherwise = ["at most 1.5", "at most 1.6", "at most 2", "at most 1.6"], ["at most 1.5", "at most 2"]
    assert [limit["bound"] for limit in limits] == [*as_they_are, *otherwise, *["at least 1.5"] * 3]
    points = result.numbers["roofline"]["points"]
    assert [point["operations_per_byte"] for point in points] == [0.5, 1.5, 2.0, 6.0]


def test_every_layout_gives_the_same_sums():
    X, y = kernels.rows(3000, 4)
    for iteration in kernels.ITERATIONS[:3]:
        plain = kernels.LAYOUTS[0].engine(X, y, 1).total(iteration.query(4))
        for layout in kernels.LAYOUTS[1:3]:
            for name, value in layout.engine(X, y, 2).total(iteration.query(4)).items():
                np.testing.assert_allclose(value, plain[name], rtol=1e-4, atol=1e-2)


def test_numpy_stands_in_for_the_compiled_loops_only_inside(monkeypatch):
    monkeypatch.setenv("WMLR_KERNELS", "chosen")
    with bench.use_kernels("numpy"):
        assert bench.os.environ["WMLR_KERNELS"] == "numpy"
    assert bench.os.environ["WMLR_KERNELS"] == "chosen"
    monkeypatch.delenv("WMLR_KERNELS")
    with bench.use_kernels("compiled"):
        assert bench.os.environ["WMLR_KERNELS"] == "compiled"
    assert "WMLR_KERNELS" not in bench.os.environ


def test_scaling_fits_exponents(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "SECONDS", 0.0)
    small = {"sizes": (200, 400, 800), "columns": (2, 4, 8, 16), "n_samples": 300, "components": (1, 2, 4)}
    result = scaling.run(silent, **small, memory=None)
    assert_written(result, tmp_path)
    assert len(result.rows) == 3 + 3 + 3 + 1
    assert all(low["size"] <= high["size"] for low, high in zip(result.numbers["rows"], result.numbers["rows"][1:]))


def test_a_fit_needs_little_memory_beyond_its_rows():
    X, y = kernels.rows(10_000, 128)
    MixedLinearRegression(2, symmetric=True, random_state=0).fit(X, y)  # compiles, where nothing is compiled yet
    found = scaling.peak_memory(60_000, 128, 2)
    assert found["data"] == 60_000 * 128 * 8 < found["before"]
    assert scaling.memory_limit(found).met, found
    assert scaling._memory_line(found)[-1] == "met"


def run_here(script, *arguments):
    """A measuring script in this process: how long it takes to start another is of no interest."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", ["-c", *map(str, arguments)])
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    return json.loads(printed.getvalue().splitlines()[-1])


def test_rounds_among_agents_stand_beside_the_same_rows_in_one_place(tmp_path, monkeypatch):
    monkeypatch.setattr(_measure, "SETTLE", 0.0)
    monkeypatch.setattr(federation, "run_script", run_here)
    result = federation.run(silent, agents=100, size=10, n_features=3, many=(600, 4), times=1)
    assert_written(result, tmp_path)
    assert [one["level"] for one in result.numbers["rounds"]] == ["row"] * 3 + ["agent"] * 3
    assert [(one["agents"], one["level"]) for one in result.numbers["fits"]] == [
        (100, "row"), (100, "agent"), (600, "row"), (600, "agent"),
    ]  # fmt: skip
    assert all(one["error"] < 0.1 and one["rounds"] >= 2 for one in result.numbers["fits"])
    assert [limit["bound"] for limit in result.numbers["limits"]] == ["at most 1.5"] * 6 + ["at most 200"] * 2


def test_a_work_is_called_until_it_has_settled_and_its_last_call_counts(monkeypatch):
    clock, calls = [0.0], {"a": 0, "b": 0}
    monkeypatch.setattr(_measure.time, "perf_counter", lambda: clock[0])

    def work(name, seconds):
        calls[name] += 1
        clock[0] += seconds * (3.0 if calls[name] == 1 else 1.0)

    found = _measure.time_in_turn({"a": lambda: work("a", 2.0), "b": lambda: work("b", 30.0)}, 2, settle=20.0)
    assert calls == {"a": 8 + 10, "b": 2}
    assert found == {"a": [2.0, 2.0], "b": [90.0, 30.0]}


def test_slopes_are_those_of_least_squares_with_students_interval():
    sizes = [10, 20, 40, 80, 160]
    seconds = 3.0 * np.array(sizes) ** 1.3 * np.exp([0.1, -0.1, 0.05, 0.0, -0.05])
    found = _measure.slope(sizes, seconds)
    other = linregress(np.log(sizes), np.log(seconds))
    width = t.ppf(0.975, 3) * other.stderr
    assert (found.exponent, found.low, found.high) == pytest.approx(
        (other.slope, other.slope - width, other.slope + width)
    )


def test_what_grows_with_the_columns_is_told_from_what_every_row_costs():
    sizes = np.array([16, 32, 64, 128, 256, 512, 1024])
    for power in (0.8, 1.0, 1.2):
        found = _measure.growth(sizes, 90.0 + 1.1 * sizes**power)
        assert found.exponent == pytest.approx(power, abs=1e-4)
        assert found.low <= found.exponent <= found.high
    noise = np.exp(0.05 * np.random.default_rng(0).standard_normal(7))
    noisy = _measure.growth(sizes, (90.0 + 1.1 * sizes) * noise)
    assert noisy.low < 1.0 < noisy.high


def test_limits_say_what_they_want_and_whether_they_have_it():
    most, least = _measure.Limit("a", 1.4, most=1.5), _measure.Limit("b", 1.4, least=1.5)
    both = _measure.Limit("c", 1.2, least=0.9, most=1.1)
    assert [limit.bound for limit in (most, least, both)] == ["at most 1.5", "at least 1.5", "0.9 to 1.1"]
    assert [limit.verdict for limit in (most, least, both)] == ["met", "MISSED", "MISSED"]


def test_a_measuring_process_that_fails_is_one_sentence():
    with pytest.raises(RuntimeError, match="a measuring process failed: ZeroDivisionError"):
        _measure.run_script("1 / 0")


def test_pytorch_takes_the_same_steps_as_our_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "compiles", lambda torch: False)
    monkeypatch.setattr(torch, "default_threads", lambda: 1)
    result = torch.run(silent, n_samples=3000, n_features=5, iterations=60, times=1)
    assert_written(result, tmp_path)
    errors = {(line["who"], line["dtype"]): line["error"] for line in result.numbers["lines"]}
    assert len(errors) == 8
    drawn = errors["PyTorch, one product", "float64"]
    assert errors["wmlr, default fit", "float64"] < drawn < 0.1
    assert errors["PyTorch, a product per vector", "float64"] == pytest.approx(drawn, rel=1e-9)
    assert errors["PyTorch, one product", "float32"] == pytest.approx(drawn, rel=1e-2)


def test_methods_climb_beside_each_other(tmp_path):
    result = climb.run(silent, peers.PeerCase(600, 3, 2), longest=40)
    assert_written(result, tmp_path)
    for curve in result.numbers["curves"].values():
        assert np.all(np.diff(curve["seconds"]) > 0)
        assert curve["reached"] <= result.numbers["best"]
    assert result.rows[0][3] != "-"


def test_importing_loads_nothing_heavy_and_compiles_nothing():
    everything = "from wmlr import MixedLinearRegression, Federation, bench, engines, select_components"
    modules = _measure.run_script(first.IMPORT, everything)["modules"]
    assert {"wmlr", "sklearn"} <= set(modules)
    assert not set(HEAVY) & set(modules)


def test_an_import_is_timed_with_its_bytecode_at_hand():
    seconds, modules = time_import("import wave", times=1)
    assert 0 < seconds < 5
    assert "wave" in modules


def test_first_uses_are_timed_in_fresh_interpreters(tmp_path, monkeypatch):
    monkeypatch.setattr(first, "REPEATS", 1)
    monkeypatch.setattr(first, "time_import", lambda statement: (0.1, ["wmlr"]))
    monkeypatch.setattr(first, "first_fit", lambda n, d, k, cache, kernels="": 9.0 if kernels else 1.0)
    result = first.run(silent, n_samples=300, n_features=2)
    assert_written(result, tmp_path)
    assert {row[0]: row[1] for row in result.rows}["first fit of a small problem, nothing compiled"] == "1000"
    assert [limit["met"] for limit in result.numbers["limits"]] == [True, True, True, False, True, True]


def test_a_small_first_fit_compiles_nothing(tmp_path):
    assert first_fit(500, 3, 3, str(tmp_path)) > 0
    assert not list(tmp_path.iterdir())


def test_a_missing_result_is_named_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(ValueError, match=r"has no fit.json: run `wmlr bench fit --out"):
        page.text(tmp_path)


def test_the_page_says_what_the_results_say():
    assert page.text(DOCS / "bench") == (DOCS / "performance.md").read_text(encoding="utf-8")


def test_the_pictures_of_the_page_are_there_and_can_be_drawn_anew():
    figures = page.figures(DOCS / "bench")
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    for name, figure in figures.items():
        assert (DOCS / "bench" / f"{name}.png").stat().st_size > 10_000
        assert f"(bench/{name}.png)" in text
        assert len(figure.axes[0].lines) >= 2
    for suite in page.SUITES:
        assert f"wmlr bench {suite} --out docs/bench" in text
