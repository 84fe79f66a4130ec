"""``wmlr reproduce``: the paper's tables and figures, and its theory measured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlr.cli import _json, _places
from wmlr.cli._console import print_line, progress, show
from wmlr.io.notes import note

EXAMPLE = "wmlr reproduce table1 --quick --out reproduction"


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, table4, figure1, figure2, theorem-rate, sample-complexity, duality-gap, "
            "correlation, or all."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Write here; finished cells found here are not computed again.",
            metavar="FOLDER",
            callback=_places.folder,
        ),
    ] = Path("reproduction"),
    seeds: Annotated[int | None, typer.Option(help="Data sets in Table 4 (50); elsewhere at most 10.", min=1)] = None,
    search: Annotated[bool, typer.Option("--search", help="The full hyper-parameter grids; takes hours.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; every core when left out.", min=1)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small likeness, in under a minute.")] = False,
    as_json: _json.Json = False,
) -> None:
    """Regenerate a table or figure of the paper, with the printed numbers beside ours."""
    from wmlr.experiments import reproduction
    from wmlr.experiments.plan import PRINTED_SEEDS, Plan

    if quick:
        plan = Plan.small(search=search) if seeds is None else Plan.small(search=search, seeds=seeds)
    else:
        plan = Plan(search=search, seeds=PRINTED_SEEDS if seeds is None else seeds)
    processes = (os.cpu_count() or 1) if jobs is None else jobs
    with progress(reproduction.work(target, out, plan)) as advance:
        done = reproduction.reproduce(target, out, plan, processes, advance)
    if as_json:
        _json.print_json(_as_plain_data(done))
    else:
        for table in (one for tables in done.tables.values() for one in tables):
            show(table.columns, table.rows, table.title)
            if table.note:
                note(table.note)
    print_line(f"wrote {out / 'report.html'} ({done.seconds:.0f} s)")


def _as_plain_data(done: Any) -> dict[str, Any]:
    """The tables as plain data, for ``--json``, each target's with the numbers they are made from."""
    found = {
        name: {
            "tables": [asdict(table) for table in tables],
            "numbers": json.loads((done.out / f"{name}.json").read_text(encoding="utf-8")),
        }
        for name, tables in done.tables.items()
    }
    return {"folder": str(done.out), "seconds": done.seconds, "complete": done.complete, "targets": found}
