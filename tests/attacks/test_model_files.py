"""Nothing in a model file is run, whatever is written into it, by whichever way the file is read."""

from __future__ import annotations

import builtins
import copy
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hand_edits import MODELS, edits
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.features.transformers import Described
from wmlr.formulas.formula import ModelFormula
from wmlr.options.model import start_from

SENTINEL = "WMLR_ATTACK_RAN"
TOUCH = "open('SENTINEL_FILE','w')"
SYSTEM = "np.lib._utils_impl.os.system('touch SENTINEL_FILE')"
FORMULAS = {
    "a call inside Q while parsing": f"Q({SYSTEM}) ~ .",
    "a call on the left": f"{SYSTEM} ~ x",
    "a call on the right": f"y ~ I({SYSTEM})",
    "backticks inside quotes": f"y ~ I(x + 0*len('`') + 0*{TOUCH}.write('`'))",
    "backticks around code": "y ~ `__import__('os').system('touch SENTINEL_FILE')`(x)",
    "import": "y ~ I(__import__('os').system('touch SENTINEL_FILE'))",
    "eval": "y ~ eval('x')",
    "a lambda": f"y ~ I((lambda: {TOUCH})())",
    "a comprehension": f"y ~ I([{TOUCH} for x in x])",
    "an attribute of a column": "y ~ I(x.__class__.__mro__)",
    "a method of a column": "y ~ I(x.to_csv('SENTINEL_FILE'))",
    "a function of numpy that writes": "y ~ np.save('SENTINEL_FILE', x)",
    "numpy's loader": "y ~ np.load('x', allow_pickle=True)",
    "numpy's f2py": "y ~ np.f2py.compile(x)",
    "a walrus": f"y ~ I((z := {TOUCH}))",
    "a format string": "y ~ I(f'{" + TOUCH + "}')",
    "hashed by a function": f"y ~ hashed(x, 3, hash_func={TOUCH})",
    "contrasts by a function": f"y ~ C(kind, contr.custom({TOUCH}))",
    "a subscript": f"y ~ I(x[{TOUCH}])",
    "braces": f"y ~ {{{TOUCH}}}",
    "behind the bar": f"y ~ x | {TOUCH}",
    "a semicolon": f"y ~ x; {TOUCH}",
    "a tower of powers": "y ~ I(x+0*(9**9**9%7))",
    "a text three thousand million times": "y ~ C('a'*3000000000)",
    "a shift": "y ~ I(1 << 99999999999)",
    "a deep nest": "y ~ " + "I(" * 3000 + "x" + ")" * 3000,
}


@pytest.fixture
def sentinel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file and a hook that tell of anything run: a process, an open for writing, an evaluated text."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "SENTINEL_FILE"


