"""Figure 1: error against iteration in the federated setting."""

from __future__ import annotations

from typing import Any

from wmlr.experiments import drawing
from wmlr.experiments.federated_cells import compared_cell, em_cell, gem_cell, gem_run
from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent
from wmlr.experiments.plan import Plan
from wmlr.experiments.store import Cell, Store

SNRS = (10.0, 5.0, 1.0)
SHOWN = (10, 50, 100, 150)


def cells(plan: Plan) -> list[Cell]:
    wanted = [em_cell(plan, 1.0, stale=True)]
    for snr in SNRS:
        wanted += [compared_cell(plan, snr, 0), gem_cell(plan, snr)]
    return wanted


def numbers(plan: Plan, store: Store) -> Numbers:
    curves: list[dict[str, Any]] = []
    for snr in SNRS:
        curves.append(
            {"method": "F-WMLR", "snr": snr, "curve": store.read(compared_cell(plan, snr, 0))["wmlr"]["curve"]}
        )
    for snr in SNRS:
        curves.append({"method": "F-GEM", "snr": snr, "curve": gem_run(plan, store, snr)["curve"]})
    runs = store.read(em_cell(plan, 1.0, stale=True))
    alpha = min(runs, key=lambda value: (float(runs[value]["error"]) > 0.5, runs[value]["iterations"] or 1e9))
    curves.append({"method": "F-EM", "snr": 1.0, "curve": runs[alpha]["curve"]})
    for snr in SNRS:
        fair = store.read(compared_cell(plan, snr, 0))["refreshed_agents"]["curve"]
        curves.append({"method": "refreshed, agent level", "snr": snr, "curve": fair})
    return {"curves": curves, "length": plan.wmlr_rounds}


def tables(found: Numbers) -> list[ResultTable]:
    rows = []
    for line in found["curves"]:
        curve = dict(zip(line["curve"]["iteration"], line["curve"]["error"]))
        last = max(curve)
        errors = [exponent(curve.get(place, curve[last] if place > last else None)) for place in SHOWN]
        rows.append((line["method"], f"{line['snr']:g}", *errors))
    columns = ("method", "SNR", *(f"iteration {place}" for place in SHOWN))
    return [ResultTable("Figure 1: relative error against iteration", columns, tuple(rows))]


def figures(found: Numbers) -> dict[str, Any]:
    return {"figure1": drawing.convergence(found["curves"], found["length"])}


TARGET = Target("figure1", "Figure 1: convergence with agents", cells, numbers, tables, figures)
