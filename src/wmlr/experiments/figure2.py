"""Figure 2: convergence over hyper-parameters, nine panels: F-EM at SNR 1, F-GEM and F-WMLR at four SNRs."""

from __future__ import annotations

from typing import Any

from wmlr.experiments import drawing
from wmlr.experiments.federated_cells import fastest, gem_cell, gem_run, grid_name, panel_cell
from wmlr.experiments.outcome import Numbers, ResultTable, Target, count, exponent
from wmlr.experiments.plan import Plan, federated_alpha
from wmlr.experiments.printed import SNRS_FEDERATED
from wmlr.experiments.store import Cell, Store

LABELS = {"em": "F-EM", "gem": "F-GEM", "wmlr": "F-WMLR"}
SYMBOLS = {"em": "α", "gem": "α", "wmlr": "λ"}


def panels() -> list[tuple[str, float]]:
    """In the paper's order, three to a row."""
    return [("em", 1.0), *((method, snr) for method in ("gem", "wmlr") for snr in SNRS_FEDERATED)]


def cells(plan: Plan) -> list[Cell]:
    return [
        *(panel_cell(plan, method, snr) for method, snr in panels()),
        *(gem_cell(plan, snr) for snr in SNRS_FEDERATED),
    ]


def numbers(plan: Plan, store: Store) -> Numbers:
    found: list[dict[str, Any]] = []
    for method, snr in panels():
        runs = store.read(panel_cell(plan, method, snr))
        if method == "gem":
            runs[grid_name(federated_alpha(snr))] = gem_run(plan, store, snr)
        found.append({"method": method, "snr": snr, "runs": runs, "fastest": fastest(runs)})
    return {"panels": found, "searched": plan.search}


def tables(found: Numbers) -> list[ResultTable]:
    rows = []
    for panel in found["panels"]:
        for value, run in panel["runs"].items():
            rows.append(
                (
                    LABELS[panel["method"]],
                    f"{panel['snr']:g}",
                    f"{SYMBOLS[panel['method']]} = {float(value):.2g}",
                    count(run["iterations"]),
                    exponent(run["error"]),
                    "fastest" if value == panel["fastest"] else "",
                )
            )
    columns = ("method", "SNR", "value", "iterations", "final error", "")
    note = (
        "The full grids."
        if found["searched"]
        else "Some values of the grids around the paper's choices; only the chosen F-GEM is run to its end."
    )
    return [ResultTable("Figure 2: convergence over hyper-parameters", columns, tuple(rows), note)]


def figures(found: Numbers) -> dict[str, Any]:
    return {"figure2": drawing.panels(found["panels"], LABELS, SYMBOLS)}


TARGET = Target("figure2", "Figure 2: nine panels over hyper-parameters", cells, numbers, tables, figures)