@pytest.fixture
def watched(sentinel: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was evaluated, compiled or started while a file was read."""
    seen: list[str] = []

    def spied(name: str, real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            code = given[0] if given else ""
            if name in ("os.system", "Popen") or "SENTINEL" in str(code):
                seen.append(f"{name} {str(code)[:80]}")
            return real(*given, **named)

        return call

    monkeypatch.setattr(builtins, "eval", spied("eval", eval))
    monkeypatch.setattr(builtins, "exec", spied("exec", exec))
    monkeypatch.setattr(builtins, "compile", spied("compile", compile))
    monkeypatch.setattr(os, "system", spied("os.system", os.system))
    monkeypatch.setattr(subprocess, "Popen", spied("Popen", subprocess.Popen))
    return seen


def content_of(name: str, version: int) -> dict[str, Any]:
    """A model file of the first format, or the same in the present one."""
    content: dict[str, Any] = json.loads((MODELS / f"{name}.json").read_text())
    if version == 2 and "formula" in content:
        content["formula"] = ModelFormula.from_plain(content["formula"]).to_plain()
        content["format"] = "wmlr-model-2"
    return content


def everywhere(path: Path) -> list[tuple[str, Any]]:
    """Every way in which a model file is read; each must refuse this one in one line."""
    rows, page = str(MODELS / "rows.csv"), str(path.parent / "page.html")
    command = CliRunner()

    def call(*words: str) -> str:
        result = command.invoke(app, list(words))
        assert result.exit_code == 2, (words, result.output, result.exception)
        lines = result.output.strip().splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    def refusal(read: Any, *given: Any) -> str:
        with pytest.raises(ValueError) as refused:
            read(*given)
        return str(refused.value)

    return [
        ("load", refusal(MixedLinearRegression.load, path)),
        ("server --start", refusal(start_from, str(path))),
        ("predict", call("predict", str(path), rows)),
        ("report", call("report", str(path), rows, "--out", page)),
        ("report --stream", call("report", str(path), rows, "--out", page, "--stream")),
        ("fit --start", call("fit", rows, "--target", "y", "--start", str(path))),
    ]


def refused_everywhere(content: dict[str, Any], sentinel: Path, watched: list[str]) -> None:
    path = sentinel.parent / "model.json"
    path.write_text(json.dumps(content))
    begun = time.perf_counter()
    for way, said in everywhere(path):
        assert said, way
        assert "\n" not in said
    assert not sentinel.exists()
    assert watched == []
    assert time.perf_counter() - begun < 20
    assert sorted(one.name for one in sentinel.parent.iterdir()) == ["model.json"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("attack", FORMULAS)
def test_a_formula_in_a_file_is_never_evaluated(attack: str, version: int, sentinel: Path, watched: list[str]) -> None:
    content = content_of("formula_plain", version)
    content["formula"]["text"] = FORMULAS[attack]
    refused_everywhere(content, sentinel, watched)


def test_towers_of_powers_are_floating_point_and_take_no_time(sentinel: Path) -> None:
    content = content_of("formula_plain", 1)
    given = content["formula"]
    given["levels"]["pairs"][1][0] = given["names"][1] = content["feature_names_in"][1] = "I(x + 0 * 9 ** 9 ** 9)"
    path = sentinel.parent / "model.json"
    path.write_text(json.dumps(content))
    begun = time.perf_counter()
    with pytest.raises(ValueError, match="contains NaN"):
        MixedLinearRegression.load(path).predict(pd.read_csv(MODELS / "rows.csv"))
    assert time.perf_counter() - begun < 5


def test_names_that_are_products_in_a_thousand_million_ways_take_no_time(sentinel: Path, watched: list[str]) -> None:
    """Columns called a, a:a, a:a:a and so on, and a name of many a's that is the product of none of them."""
    for count in (40, 5000):
        content = content_of("formula_plain", 1)
        given, columns = content["formula"], [":".join("a" * parts) for parts in range(1, 8)]
        given["columns"] = [*given["columns"], *columns]
        given["levels"] = {"pairs": [[name, ["numerical", []]] for name in ("x", *columns)]}
        given["names"] = content["feature_names_in"] = ["x", ":".join("a" * count) + ":z"]
        refused_everywhere(content, sentinel, watched)


FACTORS = {name: text.partition("~")[2].strip() for name, text in FORMULAS.items() if text.startswith("y ~ ")}


@pytest.mark.parametrize("attack", FACTORS)
def test_a_factor_in_a_file_of_the_first_format_is_never_evaluated(
    attack: str, sentinel: Path, watched: list[str]
) -> None:
    """The text stays harmless; the code is in what the names, levels and states say was fitted."""
    for kind in ("numerical", "categorical"):
        content = content_of("formula_plain", 1)
        given = content["formula"]
        factor = FACTORS[attack]
        levels = {"pairs": [["x", ["numerical", []]], [factor, [kind, [0, 1]]]]}
        given["levels"], given["names"] = levels, ["x", factor if kind == "numerical" else f"{factor}[T.1]"]
        given["columns"] = [*given["columns"], "x"]
        if factor.startswith("x"):
            continue
        refused_everywhere(content, sentinel, watched)


def test_the_state_of_a_transform_is_numbers_or_refused(sentinel: Path, watched: list[str]) -> None:
    for state in ({"center": SYSTEM}, {"center": {"array": [TOUCH], "dtype": "O"}}, {"center": [[1]]}, {}, TOUCH, None):
        content = content_of("formula_states", 1)
        packed = {"pairs": [[key, value] for key, value in state.items()]} if isinstance(state, dict) else state
        content["formula"]["transforms"] = {"pairs": [["center(z)", packed]]}
        refused_everywhere(content, sentinel, watched)


NODES: dict[str, Any] = {
    "a function of numpy that writes": {"type": "function", "function": "save", "of": {"type": "column", "name": "x"}},
    "a private function": {"type": "function", "function": "__class__", "of": {"type": "column", "name": "x"}},
    "an unknown kind": {"type": "python", "code": TOUCH},
    "an operator that is none": {
        "type": "operator", "operator": "<<", "left": {"type": "number", "number": 1},
        "right": {"type": "number", "number": 9**12},
    },
    "a text for a number": {"type": "number", "number": TOUCH},
    "nothing": None,
    "a spline of degree -5": "spline -5",
    "a spline of degree 10**9": "spline big",
}  # fmt: skip


@pytest.mark.parametrize("attack", NODES)
def test_a_design_in_a_file_holds_words_of_the_closed_list_only(
    attack: str, sentinel: Path, watched: list[str]
) -> None:
    for side in ("right", "left"):
        content = content_of("formula_plain", 2)
        node = copy.deepcopy(NODES[attack])
        factor: Any = {"type": "numeric", "of": node}
        if isinstance(node, str):
            knots = [0.0, 0.0, 1.0, 2.0, 3.0, 3.0]
            degree = -5 if node.endswith("5") else 10**9
            factor = {
                "type": "spline", "of": {"type": "column", "name": "x"}, "knots": knots, "degree": degree,
                "lower": 0.0, "upper": 3.0,
            }  # fmt: skip
        if side == "right":
            content["formula"]["right"]["factors"][0] = factor
        else:
            content["formula"]["left"] = factor
        refused_everywhere(content, sentinel, watched)


def step(content: dict[str, Any], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = content["features"]["structure"]["transformer"]["settings"]["steps"][place]["tuple"][1]
    return found


def scaler(content: dict[str, Any]) -> dict[str, Any]:
    return step(content, 0)


def spline(content: dict[str, Any]) -> dict[str, Any]:
    return step(content, 1)


TRANSFORMERS: dict[str, Any] = {
    "another class": lambda c: scaler(c).update({"class": "os.system"}),
    "a class of scikit-learn outside the list": lambda c: scaler(c).update({"class": "GridSearchCV"}),
    "a class by its path": lambda c: scaler(c).update({"class": "sklearn.externals.os.system"}),
    "a cache of pickles": lambda c: c["features"]["structure"]["transformer"]["settings"].update(
        memory="SENTINEL_FILE"
    ),
    "a method overwritten": lambda c: scaler(c)["fitted"].update(transform={"ufunc": "exp"}),
    "a private method overwritten": lambda c: scaler(c)["fitted"].update(_validate_params=1),
    "the class overwritten": lambda c: scaler(c)["fitted"].update(__class__=1),
    "the dictionary overwritten": lambda c: scaler(c)["fitted"].update(__dict__={"pairs": []}),
    "a function that writes": lambda c: scaler(c)["settings"].update(with_mean={"ufunc": "save"}),
    "a function that is no function": lambda c: scaler(c)["settings"].update(with_mean={"ufunc": "lib"}),
    "an unknown kind": lambda c: scaler(c)["settings"].update(with_mean={"pickle": "gASV"}),
    "an array of objects": lambda c: c["features"]["arrays"].__setitem__(0, {"array": [TOUCH], "dtype": "O"}),
    "a type of twenty million letters": lambda c: c["features"]["arrays"][0].update(dtype="<U20000000"),
    "a type with fields": lambda c: c["features"]["arrays"][0].update(dtype="f8,O"),
    "a spline of degree -5": lambda c: splines(c)[0]["spline"].__setitem__(2, -5),
    "a spline of degree 10**9": lambda c: splines(c)[0]["spline"].__setitem__(2, 10**9),
    "a spline without knots": lambda c: splines(c)[0]["spline"].__setitem__(0, []),
    "splines of ten thousand million columns": lambda c: spline(c)["fitted"].update(n_features_out_=10**10),
    "a degree of sixty": lambda c: spline(c)["settings"].update(degree=60),
    "a label of twenty thousand letters": lambda c: scaler(c)["settings"].update(with_mean="a" * 20_000),
    "a mean that is not finite": lambda c: c["features"]["arrays"][0]["array"].__setitem__(0, float("nan")),
    "an array from the end": lambda c: scaler(c)["fitted"].update(mean_={"array": -1}),
}


def splines(content: dict[str, Any]) -> list[Any]:
    found: list[Any] = spline(content)["fitted"]["bsplines_"]
    return found


@pytest.mark.parametrize("attack", TRANSFORMERS)
def test_a_transformer_in_a_file_comes_back_through_its_own_checks_or_not_at_all(
    attack: str, sentinel: Path, watched: list[str]
) -> None:
    content = content_of("features_splines", 1)
    TRANSFORMERS[attack](content)
    refused_everywhere(content, sentinel, watched)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("columns", lambda c: _columns(c).update(verbose_feature_names_out="{feature_name:>99999999999}")),
        ("columns", lambda c: _inner(c, 1)["settings"].update(kw_args={"pairs": [["out", {"array": 0}]]})),
        ("columns", lambda c: _inner(c, 1)["settings"].update(func={"ufunc": "frompyfunc"})),
        ("columns", lambda c: _inner(c, 0)["settings"].update(degree=30)),
        ("columns", lambda c: _inner(c, 0)["fitted"].update(n_features_in_=10**9)),
    ],
)
def test_columns_in_a_file_stay_within_bounds(name: str, change: Any, sentinel: Path, watched: list[str]) -> None:
    content = content_of(f"features_{name}", 1)
    change(content)
    refused_everywhere(content, sentinel, watched)


