"""Table 3: the hyper-parameters the search finds, and what they cost or gain beside the printed ones."""

from __future__ import annotations

from typing import Any

from wmlr.experiments import figure2
from wmlr.experiments.federated_cells import fastest, grid_name, panel_cell
from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent, mean
from wmlr.experiments.plan import Plan, central_alpha, central_lambda
from wmlr.experiments.printed import FEDERATED_ALPHAS, FEDERATED_LAMBDAS, SNRS_CENTRAL, TABLE3, on_grid
from wmlr.experiments.store import Cell, Store, Values
from wmlr.experiments.table1 import choose_by_nll, search_cell, seeds

FEDERATED = {"em": "F-EM", "gem": "F-GEM", "wmlr": "F-WMLR"}


def cells(plan: Plan) -> list[Cell]:
    wanted = [*figure2.cells(plan)]
    if plan.search:
        wanted += [search_cell(plan, n, *one) for n in plan.sizes for one in _central_sets(plan)]
        wanted += [panel_cell(plan, *panel, seed) for panel in figure2.panels() for seed in range(plan.grid_sets)]
    return wanted


def _central_sets(plan: Plan) -> list[tuple[float, int]]:
    return [(snr, seed) for snr in SNRS_CENTRAL for seed in range(seeds(plan))]


def numbers(plan: Plan, store: Store) -> Numbers:
    return {"cells": [*_central_cells(plan, store), *_federated_cells(plan, store)], "searched": plan.search}


def _central_cells(plan: Plan, store: Store) -> list[dict[str, Any]]:
    """The value of the smallest NLL, as the paper chooses, on the first data set and on the others."""
    found: list[dict[str, Any]] = []
    for n in plan.sizes if plan.search else plan.sizes[:1]:
        for snr in reversed(SNRS_CENTRAL):
            sets = range(seeds(plan)) if plan.search else ()
            grids = [store.read(search_cell(plan, n, snr, seed)) for seed in sets]
            for method, label, used in (("gem", "GEM", central_alpha(snr)), ("wmlr", "WMLR", central_lambda(snr))):
                row = {"method": label, "snr": snr, "n": n, "printed": TABLE3[label][snr], "used": used, "found": None}
                if grids:
                    chosen: list[float | None] = [choose_by_nll(grid, method) for grid in grids]
                    row |= _compare([_errors(grid, f"{method} ") for grid in grids], chosen, used)
                found.append(row)
    return found


def _federated_cells(plan: Plan, store: Store) -> list[dict[str, Any]]:
    """Among values within 50% of the best final error, the fastest, as the paper chooses."""
    found: list[dict[str, Any]] = []
    for method, snr in figure2.panels():
        label = FEDERATED[method]
        printed = TABLE3[label][snr]
        grids = [store.read(panel_cell(plan, method, snr, seed)) for seed in range(plan.grid_sets)]
        names = [fastest(grid) for grid in grids]
        row = {"method": label, "snr": snr, "printed": printed, "used": printed}
        row["found"] = None if names[0] is None else float(names[0])
        if plan.search and printed is not None:
            used = on_grid(FEDERATED_LAMBDAS if method == "wmlr" else FEDERATED_ALPHAS, printed)
            chosen = [None if name is None else float(name) for name in names]
            row |= _compare([_errors(grid) for grid in grids], chosen, used)
        found.append(row)
    return found


def _errors(grid: Values, prefix: str = "") -> dict[str, float]:
    """The final error at every value of a grid, by the value's name."""
    return {name.removeprefix(prefix): run["error"] for name, run in grid.items() if name.startswith(prefix)}


def _compare(errors: list[dict[str, float]], chosen: list[float | None], used: float) -> dict[str, Any]:
    """What is found on each data set, and the mean errors there at the printed value and at the ones found."""
    compared: dict[str, Any] = {"found": chosen[0], "found_on_each": chosen, "used": used}
    compared["error_printed"] = mean(each[grid_name(used)] for each in errors)
    at_found = [each[grid_name(value)] for each, value in zip(errors, chosen) if value is not None]
    if at_found:
        compared["error_found"] = mean(at_found)
    return compared


def tables(found: Numbers) -> list[ResultTable]:
    columns: tuple[str, ...] = ("method", "SNR", "printed", "found")
    if not found["searched"]:
        note = "Found among the values drawn in Figure 2, not on the full grids: run with --search for those."
        return [ResultTable("Table 3: hyper-parameters", columns, tuple(_row(cell) for cell in found["cells"]), note)]
    rows = tuple((*_row(cell), *_row_of_search(cell)) for cell in found["cells"])
    columns = ("method", "SNR", "printed", "found", "n", "on each data set", "error at printed", "error at found")
    note = (
        "Found on the paper's full grids, on the first of several data sets, which have a value each in the sixth "
        "column; errors are means over them, at the value of the grid nearest to the printed one (2.78 where none is "
        "printed) and at the one found on each."
    )
    return [ResultTable("Table 3: hyper-parameters", columns, rows, note)]


def _row(cell: dict[str, Any]) -> tuple[str, ...]:
    printed = "did not converge" if cell["printed"] is None else f"{cell['printed']:g}"
    return cell["method"], f"{cell['snr']:g}", printed, _value(cell["found"])


def _row_of_search(cell: dict[str, Any]) -> tuple[str, ...]:
    each = " ".join(_value(value) for value in cell.get("found_on_each", []))
    n = f"{cell['n']:,}" if "n" in cell else "agents"
    return n, each, exponent(cell.get("error_printed")), exponent(cell.get("error_found"))


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


TARGET = Target("table3", "Table 3: hyper-parameters", cells, numbers, tables)
