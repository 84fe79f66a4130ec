"""Thirty real files as they are: select, fit, report, predict, beside fits of the same rows prepared by hand."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import ResultLedger
from wmlr.bench._measure import Limit
from wmlr.bench.csv.cases import CASES, Case
from wmlr.bench.csv.trial import CsvTrial, try_case

PART, WHO = "csv", "command line"


def run(watch: Watch, out: Path | None = None, cases: str | None = None) -> Result:
    """Try the command line on real files, as far as the folder's ``csv.jsonl`` does not have them.

    Parameters
    ----------
    watch : told which file is tried.
    out : the folder.
    cases : "all", how many, or parts of their names, as a,b.
    """
    ledger = ResultLedger(None if out is None else out / "csv.jsonl")
    chosen = select_cases(cases)
    with tempfile.TemporaryDirectory() as folder:
        for place, case in enumerate(chosen):
            if ledger.has(PART, case.name, WHO, 0):
                continue
            watch(f"{case.name}, {place + 1} of {len(chosen)}")
            place_of_case = Path(folder, case.item)
            place_of_case.mkdir()
            trial = try_case(case, place_of_case)
            ledger.add([{"part": PART, "problem": case.name, "who": WHO, "seed": 0, "trial": trial.to_plain()}])
    return result(ledger)


def result(ledger: ResultLedger) -> Result:
    """The table and its numbers, of all that the ledger has, in the order of the cases."""
    found = {line["problem"]: CsvTrial.from_plain(line["trial"]) for line in ledger.of(PART)}
    trials = [found[case.name] for case in CASES if case.name in found]
    limit = Limit("files that end in an answer that is not the one by hand", float(_count_wrong(trials)), most=0.0)
    return Result(
        suite="csv",
        title=f"The command line on {len(trials)} real files, beside fits prepared by hand",
        columns=(
            "file", "rows", "columns", "k", "log-likelihood", "by hand", "blank",
            "select", "fit", "predict", "ends",
        ),
        rows=tuple(trial.cells() for trial in trials),
        numbers={"trials": [trial.to_plain() for trial in trials], "limits": [limit.plain()]},
    )  # fmt: skip


def select_cases(cases: str | None) -> list[Case]:
    """The cases of ``--cases``."""
    if cases is None or cases == "all":
        return list(CASES)
    if cases.isdigit():
        return list(CASES[: int(cases)])
    wanted = cases.split(",")
    found = [case for case in CASES if any(part in case.name for part in wanted)]
    if not found:
        raise ValueError(f"no file is called like {cases!r}: there are {', '.join(case.item for case in CASES)}")
    return found


def _count_wrong(trials: list[CsvTrial]) -> int:
    return sum(trial.ends.startswith("wrong") for trial in trials)
