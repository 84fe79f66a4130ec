"""Rows, files and places that are not what they should be: a right answer, or one clear line."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.engines import ParquetRows
from wmlr.features.transformers import Described
from wmlr.federated.checkpoint import _read_rounds
from wmlr.federated.privacy.budget import Budget
from wmlr.inference import component_test
from wmlr.io import tables
from wmlr.io.files import atomic_write

ESCAPE = "\x1b[31mred\x1b]0;owned\x07"
METHODS: list[dict[str, Any]] = [
    {}, {"method": "em"}, {"method": "gem"}, {"symmetric": True}, {"robust": True}, {"shared_sigma": False},
    {"solver": "gda"},
]  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 2))
    return X, np.where(generator.random(300) < 0.6, 1, -1) * (X @ [2.0, 1.0]) + 0.3 * generator.normal(size=300)


@pytest.fixture(scope="module")
def fit(rows: tuple[Any, Any]) -> Any:
    return MixedLinearRegression(2, random_state=0).fit(*rows)


def call(*words: str) -> Any:
    return CliRunner().invoke(__import__("wmlr.cli", fromlist=["app"]).app, list(words))


def refused(*words: str) -> str:
    """The one line that a command ends with."""
    result = call(*words)
    assert result.exit_code in (1, 2), result.output
    lines = result.output.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("wmlr: ")
    return str(lines[0])


@pytest.mark.parametrize("settings", METHODS, ids=str)
@pytest.mark.parametrize(("x_unit", "y_unit"), [(1, 1e160), (1, 1e-170), (1e160, 1), (1e-170, 1), (1, 1e300)])
def test_numbers_whose_products_leave_floating_point_are_refused(
    rows: tuple[Any, Any], settings: dict[str, Any], x_unit: float, y_unit: float
) -> None:
    X, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="leave the range of floating point: change its unit"):
            MixedLinearRegression(2, random_state=0, **settings).fit(X * x_unit, y * y_unit)


@pytest.mark.parametrize(("x_unit", "y_unit"), [(1, 1e60), (1, 1e-60), (1e60, 1), (1e-60, 1), (1e60, 1e60)])
def test_units_that_floating_point_can_bear_change_nothing(
    rows: tuple[Any, Any], fit: Any, x_unit: float, y_unit: float
) -> None:
    X, y = rows
    scaled = MixedLinearRegression(2, random_state=0).fit(X * x_unit, y * y_unit)
    np.testing.assert_allclose(scaled.coef_ * (x_unit / y_unit), fit.coef_, rtol=1e-5)
    np.testing.assert_allclose(scaled.responsibilities(X * x_unit, y * y_unit), fit.responsibilities(X, y), atol=1e-5)


def test_a_row_far_out_belongs_to_the_line_on_its_side(rows: tuple[Any, Any], fit: Any) -> None:
    X = rows[0][:2]
    far = np.array([1e160, -1e160])
    shares = fit.responsibilities(X, far)
    nearest = np.where(far > 0, fit.predict_components(X).argmax(axis=1), fit.predict_components(X).argmin(axis=1))
    np.testing.assert_array_equal(shares, np.eye(2)[nearest])
    np.testing.assert_allclose(fit.responsibilities(X, far / 1e152), np.eye(2)[nearest], atol=1e-12)
    np.testing.assert_array_equal(fit.predict_density(X, far), [0, 0])
    assert fit.score(X, far) == -np.inf
    grouped = fit.responsibilities(X, far, groups=[0, 0])
    np.testing.assert_allclose(grouped.sum(axis=1), 1)


def test_student_noise_bears_a_row_far_out(rows: tuple[Any, Any]) -> None:
    robust = MixedLinearRegression(2, robust=True, random_state=0).fit(*rows)
    shares = robust.responsibilities(rows[0][:2], [1e160, 1e200])
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-6)
    np.testing.assert_allclose(shares[0], robust.weights_, atol=1e-6)


def test_a_prediction_that_is_no_number_is_an_error(fit: Any) -> None:
    with pytest.raises(ValueError, match="line of component 1 leaves the range of floating point in row 1"):
        fit.predict([[0.0, 0.0], [1.7e308, 1.7e308]])


@pytest.mark.parametrize("copy", [True, False])
def test_a_transformer_does_not_write_into_the_rows(rows: tuple[Any, Any], copy: bool) -> None:
    X, y = rows
    given = X.copy()
    phi = make_pipeline(StandardScaler(copy=copy), PolynomialFeatures(2, include_bias=False))
    model = MixedLinearRegression(2, features=phi, random_state=0).fit(given, y)
    model.predict(given)
    model.responsibilities(given, y)
    Described.of(model.features_).transform(given)
    np.testing.assert_array_equal(given, X)
    assert phi.steps[0][1].copy is copy


class Overwriting(TransformerMixin, BaseEstimator):
    """A transformer that takes the rows for its own."""

    def fit(self, X: Any, y: Any = None) -> Overwriting:
        return self

    def transform(self, X: Any) -> Any:
        X *= 0.0
        return X


def test_a_transformer_that_would_overwrite_rows_is_stopped(rows: tuple[Any, Any]) -> None:
    X, y = rows
    given = X.copy()
    with pytest.raises(ValueError, match="read-only"):
        MixedLinearRegression(2, features=Overwriting()).fit(given, y)
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize("place", ["X", "y", "sample_weight", "groups"])
def test_masked_entries_are_refused(rows: tuple[Any, Any], place: str) -> None:
    X, y = rows
    given = {"X": X, "y": y, "sample_weight": np.ones(300), "groups": np.arange(300) // 3}
    mask = np.zeros(given[place].shape, dtype=bool)
    mask[7] = True
    masked = given | {place: np.ma.masked_array(given[place], mask)}
    with pytest.raises(ValueError, match=f"{place} is masked in row 7"):
        MixedLinearRegression(2, random_state=0).fit(**masked)
    unmasked = given | {place: np.ma.masked_array(given[place])}
    MixedLinearRegression(2, random_state=0).fit(**unmasked)


def test_masked_entries_are_refused_in_predictions(rows: tuple[Any, Any], fit: Any) -> None:
    X, y = rows
    with pytest.raises(ValueError, match="X is masked in row 0, column 0"):
        fit.predict(np.ma.masked_array(X, np.ones_like(X, dtype=bool)))
    with pytest.raises(ValueError, match="y is masked in row 0"):
        fit.responsibilities(X, np.ma.masked_array(y, np.ones_like(y, dtype=bool)))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([None, *range(299)], dtype=object), "no label in row 0"),
        (np.array(["a", float("nan"), *["b"] * 298], dtype=object), "no label in row 1"),
        (np.array(["a", *range(299)], dtype=object), r"labels of different types \('a' in row 0, 0 in row 1\)"),
    ],
)
def test_groups_without_an_order_are_refused(rows: tuple[Any, Any], fit: Any, labels: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression(2, random_state=0).fit(*rows, groups=labels)
    with pytest.raises(ValueError, match=said):
        fit.responsibilities(*rows, groups=labels)


def test_columns_of_the_same_name_are_refused(rows: tuple[Any, Any]) -> None:
    X, y = rows
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        MixedLinearRegression(2).fit(pd.DataFrame(X, columns=["a", "a"]), y)
    both = pd.DataFrame(np.column_stack([X, y]), columns=["a", "a", "y"])
    with pytest.raises(ValueError, match="2 columns named 'a'"):
        MixedLinearRegression.from_formula("y ~ a", both)


@pytest.mark.parametrize("settings", METHODS, ids=str)
def test_two_rows_of_positive_weight_are_two_rows(rows: tuple[Any, Any], settings: dict[str, Any]) -> None:
    X, y = rows
    weight = np.zeros(300)
    weight[:2] = 1
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = MixedLinearRegression(2, random_state=0, **settings).fit(X, y, sample_weight=weight)
    assert len(said) <= 4
    assert len({str(one.message) for one in said}) == len(said)
    assert np.all(np.isfinite(model.predict(X)))
    weight[1] = 0
    with pytest.raises(ValueError, match="got 1 of 300 rows of positive weight"):
        MixedLinearRegression(2, **settings).fit(X, y, sample_weight=weight)


def test_many_starts_say_the_same_once() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 1))
    X = np.column_stack([x, x, x])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        MixedLinearRegression(4, n_init=5, random_state=0, shared_sigma=False).fit(X, np.round(x[:, 0]))
    assert 0 < len(said) <= 6
    assert len({str(one.message) for one in said}) == len(said)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "tone", "--target", "tuned", "--out", "place.json"),
        ("fit", "tone", "--target", "tuned", "--plot", "place.png"),
        ("fit", "tone", "--target", "tuned", "--report", "place.html"),
        ("predict", "model.json", "tone", "--out", "place.csv"),
    ],
)
def test_only_regular_files_are_written_over(folder: Path, words: tuple[str, ...]) -> None:
    MixedLinearRegression(2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 0.0, 3.0]).save("model.json")
    place = folder / words[-1]
    os.mkfifo(place)
    assert "is not a regular file" in refused(*words)
    assert place.is_fifo()
    place.unlink()
    place.symlink_to("/dev/full")
    assert "is not a regular file" in refused(*words)
    assert place.is_symlink()
    place.unlink()
    assert "there is no folder" in refused(*words[:-1], f"new/{words[-1]}")
    assert not (folder / "new").exists()


def test_a_model_is_not_saved_over_a_device(folder: Path, fit: Any) -> None:
    place = folder / "device.json"
    place.symlink_to("/dev/full")
    with pytest.raises(ValueError, match="is not a regular file"):
        fit.save(place)
    with pytest.raises(ValueError, match="is not a regular file"):
        tables.write(place, {"x": np.ones(3)})
    assert place.is_symlink()


def test_a_disk_that_is_full_is_one_line_and_leaves_no_file(folder: Path) -> None:
    """The limit on the size of a file stands for the disk: a write stops half-way, in a process of its own."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    words = ["fit", "tone", "--target", "tuned", "--search", "quick", "--out", "m.json"]
    done = subprocess.run(
        [sys.executable, "-m", "wmlr.cli", *words], capture_output=True, text=True, preexec_fn=limit, env=_environment()
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        "wmlr: file too large: m.json (files may not grow so large here: name another place)"
    ]
    assert list(folder.iterdir()) == []
    full = subprocess.run(
        f"{sys.executable} -m wmlr.cli fit tone --target tuned --search quick > /dev/full",
        shell=True, stderr=subprocess.PIPE, text=True, env=_environment(),
    )  # fmt: skip
    assert full.returncode == 1
    assert len(full.stderr.strip().splitlines()) == 1
    assert "no space left on device" in full.stderr


