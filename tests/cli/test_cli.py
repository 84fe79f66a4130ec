"""The command line: what is pasted works, what is wrong is one line, and nothing is left half-written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from terminal import run_on_terminal
from wmlr import MixedLinearRegression, __version__, bench
from wmlr.bench import fit as fit_suite
from wmlr.cli import app, command_names
from wmlr.datasets import load_tone, make_mixed_regression
from wmlr.experiments import demo
from wmlr.io import tables

ROOT = Path(__file__).parents[2]
TINY = ("--rows", "400", "--features", "3", "--iterations", "2")


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def program(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmlr.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    data = make_mixed_regression(300, 2, snr=8, symmetric=True, groups=3, random_state=0)
    lines = [
        f"{a!r},{b!r},{y!r},g{group},{1 + number % 2},town"
        for number, ((a, b), y, group) in enumerate(zip(data.X.tolist(), data.y.tolist(), data.groups))
    ]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(["a,b,y,who,times,place", *lines]) + "\n")
    return path


def test_alone_it_names_three_things_to_try() -> None:
    result = call()
    assert result.exit_code == 0
    assert len(re.findall(r"^  wmlr ", result.stdout, flags=re.MULTILINE)) == 3


def test_version() -> None:
    assert call("--version").stdout == f"wmlr {__version__}\n"


@pytest.mark.parametrize("name", command_names())
def test_help_of_every_command_has_an_example(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0
    assert "Example: wmlr" in result.stdout


@pytest.mark.parametrize("name", ["fit", "predict", "select"])
def test_examples_work_as_pasted(name: str) -> None:
    for line in import_module(f"wmlr.cli.{name}").EXAMPLE.split("&&"):
        first, *words = shlex.split(line)
        result = call(*words)
        assert first == "wmlr"
        assert result.exit_code == 0, result.stderr
        assert result.stdout


def test_help_loads_neither_numbers_nor_pictures() -> None:
    check = (
        "import sys, wmlr.cli\n"
        "for words in (['--help'], ['fit', '--help'], ['fti']):\n"
        "    wmlr.cli.app(words, standalone_mode=False)\n"
        "print(sorted({'numpy', 'sklearn', 'matplotlib', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.endswith("[]\n")
    assert "Rows and columns:\n  -t, --target COLUMN" in done.stdout


def test_fit_prints_the_published_tone_fit() -> None:
    result = call("fit", "tone", "--target", "tuned", "--separate-sigma")
    assert result.exit_code == 0
    assert "141.198" in result.stdout
    assert "stretchratio" in result.stdout
    assert result.stderr == ""


def test_fit_agrees_with_the_estimator(sales: Path) -> None:
    result = call("fit", str(sales), "--target", "y", "--features", "b,a", "--symmetric", "--json")
    told = json.loads(result.stdout)
    data = make_mixed_regression(300, 2, snr=8, symmetric=True, groups=3, random_state=0)
    fit = MixedLinearRegression(2, symmetric=True, random_state=0).fit(data.X[:, ::-1], data.y)
    assert told["features"] == ["b", "a"]
    np.testing.assert_allclose([told["components"][0]["coef"][name] for name in "ba"], fit.coef_[0], rtol=1e-6)
    assert told["log_likelihood"] == pytest.approx(fit.log_likelihood_)
    assert told["bic"] == pytest.approx(fit.bic(data.X[:, ::-1], data.y))


def test_options_reach_the_estimator(sales: Path) -> None:
    result = call(
        "fit", str(sales), "--target", "y", "--groups", "who", "--weights", "times", "--no-intercept",
        "--equal-weights", "--separate-sigma", "--method", "em", "--start", "random", "--seed", "3", "--max-iter", "50",
        "--out", "m.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    fitted = MixedLinearRegression.load("m.json")
    assert (fitted.method, fitted.start, fitted.random_state, fitted.max_iter) == ("em", "random", 3, 50)
    assert not fitted.fit_intercept
    assert not fitted.shared_sigma
    np.testing.assert_allclose(fitted.weights_, 0.5)
    assert list(fitted.feature_names_in_) == ["a", "b"]


def test_columns_left_out_are_said_below_the_table(sales: Path) -> None:
    result = call("fit", str(sales), "--target", "y")
    assert "left out: who: 100 different texts in 300 rows (--categorical who takes them)" in result.stderr
    assert "place: the same in every row" in result.stderr
    assert "left out" not in result.stdout


def test_known_sigma_and_a_model_to_begin_from(sales: Path) -> None:
    assert call("fit", str(sales), "--target", "y", "--features", "a,b", "--out", "m.json").exit_code == 0
    result = call(
        "fit", str(sales), "--target", "y", "--features", "a,b", "--start", "m.json", "--sigma", "1", "--json"
    )
    assert [component["sigma"] for component in json.loads(result.stdout)["components"]] == [1.0, 1.0]


def test_auto_chooses_the_number_of_components(sales: Path) -> None:
    words = ("--components", "auto", "--max-components", "3", "--json")
    result = call("fit", str(sales), "--target", "y", "--features", "a,b", *words)
    assert len(json.loads(result.stdout)["components"]) == 2


def test_auto_counts_weights_as_rows_that_are_there_so_often(sales: Path) -> None:
    header, *lines = sales.read_text().splitlines()
    often = [line for line in lines for _ in range(int(line.split(",")[4]))]
    Path("often.csv").write_text("\n".join([header, *often]) + "\n")
    words = ("--target", "y", "--features", "a,b", "--components", "auto", "--max-components", "2", "--json")
    repeated = json.loads(call("fit", "often.csv", *words).stdout)
    for stream in ("--no-stream", "--stream"):
        result = call("fit", str(sales), *words, "--weights", "times", stream)
        assert result.exit_code == 0, result.stderr
        told = json.loads(result.stdout)
        assert told["choice"]["best"] == repeated["choice"]["best"] == 2
        best = str(told["choice"]["best"])
        assert told["choice"]["values"][best] == pytest.approx(repeated["choice"]["values"][best], rel=1e-5)
        assert told["bic"] == pytest.approx(told["choice"]["values"][best])


def test_fit_draws_the_picture_it_is_asked_for() -> None:
    result = call("fit", "tone", "--target", "tuned", "--plot", "fit.png")
    assert result.exit_code == 0
    assert Path("fit.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote fit.png" in result.stderr


def test_a_picture_that_has_no_axis_is_refused_before_the_fit() -> None:
    rows = "".join(f"{'abc'[i % 3]},{i * i % 17}\n" for i in range(60))
    Path("levels.csv").write_text("kind,y\n" + rows)
    result = call("fit", "levels.csv", "--target", "y", "--out", "m.json", "--plot", "fit.png")
    assert result.exit_code == 2
    assert "no numeric variable to draw along: leave out the picture" in result.stderr
    assert not Path("m.json").exists()


def test_predict_writes_means_and_with_the_target_whose_row_it_is() -> None:
    call("fit", "tone", "--target", "tuned", "--separate-sigma", "--out", "m.json")
    result = call("predict", "m.json", "tone", "--target", "tuned", "--out", "p.csv")
    assert result.exit_code == 0, result.stderr
    header, *lines = Path("p.csv").read_text().splitlines()
    assert header == "mean,component_1,component_2,responsibility_1,responsibility_2,assigned"
    values = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    tone, fit = load_tone(), MixedLinearRegression.load("m.json")
    means = tone.data @ fit.coef_.T + fit.intercept_
    np.testing.assert_allclose(values[:, 0], means @ fit.weights_)
    np.testing.assert_allclose(values[:, 1:3], means)
    np.testing.assert_allclose(values[:, 3:5].sum(axis=1), 1)
    np.testing.assert_array_equal(values[:, 5], values[:, 3:5].argmax(axis=1) + 1)


def test_predict_needs_no_target_and_goes_to_stdout() -> None:
    call("fit", "tone", "--target", "tuned", "--out", "m.json")
    result = call("predict", "m.json", "tone")
    assert result.stdout.startswith("mean,component_1,component_2\n")
    assert len(result.stdout.splitlines()) == 151


def test_select_tells_and_draws_the_criterion() -> None:
    words = ("select", "no", "--target", "Equivalence", "--separate-sigma", "--max-components", "3")
    told = json.loads(call(*words, "--json", "--plot", "bic.png", "--out", "best.json").stdout)
    assert told["best"] == 2
    assert set(told["values"]) == {"1", "2", "3"}
    assert Path("bic.png").exists()
    assert MixedLinearRegression.load("best.json").n_components == 2
    assert re.search(r"^2 .* 2 of 2 +best$", call(*words).stdout, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fit", "sales.csv", "--target", "z"), "has no column 'z' for --target; it has a, b, y, who, times, place"),
        (("fit", "sales.csv", "--target", "place"), "holds text ('town' in row 1): numbers are wanted there"),
        (("fit", "sales.csv", "--target", "y", "--features", "a,q"), "no column 'q' for --features"),
        (("fit", "sales.csv", "--target", "y", "--features", "a,y"), "column 'y' is the one of --target"),
        (("fit", "sales.csv", "--target", "y", "--features", "a,a"), "--features names 'a' twice"),
        (("fit", "nowhere.csv", "--target", "y"), "there is no file nowhere.csv"),
        (("fit", "sales.csv"), "say what to explain, by --target COLUMN"),
        (("fit", "sales.csv", "--target", "y", "--components", "two"), "(got 'two')"),
        (
            ("fit", "sales.csv", "--target", "y", "--components", "3", "--symmetric"),
            "--symmetric means two components (got --components 3)",
        ),
        (
            ("fit", "sales.csv", "--target", "y", "--method", "ols"),
            "'altmin' (got 'ols')",
        ),
        (("fit", "sales.csv", "--target", "y", "--sigma", "-1"), "sigma must be positive or None (got -1.0)"),
        (("fit", "sales.csv", "--target", "y", "--plot", "x.doc"), "x.doc does not end like a picture"),
        (("fit", "sales.csv", "--target", "y", "--start", "gone.json"), "there is no model file gone.json"),
        (("select", "sales.csv", "--target", "y", "--criterion", "r2"), "(got 'r2')"),
        (("predict", "sales.csv", "sales.csv"), "sales.csv is not a model file"),
        (("bench", "speed"), "there is no benchmark 'speed'; there are"),
        (("fti", "sales.csv"), "there is no command 'fti'; there are"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(sales: Path, words: tuple[str, ...], says: str) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_other_failures_are_one_line_and_exit_code_1(sales: Path) -> None:
    result = call("fit", str(sales), "--target", "y", "--out", "sales.csv/model.json")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = call("fit", "tone", "--target", "tuned")
    assert result.exit_code == 1
    assert result.stderr == "wmlr: reading CSV and Parquet needs pyarrow: pip install 'wmlr[io]'\n"


def test_only_debug_shows_the_traceback() -> None:
    done = program("fit", "nowhere.csv", "--target", "y", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert isinstance(call("--debug", "fit", "nowhere.csv", "--target", "y").exception, ValueError)


def test_a_pipe_gets_the_table_and_nothing_else() -> None:
    done = program("select", "tone", "--target", "tuned", "--max-components", "1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_a_pipe_that_closes_early_is_no_error(tmp_path: Path) -> None:
    rows = "\n".join(f"{1 + number / 9000}" for number in range(9000))
    (tmp_path / "long.csv").write_text(f"stretchratio\n{rows}\n")
    call("fit", "tone", "--target", "tuned", "--out", "m.json")
    pipe = f"{sys.executable} -m wmlr.cli predict m.json long.csv | head -n 1"
    done = subprocess.run(["sh", "-c", pipe], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "mean,component_1,component_2\n"
    assert done.stderr == ""


def test_a_terminal_is_shown_that_something_happens() -> None:
    printed, seen = run_on_terminal([sys.executable, "-m", "wmlr.cli", "fit", "tone", "--target", "tuned"])
    assert "fitting 150 rows" in seen
    assert b"fitting" not in printed


def test_ctrl_c_ends_with_130_one_line_and_no_file(tmp_path: Path) -> None:
    interrupted = (
        "import os, signal, sys, threading\n"
        "from wmlr.experiments import demo\n"
        "from wmlr.cli import main\n"
        "timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))\n"
        "compete = demo.compete\n"
        "demo.compete = lambda *one: (timer.ident or timer.start(), compete(*one))[1]\n"
        "sys.argv = ['wmlr', 'demo', '--out', 'demo']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", interrupted]
    environment = {**os.environ, "WMLR_KERNELS": "numpy"}  # the compiler's callbacks may swallow an interrupt
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 130
    assert done.stderr == "wmlr: stopped by Ctrl-C; no file was left half-written\n"
    assert not list(tmp_path.rglob("*"))


def test_demo_prints_its_table_and_writes_its_report() -> None:
    result = call("demo", "--out", "demo", *TINY)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[2:11]] == [one.label for one in demo.contenders(3, 2, 0)]
    assert "harsher than EM deserves" in result.stdout
    assert sorted(path.name for path in Path("demo").iterdir()) == ["convergence.png", "lines.png", "report.html"]
    page = Path("demo/report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "GEM as printed" in page
    assert 'src="http' not in page


def test_the_demo_follows_every_iteration_and_reports_all_its_steps() -> None:
    told: list[float] = []
    result = demo.run(n_samples=500, n_features=3, iterations=4, seed=1, watch=lambda label, by: told.append(by))
    assert sum(told) == demo.steps(4)
    for outcome in result.outcomes:
        assert len(outcome.errors) == outcome.iterations + 1
        assert outcome.rounds > outcome.iterations
    assert result.outcomes[0].error < 3 * result.outcomes[0].bound


@pytest.mark.parametrize("seed", range(5))
def test_the_demo_starts_know_nothing_of_the_truth(seed: int) -> None:
    data = make_mixed_regression(10, 128, snr=10, symmetric=True, random_state=seed)
    starts = [one.settings["start"] for one in demo.contenders(128, 100, seed) if "start" in one.settings]
    vectors = [start[0] for start in starts if not isinstance(start, str)]
    assert vectors
    for vector in vectors:
        assert abs(vector @ data.coef[0]) < 0.4 * np.linalg.norm(vector) * 10


def test_bench_prints_the_ratio_and_writes_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_suite.run
    monkeypatch.setattr(fit_suite, "run", lambda watch: whole(watch, 3000, 4))
    result = call("bench", "fit", "--out", "bench")
    assert result.exit_code == 0, result.stderr
    told = json.loads(Path("bench/fit.json").read_text())
    numbers = told["numbers"]
    assert (len(numbers["fit_seconds"]), len(numbers["pass_seconds"])) == (5, 20)
    assert numbers["ratio"] == pytest.approx(np.median(numbers["fit_seconds"]) / min(numbers["pass_seconds"]))
    assert f"{numbers['ratio']:.1f}" in result.stdout
    assert told["machine"]["wmlr"] == __version__


def test_every_suite_says_what_it_measures() -> None:
    for name in bench.suite_names():
        module = import_module(f"wmlr.bench.{name}")
        assert module.__doc__
        assert callable(module.run)


def test_the_readme_runs_and_is_the_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    script = (ROOT / "examples" / "quickstart.py").read_text().split('"""', 2)[2]
    assert block.group(1).strip() == script.strip()
    exec(compile(block.group(1), "README.md", "exec"), {})
    assert "141.198" in capsys.readouterr().out
    assert Path("tone.png").exists()


