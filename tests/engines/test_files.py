"""Rows in files: the same fits as in memory, in bounded memory, and every way a file can disappoint is one line."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from longer import long
from terminal import run_on_terminal
from wmlr import GDA, MixedLinearRegression
from wmlr.bench import files as files_suite
from wmlr.cli import _stream, app
from wmlr.core.query import Query
from wmlr.core.round import Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows, CsvRows, NpyRows, ParquetRows
from wmlr.engines.arrow import open_source
from wmlr.engines.formulas import FormulaRows
from wmlr.engines.streamed import AHEAD, StreamedRows, in_order
from wmlr.io import tables
from wmlr.statistics.moments import Moments

N, D = 3000, 4
FEATURES = [f"x{j}" for j in range(D)]
GROUP = 6


class Data:
    """The same rows as arrays and in every kind of file."""

    def __init__(self, folder: Path, n_components: int, symmetric: bool) -> None:
        drawn = make_mixed_regression(
            N, D, n_components, snr=5, symmetric=symmetric, groups=GROUP, random_state=n_components
        )
        self.folder, self.X, self.y, self.groups = folder, drawn.X, drawn.y, drawn.groups
        self.weight = np.arange(N) % 3.0
        self.settings = {"n_components": n_components, "symmetric": symmetric, "search": "quick", "random_state": 0}
        self.known: dict[tuple[bool, bool], MixedLinearRegression] = {}
        folder.mkdir()
        matrix = np.column_stack([self.y, self.X, self.weight, self.groups])
        np.save(folder / "rows.npy", matrix)
        labels = [f"g{code}" for code in self.groups]
        columns = dict(zip(FEATURES, self.X.T)) | {"y": self.y, "w": self.weight, "g": labels}
        self.table = pa.table(columns)
        pyarrow.parquet.write_table(self.table, folder / "rows.parquet", row_group_size=700)
        pyarrow.csv.write_csv(self.table, folder / "rows.csv")

    def rows(self, kind: str, weight: bool = False, groups: bool = False, **options: Any) -> StreamedRows[Any]:
        if kind == "npy":
            taken = {"weight": D + 1 if weight else None, "groups": D + 2 if groups else None}
            return NpyRows(self.folder / "rows.npy", 0, range(1, D + 1), **taken, **options)
        named = {"weight": "w" if weight else None, "groups": "g" if groups else None}
        engine = ParquetRows if kind == "parquet" else CsvRows
        return engine(self.folder / f"rows.{kind}", "y", FEATURES, **named, **options)

    def model(self, **settings: Any) -> MixedLinearRegression:
        return MixedLinearRegression(**self.settings | settings)

    def in_memory(self, weight: bool = False, groups: bool = False) -> MixedLinearRegression:
        if (weight, groups) not in self.known:
            given = (self.weight if weight else None, self.groups if groups else None)
            self.known[weight, groups] = self.model().fit(self.X, self.y, *given)
        return self.known[weight, groups]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(tmp_path_factory.mktemp("files") / "pair", 2, symmetric=True)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(tmp_path_factory.mktemp("files") / "three", 3, symmetric=False)


@pytest.fixture
def copy(pair: Data, tmp_path: Path) -> Path:
    """A folder with the pair's files, to spoil."""
    shutil.copytree(pair.folder, tmp_path / "copy")
    return tmp_path / "copy"


