"""Theorem 3 measured: references from aligned to orthogonal, its condition, and whether WMLR succeeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from wmlr import GDA, theory
from wmlr.core.round import run_together
from wmlr.engines import ArrayRows
from wmlr.experiments import drawing
from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent, format_fixed, mean
from wmlr.experiments.plan import Plan
from wmlr.experiments.problems import PaperProblem, relative_error
from wmlr.experiments.store import Cell, Store
from wmlr.inference.fisher import cramer_rao
from wmlr.model.mixture import Mixture

ANGLES = (0.0, 30.0, 45.0, 60.0, 70.0, 80.0, 85.0, 88.0, 90.0)
SNR = 5.0
SUCCESS = 2.0


def errors_by_angle(
    n: int, d: int, snr: float, seed: int, iterations: int, angles: tuple[float, ...]
) -> dict[str, Any]:
    """GDA with a unit reference at each angle from beta*, and with the spectral one, on the same rows."""
    problem = PaperProblem(n, d, snr, seed)
    data = problem.draw()
    truth = data.coef[0]
    axis = truth / np.linalg.norm(truth)
    across = np.random.default_rng(problem.start_seed).standard_normal(d)
    across -= (across @ axis) * axis
    across /= np.linalg.norm(across)
    references = {
        f"{angle:g}": np.cos(np.deg2rad(angle)) * axis + np.sin(np.deg2rad(angle)) * across for angle in angles
    }
    references["spectral"] = theory.spectral_reference(data.X, data.y)
    task = problem.task(iterations, start="random", sigma=1.0)
    solvers = [
        GDA(lam=0.41, regularizer="halved", coordinates="raw", nodes=8, reference=reference)
        for reference in references.values()
    ]
    fits = run_together([solver.fit(task) for solver in solvers], ArrayRows(data.X, data.y))
    outcome: dict[str, Any] = {}
    for (name, reference), fit in zip(references.items(), fits):
        condition = theory.correlation_condition(truth, data.X, reference=reference)
        outcome[name] = {
            "probability": condition.probability,
            "gaussian": condition.gaussian,
            "cosine": condition.cosine,
            "error": relative_error(fit.mixture.coef[0], truth),
        }
    return outcome


def _cell(plan: Plan, seed: int) -> Cell:
    n, iterations = (1_000, 150) if plan.quick else (10_000, 500)
    return Cell.of("turned", 3e-6 * n * iterations, n=n, d=16, snr=SNR, seed=seed, iterations=iterations, angles=ANGLES)


def cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, seed) for seed in range(plan.few)]


def numbers(plan: Plan, store: Store) -> Numbers:
    runs = [store.read(_cell(plan, seed)) for seed in range(plan.few)]
    given = _cell(plan, 0).keywords
    pair = Mixture.symmetric_pair(given["snr"] * np.eye(given["d"])[0], 1.0)
    bound = cramer_rao(pair, n=given["n"]).relative_error
    found = [
        {
            "reference": name,
            "probability": mean(run[name]["probability"] for run in runs),
            "gaussian": mean(run[name]["gaussian"] for run in runs),
            "cosine": mean(run[name]["cosine"] for run in runs),
            "holds": all(run[name]["probability"] == 1.0 for run in runs),
            "median_error": float(np.median([run[name]["error"] for run in runs])),
            "successes": sum(run[name]["error"] <= SUCCESS * bound for run in runs),
        }
        for name in runs[0]
    ]
    return {"cells": found, "runs": len(runs), "snr": SNR, "cramer_rao": bound}


def tables(found: Numbers) -> list[ResultTable]:
    rows = tuple(
        (
            cell["reference"] if cell["reference"] == "spectral" else f"{cell['reference']}°",
            format_fixed(cell["cosine"]),
            format_fixed(cell["probability"]),
            "yes" if cell["holds"] else "no",
            exponent(cell["median_error"]),
            f"{cell['successes']} of {found['runs']}",
        )
        for cell in found["cells"]
    )
    columns = ("reference", "|cos|", "probability", "condition holds", "median error", "successes")
    note = (
        f"SNR {found['snr']:g}, exact expectation, random start; success is an error of at most "
        f"{SUCCESS:g} times the Cramer-Rao bound, {exponent(found['cramer_rao'])}."
    )
    return [ResultTable("Theorem 3: the correlation condition and success", columns, rows, note)]


def figures(found: Numbers) -> dict[str, Any]:
    turned_cells = [cell for cell in found["cells"] if cell["reference"] != "spectral"]
    x = [float(cell["reference"]) for cell in turned_cells]
    shares = [cell["successes"] / found["runs"] for cell in turned_cells]
    series = [
        {
            "x": x,
            "y": [cell["probability"] for cell in turned_cells],
            "label": "probability in the condition",
            "style": "o-",
        },
        {
            "x": x,
            "y": [10 * cell["median_error"] for cell in turned_cells],
            "label": "median error, times 10",
            "style": "s-",
        },
        {"x": x, "y": shares, "label": "share of successes", "style": "^--"},
    ]
    title = "Reference vectors from aligned to orthogonal"
    axis = "angle between reference and β* (degrees)"
    return {"correlation": drawing.lines(series, x=axis, y="", title=title, log_x=False, log_y=False)}


TARGET = Target("correlation", "The correlation condition, measured", cells, numbers, tables, figures)
