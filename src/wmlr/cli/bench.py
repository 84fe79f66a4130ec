"""``wmlr bench``: how fast it is here, in units of this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _json, _places
from wmlr.cli._console import print_line, progress, show
from wmlr.io.notes import note

EXAMPLE = "wmlr bench fit --out bench"


def bench(
    suite: Annotated[str, typer.Argument(help="Which benchmark; all of them when left out.")] = "all",
    out: Annotated[
        Path | None,
        typer.Option(help="Write the numbers into this folder, as JSON.", metavar="FOLDER", callback=_places.folder),
    ] = None,
    cases: Annotated[
        str | None,
        typer.Option(
            help="For search and csv: all, a number of cases, or parts of their names, as a,b; for neural: shapes."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="For search and neural: fits of each case by each contestant.", min=1)
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            help="For search: real, phases, minimum, table, rounds, clock, or several, as a,b; for agents: rounds; for "
            "neural: walks, game, agents, networks, others."
        ),
    ] = None,
    who: Annotated[
        str | None, typer.Option(help="For search: contestants, by parts of their names, as default,flexmix.")
    ] = None,
    limit: Annotated[
        float | None, typer.Option(help="For search: seconds that R may take for the fits of a problem.", min=1.0)
    ] = None,
    as_json: _json.Json = False,
) -> None:
    """Time this library against a plain pass over the same rows, and print the ratio."""
    from wmlr import bench as benchmarks
    from wmlr.io.tables import MissingExtraError

    options = {"cases": cases, "seeds": seeds, "parts": parts, "who": who, "limit": limit}
    foreign = [name for name, value in options.items() if value is not None]
    if suite == "all" and foreign:
        raise ValueError(f"--{foreign[0]} is of one benchmark: name it, as in `wmlr bench search`")
    found = []
    for name in benchmarks.suite_names() if suite == "all" else [suite]:
        try:
            with progress(None) as advance:
                watch = lambda text, move=advance: move(text, 0)  # noqa: E731
                result = benchmarks.run(name, watch, out, **options)
        except MissingExtraError as missing:
            if suite != "all":
                raise
            note(f"{name} was left out: {missing}")
            continue
        found.append(asdict(result))
        if not as_json:
            show(result.columns, result.rows, result.title)
        if out is not None:
            print_line(f"wrote {benchmarks.write(result, out)}")
    if as_json:
        _json.print_json({"machine": benchmarks.machine(), "results": found})
