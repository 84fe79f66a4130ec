"""Reading data files: every way a file can disappoint is one clear line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from wmlr.io import files, tables
from wmlr.io.table import Table


def written(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def numbers(table: Table, *names: str) -> np.ndarray:
    return np.column_stack([table.column(name) for name in names])


def test_csv_columns_come_back_as_finite_numbers(tmp_path: Path) -> None:
    table = tables.read(written(tmp_path, "a,b,flag\n1,2.5,true\n-3,4,false\n"))
    assert table.names == ["a", "b", "flag"]
    np.testing.assert_array_equal(numbers(table, "b", "a", "flag"), [[2.5, 1, 1], [4, -3, 0]])


def test_tabs_and_parquet_hold_the_same_as_csv(tmp_path: Path) -> None:
    plain = tables.read(written(tmp_path, "a,b\n1,2\n3,4\n"))
    tabbed = tables.read(written(tmp_path, "a\tb\n1\t2\n3\t4\n", "data.tsv"))
    tables.write(tmp_path / "data.parquet", {"a": np.array([1, 3]), "b": np.array([2, 4])})
    for other in (tabbed, tables.read(tmp_path / "data.parquet")):
        np.testing.assert_array_equal(numbers(other, "a", "b"), numbers(plain, "a", "b"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read_back_to_the_last_digit(tmp_path: Path, ending: str) -> None:
    values = np.random.default_rng(0).standard_normal(50) * 10.0 ** np.arange(-25, 25)
    path = tmp_path / "deep" / f"out.{ending}"
    tables.write(path, {"value": values, "assigned": np.arange(50)})
    back = tables.read(path)
    np.testing.assert_array_equal(back.column("value"), values)
    assert sorted(tmp_path.joinpath("deep").iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_built_in_data_are_there_unless_a_file_has_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(tables.read("tone")) == 150
    written(tmp_path, "a,b\n1,2\n", "tone")
    assert tables.read("tone").names == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("a,b", "has no rows: a header line and a line for each row are wanted"),
        ("\n", "has no rows"),
        ("a,b\n", "has columns a, b but no rows"),
        ("a,a\n1,2\n", "more than one column named a"),
        ("a,b\n1,2\n1,2,3\n", "cannot be read as CSV"),
    ],
)
def test_files_without_usable_rows_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tables.read(written(tmp_path, text))


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_rubbish_is_one_printable_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(ValueError, match="cannot be read as") as caught:
        tables.read(path)
    assert str(caught.value).isprintable()


def test_missing_files_and_directories_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file nowhere\.csv"):
        tables.read("nowhere.csv")
    with pytest.raises(ValueError, match="is a directory"):
        tables.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,y\n1,2\nx,4\n", r"column 'a' of .* holds text \('x' in row 2\)"),
        ("a,y\n1,2\n,4\n,5\n", "column 'a' of .* has no number in row 2 and 1 more"),
        ("a,y\n1,2\nNaN,4\n", "column 'a' of .* has no number in row 2"),
        ("a,y\n1,2\ninf,4\n", "column 'a' of .* has an infinite number in row 2"),
        ("a,y\n,2\n,4\n", "column 'a' of .* is empty"),
        ("a,y\n2020-01-01,2\n", r"column 'a' of .* holds text \('2020-01-01"),
    ],
)
def test_entries_that_are_not_numbers_are_named_with_their_row(tmp_path: Path, text: str, says: str) -> None:
    table = tables.read(written(tmp_path, text))
    with pytest.raises(ValueError, match=says):
        numbers(table, "y", "a")


def test_a_missing_column_says_which_there_are(tmp_path: Path) -> None:
    table = tables.read(written(tmp_path, "a,b\n1,2\n"))
    with pytest.raises(ValueError, match="has no column 'c' for --target; it has a, b"):
        table.require("c", "--target")
    wide = tables.read(written(tmp_path, ",".join(f"c{i}" for i in range(40)) + "\n" + ",".join("1" * 40) + "\n"))
    with pytest.raises(ValueError, match="c11 and 28 more"):
        wide.require("c", "--target")


def test_group_labels_may_be_text_but_not_missing(tmp_path: Path) -> None:
    table = tables.read(written(tmp_path, "who,y\nann,1\nbob,2\nann,3\n"))
    assert table.labels("who").tolist() == ["ann", "bob", "ann"]
    gap = tables.read(written(tmp_path, "who,y\n1,1\n,2\n"))
    with pytest.raises(ValueError, match="no label in row 2"):
        gap.labels("who")


@pytest.mark.parametrize("module", ["pyarrow", "pandas"])
def test_a_missing_extra_is_said_with_its_remedy(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(tables.MissingExtraError, match=rf"needs {module}: pip install 'wmlr\[io\]'"):
        tables.read("tone").numbers_where(["tuned"], np.ones(150, dtype=bool))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a;b\n1.5;2\n", "data.csv"),
        ("a\tb\n1.5\t2\n", "data.txt"),
        ("a|b\r\n1.5|2\r\n", "data.csv"),
        ("\ufeffa,b\n1.5,2\n", "data.csv"),
        ("\ufeffa;b\n1.5;2\n", "data.tsv"),
        ("a,b\n1.5,2\n", "data.tsv"),
    ],
)
def test_the_first_line_tells_what_separates_the_columns(tmp_path: Path, text: str, name: str) -> None:
    table = tables.read(written(tmp_path, text, name))
    assert table.names == ["a", "b"]
    assert numbers(table, "a", "b").tolist() == [[1.5, 2.0]]


def test_a_separator_within_quotes_separates_nothing(tmp_path: Path) -> None:
    assert tables.read(written(tmp_path, '"a,1";b\n1;2\n')).names == ["a,1", "b"]
    assert tables.read(written(tmp_path, '"a;1",b\n1,2\n')).names == ["a;1", "b"]


def test_a_very_long_header_of_any_letters_is_read(tmp_path: Path) -> None:
    names = [f"größe{number}" for number in range(12_000)]
    table = tables.read(written(tmp_path, ";".join(names) + "\n" + ";".join(["1"] * len(names)) + "\n"))
    assert table.names == names


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("größe,y\n1,2\n", "latin-1", r"its first line is not UTF-8 \(byte 0xf6\); --encoding ISO-8859-1 .* iconv"),
        ("town,y\nUlm,1\nKöln,2\n", "latin-1", r"column 'town' is not UTF-8; --encoding ISO-8859-1 reads it"),
        ("a,y\n1,2\n", "utf-16", "it is UTF-16; --encoding UTF-16 reads it"),
    ],
)
def test_other_encodings_are_named_with_the_remedy(tmp_path: Path, text: str, code: str, says: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode(code))
    with pytest.raises(ValueError, match=says):
        tables.read(path)
    assert tables.read(path, tables.CsvFormat(encoding=code)).names == text.partition("\n")[0].split(",")


@pytest.mark.parametrize("features", [None, ["a"]])
def test_decimal_commas_are_not_taken_for_text(tmp_path: Path, features: list[str] | None) -> None:
    table = tables.read(written(tmp_path, "a;y\n3;1\n1,5;2\n"))
    with pytest.raises(ValueError, match=r"column 'a' of .* has decimal commas \('1,5' in row 2\): --decimal , reads"):
        numbers(table, *table.choose_features(features, {"y": "target"})[0])
    read = tables.read(written(tmp_path, "a;y\n3;1\n1,5;2\n"), tables.CsvFormat(decimal=","))
    assert read.column("a").tolist() == [3.0, 1.5]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"delimiter": "||"}, "a delimiter is one character"),
        ({"decimal": "'"}, "--decimal must be a point or a comma"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon': try latin-1"),
    ],
)
def test_a_format_that_no_file_has_is_refused(told: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tables.CsvFormat(**told)


def test_a_line_may_end_within_quotes_wherever_the_file_is_cut_into_blocks(tmp_path: Path) -> None:
    remark = "one line\nand, another\n" * 400
    path = written(tmp_path, "x,remark,y\n" + "".join(f'{i},"{remark}",{i}\n' for i in range(200)))
    assert path.stat().st_size > 1.5 * 2**20
    assert tables.read(path).column("y").tolist() == list(range(200))


def test_columns_without_a_name_or_an_entry_are_no_part_of_the_table(tmp_path: Path) -> None:
    assert tables.read(written(tmp_path, "a,b,,\n1,2,,\n3,4,,\n")).names == ["a", "b"]
    with pytest.raises(ValueError, match="has more than one column named '': rename them"):
        tables.read(written(tmp_path, "a,,\n1,2,3\n3,4,5\n"))


@pytest.mark.parametrize("name", ["book.xlsx", "book.xls", "book.ods"])
def test_a_workbook_gets_a_sentence_on_how_to_convert_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=rf"is a workbook: save the sheet as CSV, .*read_excel\('{name}'\)"):
        tables.read(path)


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    if os.geteuid() == 0:  # who may read everything
        monkeypatch.setattr(tables.os, "access", lambda path, mode: bool(Path(path).stat().st_mode & 0o400))
    with pytest.raises(ValueError, match=r"may not be read by you: chmod u\+r"):
        tables.read(path)
