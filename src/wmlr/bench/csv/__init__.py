"""Thirty real files as they are: select, fit, report, predict, beside fits of the same rows prepared by hand."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.bench.csv.cases import CASES, Case
from wmlr.bench.csv.trial import CsvTrial, try_case


def run(watch: Watch, cases: str | None = None) -> Result:
    """Try the command line on real files.

    Parameters
    ----------
    watch : told which file is tried.
    cases : "all", how many, or parts of their names, as a,b.
    """
    trials = []
    chosen = chosen_cases(cases)
    with tempfile.TemporaryDirectory() as folder:
        for place, case in enumerate(chosen):
            watch(f"{case.package}/{case.item}, {place + 1} of {len(chosen)}")
            place_of_case = Path(folder, case.item)
            place_of_case.mkdir()
            trials.append(try_case(case, place_of_case))
    limit = Limit("files that end in an answer that is not the one by hand", float(_wrong(trials)), most=0.0)
    return Result(
        suite="csv",
        title=f"The command line on {len(trials)} real files, beside fits prepared by hand",
        columns=("file", "rows", "columns", "k", "log-likelihood", "by hand", "blank", "seconds", "ends"),
        rows=tuple(trial.cells() for trial in trials),
        numbers={"trials": [trial.to_plain() for trial in trials], "limits": [limit.plain()]},
    )


def chosen_cases(cases: str | None) -> list[Case]:
    """The cases of ``--cases``."""
    if cases is None or cases == "all":
        return list(CASES)
    if cases.isdigit():
        return list(CASES[: int(cases)])
    wanted = cases.split(",")
    found = [case for case in CASES if any(part in f"{case.package}/{case.item}" for part in wanted)]
    if not found:
        raise ValueError(f"no file is called like {cases!r}: there are {', '.join(case.item for case in CASES)}")
    return found


def _wrong(trials: list[CsvTrial]) -> int:
    return sum(trial.ends.startswith("wrong") for trial in trials)
