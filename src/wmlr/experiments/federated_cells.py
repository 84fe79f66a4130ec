"""The cells of the federated experiments, shared between Tables 2 and 3 and both figures."""

from __future__ import annotations

from typing import Any

from wmlr.experiments.plan import Plan, around, federated_alpha, federated_lambda
from wmlr.experiments.printed import FEDERATED_ALPHAS, FEDERATED_LAMBDAS, TABLE3, on_grid
from wmlr.experiments.store import Cell, Store, Values


def compared_cell(plan: Plan, snr: float, seed: int) -> Cell:
    rounds = 2 * plan.wmlr_rounds
    cost = (1.3 * rounds + 100) * plan.passes(plan.agents * plan.rows)
    return Cell.of(
        "federated_compared", cost, **plan.federation, snr=snr, seed=seed, lam=federated_lambda(snr), iterations=rounds
    )


def gem_cell(plan: Plan, snr: float, seed: int = 0) -> Cell:
    """F-GEM at the paper's step: a run of its own, or with its grid."""
    if plan.search:
        return panel_cell(plan, "gem", snr, seed)
    rounds = plan.gem_rounds[snr]
    cost = rounds * plan.passes(plan.agents * plan.rows)
    return Cell.of(
        "federated_gem", cost, **plan.federation, snr=snr, seed=seed, alpha=federated_alpha(snr), iterations=rounds
    )


def gem_run(plan: Plan, store: Store, snr: float, seed: int = 0) -> Values:
    """What F-GEM at the paper's step did."""
    found = store.read(gem_cell(plan, snr, seed))
    return found[grid_name(federated_alpha(snr))] if plan.search else found


def grid_name(value: float) -> str:
    """How a value of a grid is called among a cell's values."""
    return f"{value:.6g}"


def em_alphas(plan: Plan, stale: bool) -> list[float]:
    """Steps for F-EM: the whole grid, or a few of its values around the best."""
    if plan.search:
        return FEDERATED_ALPHAS
    return FEDERATED_ALPHAS[9:15:2] if stale else FEDERATED_ALPHAS[13:17:2]


def em_rounds(plan: Plan, stale: bool) -> int:
    """How long F-EM is run."""
    return plan.stale_rounds if stale and not plan.search else plan.em_rounds


def em_cell(plan: Plan, snr: float, stale: bool, seed: int = 0) -> Cell:
    alphas = em_alphas(plan, stale)
    rounds = em_rounds(plan, stale)
    cost = 0.1 * len(alphas) * rounds * plan.passes(plan.agents * plan.rows)
    printed = TABLE3["F-EM"][snr] if stale else None
    return Cell.of(
        "federated_inner_em", cost, **plan.federation, snr=snr, seed=seed, alphas=alphas,
        iterations=rounds, stale=stale, **_race(plan, printed and on_grid(FEDERATED_ALPHAS, printed)),
    )  # fmt: skip


def _race(plan: Plan, kept: float | None) -> dict[str, list[float]]:
    """On the whole grid, what a cell is told of values to run to their ends though they lose: the printed one."""
    if not plan.search:
        return {}
    return {"kept": [] if kept is None else [kept]}


def panel_cell(plan: Plan, method: str, snr: float, seed: int = 0) -> Cell:
    if method == "em":
        return em_cell(plan, snr, stale=True, seed=seed)
    grid = FEDERATED_LAMBDAS if method == "wmlr" else FEDERATED_ALPHAS
    chosen = federated_lambda(snr) if method == "wmlr" else federated_alpha(snr)
    values = grid if plan.search else around(grid, chosen)
    lengths = plan.gem_rounds if plan.search else plan.panel_rounds
    rounds = plan.wmlr_rounds if method == "wmlr" else lengths[snr]
    cost = (1.5 if method == "wmlr" else 0.1) * rounds * len(values) * plan.passes(plan.agents * plan.rows)
    return Cell.of(
        "federated_grid", cost, **plan.federation, snr=snr, seed=seed, method=method, values=values, iterations=rounds,
        **({} if method == "wmlr" else _race(plan, chosen)),
    )  # fmt: skip


def fastest(runs: dict[str, Any]) -> str | None:
    """The paper's choice: among runs within 50% of the best final error, the first to converge."""
    finite = {value: run for value, run in runs.items() if run["iterations"] is not None and run["error"] < 0.5}
    if not finite:
        return None
    best = min(float(run["error"]) for run in finite.values())
    near = {value: run for value, run in finite.items() if run["error"] <= 1.5 * best}
    return min(near, key=lambda value: int(near[value]["iterations"]))
