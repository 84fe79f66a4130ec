"""Table 2: agents of ten rows; rounds to convergence, error, and what one agent sends and receives."""

from __future__ import annotations

from typing import Any

from wmlr.experiments.federated_cells import compared_cell, em_alphas, em_cell, em_rounds, gem_cell, gem_run
from wmlr.experiments.outcome import Numbers, ResultTable, Target, count, exponent, mean
from wmlr.experiments.plan import Plan
from wmlr.experiments.printed import SNRS_FEDERATED, TABLE2
from wmlr.experiments.store import Cell, Store

PRINTED = {"em": "F-EM, as the authors ran it", "gem": "F-GEM", "wmlr": "F-WMLR, drawn noise"}
FAIR = {
    "em_inner": "F-EM, inner gradients kept up to date",
    "em_statistics": "EM by sufficient statistics",
    "ifca": "IFCA",
    "refreshed_rows": "WMLR refreshed, row level",
    "refreshed_agents": "WMLR refreshed, agent level",
    "oracle": "oracle (labels known)",
}


def cells(plan: Plan) -> list[Cell]:
    wanted: list[Cell] = []
    for snr in SNRS_FEDERATED:
        for seed in range(plan.grid_sets):
            wanted += [gem_cell(plan, snr, seed), *(em_cell(plan, snr, stale, seed) for stale in (True, False))]
        for seed in range(plan.more):
            wanted.append(compared_cell(plan, snr, seed))
    return wanted


def numbers(plan: Plan, store: Store) -> Numbers:
    found: list[dict[str, Any]] = []
    for snr in SNRS_FEDERATED:
        runs = [store.read(compared_cell(plan, snr, seed)) for seed in range(plan.more)]
        grids = range(plan.grid_sets)
        stale, fresh = (
            [_fastest(store.read(em_cell(plan, snr, stale, seed)), em_rounds(plan, stale)) for seed in grids]
            for stale in (True, False)
        )
        methods = {
            "em": mean_over_sets(stale),
            "gem": _row([gem_run(plan, store, snr, seed) for seed in grids]),
            "wmlr": _row([run["wmlr"] for run in runs]),
            "em_inner": mean_over_sets(fresh),
        }
        methods |= {name: _row([run[name] for run in runs]) for name in FAIR if name != "em_inner"}
        ratios = [run["refreshed_agents"]["error"] / run["oracle"]["error"] for run in runs]
        most = max(run["refreshed_agents"]["rounds"] for run in runs)
        found.append(
            {
                "snr": snr,
                "seeds": len(runs),
                "methods": methods,
                "agent_level_over_oracle": max(ratios),
                "agent_level_most_rounds": most,
            }
        )
    return {
        "cells": found,
        "agents": plan.agents,
        "rows": plan.rows,
        "d": plan.d,
        "em_steps": [len(em_alphas(plan, stale)) for stale in (True, False)],
        "em_rounds": [em_rounds(plan, stale) for stale in (True, False)],
        "searched": plan.search,
        "grid_sets": plan.grid_sets,
    }


def _row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"error": mean(run["error"] for run in runs)}
    for part in ("iterations", "rounds", "bytes", "rounds_to_converge", "bytes_to_converge"):
        if all(run.get(part) is not None for run in runs):
            row[part] = mean(run[part] for run in runs)
    if len(runs) > 1 and "iterations" in row:
        row["error_range"] = [min(run["error"] for run in runs), max(run["error"] for run in runs)]
        row["iterations_range"] = [min(run["iterations"] for run in runs), max(run["iterations"] for run in runs)]
    return row


def mean_over_sets(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The fastest of every data set as one row; none where one of them did not converge."""
    if len(runs) == 1:
        return runs[0]
    error = mean(run["error"] for run in runs)
    if any(run["iterations"] is None for run in runs):
        return {"error": error, "iterations": None, "rounds": runs[0]["rounds"]}
    means = {part: mean(run[part] for run in runs) for part in ("iterations", "rounds", "bytes_to_converge")}
    return {"error": error, "value": runs[0]["value"], **means}


def _fastest(grid: dict[str, Any], rounds: int) -> dict[str, Any]:
    """As the paper chooses: among runs within 50% of the best final error, the fastest to converge.

    A run still moving at its end has not converged.
    """
    settled = {
        alpha: run for alpha, run in grid.items() if run["iterations"] is not None and not _still_changes(run, rounds)
    }
    best = min((run["error"] for run in grid.values()), default=float("inf"))
    near = {alpha: run for alpha, run in settled.items() if run["error"] <= 1.5 * best and run["error"] < 0.5}
    if not near:
        return {"error": best, "iterations": None, "rounds": rounds}
    alpha, run = min(near.items(), key=lambda item: int(item[1]["iterations"]))
    each = run["bytes"] / run["rounds"]
    return {
        "error": run["error"],
        "iterations": run["iterations"],
        "rounds": run["rounds"],
        "bytes_to_converge": each * run["iterations"],
        "value": float(alpha),
    }


def _still_changes(run: dict[str, Any], rounds: int) -> bool:
    """Whether a run that took all its rounds still changed its error by over 1% in the last tenth of them."""
    if run["run"] < rounds:
        return False
    curve = run["curve"]
    late = [float(error) for place, error in zip(curve["iteration"], curve["error"]) if place >= 0.9 * rounds]
    return max(late) > 1.01 * min(late)


def tables(found: Numbers) -> list[ResultTable]:
    rows: list[tuple[str, ...]] = []
    for cell in found["cells"]:
        for name, label in (PRINTED | FAIR).items():
            ours = cell["methods"][name]
            printed = TABLE2[cell["snr"]].get(name)
            stopped = ours.get("iterations", 0) is None
            rows.append(
                (
                    f"{cell['snr']:g}",
                    label,
                    count(printed[0] if printed else None) if name in PRINTED else "-",
                    "-" if name == "oracle" else count(ours.get("iterations")),
                    "-" if name == "oracle" else count(ours.get("rounds_to_converge", ours.get("iterations"))),
                    kilobytes(ours.get("bytes_to_converge")),
                    exponent(printed[1]) if printed else "-",
                    f"({exponent(ours['error'])})" if stopped else exponent(ours["error"]),
                )
            )
    seeds = found["cells"][0]["seeds"]
    sets = found.get("grid_sets", 1)
    columns = ("SNR", "method", "its. printed", "its. ours", "rounds", "kB per agent", "error printed", "error ours")
    return [
        ResultTable(
            f"Table 2: {found['agents']:,} agents of {found['rows']} rows",
            columns,
            tuple(rows),
            f"Ours: means over {seeds} data sets; F-EM and F-GEM on {'one' if sets == 1 else sets}, F-EM at "
            f"the fastest of {found['em_steps'][0]} and {found['em_steps'][1]} step sizes in at most "
            f"{found['em_rounds'][0]:,} and {found['em_rounds'][1]:,} rounds. "
            "Iterations as the appendix defines convergence; rounds and kilobytes (both ways) count the start "
            "as well. In brackets: the smallest error of a method that did not converge.",
        )
    ]


def kilobytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1000:,.0f}"


TARGET = Target("table2", "Table 2: the federated comparison", cells, numbers, tables)
