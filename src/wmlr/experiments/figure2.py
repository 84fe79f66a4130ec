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
STOPPED = (
    "from iteration 200 on a run was stopped once another had converged and it had not, or once another had for half "
    "of its iterations been ahead of where it was then and at the start, by 50% of the error (5% where that was over "
    "0.5); the printed values ran to their ends."
)
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
                    f"stopped at {run['run']:,}" if run.get("stopped") else count(run["iterations"]),
                    f"({exponent(run['error'])})" if run.get("stopped") else exponent(run["error"]),
                    "fastest" if value == panel["fastest"] else "",
                )
            )
    columns = ("method", "SNR", "value", "iterations", "final error", "")
    note = (
        f"The full grids. F-EM and F-GEM were a race: {STOPPED} In brackets: the error there."
        if found["searched"]
        else "Some values of the grids around the paper's choices; only the chosen F-GEM is run to its end."
    )
    return [ResultTable("Figure 2: convergence over hyper-parameters", columns, tuple(rows), note)]


def figures(found: Numbers) -> dict[str, Any]:
    return {"figure2": drawing.panels(found["panels"], LABELS, SYMBOLS)}


TARGET = Target("figure2", "Figure 2: nine panels over hyper-parameters", cells, numbers, tables, figures)