def same(one: MixedLinearRegression, other: MixedLinearRegression) -> None:
    for name in ("coef_", "intercept_", "weights_", "sigma_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    assert one.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-11)
    assert abs(one.n_iter_ - other.n_iter_) <= 1  # the last one may be worth a rounding error


KINDS = ["npy", "parquet", "csv"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("weight", "groups", "block_rows"),
    [(False, False, None), (False, False, 501), (True, False, 1200), (False, True, 77), (True, True, 501)],
)
def test_a_fit_from_a_file_is_the_fit_in_memory(
    pair: Data, three: Data, kind: str, weight: bool, groups: bool, block_rows: int | None
) -> None:
    for data in (pair, three):
        rows = data.rows(kind, weight, groups, block_rows=block_rows)
        same(data.model().fit_on(rows), data.in_memory(weight, groups))
        assert rows.n_rows == N
        assert rows.n_groups == (N // GROUP if groups else None)


@pytest.mark.parametrize("n", [600, 6000])
def test_a_search_in_a_file_is_that_in_memory_and_reads_it_seldom(tmp_path: Path, n: int) -> None:
    generator = np.random.default_rng(n)
    X = generator.standard_normal((n, 3))
    y = np.abs(X[:, 0]) + 0.5 * generator.standard_t(3, size=n)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    model = MixedLinearRegression(3, shared_sigma=False, random_state=0)
    rows = NpyRows(tmp_path / "rows.npy", 3, block_rows=211, n_jobs=1)
    found, there = model.fit_on(rows), MixedLinearRegression(3, shared_sigma=False, random_state=0, n_jobs=1).fit(X, y)
    same(found, there)
    assert (found.search_.steps, found.search_.searches) == (there.search_.steps, there.search_.searches)
    assert rows.passes < 60


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("npy", {"method": "em"}),
        ("parquet", {"method": "gem", "max_iter": 10}),
        ("npy", {"solver": "gda", "max_iter": 10}),
        ("parquet", {"solver": GDA(expectation="frozen"), "max_iter": 10}),
        ("npy", {"solver": "reduction", "symmetric": False, "equal_weights": True}),
        ("parquet", {"symmetric": False, "shared_sigma": False, "n_init": 3}),
        ("npy", {"symmetric": False, "robust": True}),
        ("parquet", {"symmetric": False, "alpha": 2.0, "shared": [1]}),
        ("npy", {"symmetric": False, "start": "random", "n_init": 2}),
    ],
)
def test_every_method_runs_on_files_as_it_is(pair: Data, kind: str, settings: dict[str, Any]) -> None:
    rows = pair.rows(kind, block_rows=700)
    same(pair.model(**settings).fit_on(rows), pair.model(**settings).fit(pair.X, pair.y))


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing_at_all(three: Data, kind: str) -> None:
    fits = [three.model().fit_on(three.rows(kind, groups=True, n_jobs=jobs, block_rows=250)) for jobs in (1, 3)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].log_likelihood_ == fits[1].log_likelihood_


def test_floats_of_32_bits_stay_what_they_are(pair: Data, tmp_path: Path) -> None:
    X = pair.X.astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", pair.y)
    pyarrow.parquet.write_table(pa.table(dict(zip(FEATURES, X.T.copy())) | {"y": pair.y}), tmp_path / "f.parquet")
    wanted = pair.model().fit(X, pair.y)
    for rows in (NpyRows(tmp_path / "X.npy", tmp_path / "y.npy"), ParquetRows(tmp_path / "f.parquet", "y")):
        assert rows.rows(next(iter(rows.pieces()))).X.dtype == np.float32
        fit = pair.model().fit_on(rows)
        np.testing.assert_allclose(fit.coef_, wanted.coef_, rtol=1e-6)
    assert rows.nbytes == X.nbytes


@pytest.mark.parametrize(
    "changed",
    [
        lambda X: np.asfortranarray(X),
        lambda X: X.astype(">f8"),
        lambda X: np.round(X * 100).astype(np.int32),
    ],
    ids=["by columns", "big-endian", "integers"],
)
def test_matrices_of_every_layout_and_type_are_read(pair: Data, tmp_path: Path, changed: Callable[[Any], Any]) -> None:
    matrix = changed(np.column_stack([pair.X[:, :2], pair.y, pair.X[:, 2:], pair.groups]))
    np.save(tmp_path / "m.npy", matrix)
    plain = matrix.astype(np.float64)
    rows = NpyRows(tmp_path / "m.npy", 2, [0, 1, 3, 4], groups=-1, block_rows=333)
    same(pair.model().fit_on(rows), pair.model().fit(plain[:, [0, 1, 3, 4]], plain[:, 2], groups=pair.groups))


def test_all_columns_without_another_part_are_features(pair: Data) -> None:
    assert NpyRows(pair.folder / "rows.npy", 0).n_features == D + 2
    rows = ParquetRows(pair.folder / "rows.parquet", "y", weight="w")
    assert rows.feature_names == FEATURES
    assert rows.left_out == ["g ('g0' in row 1)"]


