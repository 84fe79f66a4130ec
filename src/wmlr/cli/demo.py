"""``wmlr demo``: the paper's comparison, in under a minute."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from wmlr.cli import _json, _places
from wmlr.cli._console import print_line, progress, show, status_line

EXAMPLE = "wmlr demo --out demo"


def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Write pictures and report.html here.", metavar="FOLDER", callback=_places.folder),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the data and the random starts.", min=0)] = 0,
    rows: Annotated[int, typer.Option(help="Rows to draw; the paper has 100,000.", min=100)] = 100_000,
    features: Annotated[int, typer.Option(help="Features; the paper has 128.", min=1)] = 128,
    iterations: Annotated[int, typer.Option(help="For the methods that the paper stops at 100.", min=1)] = 100,
    as_json: _json.Json = False,
) -> None:
    """Fit the paper's problem by its methods and by ours, and print the errors side by side."""
    with status_line("starting"):
        from wmlr.experiments import demo as contest

        if out is not None:
            from wmlr import plots

            plots.require()
    with progress(contest.steps(iterations)) as advance:
        result = contest.run(n_samples=rows, n_features=features, iterations=iterations, seed=seed, watch=advance)
    if as_json:
        _json.print_json(_as_plain_data(result) | {"notes": contest.NOTES})
    else:
        show(contest.COLUMNS, result.rows, result.title)
        print()
        for text in contest.NOTES:
            print(fill(text, width=100, initial_indent="- ", subsequent_indent="  "))
        print(f"\n{result.seconds:.0f} seconds in all")
    if out is not None:
        for path in contest.write(result, out):
            print_line(f"wrote {path}")


def _as_plain_data(result: Any) -> dict[str, Any]:
    """The comparison as plain data, for ``--json``; ``paper`` is the error it prints, as it prints it."""
    methods = [
        {
            "method": one.contender.label,
            "agents": one.contender.agents,
            "iterations": one.iterations,
            "rounds": one.rounds,
            "relative_error": one.error,
            "bound": one.bound,
            "seconds": one.seconds,
            "paper": one.contender.paper,
        }
        for one in result.outcomes
    ]
    return {"title": result.title, "methods": methods, "seconds": result.seconds}