def _environment() -> dict[str, str]:
    return os.environ | {"WMLR_KERNELS": "numpy", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("how", [(), ("--stream",)])
def test_a_pipe_and_lines_without_feeds_are_one_line(folder: Path, how: tuple[str, ...]) -> None:
    os.mkfifo("pipe.csv")
    assert "is a pipe or a device" in refused("fit", "pipe.csv", "--target", "y", *how)
    Path("old.csv").write_bytes(b"x,y\r1,2\r2,3\r3,5\r4,4\r")
    assert "its lines end in carriage returns alone" in refused("fit", "old.csv", "--target", "y", *how)


def test_a_pipe_among_the_files_of_a_folder_is_one_line(folder: Path) -> None:
    Path("rows", "more.parquet").mkdir(parents=True)
    for place in ("rows/a.parquet", "rows/more.parquet/b.parquet"):
        pd.DataFrame({"x": range(30), "y": range(30)}).to_parquet(place)
    assert ParquetRows("rows", "y").n_rows == 60
    os.mkfifo("rows/c.parquet")
    assert "rows/c.parquet is a pipe or a device" in refused("fit", "rows", "--target", "y")


@pytest.mark.parametrize(
    ("name", "level"),
    [("y", 'no") + np.run() + ("'), ("y", "no\\"), ("a` + np.run() + `b", "no"), ("y", "no"), ("the answer", "no")],
)
def test_what_is_proposed_to_be_typed_is_no_code_of_the_files(folder: Path, name: str, level: str) -> None:
    """A formula that is typed may call anything: what an error proposes was made of the file's own words."""
    pd.DataFrame({"x": range(9), name: ["a", level, level] * 3}).to_csv("answers.csv", index=False)
    said = refused("fit", "answers.csv", "--target", name)
    assert "write it as numbers or name another column" in said
    assert ("--formula" in said) == (level == "no" and "`" not in name)
    assert "np.run" not in said.partition("--formula")[2]


def test_what_is_proposed_to_a_shell_quotes_names_of_files(folder: Path) -> None:
    name = "rows; touch made; .csv"
    for data in (b"x,y\r1,2\r2,3\r3,5\r", "größe,y\n1,2\n".encode("latin-1")):
        Path(name).write_bytes(data)
        said = refused("fit", name, "--target", "y")
        assert name in shlex.split(said.partition("for example by ")[2])


def test_what_is_proposed_to_a_shell_quotes_the_target_of_a_model(folder: Path) -> None:
    name = "y'; touch made; '"
    pd.DataFrame({"x": range(30), name: range(30)}).to_csv("rows.csv", index=False)
    assert call("fit", "rows.csv", "--target", name, "--components", "1", "--out", "m.json").exit_code == 0
    said = refused("predict", "m.json", "rows.csv", "--target", "x")
    assert name in shlex.split(said.partition("write --target ")[2].partition(", or rename")[0])


@pytest.mark.parametrize("how", [(), ("--stream",)])
def test_two_hundred_thousand_columns_are_one_line(folder: Path, how: tuple[str, ...]) -> None:
    names = ",".join(f"c{place}" for place in range(200_000))
    Path("wide.csv").write_text(f"{names}\n" + "\n".join(",".join(["0.5"] * 200_000) for _ in range(3)))
    assert "has 200,000 columns, and at most 50,000 are read" in refused("fit", "wide.csv", "--target", "c0", *how)


def test_a_column_with_a_name_of_millions_of_signs_is_a_line_that_can_be_read(folder: Path) -> None:
    Path("long.csv").write_text(f"{'a' * 2_000_000},b,y\n1,2,3\n")
    said = refused("fit", "long.csv", "--target", "nothing")
    assert len(said) < 30_000
    assert "more signs" in said


def test_a_table_wider_than_a_block_is_read(folder: Path) -> None:
    generator = np.random.default_rng(0)
    columns = {f"column_with_a_long_name_{place:05d}": generator.normal(size=4).round(3) for place in range(3000)}
    tables.write(Path("wide.csv"), columns)
    read = tables.read("wide.csv")
    assert len(read.names) == 3000
    assert len(read) == 4


def test_names_with_escape_codes_are_printed_by_their_numbers(folder: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=80)
    y, other = np.where(x > 0, 1, -2) * x, generator.normal(size=80)
    tables.write(Path("d.csv"), {ESCAPE: x, "y": y, "\u202eleft": other})
    done = call("fit", "d.csv", "--target", "y", "--out", "m.json", "--report", "r.html")
    assert done.exit_code == 0, done.output
    for said in (
        done.output,
        call("fit", "d.csv", "--target", "nothing").output,
        call("select", "d.csv", "--target", "y").output,
        str(MixedLinearRegression.load("m.json").summary()),
        str(MixedLinearRegression.load("m.json").confidence_intervals(np.column_stack([x, other]), y)),
        call("fit", "d.csv", "--formula", f"y ~ `{ESCAPE}`").output,
    ):
        assert said
        assert not set("\x1b\x07\u202e") & set(said)
    assert "\\x1b[31mred\\x1b]0;owned\\x07" in done.output


def test_agents_with_escape_codes_for_names_are_printed_by_their_numbers(folder: Path) -> None:
    """What agents are called comes out of a column, and is said of those that are left out or move the fit."""
    generator = np.random.default_rng(0)
    x, agent = generator.normal(size=240), np.arange(240) % 6
    y = generator.choice([-1.0, 1.0], 240) * (2.0 * x + 0.1 * generator.normal(size=240))
    names = np.array([f"{ESCAPE}{number}" for number in agent])
    tables.write(Path("d.csv"), {"x": x, "y": np.where(agent == 3, 1000.0 * y, y), "shop": names})
    words = ("--target", "y", "--agent-column", "shop", "--symmetric", "--trust", "majority")
    done = call("simulate", "d.csv", *words, "--report", "r.html")
    assert done.exit_code == 0, done.output
    assert "\\x1b[31mred\\x1b]0;owned\\x073" in done.output
    assert not set("\x1b\x07") & set(done.output + Path("r.html").read_text())


READERS: dict[str, Any] = {
    "a checkpoint of rounds": lambda path: _read_rounds(path, {}),
    "a budget": Budget.read,
    "a checkpoint of a test": lambda path: component_test._read(path, {}, 0),
    "a checkpoint of a network": lambda path: pytest.importorskip("wmlr.neural.checkpoint")._read_file(path, "state"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_place_of_what_a_run_left_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "left")
    with pytest.raises(ValueError, match="is not a regular file"):
        READERS[name](tmp_path / "left")


def test_a_checkpoint_that_unfolds_is_not_unfolded(tmp_path: Path) -> None:
    """Zeros that were compressed: a megabyte would become a gigabyte."""
    read = pytest.importorskip("wmlr.neural.checkpoint")._read_file
    np.savez_compressed(tmp_path / "state.npz", json=np.zeros(10**7, dtype=np.uint8))
    with pytest.raises(ValueError, match="compressed"):
        read(tmp_path / "state.npz", "state")


def test_nobody_knows_beforehand_where_a_file_is_written_first(tmp_path: Path) -> None:
    """A link that lies there would lead the writing elsewhere."""
    seen = set()
    for _ in range(3):
        with atomic_write(tmp_path / "model.json") as part:
            seen.add(part.name)
            part.write_text("{}")
    assert len(seen) == 3