def test_a_folder_of_parquet_files_is_one_table(three: Data, tmp_path: Path) -> None:
    for number, first in enumerate(range(0, N, 1100)):
        path = tmp_path / "parts" / f"year={number}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(three.table.slice(first, 1100), path)
    rows = ParquetRows(tmp_path / "parts", "y", FEATURES, groups="g", block_rows=400)
    same(three.model().fit_on(rows), three.in_memory(groups=True))
    pyarrow.parquet.write_table(three.table.drop_columns(["x1"]), tmp_path / "parts" / "z.parquet")
    with pytest.raises(ValueError, match=r"no column 'x1', which .*part-0.parquet has"):
        ParquetRows(tmp_path / "parts", "y")


def test_csv_may_be_compressed_or_separated_otherwise(pair: Data, tmp_path: Path) -> None:
    text = (pair.folder / "rows.csv").read_text()
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "semi.csv").write_text(text.replace(",", ";"))
    wanted = pair.in_memory()
    same(pair.model().fit_on(CsvRows(tmp_path / "rows.csv.gz", "y", FEATURES)), wanted)
    same(pair.model().fit_on(CsvRows(tmp_path / "semi.csv", "y", FEATURES, delimiter=";")), wanted)
    same(pair.model().fit_on(CsvRows(tmp_path / "semi.csv", "y", FEATURES)), wanted)
    for read in (lambda path: CsvRows(path, "y", delimiter=","), lambda path: tables.read(path, tables.CsvFormat(","))):
        with pytest.raises(ValueError, match="seems to be separated by ';', so set delimiter=';'"):
            read(tmp_path / "semi.csv")


