"""Recipes on the federated problem: agents of a few rows, each agent's rows from one component."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wmlr import EM, MixedLinearRegression, Refreshed
from wmlr.core.round import Finished, Fit, Method, Report, run, run_together, with_relay
from wmlr.datasets import MixedRegression
from wmlr.engines import ArrayRows
from wmlr.experiments.central import printed_gem, printed_wmlr, wmlr_task
from wmlr.experiments.federated_cells import grid_name
from wmlr.experiments.inner import InnerEM
from wmlr.experiments.problems import PaperProblem, Watch, converged_at, relative_error, stop_divergence, thin_curve
from wmlr.experiments.race import Race
from wmlr.federated import Federation
from wmlr.methods.ifca import IFCA
from wmlr.numerics.arrays import Array

FLOAT = 8
MOST_ROUNDS = 500
STILL = 1e-9


def gem(agents: int, rows: int, d: int, snr: float, seed: int, alpha: float, iterations: int) -> dict[str, Any]:
    """F-GEM with the authors' choices."""
    problem = PaperProblem(agents * rows, d, snr, seed, rows)
    data = problem.draw()
    return _run_and_count(printed_gem(alpha).fit(problem.task(iterations, tol=STILL)), data, "row")


def inner_em(
    agents: int,
    rows: int,
    d: int,
    snr: float,
    seed: int,
    alphas: Sequence[float],
    iterations: int,
    stale: bool,
    kept: Sequence[float] | None = None,
) -> dict[str, Any]:
    """F-EM by inner gradient rounds for every alpha, on the same data, sharing the passes; ``kept`` as in a grid."""
    problem = PaperProblem(agents * rows, d, snr, seed, rows)
    data = problem.draw()
    runs = {grid_name(alpha): InnerEM(alpha, stale=stale, half_gradient=stale) for alpha in alphas}
    outcome = _grid({name: solver.fit(problem.task(iterations)) for name, solver in runs.items()}, data, kept)
    for values in outcome.values():
        values["bytes"] = 2 * FLOAT * (d + 1) * values["rounds"]
    return outcome


def compare_methods(
    agents: int, rows: int, d: int, snr: float, seed: int, lam: float, iterations: int
) -> dict[str, Any]:
    """F-WMLR with the authors' choices, and what else can be done with the same agents.

    Exact EM by sufficient statistics, refreshed WMLR at both levels, IFCA from the paper's start with each agent
    choosing as a whole, and least squares with the labels known.
    """
    problem = PaperProblem(agents * rows, d, snr, seed, rows)
    data = problem.draw()
    truth = data.coef[0]
    printed = printed_wmlr(lam).fit(replace(wmlr_task(problem, iterations), tol=1e-5))
    outcome = {
        "wmlr": _run_and_count(printed, data, "row"),
        "em_statistics": _run_and_count(EM().fit(problem.task(MOST_ROUNDS, tol=1e-9)), data, "row"),
        "refreshed_rows": _run_and_count(
            Refreshed().fit(problem.task(MOST_ROUNDS, start="auto", tol=1e-6)), data, "row"
        ),
        "refreshed_agents": _fit_agents(data),
        "ifca": _run_and_count(IFCA().fit(problem.task(MOST_ROUNDS, tol=STILL)), data, "agent"),
    }
    signed = np.where(data.labels == 0, data.y, -data.y)
    oracle: Array = np.asarray(np.linalg.lstsq(data.X, signed, rcond=None)[0], dtype=np.float64)
    outcome["oracle"] = {"error": relative_error(oracle, truth)}
    return outcome


