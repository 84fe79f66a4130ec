"""Table 3: the hyper-parameters the search finds."""

from __future__ import annotations

from typing import Any

from wmlr.experiments import figure2
from wmlr.experiments.federated_cells import fastest, panel_cell
from wmlr.experiments.outcome import Numbers, Table, Target
from wmlr.experiments.plan import Plan, central_alpha, central_lambda
from wmlr.experiments.printed import SNRS_CENTRAL, TABLE3
from wmlr.experiments.store import Cell, Store
from wmlr.experiments.table1 import choose_by_nll, search_cell

FEDERATED = {"em": "F-EM", "gem": "F-GEM", "wmlr": "F-WMLR"}


def cells(plan: Plan) -> list[Cell]:
    wanted = figure2.cells(plan)
    if plan.search:
        wanted += [search_cell(plan, plan.sizes[0], snr) for snr in SNRS_CENTRAL]
    return wanted


def numbers(plan: Plan, store: Store) -> Numbers:
    found: list[dict[str, Any]] = []
    for snr in reversed(SNRS_CENTRAL):
        grid = store.read(search_cell(plan, plan.sizes[0], snr)) if plan.search else None
        for method, label, default in (("gem", "GEM", central_alpha(snr)), ("wmlr", "WMLR", central_lambda(snr))):
            best = choose_by_nll(grid, method)["value"] if grid else None
            found.append({"method": label, "snr": snr, "printed": TABLE3[label][snr], "used": default, "found": best})
    for method, snr in figure2.panels():
        label = FEDERATED[method]
        best_value = fastest(store.read(panel_cell(plan, method, snr)))
        printed = TABLE3[label][snr]
        best = None if best_value is None else float(best_value)
        found.append({"method": label, "snr": snr, "printed": printed, "used": printed, "found": best})
    return {"cells": found, "searched": plan.search}


def tables(found: Numbers) -> list[Table]:
    rows = tuple(
        (
            cell["method"],
            f"{cell['snr']:g}",
            "did not converge" if cell["printed"] is None else f"{cell['printed']:g}",
            "-" if cell["found"] is None else f"{cell['found']:.2g}",
        )
        for cell in found["cells"]
    )
    note = (
        "Found on the paper's full grids."
        if found["searched"]
        else "Found among the values drawn in Figure 2, not on the full grids: run with --search for those."
    )
    return [Table("Table 3: hyper-parameters", ("method", "SNR", "printed", "found"), rows, note)]


TARGET = Target("table3", "Table 3: hyper-parameters", cells, numbers, tables)