def test_whole_numbers_at_first_may_be_fractions_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlr.engines.arrow.CSV_BYTES", 2**14)
    lines = [f"{number},{number % 7}" for number in range(20_000)]
    lines[-1] = "0.5,nine"
    (tmp_path / "late.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    with pytest.raises(ValueError, match=r"column 'y' of .* holds text \('nine' in row 20000\)"):
        CsvRows(tmp_path / "late.csv", "y").total(Moments())
    lines[-1] = "0.5,9.25"
    (tmp_path / "late.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    sums = CsvRows(tmp_path / "late.csv", "y").total(Moments())
    assert float(sums["y"]) == pytest.approx(sum(number % 7 for number in range(19_999)) + 9.25)


def test_a_default_fit_takes_few_passes(pair: Data, three: Data) -> None:
    for data, most in ((pair, 24), (three, 40)):  # so few rows are searched all, and a step of the search is a pass
        rows = data.rows("npy")
        fit = data.model(search="auto").fit_on(rows)
        assert rows.passes <= most
        assert fit.history_[-1]["passes"] <= rows.passes


def test_a_sample_is_gathered_in_one_pass_and_then_held(three: Data) -> None:
    here = ArrayRows(three.X, three.y, groups=three.groups)
    rows = three.rows("parquet", groups=True, block_rows=300)
    rows.total(Moments())
    for share, passes in ((0.05, 2), (0.1, 2), (0.2, 2), (0.02, 2), (0.5, 3)):
        query = Sampled(Moments(), share, seed=5)
        found, wanted = rows.total(query), here.total(query)
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
        assert rows.passes == passes


def test_queries_together_share_a_pass_and_samples_need_none(pair: Data) -> None:
    here, rows = ArrayRows(pair.X, pair.y), pair.rows("npy")
    query = Together((Sampled(Moments(), 0.1, 1), Moments(), Sampled(Moments(), 0.2, 2), Sampled(Moments(), 1.0)))
    for passes in (1, 2):
        found, wanted = rows.total(query), here.total(query)
        assert set(found) == set(wanted)
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)
        assert rows.passes == passes
    rows.total(Together((Sampled(Moments(), 0.1, 1), Sampled(Moments(), 0.2, 2))))
    assert rows.passes == 2


def test_a_sample_without_room_is_asked_of_the_rows(pair: Data) -> None:
    here, rows = ArrayRows(pair.X, pair.y), pair.rows("npy", memory=1000, block_rows=20)
    query = Sampled(Moments(), 0.02, 1)
    for passes in (1, 2):
        found, wanted = rows.total(query), here.total(query)
        np.testing.assert_allclose(found["gram"], wanted["gram"], rtol=1e-12)
        assert rows.passes == passes
    assert len(rows._samples) == 0


def test_samples_together_keep_to_the_memory(pair: Data) -> None:
    rows = pair.rows("npy", memory=pair.X.nbytes // 2)
    for seed in range(12):
        rows.total(Sampled(Moments(), 0.15, seed))
        assert rows._samples.nbytes < 0.6 * pair.X.nbytes
    assert len(rows._samples) > 1


def test_progress_tells_every_block_of_every_pass(pair: Data) -> None:
    told: list[tuple[int, int | None, int]] = []
    rows = pair.rows("csv", block_rows=1000, progress=lambda *now: told.append(now))
    rows.total(Moments())
    rows.total(Moments())
    assert told == [(1000, None, 1), (2000, None, 1), (3000, None, 1), (1000, N, 2), (2000, N, 2), (3000, N, 2)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_are_answered_in_order_and_few_at_a_time(threads: int) -> None:
    alive, most, lock = [0], [0], threading.Lock()

    def pieces() -> Iterator[int]:
        for number in range(40):
            with lock:
                alive[0] += 1
                most[0] = max(most[0], alive[0])
            yield number

    def answer(number: int) -> int:
        threading.Event().wait(0.0005 * (number % 3))
        with lock:
            alive[0] -= 1
        return number

    assert list(in_order(pieces(), answer, threads)) == list(range(40))
    assert most[0] <= threads + AHEAD


def test_an_error_in_a_thread_ends_the_pass(pair: Data) -> None:
    class Broken(Query):
        def answer(self, rows: Any) -> Any:
            if rows.index[0] >= 1000:
                raise ZeroDivisionError("no")
            return {"count": np.array(1.0)}

    rows = pair.rows("npy", block_rows=250)
    with pytest.raises(ZeroDivisionError):
        rows.total(Broken())
    assert float(rows.total(Moments())["rows"]) == N


def spoil(path: Path, how: str) -> None:
    if how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "longer":
        with path.open("ab") as file:
            file.write(b"1,2,3,4,5,6,7\n")
    elif how == "touched":
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["cut", "longer", "touched", "gone"])
@pytest.mark.parametrize("when", [(1, 500), (2, N)])
def test_a_file_that_changes_is_an_error_that_names_it(
    pair: Data, copy: Path, kind: str, how: str, when: tuple[int, int]
) -> None:
    path = copy / f"rows.{kind}"

    def progress(done: int, rows: int | None, number: int) -> None:
        if (number, done) == when:
            spoil(path, how)

    target: Any = 0 if kind == "npy" else "y"
    rows = {"npy": NpyRows, "parquet": ParquetRows, "csv": CsvRows}[kind](
        path, target, block_rows=250, progress=progress
    )
    with pytest.raises(ValueError, match=rf"rows\.{kind} (changed while it was in use|is gone)"):
        pair.model(max_iter=3).fit_on(rows)
    assert rows.passes <= 2


@pytest.mark.parametrize(
    ("kind", "says"),
    [("npy", "cannot be read as .npy: it is shorter than its header says"), ("parquet", "cannot be read as Parquet")],
)
def test_a_file_cut_short_is_refused_at_once(copy: Path, kind: str, says: str) -> None:
    spoil(copy / f"rows.{kind}", "cut")
    with pytest.raises(ValueError, match=says):
        _ = NpyRows(copy / "rows.npy", 0) if kind == "npy" else ParquetRows(copy / "rows.parquet", "y")


def spoiled(pair: Data, folder: Path, column: str, row: int, value: float) -> None:
    """All three files with one entry changed."""
    place = [*FEATURES, "y", "w"].index(column)
    values = pair.table[column].to_numpy().copy()
    values[row] = value
    table = pair.table.set_column(place, column, pa.array(values))
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    matrix = np.load(folder / "rows.npy")
    matrix[row, {"y": 0, "w": D + 1}.get(column, 1 + place)] = value
    np.save(folder / "rows.npy", matrix)


@pytest.mark.parametrize(
    ("column", "row", "value", "npy", "named"),
    [
        ("x2", 2345, np.nan, r"contains NaN \(row 2345, column 3\)", "column 'x2' of .* has no number in row 2346"),
        (
            "x0",
            1,
            -np.inf,
            r"contains infinity \(row 1, column 1\)",
            "column 'x0' of .* has an infinite number in row 2",
        ),
        ("y", 2999, np.nan, r"contains NaN \(row 2999, column 0\)", "column 'y' of .* has no number in row 3000"),
        ("w", 1234, -2.0, r"the negative weight -2.0 \(row 1234, column 5\)", "'w' of .* the weight -2.0 in row 1235"),
    ],
)
def test_numbers_that_no_fit_can_take_are_named_with_their_place(
    pair: Data, copy: Path, column: str, row: int, value: float, npy: str, named: str
) -> None:
    spoiled(pair, copy, column, row, value)
    numbers = range(1, D + 1)
    with pytest.raises(ValueError, match=npy):
        NpyRows(copy / "rows.npy", 0, numbers, weight=D + 1, block_rows=100).total(Moments())
    for engine, path in ((ParquetRows, "rows.parquet"), (CsvRows, "rows.csv")):
        with pytest.raises(ValueError, match=named):
            engine(copy / path, "y", FEATURES, weight="w", block_rows=100).total(Moments())


def test_weights_that_are_all_zero_leave_nothing_to_fit(copy: Path) -> None:
    np.save(copy / "w.npy", np.zeros(N))
    with pytest.raises(ValueError, match=r"weights in .* are zero for every row"):
        NpyRows(copy / "rows.npy", 0, weight=copy / "w.npy").total(Moments())


@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_are_apart_are_to_be_sorted(pair: Data, copy: Path, kind: str) -> None:
    order = np.arange(N)
    order[[10, 2000]] = order[[2000, 10]]
    np.save(copy / "rows.npy", np.load(copy / "rows.npy")[order])
    table = pair.table.take(order)
    pyarrow.parquet.write_table(table, copy / "rows.parquet")
    pyarrow.csv.write_csv(table, copy / "rows.csv")
    moved = Data.rows(_at(copy), kind, groups=True, block_rows=300)
    first, again = (6, 11) if kind == "npy" else (7, 12)
    with pytest.raises(ValueError, match=rf"begins in row {first} and goes on in row {again}\): sort the file"):
        moved.total(Moments())


def _at(folder: Path) -> Data:
    data = Data.__new__(Data)
    data.folder = folder
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_longer_than_a_block_is_not_split_and_one_too_long_is_refused(pair: Data, kind: str) -> None:
    rows = pair.rows(kind, groups=True, block_rows=4)
    assert all(len(rows.rows(piece)) % GROUP == 0 for piece in rows.pieces())
    with pytest.raises(ValueError, match=r"takes more than\s+memory=100 bytes, and a group is never split"):
        pair.rows(kind, groups=True, block_rows=4, memory=100).total(Moments())


def test_labels_may_not_be_missing(pair: Data, copy: Path) -> None:
    matrix = np.load(copy / "rows.npy")
    matrix[777, D + 2] = np.nan
    np.save(copy / "rows.npy", matrix)
    with pytest.raises(ValueError, match="no label in row 777"):
        NpyRows(copy / "rows.npy", 0, groups=D + 2, block_rows=100).total(Moments())
    labels = pair.table["g"].to_pylist()
    labels[777] = None
    table = pair.table.drop_columns(["g"]).append_column("g", pa.array(labels))
    pyarrow.parquet.write_table(table, copy / "rows.parquet")
    with pytest.raises(ValueError, match=r"column 'g' of .* has no label in row 778"):
        ParquetRows(copy / "rows.parquet", "y", groups="g", block_rows=100).total(Moments())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": "z"}, "has no column 'z' for target; it has x0, x1"),
        ({"target": "g"}, r"column 'g' of .* holds text \('g0' in row 1\)"),
        ({"target": "y", "features": ["x0", "q"]}, "has no column 'q' for features"),
        ({"target": "y", "features": ["x0", "g"]}, "column 'g' of .* holds text"),
        ({"target": "y", "features": ["x0", "x0"]}, "features names 'x0' twice"),
        ({"target": "y", "features": ["y"]}, "column 'y' is the one of target"),
        ({"target": "y", "weight": "v"}, "has no column 'v' for weight"),
        ({"target": "y", "groups": "v"}, "has no column 'v' for groups"),
    ],
)
def test_columns_that_cannot_be_are_refused_before_any_pass(pair: Data, options: dict[str, Any], says: str) -> None:
    for engine, name in ((ParquetRows, "rows.parquet"), (CsvRows, "rows.csv")):
        with pytest.raises(ValueError, match=says):
            engine(pair.folder / name, **options)


