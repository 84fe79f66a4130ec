"""Linear sample complexity measured: error against n at fixed d, and against d at fixed n/d."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma
from scipy.stats import linregress
from scipy.stats import t as student

from wmlr import GDA, Refreshed
from wmlr.core.round import run_together
from wmlr.engines import ArrayRows
from wmlr.experiments import drawing
from wmlr.experiments.outcome import Numbers, ResultTable, Target, format_fixed
from wmlr.experiments.plan import Plan
from wmlr.experiments.problems import PaperProblem, Watch, relative_error
from wmlr.experiments.store import Cell, Store

SNR = 5.0
METHODS = {"wmlr": "WMLR, exact expectation", "wmlr_refreshed": "WMLR, refreshed"}
LEVEL = 0.95


def errors_at_size(n: int, d: int, snr: float, seed: int, iterations: int, start: str) -> dict[str, Any]:
    """Both methods' errors on one data set of n rows and d features."""
    problem = PaperProblem(n, d, snr, seed)
    data = problem.draw()
    methods = [
        GDA(lam=0.41, regularizer="halved", coordinates="raw", nodes=8).fit(
            problem.task(iterations, start=start, sigma=1.0)
        ),
        Refreshed().fit(problem.task(iterations, start=start, tol=1e-9)),
    ]
    fits = run_together(methods, ArrayRows(data.X, data.y), [Watch(data.coef[0]) for _ in methods])
    return {name: relative_error(fit.mixture.coef[0], data.coef[0]) for name, fit in zip(METHODS, fits)}


def sweeps(plan: Plan) -> dict[str, list[tuple[int, int]]]:
    """(n, d) along each sweep."""
    if plan.quick:
        return {"n": [(n, 8) for n in (500, 1_000, 2_000, 4_000)], "d": [(100 * d, d) for d in (4, 8, 16)]}
    return {
        "n": [(n, 32) for n in (2_000, 4_000, 8_000, 16_000, 32_000)],
        "d": [(250 * d, d) for d in (8, 16, 32, 64, 128)],
    }


def _cell(plan: Plan, n: int, d: int, seed: int) -> Cell:
    return Cell.of("sized", 4e-7 * n * d, n=n, d=d, snr=SNR, seed=seed, iterations=plan.iterations, start="spectral")


def cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, n, d, seed) for sizes in sweeps(plan).values() for n, d in sizes for seed in range(plan.more)]


def numbers(plan: Plan, store: Store) -> Numbers:
    found: Numbers = {"snr": SNR, "seeds": plan.more, "sweeps": {}}
    for along, sizes in sweeps(plan).items():
        errors = {
            name: [[store.read(_cell(plan, n, d, seed))[name] for seed in range(plan.more)] for n, d in sizes]
            for name in METHODS
        }
        places = [size[0] if along == "n" else size[1] for size in sizes]
        found["sweeps"][along] = {
            "sizes": [list(size) for size in sizes],
            "errors": errors,
            "slopes": {name: slope(places, errors[name]) for name in METHODS},
        }
    return found


def slope(places: list[int], errors: list[list[float]]) -> dict[str, float]:
    """Of log error on log size, over all runs, with its 95% interval."""
    x = np.log(np.repeat(places, len(errors[0])))
    line = linregress(x, np.log(np.ravel(errors)))
    half = float(student.ppf(0.5 + LEVEL / 2, len(x) - 2)) * float(line.stderr)
    return {"slope": float(line.slope), "low": float(line.slope) - half, "high": float(line.slope) + half}


def flat_slope(dimensions: list[int]) -> float:
    """The slope of the mean log length of d independent errors, each of variance 1/d, on log d."""
    d = np.array(dimensions, dtype=np.float64)
    return float(linregress(np.log(d), 0.5 * (digamma(d / 2) + np.log(2 / d))).slope)


def tables(found: Numbers) -> list[ResultTable]:
    rows = []
    few = flat_slope([size[1] for size in found["sweeps"]["d"]["sizes"]])
    for along, expected, text in (("n", -0.5, "n at fixed d"), ("d", few, "d at fixed n/d")):
        for name, label in METHODS.items():
            line = found["sweeps"][along]["slopes"][name]
            inside = line["low"] <= expected <= line["high"]
            rows.append(
                (text, label, f"{expected:.3g}", format_fixed(line["slope"]),
                 f"[{format_fixed(line['low'])}, {format_fixed(line['high'])}]", "yes" if inside else "no")
            )  # fmt: skip
    columns = ("against", "method", "linear complexity means", "slope", "95% interval", "inside")
    note = (
        f"Slope of log error on log size, SNR {found['snr']:g}, {found['seeds']} data sets per size. At fixed n/d an "
        f"error of sqrt(d/n) has a mean logarithm that rises by {few:.3f}, not by 0: with few coordinates its "
        "length varies more."
    )
    return [ResultTable("Sample complexity: error ~ sqrt(d/n)", columns, tuple(rows), note)]


def figures(found: Numbers) -> dict[str, Any]:
    drawn = {}
    for along, axis, title in (
        ("n", "n", "Error against n at fixed d"),
        ("d", "d", "Error against d at fixed n/d"),
    ):
        sweep = found["sweeps"][along]
        places = [size[0] if along == "n" else size[1] for size in sweep["sizes"]]
        series = []
        for name, label in METHODS.items():
            errors = np.array(sweep["errors"][name])
            line = sweep["slopes"][name]
            series.append(
                {
                    "x": places, "y": np.median(errors, axis=1).tolist(),
                    "low": errors.min(axis=1).tolist(), "high": errors.max(axis=1).tolist(), "style": "o-",
                    "label": f"{label}: slope {line['slope']:.3f} [{line['low']:.3f}, {line['high']:.3f}]",
                }
            )  # fmt: skip
        drawn[f"sample-complexity-{along}"] = drawing.lines(series, x=axis, y="relative error of β", title=title)
    return drawn


TARGET = Target("sample-complexity", "Linear sample complexity, measured", cells, numbers, tables, figures)
