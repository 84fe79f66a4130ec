"""The option ``--report`` of the commands that fit, and the page it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from wmlr.cli import _places
from wmlr.io.notes import notes

ENDINGS = (".html", ".htm")


def check_place(path: Path | None) -> Path | None:
    """A place for a page, or an error before any work is done."""
    if path is not None and path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} does not end like a page: use {' or '.join(ENDINGS)}")
    return _places.file(path)


Report = Annotated[
    Path | None,
    _places.option(
        "Write a page about the fit here (.html): words, pictures, tables, checks.",
        metavar="FILE",
        callback=check_place,
    ),
]


def write(path: Path, fitted: Any, problem: Any, file: str, target: str | None, **more: Any) -> None:
    """Write the page of a fit.

    Parameters
    ----------
    path : where to.
    fitted : the model.
    problem : its rows, in memory or in their file.
    file : what the rows' file is called.
    target : what y is called; None where a formula says.
    **more : ``summary``, ``selection`` and ``federation``, as for :func:`wmlr.report.page`.
    """
    from wmlr import report

    if "summary" not in more:
        more["summary"] = problem.summary(fitted)
    named = {"target": target, "source": file, "notes": notes(), **more}
    report.write(path, fitted, **problem.report_rows(fitted), **named)


def among(
    path: Path, fitted: Any, problem: Any, federation: Any, intervals: Any, file: str, target: str | None
) -> None:
    """Write the page of a fit among simulated agents, whose rows are all here.

    Parameters
    ----------
    path, fitted, file, target : as for :func:`write`.
    problem : the rows of all agents, with the agents as groups.
    federation : the agents.
    intervals : those of the estimates; None where a round for them would have cost too much.
    """
    from wmlr.estimator.summary import Summary

    facts = [("rows", str(len(problem))), ("agents", str(federation.n_agents))]
    if intervals is not None:
        facts.append(("errors", "observed information"))
    summary = Summary.of(fitted.fitted_, intervals, tuple(facts))
    rows = problem if federation.level == "agent" else replace(problem, groups=None)
    write(path, fitted, rows, file, target, summary=summary, federation=federation)


def write_deployed_report(path: Path, outcome: Any) -> None:
    """Write the page of a fit among agents on other machines; no row of theirs is on it.

    Parameters
    ----------
    path : where to.
    outcome : what :func:`wmlr.flower.fitting.fit_among` returned.
    """
    from wmlr import report

    summary, spent = outcome.summary, outcome.engine.privacy_spent
    if spent is not None:
        summary = replace(summary, facts=(*summary.facts, ("privacy", str(spent))))
    report.write(
        path,
        outcome.fitted,
        summary=summary,
        federation=outcome.engine,
        target=outcome.engine.target,
        notes=notes(),
    )