def test_arrays_that_cannot_be_are_refused(pair: Data, tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.zeros(7))
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    (tmp_path / "rubbish.npy").write_bytes(bytes(range(256)))
    rows = pair.folder / "rows.npy"
    cases: list[tuple[Any, Any, str]] = [
        (rows, tmp_path / "short.npy", "has 7 rows and .* has 3,000"),
        (rows, 99, "has no column 99 for y; it has 0 to 6"),
        (rows, tmp_path / "nowhere.npy", "there is no file"),
        (tmp_path / "cube.npy", 0, r"must hold a matrix with a row per observation \(got shape \(2, 2, 2\)\)"),
        (tmp_path / "short.npy", 0, "must hold a matrix"),
        (tmp_path / "empty.npy", 0, "has no rows"),
        (tmp_path / "text.npy", 0, "must hold real numbers"),
        (tmp_path / "objects.npy", 0, "or holds objects"),
        (tmp_path / "rubbish.npy", 0, "it is no such file"),
        (tmp_path / "two.npz", 0, "holds several arrays"),
        (rows, rows, r"must hold one column \(got shape"),
    ]
    for X, y, says in cases:
        with pytest.raises(ValueError, match=says):
            NpyRows(X, y)
    with pytest.raises(ValueError, match=r"column 0 of .* is y: leave it out"):
        NpyRows(rows, 0, [0, 1])
    with pytest.raises(ValueError, match="names column 1 twice"):
        NpyRows(rows, 0, [1, 1])


