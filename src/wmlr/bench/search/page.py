"""``docs/search.md`` and its pictures, made from the results and the table of best values.

``python -m wmlr.bench.search.page docs/bench docs/search.md`` makes them anew.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.bench.page import write_page
from wmlr.bench.search import clock, real, recovery, rounds, table
from wmlr.experiments.outcome import ResultTable
from wmlr.experiments.report import markdown_table
from wmlr.plots import COLOURS, DASHES

Found = dict[str, Any]
LEAST, MOST = 1e-3, 1e3
PANELS = 3


def read_result(folder: Path) -> Found:
    """The result of the benchmark in a folder."""
    path = folder / "search.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no search.json: run `wmlr bench search --out {folder}` first")
    found: Found = json.loads(path.read_text(encoding="utf-8"))
    return found


def text(folder: Path) -> str:
    """The page, from a folder of results."""
    found = read_result(folder)
    numbers = found["numbers"]
    parts = [_opening(numbers), _real(numbers), _beaten(numbers), _phases(numbers), _minimum(numbers)]
    parts += [_table(numbers), _among(numbers), _clock(numbers), _limits(numbers)]
    parts += [_rule(), _cases(), _machine(found["machine"])]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _opening(numbers: Found) -> str:
    seeds, settings = numbers["seeds"], len({one["setting"] for one in numbers["curves"]})
    drawn = ""
    if settings:
        drawn += f"; of {settings} drawn settings, drawn {_times(seeds['phases'])} at each size"
    if seeds["minimum"]:
        drawn += f"; and of eight components in eight columns, drawn {_times(seeds['minimum'])}"
    return f"""
# How often the fit is the likeliest one

The likelihood of a mixture has many maxima. This page counts how often a fit ends at the best one that anybody found,
on real regressions, and how many rows it takes to find the components of drawn ones. It is made from the results of
`wmlr bench search` in `docs/bench/` by `python -m wmlr.bench.search.page docs/bench docs/search.md`; no number in it
was typed by hand. `--who` chooses contestants, `--cases` data sets and settings, `--parts` and `--seeds` how much of
it; a run goes on where the one before stopped. The results at hand are of {numbers["data_sets"]} of
{len(real.cases())} data sets, fitted
{_times(seeds["real"])} by each contestant with each number of components{drawn}.
{_missing(numbers)}{numbers.get("kept", "")}
"""


def _missing(numbers: Found) -> str:
    return "" if numbers["R"] else "R was not installed where they were had: flexmix and mixtools are left out."


def _real(numbers: Found) -> str:
    if not numbers["summary"]:
        return ""
    rows = tuple(
        (
            "one" if one["shared_sigma"] else "each",
            one["who"],
            f"{100 * one['near']:.1f}%",
            _format(one["median_shortfall"], ".3f"),
            _format(one["ninth_decile_shortfall"], ".2f"),
            str(one["failed"]),
            f"{one['seconds']:.3f}",
            _format(one["passes"], ".0f"),
        )
        for one in numbers["summary"]
    )
    columns = ("sigma", "who", "within .1 nats", "median behind", "9 of 10 at most", "failed", "seconds", "passes")
    return f"""
## Real regressions

2 to 5 components, one sigma for all or a sigma each. A value is measured
against the best known one, of which the repository keeps {numbers["known"]} with their parameters
(`wmlr/bench/search/data/best.json`); it rises whenever a fit does better. Seconds are those of one processor and
medians; passes are queries that every row answers, for R's packages iterations of the start that was kept.

These fits: `wmlr bench search --parts real --seeds {numbers["seeds"]["real"]} --who "{_contestants(numbers)}"
--cases {_names(numbers)}`.

{markdown_table(ResultTable("", columns, rows))}

![Share of fits within so many nats of the best known value](bench/search-real.png)

Share of fits within so many nats of the best known value, by contestant. Every end was first climbed on by the same
accelerated EM, so that what counts is which maximum was found. With a sigma each the likelihood is unbounded: the value
that ranks has a penalty of one observation's weight, (1/n) Σ (S/σⱼ² + log(σⱼ²/S)), S the variance that one regression
leaves, and no variance below that of rounding to the grain of the response (`wmlr.bench.search.value`).