def grid(
    agents: int,
    rows: int,
    d: int,
    snr: float,
    seed: int,
    method: str,
    values: Sequence[float],
    iterations: int,
    kept: Sequence[float] | None = None,
) -> dict[str, Any]:
    """One panel of Figure 2: a method at several hyper-parameters, sharing the passes over the same data.

    Where only the fastest is sought, ``kept`` are the values to run to their ends though they lose the race; None is
    all of them, without a race.
    """
    problem = PaperProblem(agents * rows, d, snr, seed, rows)
    data = problem.draw()
    make: dict[str, Callable[[float], Method[Fit]]] = {
        "wmlr": lambda lam: printed_wmlr(lam).fit(wmlr_task(problem, iterations)),
        "gem": lambda alpha: printed_gem(alpha).fit(problem.task(iterations, tol=STILL)),
    }
    outcome = _grid({grid_name(value): make[method](value) for value in values}, data, kept)
    price = _price_of_rounds(make[method](values[0]), data)
    for found in outcome.values():
        if found["iterations"] is not None:
            found |= {name: int(first + each * found["iterations"]) for name, (first, each) in price.items()}
    return outcome


def _price_of_rounds(method: Method[Fit], data: MixedRegression) -> dict[str, tuple[float, float]]:
    """Rounds and bytes of one agent: those of the start, and of every iteration after it, by the ledger."""
    federation = Federation.split(data.X, data.y, data.groups, level="row", n_jobs=1)
    seen: list[dict[str, float]] = []

    def stop_after_two(report: Report) -> Report:
        seen.append(federation.ledger.totals())
        if len(seen) == 3:
            raise Finished(Fit(report.mixture, float("nan"), 2, False))
        return report

    with np.errstate(all="ignore"):
        run(with_relay(method, report=stop_after_two), federation)
    start, _, last = [
        {"rounds_to_converge": one["rounds"], "bytes_to_converge": one["bytes_down"] + one["bytes_up"]} for one in seen
    ]
    return {name: (start[name], (last[name] - start[name]) / 2) for name in start}


def _grid(methods: dict[str, Method[Fit]], data: MixedRegression, kept: Sequence[float] | None) -> dict[str, Any]:
    watches = {name: Watch(data.coef[0]) for name in methods}
    race = Race(watches, list(methods) if kept is None else [grid_name(value) for value in kept])
    runs = [race.enter(name, stop_divergence(method)) for name, method in methods.items()]
    with np.errstate(all="ignore"):
        run_together(runs, ArrayRows(data.X, data.y), list(watches.values()))
    outcome = {name: _curve(watch) | {"rounds": len(watch.errors) - 1} for name, watch in watches.items()}
    return outcome | {name: outcome[name] | {"iterations": None, "stopped": True} for name in race.stopped}


def _curve(watch: Watch) -> dict[str, Any]:
    return {
        "error": watch.errors[-1],
        "iterations": converged_at(watch.errors),
        "run": len(watch.errors) - 1,
        "curve": thin_curve(watch.errors),
    }


def _run_and_count(method: Method[Fit], data: MixedRegression, level: str) -> dict[str, Any]:
    """Run a method on the agents and read the ledger: rounds and bytes of one agent, start included."""
    federation = Federation.split(data.X, data.y, data.groups, level=level, n_jobs=1)
    watch = Watch(data.coef[0], federation.ledger.totals)
    with np.errstate(all="ignore"):
        run(stop_divergence(method), federation, watch)
    return _ledger(watch, federation)


def _fit_agents(data: MixedRegression) -> dict[str, Any]:
    """Agent-level refreshed WMLR as a user would call it."""
    federation = Federation.split(data.X, data.y, data.groups, level="agent", n_jobs=1)
    watch = Watch(data.coef[0], federation.ledger.totals)
    MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation, watch)
    return _ledger(watch, federation)


def _ledger(watch: Watch, federation: Federation) -> dict[str, Any]:
    outcome = _curve(watch)
    last = federation.ledger.totals()
    outcome["rounds"] = int(last["rounds"])
    outcome["bytes"] = int(last["bytes_down"] + last["bytes_up"])
    reached = outcome["iterations"]
    if reached is not None:
        then = watch.records[reached]
        outcome["rounds_to_converge"] = int(then["rounds"])
        outcome["bytes_to_converge"] = int(then["bytes_down"] + then["bytes_up"])
    return outcome