def test_npy_files_need_no_arrow_and_parquet_says_what_it_needs(pair: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert pair.model().fit_on(pair.rows("npy")).converged_
    with pytest.raises(tables.MissingExtraError, match=r"pip install 'wmlr\[io\]'"):
        pair.rows("parquet")


MEASURE = """
import sys
import numpy as np
import pandas as pd
from wmlr import MixedLinearRegression
from wmlr.engines import NpyRows, ParquetRows

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))

def fit(path):
    of = {"block_rows": 16384}
    rows = NpyRows(path, -1, **of) if path.endswith(".npy") else ParquetRows(path, "y", **of)
    MixedLinearRegression(symmetric=True, random_state=0).fit_on(rows)
    return rows

small, large = sys.argv[1:]
fit(small)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = memory("VmRSS")
rows = fit(large)
print(rows.passes, before, memory("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("ending", [long("npy"), "parquet"])
def test_memory_stays_bounded_however_large_the_file(tmp_path: Path, ending: str) -> None:
    n, d = 50_000, 64
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    y = X @ generator.standard_normal(d) * generator.choice([-1, 1], n) + generator.standard_normal(n)
    small, large = (tmp_path / f"{name}.{ending}" for name in ("small", "large"))
    for path, count in ((small, 3), (large, 12)):
        if ending == "npy":
            whole = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(count * n, d + 1))
            whole.reshape(count, n, d + 1)[:] = np.column_stack([X, y])
            del whole
        else:
            table = pa.table({f"x{j}": X[:, j] for j in range(d)} | {"y": y})
            with pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=False, compression="none") as writer:
                for _ in range(count):
                    writer.write_table(table)
    command = [sys.executable, "-c", MEASURE, str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    passes, _, grown = (float(word) for word in done.stdout.split())
    assert passes >= 3
    assert grown < 175 < 0.6 * large.stat().st_size / 2**20  # a loaded machine frees blocks later: 169 was seen


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


@pytest.mark.parametrize(
    "options",
    [
        ("--target", "y", "--features", "x0,x1,x2"),
        ("--target", "y", "--features", "x0,x1,x2,x3", "--groups", "g", "--weights", "w", "--shared", "x2"),
        ("--target", "y", "--features", "x0,x1,x2,x3", "--symmetric", "--groups", "g"),
        ("--target", "y", "--features", "x0,x1", "--components", "auto", "--max-components", "3"),
        ("--formula", "y ~ x0 + x1 + I(x1**2) + x2 + x2:town + x3 | g"),
        ("--formula", "y ~ C(month) + x0 + x1 + x2 + x3 - 1", "--weights", "w"),
    ],
)
def test_the_command_line_fits_a_stream_as_it_fits_a_table(
    pair: Data, tmp_path: Path, options: tuple[str, ...]
) -> None:
    towns = pa.array([("Rome", "Oslo", "Bern")[number % 3] if number else "Zug" for number in range(N)])
    months = pa.array([number % 4 for number in range(N)])
    table = pair.table.append_column("town", towns).append_column("month", months)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(table, path)
    told = {}
    quick = () if "--symmetric" in options else ("--search", "quick")
    for how in ("--stream", "--no-stream"):
        result = call("fit", str(path), *options, *quick, how, "--json", "--max-iter", "20")
        assert result.exit_code == 0, result.stderr
        assert ("was read block by block" in result.stderr) == (how == "--stream")
        told[how] = json.loads(result.stdout)
    one, other = told.values()
    assert list(one) == list(other)
    assert one["features"] == other["features"]
    for name in ("log_likelihood", "aic", "bic", "iterations", "n_rows", "n_parameters"):
        assert one[name] == (None if other[name] is None else pytest.approx(other[name], rel=1e-9))
    for mine, theirs in zip(one["components"], other["components"]):
        assert mine["coef"] == pytest.approx(theirs["coef"], rel=1e-4, abs=1e-8)


def test_the_table_of_a_stream_has_standard_errors_too(pair: Data) -> None:
    words = ("fit", str(pair.folder / "rows.parquet"), "--target", "y", "--groups", "g", "--weights", "w")
    streamed, plain = (call(*words, how) for how in ("--stream", "--no-stream"))
    assert streamed.stdout == plain.stdout
    assert "std err" in streamed.stdout
    assert "groups:                           500" in streamed.stdout


def test_large_files_are_streamed_without_being_told(pair: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("fit", str(pair.folder / "rows.parquet"), "--target", "y", "--symmetric")
    assert "block by block" not in call(*words).stderr
    monkeypatch.setattr(_stream, "LARGE", 8 * 7 * N - 1)
    assert "block by block" in call(*words).stderr
    assert "block by block" not in call(*words, "--no-stream").stderr
    monkeypatch.undo()
    monkeypatch.setattr(_stream, "available_memory", lambda: 4 * 8 * 7 * N - 4)
    assert "block by block" in call(*words).stderr
    assert _stream.available_memory() > 0


@pytest.mark.parametrize("target", [(), ("--target", "y", "--groups", "g")])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_of_a_stream_are_those_of_a_table(
    pair: Data, tmp_path: Path, target: tuple[str, ...], ending: str
) -> None:
    source, model = str(pair.folder / f"rows.{ending}"), str(tmp_path / "m.json")
    fitted = call(
        "fit", source, "--target", "y", "--features", "x0,x1,x2,x3", "--groups", "g", "--stream", "--out", model
    )
    assert fitted.exit_code == 0, fitted.stderr
    read = []
    for how in ("--stream", "--no-stream"):
        out = tmp_path / f"{how}.{ending}"
        result = call("predict", model, source, *target, how, "--out", str(out))
        assert result.exit_code == 0, result.stderr
        assert f"wrote 3,000 rows to {out}" in result.stderr
        read.append(tables.read(out).content)
    assert read[0].column_names == read[1].column_names
    for name in read[0].column_names:
        np.testing.assert_allclose(read[0][name].to_numpy(), read[1][name].to_numpy(), rtol=1e-10, atol=1e-12)
    assert call("predict", model, source, *target, "--stream").stdout.count("\n") == N + 1


def test_predictions_that_fail_midway_leave_no_file(pair: Data, copy: Path, tmp_path: Path) -> None:
    model, out = str(tmp_path / "m.json"), tmp_path / "out" / "p.csv"
    out.parent.mkdir()
    call("fit", str(pair.folder / "rows.csv"), "--target", "y", "--features", "x0,x1,x2,x3", "--out", model)
    spoiled(pair, copy, "x1", N - 1, np.nan)
    result = call("predict", model, str(copy / "rows.parquet"), "--stream", "--missing", "fail", "--out", str(out))
    assert result.exit_code == 2
    assert "has a gap in row 3000" in result.stderr
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--target", "y", "--plot", "p.png"), "--plot draws rows in memory"),
        (("--formula", "y ~ center(x0)"), "center(x0) in 'y ~ center(x0)' learns from all rows"),
        (("--formula", "y ~ x0", "--features", "x1"), "leave out --features"),
        (("--target", "z"), "has no column 'z' for --target"),
        (("--target", "y", "--features", "x0,x0"), "--features names 'x0' twice"),
        (("--target", "y", "--delimiter", ",,"), "a delimiter is one character (got ',,')"),
        ((), "say what to explain"),
    ],
)
def test_what_a_stream_cannot_do_is_one_line(pair: Data, options: tuple[str, ...], says: str) -> None:
    result = call("fit", str(pair.folder / "rows.csv"), *options, "--stream")
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_matrices_without_names_are_for_python(pair: Data) -> None:
    result = call("fit", str(pair.folder / "rows.npy"), "--target", "y")
    assert result.exit_code == 2
    assert "NpyRows" in result.stderr


def test_a_terminal_is_shown_the_rows_of_each_pass(pair: Data) -> None:
    command = [sys.executable, "-m", "wmlr.cli", "fit", str(pair.folder / "rows.parquet"), "--target", "y", "--stream"]
    _, seen = run_on_terminal(command, COLUMNS="120")
    assert "fitting: pass " in seen
    assert "of 3,000 rows" in seen


def test_a_streamed_formula_reads_the_columns_it_names_and_no_others(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"area": generator.standard_normal(60), "b": generator.standard_normal(60)})
    frame["a"] = np.where(np.arange(60) == 7, np.nan, 1.0)
    frame["re"] = "text"
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = FormulaRows(open_source(tmp_path / "rows.parquet"), "area ~ b")
    fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    assert fit.n_features_in_ == 1
    with pytest.raises(ValueError, match="column 'a' has no value in row 7"):
        FormulaRows(open_source(tmp_path / "rows.parquet"), "I(area + a) ~ b")


def test_a_column_of_too_many_levels_is_refused(pair: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlr.engines.formulas.MOST_LEVELS", 100)
    with pytest.raises(ValueError, match=r"column 'g' of .* has more than 100 levels"):
        FormulaRows(open_source(pair.folder / "rows.parquet"), "y ~ x0 + g")


@pytest.mark.long
def test_the_benchmark_fits_both_files_and_says_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_suite, "COMPONENTS", (2,))
    result = files_suite.run(lambda text: None, gigabytes=(0.02, 0.01), n_features=8)
    larger, smaller = (fit["rows"] for fit in result.numbers["fits"])
    assert larger == pytest.approx(2 * smaller, abs=2)
    assert [fit["file"] for fit in result.numbers["fits"]] == [".npy", ".parquet"]
    for fit in result.numbers["fits"]:
        assert fit["error"] < 0.05
        assert fit["passes"] < 20
        assert fit["speed"] == pytest.approx(fit["read_seconds"] / fit["pass_seconds"])
        assert 50 < fit["peak_megabytes"] < 1000
    with pytest.raises(ValueError, match="lower WMLR_BENCH_GB"):
        files_suite.run(lambda text: None, gigabytes=1e9)
    monkeypatch.setenv("WMLR_BENCH_GB", "1,much")
    with pytest.raises(ValueError, match="WMLR_BENCH_GB must be gigabytes, one number or one for each of npy, parquet"):
        files_suite.run(lambda text: None)
