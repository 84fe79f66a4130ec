"""From a target's name to files: compute what is missing, then write numbers, tables, figures and the report."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from wmlr.experiments import checks, drawing, report
from wmlr.experiments.outcome import Numbers, ResultTable, Target
from wmlr.experiments.plan import Plan
from wmlr.experiments.runner import Advance, complete, missing_cells
from wmlr.experiments.store import Store
from wmlr.experiments.targets import TARGETS, targets_named
from wmlr.io.files import write_text

FINISHED = "run.json"


@dataclass(frozen=True)
class Reproduction:
    """What a run left behind: the tables by target, and whether every cell is there."""

    out: Path
    tables: dict[str, list[ResultTable]]
    seconds: float
    complete: bool


def reproduce(target: str, out: Path, plan: Plan, jobs: int, advance: Advance = lambda text, by: None) -> Reproduction:
    """Regenerate one target, or all of them, into a folder.

    Finished cells found in the folder are used as they are, so that a run goes on where it stopped. On
    Ctrl-C the report is written from the targets that are complete, and the interrupt goes on.
    """
    targets = targets_named(target)
    store = Store(out / "cells")
    cells = [cell for one in targets for cell in one.cells(plan)]
    begun = time.perf_counter()
    try:
        complete(cells, store, jobs, advance)
    except KeyboardInterrupt:
        _write(targets, out, plan, store, jobs, time.perf_counter() - begun)
        raise
    return _write(targets, out, plan, store, jobs, time.perf_counter() - begun)


def work(target: str, out: Path, plan: Plan) -> float:
    """The cost of the cells still to be computed."""
    store = Store(out / "cells")
    return sum(
        cell.cost for cell in missing_cells((cell for one in targets_named(target) for cell in one.cells(plan)), store)
    )


def _write(wanted: list[Target], out: Path, plan: Plan, store: Store, jobs: int, seconds: float) -> Reproduction:
    """Write every target whose cells are all there, asked for now or earlier, and one report of them."""
    ready = [one for one in TARGETS.values() if all(store.has(cell) for cell in one.cells(plan))]
    found = {one.name: _numbers(one, out, plan, store) for one in ready}
    sections = [_section(one, found[one.name], out, plan, store) for one in ready]
    cells = {cell.key: cell for one in ready for cell in one.cells(plan)}
    facts = report.RunFacts(_settings(plan, jobs), _all_seconds(out, seconds))
    ran = {
        "complete": len(ready) == len(TARGETS),
        "seconds": round(facts.seconds, 1),
        "processor_seconds": round(sum(store.seconds(cell) for cell in cells.values()), 1),
        "settings": facts.settings,
        "machine": facts.machine,
    }
    made = checks.checks(found, ran if ran["complete"] else None)
    if made and not plan.quick:
        sections.append(report.ResultSection("What it must show", (checks.table(made),)))
    write_text(out / FINISHED, json.dumps(ran, indent=1) + "\n")
    write_text(out / "report.md", report.markdown(sections, facts))
    write_text(out / "report.html", report.html(sections, facts))
    tables = {one.name: one.tables(found[one.name]) for one in wanted if one in ready}
    return Reproduction(out, tables, facts.seconds, len(tables) == len(wanted))


def _numbers(one: Target, out: Path, plan: Plan, store: Store) -> Numbers:
    """A target's numbers, written and read back: what is shown is what the file says."""
    text = json.dumps(one.numbers(plan, store), indent=1, allow_nan=False) + "\n"
    write_text(out / f"{one.name}.json", text)
    numbers: Numbers = json.loads(text)
    return numbers


def _section(one: Target, numbers: Numbers, out: Path, plan: Plan, store: Store) -> report.ResultSection:
    tables = one.tables(numbers)
    for place, table in enumerate(tables):
        suffix = f"-{place + 1}" if place else ""
        write_text(out / f"{one.name}{suffix}.csv", report.comma_separated(table))
    pictures = [path for name, figure in one.figures(numbers).items() for path in drawing.save(figure, out, name)]
    used = sum(store.seconds(cell) for cell in {cell.key: cell for cell in one.cells(plan)}.values())
    return report.ResultSection(one.title, tuple(tables), tuple(pictures), used)


def _settings(plan: Plan, jobs: int) -> dict[str, str]:
    return {
        "sizes": "a small likeness (--quick)" if plan.quick else "the paper's",
        "hyper-parameters": "searched on the paper's grids" if plan.search else "the paper's choices",
        "seeds": f"0 to {plan.seeds - 1} in Table 4, 0 to {plan.more - 1} at most elsewhere",
        "processes": str(jobs),
    }


def _all_seconds(out: Path, seconds: float) -> float:
    """Seconds of this run and of the earlier ones it went on from."""
    path = out / FINISHED
    earlier = float(json.loads(path.read_text())["seconds"]) if path.exists() else 0.0
    return earlier + seconds