def test_a_formula_fits_selects_and_predicts(tmp_path):
    data = str(Path(__file__).parents[1] / "data" / "npreg.csv")
    model, picture = tmp_path / "model.json", tmp_path / "fit.png"
    formula = ["--formula", "yn ~ x + I(x**2)", "--groups", "id2"]
    fitted = call("fit", data, *formula, "--separate-sigma", "--out", str(model), "--plot", str(picture))
    assert fitted.exit_code == 0, fitted.output
    assert "-561.55" in fitted.stdout
    assert "I(x ** 2)" in fitted.stdout
    assert picture.stat().st_size > 10_000
    predicted = call("predict", str(model), data, "--target", "yn")
    assert predicted.exit_code == 0, predicted.output
    assert len(predicted.stdout.splitlines()) == 201
    chosen = call("select", data, *formula, "--max-components", "3", "--json")
    assert json.loads(chosen.stdout)["best"] == 2
    auto = call("fit", data, *formula, "--components", "auto", "--max-components", "3", "--json")
    assert len(json.loads(auto.stdout)["components"]) == 2


def test_predict_takes_the_target_through_the_formula(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=300)
    log_y = np.where(generator.random(300) < 0.6, 1, -1) * 2 * x + 0.2 * generator.normal(size=300)
    tables.write(tmp_path / "d.csv", {"x": x, "charges": np.exp(log_y), "other": x})
    model, rows = str(tmp_path / "m.json"), str(tmp_path / "d.csv")
    assert call("fit", rows, "--formula", "np.log(charges) ~ x", "--out", model).exit_code == 0
    fitted = MixedLinearRegression.load(model)
    labels = fitted.mixture_.responsibilities(x[:, None], log_y).argmax(axis=1) + 1
    for target in ("charges", "np.log(charges)"):
        for how in ((), ("--stream",)):
            out = tmp_path / "p.csv"
            found = call("predict", model, rows, "--target", target, "--out", str(out), *how)
            assert found.exit_code == 0, found.output
            np.testing.assert_array_equal(tables.read(out).column("assigned"), labels)
    refused = call("predict", model, rows, "--target", "other")
    assert refused.exit_code == 2
    assert "the model explains np.log(charges)" in refused.output
    assert "not --target other" in refused.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what to explain, by --target COLUMN or by --formula"),
        (["--target", "tuned", "--formula", "tuned ~ stretchratio"], "say what to explain"),
        (["--formula", "tuned ~ age"], "no column 'age'"),
        (["--formula", "tuned ~ stretchratio", "--no-intercept"], "write - 1 into it"),
        (["--target", "tuned", "--shared", "age"], "shared names a column that is not there"),
    ],
)
def test_formulas_that_cannot_be(options, message):
    result = call("fit", "tone", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_predict_knows_the_groups_of_the_fit(tmp_path: Path) -> None:
    data = make_mixed_regression(120, 1, snr=8, symmetric=True, groups=6, random_state=1)
    rows = "\n".join(f"{x:.6f},{y:.6f},{g}" for x, y, g in zip(data.X[:, 0], data.y, data.groups))
    (tmp_path / "known.csv").write_text(f"x,y,id\n{rows}\n")
    (tmp_path / "new.csv").write_text("x,id\n1.0,0\n1.0,999\n")
    call("fit", "known.csv", "--target", "y", "--groups", "id", "--features", "x", "--out", "g.json")
    lines = call("predict", "g.json", "new.csv", "--groups", "id").stdout.splitlines()[1:]
    seen, unseen = (tuple(map(float, line.split(","))) for line in lines)
    assert min(abs(seen[0] - seen[1]), abs(seen[0] - seen[2])) < 1e-3
    assert min(abs(unseen[0] - unseen[1]), abs(unseen[0] - unseen[2])) > 1e-2
    call("fit", "known.csv", "--target", "y", "--features", "x", "--out", "r.json")
    assert "fitted without groups" in call("predict", "r.json", "new.csv", "--groups", "id").stderr


def test_select_counts_weights(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("x,y,w\n" + "\n".join(f"{x},{x * x % 7},{1 + x % 2}" for x in range(60)) + "\n")
    words = ("select", "w.csv", "--target", "y", "--features", "x", "--max-components", "2", "--json")
    one, other = (json.loads(call(*words, *more).stdout) for more in (("--weights", "w"), ()))
    assert one["values"] != other["values"]