def _columns(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["features"]["structure"]["transformer"]["settings"]
    return found


def _inner(content: dict[str, Any], place: int) -> dict[str, Any]:
    fitted = content["features"]["structure"]["transformer"]["fitted"]["transformers_"]
    found: dict[str, Any] = fitted[place]["tuple"][1]
    return found


JSON = {
    "no object": "[]",
    "nothing": "",
    "a deep nest": "[" * 100_000,
    "a deep object": '{"format": "wmlr-model-2", "parameters": ' + '{"a":' * 50_000,
    "a pickle": "\x80\x04\x95",
    "a number of a million digits": '{"format": "wmlr-model-2", "n_iter": ' + "9" * 1_000_000 + "}",
    "another format": '{"format": "pickle"}',
}


@pytest.mark.parametrize("attack", JSON)
def test_what_is_no_model_is_said_to_be_none(attack: str, sentinel: Path, watched: list[str]) -> None:
    path = sentinel.parent / "model.json"
    path.write_text(JSON[attack], encoding="latin-1")
    for _, said in everywhere(path):
        assert "is not a model" in said or "is damaged" in said
    assert watched == []


def test_a_pipe_in_place_of_a_model_is_refused_and_not_waited_for(sentinel: Path) -> None:
    pipe = sentinel.parent / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is not a regular file"):
        MixedLinearRegression.load(pipe)


def test_a_message_to_an_agent_is_read_by_the_same_checks(sentinel: Path) -> None:
    for attack in TRANSFORMERS:
        content = content_of("features_splines", 1)
        TRANSFORMERS[attack](content)
        with pytest.raises(ValueError):
            Described.from_plain(content["features"]).transformer  # noqa: B018
    assert not sentinel.exists()


def test_the_watch_would_see_code_that_runs(sentinel: Path, watched: list[str]) -> None:
    """The promise of the README would not be kept quietly broken: the old way of reading is caught by the watch."""
    import formulaic

    text = f"Q({SYSTEM}) ~ ."
    with pytest.raises(Exception):  # noqa: B017
        formulaic.Formula.from_spec(text, context={"__formulaic_variables_available__": ["x"]}).get_model_matrix(
            pd.DataFrame({"x": [1.0]})
        )
    assert sentinel.exists() or watched


def test_code_that_a_user_types_is_fitted_and_refused_at_saving(sentinel: Path) -> None:
    rows = pd.read_csv(MODELS / "rows.csv")
    fit = MixedLinearRegression.from_formula("y ~ np.nan_to_num(x) + z", rows, 1)
    with pytest.raises(ValueError, match=r"can be fitted but cannot be saved.*put what it computes into a column"):
        fit.save(sentinel.parent / "m.json")


@pytest.mark.parametrize("name", [path.stem for path in sorted(MODELS.glob("*.json")) if path.stem != "expected"])
def test_models_of_the_first_format_predict_as_they_did(name: str, tmp_path: Path) -> None:
    expected = json.loads((MODELS / "expected.json").read_text())[name]
    rows = pd.read_csv(MODELS / "rows.csv")
    old = MixedLinearRegression.load(MODELS / f"{name}.json")
    old.save(tmp_path / "again.json")
    for model in (old, MixedLinearRegression.load(tmp_path / "again.json")):
        by_formula = hasattr(model, "formula_")
        X = rows if by_formula else rows[["x", "z"]] if name == "robust" else rows[["x", "z", "my col"]].to_numpy()
        y = None if by_formula else rows["y"].to_numpy()
        np.testing.assert_allclose(model.predict_components(X), expected["means"], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(model.responsibilities(X, y), expected["shares"], rtol=1e-8, atol=1e-12)


def test_a_thousand_hand_edits_load_right_or_are_refused_in_one_line(tmp_path: Path) -> None:
    found = edits(1000, 20, tmp_path)
    assert {said: times for said, times in found.items() if said not in ("right", "refused")} == {}
    assert found["right"] > 50
    assert found["refused"] > 500


def test_reading_a_model_imports_no_formulaic(tmp_path: Path) -> None:
    """Where formulaic is not there at all, a model by a formula still predicts."""
    code = (
        "import sys; sys.modules['formulaic'] = None\n"
        "import pandas, wmlr\n"
        f"model = wmlr.MixedLinearRegression.load({str(MODELS / 'formula_curves.json')!r})\n"
        f"print(len(model.predict(pandas.read_csv({str(MODELS / 'rows.csv')!r}))))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "24"


def test_every_line_of_the_table_of_threats_names_a_test_that_is_here() -> None:
    folder = Path(__file__).parent
    page = (folder.parent.parent / "docs" / "security.md").read_text(encoding="utf-8")
    there = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in folder.glob("test_*.py"))))
    tables = [table for table in page.split("\n\n") if table.startswith("| threat")]
    lines = [line for table in tables for line in table.splitlines()[2:]]
    assert len(lines) > 20
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line.rpartition("| ")[2])
        assert named, line
        assert set(named) <= there, line
    unnamed = there - set(re.findall(r"`(test_\w+)`", "".join(lines)))
    assert unnamed == {"test_every_line_of_the_table_of_threats_names_a_test_that_is_here"}
