"""Files as people have them: read right, or refused with what to do about them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wmlr.options.data import DataOptions
from wmlr.options.problem import Problem, load


def rows(line: str, count: int = 30) -> str:
    """Lines of a number that varies, and of what stands for it in ``line``."""
    return "".join(line.format(x=place * place / 7 + 1, i=place) + "\n" for place in range(count))


def read(tmp_path: Path, text: str, **options: str) -> Problem:
    path = tmp_path / "file.csv"
    path.write_text(text, encoding="utf-8")
    return load(str(path), DataOptions(target="y", **options))


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffx,y\n" + rows("{x:.3f},{i}"),
        "x,y\n" + rows("{x:.3f},{i}") + "\n\n  \n",
        " x , y \n" + rows(" {x:.3f} , {i} "),
        "x;y\n" + rows("{x:.3f};{i}"),
        "x,y,\n" + rows("{x:.3f},{i},"),
    ],
)
def test_marks_blank_lines_spaces_and_empty_columns_do_no_harm(text: str, tmp_path: Path) -> None:
    problem = read(tmp_path, text)
    assert list(problem.X.columns) == ["x"]
    np.testing.assert_allclose(problem.X["x"], [round(i * i / 7 + 1, 3) for i in range(30)])
    np.testing.assert_array_equal(problem.y, np.arange(30))


def test_gaps_are_gaps_in_small_letters_and_large(tmp_path: Path) -> None:
    problem = read(tmp_path, "x,y\nNA,1\nna,2\nN/A,3\nn/a,4\nNaN,5\nnull,6\n,7\n" + rows("{x:.3f},{i}"))
    assert problem.dropped == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x,y\n" + rows('{i},"{x:.0f},960"'),
            "write 1960 where they part thousands (pandas",
        ),
        ("x;y\n" + rows("{i};1{i},5"), "has decimal commas"),
        ("x,y\n" + rows("{i},${x:.2f}"), "write bare numbers, without signs, units or commas, as by sed 's/[$]//g' "),
        (
            "x,y\n" + rows("{x:.1f}%,{i}"),
            "holds numbers with other signs ('1.0%' in row 1): write bare numbers, as by sed",
        ),
        ("x,y\n" + rows("{i},({x:.2f})"), "write bare numbers, without signs, units or commas"),
        ("x,y\n" + rows("−{x:.2f},{i}"), "holds numbers with other signs"),
        ("# of a device\nx,y\n" + rows("{i},{x}"), "names 1 column and the line 'x,y' has 2"),
        ("x,y\n1,2\n1,2,3\n", "names 2 columns and the line '1,2,3' has 3"),
        (rows("{i},{x:.1f}"), "the first line must name the columns"),
    ],
)
def test_what_cannot_be_read_is_said_with_what_to_do(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    assert said in str(error.value)


def test_numbers_that_stand_for_gaps_or_codes_are_asked_about(tmp_path: Path) -> None:
    text = "x,region,y\n" + rows("{x:.3f},1{i},{i}") + "-999,3,4\n-999,3,5\n7,3,999\n7,3,999\n"
    notes = read(tmp_path, text).notes
    assert any(note.startswith("x is -999 in 2 rows") and "--na=-999" in note for note in notes)
    assert any(note.startswith("y is 999 in 2 rows") for note in notes)
    assert any(note.startswith("region is taken as a number") and "--categorical region" in note for note in notes)
    left = read(tmp_path, text, na="-999,999")
    assert left.dropped == 4
    assert not any("in 2 rows" in note for note in left.notes)


def test_ordinary_columns_are_not_doubted(tmp_path: Path) -> None:
    problem = read(tmp_path, "year,age,y\n" + rows("20{i:02d},{x:.0f},9") + "2030,99,10\n2031,98,11\n")
    assert problem.notes == ()


def test_numbers_kept_as_text_are_refused_by_name(tmp_path: Path) -> None:
    numbers = [str(place * place) for place in range(30)]
    pd.DataFrame({"x": numbers, "z": range(30), "y": range(30)}).to_parquet(tmp_path / "file.parquet")
    with pytest.raises(ValueError, match=r"column 'x' of .* holds numbers written as text"):
        load(str(tmp_path / "file.parquet"), DataOptions(target="y"))


def test_decimal_commas_are_read_where_they_are_told(tmp_path: Path) -> None:
    text = "x;y\n" + rows("{x:.3f};{i}").replace(".", ",")
    np.testing.assert_allclose(read(tmp_path, text, decimal=",").X["x"], [round(i * i / 7 + 1, 3) for i in range(30)])
    with pytest.raises(ValueError, match=r"holds numbers but for '\?' in row 31: --na"):
        read(tmp_path, text + "?;3\n", decimal=",")