{_everywhere(numbers).strip()}
"""


def _everywhere(numbers: Found) -> str:
    """What was fitted on more data sets than all contestants were."""
    wider = [one for one in numbers["everywhere"] if one not in numbers["summary"]]
    if not wider:
        return ""
    rows = tuple(
        (
            "one" if one["shared_sigma"] else "each",
            one["who"],
            f"{one['fits']:,}",
            f"{100 * one['near']:.1f}%",
            _format(one["median_shortfall"], ".3f"),
            _format(one["ninth_decile_shortfall"], ".2f"),
            f"{one['seconds']:.3f}",
        )
        for one in wider
    )
    columns = ("sigma", "who", "fits", "within .1 nats", "median behind", "9 of 10 at most", "seconds")
    who = ",".join(dict.fromkeys(one["who"] for one in wider))
    stopped = "" if numbers["all_data_sets"] == len(real.cases()) else ", stopped before the others"
    return f"""
On {numbers["all_data_sets"]} data sets, `wmlr bench search --parts real --cases all --who {who}`{stopped}:

{markdown_table(ResultTable("", columns, rows))}"""


def _names(numbers: Found) -> str:
    return "all" if numbers["data_sets"] == len(real.cases()) else ",".join(numbers["names"])


def _contestants(numbers: Found) -> str:
    return ",".join(dict.fromkeys(one["who"].split(", ")[-1] for one in numbers["summary"]))


def _beaten(numbers: Found) -> str:
    found = numbers["beaten"]
    if len({one["who"] for one in numbers["summary"]}) < 2:
        return ""
    if not found:
        return "No contestant came near the best known value more often than the default on any problem."
    rows = tuple(
        (
            one["problem"],
            f"{100 * one['default']:.0f}%",
            "; ".join(f"{who} {100 * share:.0f}%" for who, share in one["better"].items()),
        )
        for one in found
    )
    table = ResultTable("", ("problem", "default", "who was near the best value more often"), rows)
    return f"### Where another one was better\n\n{markdown_table(table)}"


def _phases(numbers: Found) -> str:
    curves = numbers["curves"]
    if not curves:
        return ""
    who = list(dict.fromkeys(one["who"] for one in curves))
    enough = {(one["setting"], one["who"]): one["enough"] for one in curves}
    settings = list(dict.fromkeys(one["setting"] for one in curves))
    rows = tuple(
        (setting, *(_format(enough[setting, one], ".3g") if (setting, one) in enough else "" for one in who))
        for setting in settings
    )
    return f"""
## Rows that it takes

{_paragraph(recovery)} The table has the rows per column from which on 90% of the fits succeed; a dash where none of
the sizes tried was enough, blank where none was tried. Mix-IRLS is told the share of outliers.
`wmlr bench search --parts phases --seeds {numbers["seeds"]["phases"]} --cases "{",".join(settings)}"` makes this table.

{markdown_table(ResultTable("", ("setting", *who), rows))}

![Share of draws whose components were found, against rows per column](bench/search-phases.png)

Share of draws whose components were all found, against rows per column.
"""


def _paragraph(module: Any) -> str:
    """A module's docstring without its first line."""
    return " ".join((inspect.getdoc(module) or "").split("\n\n", 1)[1].replace("``", "`").split())


def _minimum(numbers: Found) -> str:
    if not numbers["minimum"]:
        return ""
    rows = tuple((one["who"], f"{100 * one['shares'][0]:.1f}%") for one in numbers["minimum"])
    return f"""
## Eight components in eight columns

The setting of the literature on sums of minima: 1,000 rows, sigma .01, standard normal features and coefficients.
`wmlr bench search --parts minimum --seeds {numbers["seeds"]["minimum"]}` makes this table.

{markdown_table(ResultTable("", ("who", "found all components"), rows))}
"""


def _table(numbers: Found) -> str:
    found = numbers["table"]
    if not found:
        return ""
    who = list(dict.fromkeys(one["who"] for one in found))
    cells = {(one["problem"], one["who"]): f"{one['found']} of {one['fits']}" for one in found}
    rows = tuple(
        (problem, *(cells.get((problem, one), "-") for one in who))
        for problem in dict.fromkeys(one["problem"] for one in found)
    )
    return f"""
## Problems on which an earlier search failed

{_paragraph(table)}
`wmlr bench search --parts table --seeds {numbers["seeds"]["table"]}` makes this table.

{markdown_table(ResultTable("", ("problem", *who), rows))}
"""


def _clock(numbers: Found) -> str:
    if not numbers["clock"]:
        return ""
    rows = tuple(
        (one["who"], str(one["fits"]), *(f"{seconds:.3f}" for seconds in one["seconds"])) for one in numbers["clock"]
    )
    columns = ("who", "fits", "first quartile", "median seconds", "third quartile")
    return f"""
## How long it takes

{_paragraph(clock)}
`wmlr bench search --parts clock --cases all` makes this table.

{markdown_table(ResultTable("", columns, rows))}
"""


