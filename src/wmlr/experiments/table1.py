"""Table 1: NLL and relative error at iteration 100, centralised, with the fair methods beside the printed ones."""

from __future__ import annotations

from typing import Any

from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent, format_fixed, mean
from wmlr.experiments.plan import CENTRAL_SIZES, Plan, central_alpha, central_lambda
from wmlr.experiments.printed import CENTRAL_ALPHAS, CENTRAL_LAMBDAS, SNRS_CENTRAL, TABLE1
from wmlr.experiments.store import Cell, Store

METHODS = {
    "em": "EM, as printed",
    "gem": "GEM, as printed",
    "wmlr": "WMLR, drawn noise",
    "em_least_squares": "EM, least-squares M-step",
    "wmlr_exact": "WMLR, exact expectation",
    "wmlr_refreshed": "WMLR, refreshed",
    "cramer_rao": "Cramer-Rao bound",
}


def seeds(plan: Plan) -> int:
    return min(plan.few, 3)


def comparison_cell(plan: Plan, n: int, snr: float, seed: int) -> Cell:
    chosen = {"lam": central_lambda(snr), "alpha": central_alpha(snr)}
    given = plan.central(n, snr, seed) | chosen
    return Cell.of("central_comparison", 350 * plan.passes(n), iterations=plan.iterations, **given)


def search_cell(plan: Plan, n: int, snr: float, seed: int) -> Cell:
    grids: dict[str, Any] = {"lams": CENTRAL_LAMBDAS, "alphas": CENTRAL_ALPHAS}
    given = plan.central(n, snr, seed) | grids
    return Cell.of("central_search", 2_500 * plan.passes(n), iterations=plan.iterations, **given)


def cells(plan: Plan) -> list[Cell]:
    return [
        comparison_cell(plan, n, snr, seed) for n in plan.sizes for snr in SNRS_CENTRAL for seed in range(seeds(plan))
    ]


def numbers(plan: Plan, store: Store) -> Numbers:
    found: list[dict[str, Any]] = []
    for size, n in zip(CENTRAL_SIZES, plan.sizes):
        for snr in SNRS_CENTRAL:
            runs = [store.read(comparison_cell(plan, n, snr, seed)) for seed in range(seeds(plan))]
            methods: dict[str, Any] = {}
            for name in METHODS:
                methods[name] = {"error": mean(run[name]["error"] for run in runs)}
                if "nll" in runs[0][name]:
                    methods[name]["nll"] = mean(run[name]["nll"] for run in runs)
                    methods[name]["iterations"] = mean(run[name]["iterations"] for run in runs)
            found.append({"n": n, "d": plan.d, "printed_n": size, "snr": snr, "seeds": len(runs), "methods": methods})
    return {"cells": found}


def choose_by_nll(grid: dict[str, Any], method: str) -> float:
    """The value of the grid with the smallest final NLL, as the paper chooses."""
    name = min((name for name in grid if name.startswith(f"{method} ")), key=lambda name: float(grid[name]["nll"]))
    return float(name.split()[1])


def tables(found: Numbers) -> list[ResultTable]:
    rows: list[tuple[str, ...]] = []
    for cell in found["cells"]:
        printed = TABLE1[cell["printed_n"], cell["snr"]]
        for name, label in METHODS.items():
            ours = cell["methods"][name]
            nll, error = printed.get(name, (None, None))
            rows.append(
                (
                    f"{cell['n']:,}",
                    f"{cell['snr']:g}",
                    label,
                    format_fixed(nll),
                    format_fixed(ours.get("nll")),
                    exponent(error),
                    exponent(ours["error"]),
                    f"{ours['iterations']:.0f}" if "iterations" in ours else "-",
                )
            )
    runs = found["cells"][0]["seeds"]
    return [
        ResultTable(
            "Table 1: centralised, iteration 100",
            ("n", "SNR", "method", "NLL printed", "NLL ours", "error printed", "error ours", "iterations"),
            tuple(rows),
            f"Ours: mean over {runs} data sets; GEM and WMLR at the paper's chosen values.",
        )
    ]


TARGET = Target("table1", "Table 1: the centralised comparison", cells, numbers, tables)
