"""The command line on an ordinary day: help, JSON, completion, places to write to, and files as people have them."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from wmlr.bench import fit as fit_suite
from wmlr.cli import _bars, _json, _places, app, command_names
from wmlr.datasets import make_mixed_regression

TABLELESS = ("agent", "report")


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def helped(name: str) -> str:
    """What --help says, without the boxes."""
    return " ".join(re.sub(r"[│╭╰╮╯─]", " ", call(name, "--help").stdout).split())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_says_what_arguments_are() -> None:
    assert "CSV or Parquet; tone, co2 and no are built in." in helped("fit")
    assert "FILE" in helped("fit")
    assert "A model that wmlr fit --out wrote." in helped("predict")
    assert "Which benchmark; all of them when left out." in helped("bench")


@pytest.mark.parametrize("name", [name for name in command_names() if name not in TABLELESS])
def test_every_command_with_a_table_prints_it_as_json_too(name: str) -> None:
    assert re.search(r"--json Print JSON in place of tables\.", helped(name))


@pytest.mark.parametrize("name", command_names())
def test_options_of_the_same_name_say_the_same_unless_they_do_another_thing(name: str) -> None:
    shared = {
        "--symmetric": "Two components, beta and -beta",
        "--seed": "seed",
        "--delimiter": "What separates a CSV's columns",
        "--report": "Write a page about the fit here",
        "--robust": "Bound the influence of gross outliers",
    }
    text = helped(name)
    for option, says in shared.items():
        if f" {option} " in text and (option, name) != ("--seed", "demo"):
            assert says in text


def test_json_has_null_for_what_is_no_number() -> None:
    assert json.loads(_json.text({"a": [1.5, float("nan")], 2: (float("-inf"), True, None)})) == {
        "a": [1.5, None],
        "2": [None, True, None],
    }


def test_predict_prints_a_list_with_an_object_for_each_row() -> None:
    call("fit", "tone", "--target", "tuned", "--out", "m.json")
    header, *lines = call("predict", "m.json", "tone", "--target", "tuned").stdout.splitlines()
    told = json.loads(call("predict", "m.json", "tone", "--target", "tuned", "--json").stdout)
    assert [list(row) for row in told] == [header.split(",")] * 150
    cells = [[float(cell) for cell in line.split(",")] for line in lines]
    np.testing.assert_array_equal([list(row.values()) for row in told], cells)
    both = call("predict", "m.json", "tone", "--json", "--out", "p.csv")
    assert both.exit_code == 2
    assert "--json prints, and --out writes" in both.stderr


def test_rows_that_come_in_blocks_are_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    with _json.json_list() as put:
        put({"a": np.array([1, 2]), "b": np.array([0.5, np.nan])})
        put({"a": np.array([3]), "b": np.array([1.5])})
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "b": 0.5}, {"a": 2, "b": None}, {"a": 3, "b": 1.5}]
    with _json.json_list():
        pass
    assert json.loads(capsys.readouterr().out) == []


def test_bench_demo_and_select_print_json(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_suite.run
    monkeypatch.setattr(fit_suite, "run", lambda watch: whole(watch, 3000, 4))
    told = json.loads(call("bench", "fit", "--json").stdout)
    assert [result["suite"] for result in told["results"]] == ["fit"]
    assert told["results"][0]["numbers"]["ratio"] > 0
    assert "processors" in told["machine"]
    told = json.loads(call("demo", "--rows", "400", "--features", "3", "--iterations", "2", "--json").stdout)
    assert {"method", "iterations", "rounds", "relative_error", "bound", "paper"} <= set(told["methods"][0])
    assert len(told["methods"]) == 9
    told = json.loads(call("select", "tone", "--target", "tuned", "--max-components", "2", "--json").stdout)
    assert (told["file"], told["target"], told["criterion"]) == ("tone", "tuned", "bic")


def test_reproduce_prints_tables_and_numbers_as_json() -> None:
    result = call("reproduce", "figure1", "--quick", "--out", "again", "--jobs", "1", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    found = told["targets"]["figure1"]
    assert told["complete"]
    assert found["numbers"] == json.loads(Path("again/figure1.json").read_text())
    assert all(set(table) == {"title", "columns", "rows", "note"} for table in found["tables"])


def test_select_takes_the_options_of_fit() -> None:
    words = ("select", "tone", "--target", "tuned", "--max-components", "2", "--json")
    plain = json.loads(call(*words).stdout)["values"]
    for more in (("--robust",), ("--alpha", "5"), ("--solver", "gda", "--max-iter", "5")):
        result = call(*words, *more)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["values"] != plain


def test_files_as_people_have_them_are_read_or_said() -> None:
    data = make_mixed_regression(60, 1, snr=8, random_state=0)
    lines = [f"{x:.4f};{y:.4f};a{number % 3}" for number, (x, y) in enumerate(zip(data.X[:, 0], data.y))]
    Path("semi.csv").write_text("\ufeff" + "\n".join(["x;y;who", *lines]) + "\n")
    Path("semi.tsv").write_text(Path("semi.csv").read_text().replace(";", "\t"))
    for words in (("fit",), ("select", "--max-components", "2"), ("simulate", "--agent-column", "who")):
        told = [json.loads(call(*words, name, "--target", "y", "--json").stdout) for name in ("semi.csv", "semi.tsv")]
        assert {**told[0], "file": ""} == {**told[1], "file": ""}
    Path("comma.csv").write_text(Path("semi.csv").read_text().replace(".", ","))
    Path("same.csv").write_text("x,y\n1,3\n2,3\n4,3\n")
    Path("book.xlsx").write_bytes(b"PK\x03\x04")
    for name, says in (
        ("comma.csv", "has decimal commas"),
        ("same.csv", "column 'y' of same.csv is 3 in every row: --target must be one that varies"),
        ("book.xlsx", "is a workbook: save the sheet as CSV"),
    ):
        result = call("fit", name, "--target", "y")
        assert result.exit_code == 2
        assert says in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("fit", "tone", "--target", "tuned", "--out", "there"), 2, "there is a folder: name a file in it"),
        (("fit", "tone", "--target", "tuned", "--plot", "there"), 2, "there is a folder: name a file in it"),
        (("fit", "tone", "--target", "tuned", "--out", "f/m.json"), 1, "not a directory: "),
        (("fit", "tone", "--target", "tuned", "--report", "f/m.html"), 1, "(it is a file: name a folder)"),
        (("select", "tone", "--target", "tuned", "--out", "there"), 2, "there is a folder"),
        (("predict", "m.json", "tone", "--out", "there"), 2, "there is a folder"),
        (("demo", "--out", "f"), 2, "f is a file: name a folder"),
        (("bench", "fit", "--out", "f"), 2, "f is a file: name a folder"),
        (("reproduce", "table1", "--out", "f/g"), 1, "not a directory: "),
    ],
)
def test_a_place_that_cannot_be_written_to_is_said_before_the_work(
    words: tuple[str, ...], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("there").mkdir()
    Path("f").write_text("")
    monkeypatch.setattr("wmlr.io.tables.read", lambda *file: pytest.fail("the data were read"))
    monkeypatch.setattr("wmlr.experiments.demo.run", lambda **how: pytest.fail("the demo ran"))
    result = call(*words)
    assert result.exit_code == code, result.stderr
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_folder_without_permission_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_places.os, "access", lambda path, mode: False)
    result = call("fit", "tone", "--target", "tuned", "--out", "m.json")
    assert result.exit_code == 1
    assert re.fullmatch(
        r"wmlr: permission denied: \S+ \(name another place, or change its permissions\)\n", result.stderr
    )


def test_a_folder_that_is_not_there_is_said_and_not_made() -> None:
    result = call("fit", "tone", "--target", "tuned", "--out", "new/folder/m.json")
    assert result.exit_code == 2
    assert "there is no folder new/folder for m.json: make it first, by mkdir -p new/folder" in result.stderr
    assert not Path("new").exists()


@pytest.mark.parametrize("total", [20, None])
def test_a_bar_says_how_much_longer_where_the_whole_is_known(total: int | None) -> None:
    clock = iter(range(1000))
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    bar = _bars.bar_on(console)
    bar.get_time = lambda: float(next(clock))
    task = bar.add_task("counting", total=total)
    for _ in range(5):
        bar.update(task, advance=1)
    console.print(bar.get_renderable())
    assert (" left" in console.export_text()) == (total is not None)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("wmlr fi", "fit"), ("wmlr fit --sepa", "--separate-sigma"), ("wmlr simulate --js", "--json")],
)
def test_the_shell_completes_commands_and_options(typed: str, completed: str) -> None:
    environment = {**os.environ, "_WMLR_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    environment["COMP_CWORD"] = str(len(typed.split()) - 1)
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'wmlr'; from wmlr.cli import main; main()"]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert completed in done.stdout.split()


LONG = {
    "fit": ("fit", "rows.csv", "--target", "y", "--components", "4", "--method", "gem", "--max-iter", "1000000",
            "--out", "m.json", "--report", "r.html", "--plot", "p.png"),
    "simulate": ("simulate", "rows.csv", "--target", "y", "--agent-column", "who", "--method", "gem", "--components",
                 "4", "--max-iter", "1000000", "--participation", "0.5", "--out", "m.json",
                 "--report", "r.html"),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_in_a_long_run_ends_with_130_and_no_file(name: str, tmp_path: Path) -> None:
    data = make_mixed_regression(8_000, 8, 4, snr=1, groups=100, random_state=0)
    columns = [*data.X.T, data.y, data.groups]
    np.savetxt("rows.csv", np.column_stack(columns), delimiter=",", comments="", header="a,b,c,d,e,f,g,h,y,who")
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "wmlr.cli", *LONG[name]]
    environment = {**os.environ, "TERM": "xterm"}
    running = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while b"fitting" not in seen and b"iteration" not in seen:
            seen += os.read(ours, 4096)
        time.sleep(0.5)
        assert running.poll() is None, seen.decode()
        running.send_signal(signal.SIGINT)
        while running.poll() is None:
            seen += _rest(ours)
        seen += _rest(ours)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    assert running.returncode == 130, seen.decode()
    assert b"stopped by Ctrl-C; no file was left half-written" in seen
    assert b"Traceback" not in seen
    assert running.stdout is not None
    assert running.stdout.read() == b""
    assert [path.name for path in tmp_path.rglob("*")] == ["rows.csv"]


def _rest(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is gone
        return b""


def test_two_words_for_what_to_explain_are_told_apart_from_none() -> None:
    both = call("fit", "tone", "--target", "tuned", "--formula", "tuned ~ stretchratio")
    assert "--target and --formula both say what to explain: leave one of them out" in both.output
    assert "say what to explain, by --target COLUMN or by --formula 'y ~ x'" in call("fit", "tone").output


def test_a_dash_is_no_place_to_write_to(elsewhere: Path) -> None:
    found = call("fit", "tone", "--target", "tuned", "--out", "-")
    assert found.exit_code == 2
    assert "- would be a file of that name: name another, or leave the option out" in found.output
    assert list(elsewhere.iterdir()) == []


def test_a_file_read_in_blocks_says_levels_and_target_as_one_in_memory(elsewhere: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.4f},{rng.normal():.4f},{city}" for city in rng.choice(["Lima", "Oslo", "Rome"], 90)]
    Path("cities.csv").write_text("\n".join(["y,x,city", *lines]))
    whole, stream = (
        call("fit", "cities.csv", "--target", "y", "-k", "1", "--out", "m.json", *how) for how in ((), ("--stream",))
    )
    assert "as levels: city (against Lima)" in whole.stderr
    assert "as levels: city (against Lima)" in stream.stderr
    assert json.loads(Path("m.json").read_text())["target"] == "y"


def test_json_has_the_standard_errors_and_intervals_of_the_table() -> None:
    found = json.loads(call("fit", "tone", "--target", "tuned", "--separate-sigma", "--json").stdout)
    printed = call("fit", "tone", "--target", "tuned", "--separate-sigma").stdout
    first = found["estimates"][0]
    line = next(line for line in printed.splitlines() if line.startswith("stretchratio")).split()
    wanted = [first[name] for name in ("estimate", "error", "lower", "upper")]
    assert [float(line[place]) for place in (1, 2, 5, 6)] == pytest.approx(wanted, abs=6e-5)
    assert [one["component"] for one in found["estimates"]] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert found["level"] == 0.95