def _among(numbers: Found) -> str:
    found = numbers["rounds"]
    if not found:
        return ""
    rows = tuple(
        (
            one["level"],
            one["who"],
            f"{one['found']} of {one['fits']}",
            f"{one['rounds']:.0f}",
            f"{one['within_80']} of {one['fits']}",
            f"{one['bytes'] / 1e6:.2f}",
        )
        for one in found
    )
    columns = ("level", "search", "no lower", "rounds of the fit", "within 80", "MB of an agent")
    return f"""
## Among agents

{_paragraph(rounds)} A budget is that of the search; the survey and the climbs add to it.
`wmlr bench search --parts rounds` makes this table.

{markdown_table(ResultTable("", columns, rows))}
"""


def _limits(numbers: Found) -> str:
    rows = tuple(
        (one["name"], f"{one['value']:.3g}", one["bound"], "met" if one["met"] else "**missed**")
        for one in numbers["limits"]
    )
    return f"## What it is to keep\n\n{markdown_table(ResultTable('', ('what', 'measured', 'to be', ''), rows))}"


def _rule() -> str:
    rule = (inspect.getdoc(real) or "").split("\n\n", 1)[1].rsplit("\n\n", 1)[0].replace("``", "`")
    return f"## How the data sets were chosen\n\n{rule}"


def _cases() -> str:
    rows = tuple((case.name, f"`{case.response}`", str(len(case.features)), f"{case.rows:,}") for case in real.cases())
    return markdown_table(ResultTable("", ("data set", "response", "features", "rows"), rows))


def _machine(machine: Found) -> str:
    return "## The machine\n\n" + "\n".join(f"- {name}: {value}" for name, value in machine.items())


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def figures(folder: Path) -> dict[str, Any]:
    """The pictures of the page by name."""
    numbers = read_result(folder)["numbers"]
    made = {}
    if numbers["summary"]:
        made["search-real"] = _shortfalls(numbers["summary"])
    if numbers["curves"]:
        made["search-phases"] = _diagrams(numbers["curves"])
    return made


def _figure(rows: int, columns: int) -> tuple[Any, Any]:
    from wmlr.plots import require

    require()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 3.6 * columns, 3.0 * rows), dpi=110, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _shortfalls(summary: Sequence[Found]) -> Any:
    figure, axes = _figure(1, 2)
    for place, (shared, name) in zip(axes[0], ((True, "one sigma"), (False, "a sigma each"))):
        for number, one in enumerate(one for one in summary if one["shared_sigma"] == shared):
            gaps = np.array([np.inf if gap is None else gap for gap in one["quantiles"]])
            shares = 100 * np.arange(1, len(gaps) + 1) / len(gaps)
            place.step(np.maximum(gaps, LEAST), shares, where="post", label=one["who"], **_style(number))
        place.set(xscale="log", xlim=(LEAST, MOST), ylim=(0, 101), title=name, xlabel="nats behind at most")
        place.grid(color="#E6E6E6", linewidth=0.7)
    axes[0][0].set_ylabel("% of fits")
    axes[0][1].legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _diagrams(curves: Sequence[Found]) -> Any:
    settings = list(dict.fromkeys(one["setting"] for one in curves))
    who = list(dict.fromkeys(one["who"] for one in curves))
    columns = min(PANELS, len(settings))
    figure, axes = _figure(-(-len(settings) // columns), columns)
    for place in axes.ravel()[len(settings) :]:
        place.set_axis_off()
    for place, setting in zip(axes.ravel(), settings):
        for one in (one for one in curves if one["setting"] == setting):
            place.plot(one["ratios"], one["shares"], marker=".", label=one["who"], **_style(who.index(one["who"])))
        place.set(xscale="log", ylim=(-0.03, 1.03), xlabel="rows per column")
        place.set_title(setting, fontsize=8)
        place.grid(color="#E6E6E6", linewidth=0.7)
    axes.ravel()[0].set_ylabel("share found")
    axes.ravel()[0].legend(fontsize=7, frameon=False)
    return figure


def _style(number: int) -> dict[str, Any]:
    turn, colour = divmod(number, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": DASHES[(number + turn) % len(DASHES)]}


def write(folder: Path, page: Path) -> None:
    """Write the page, and its pictures beside the results."""
    write_page(text(folder), figures(folder), folder, page)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
