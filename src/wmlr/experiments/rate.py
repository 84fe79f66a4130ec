"""Theorem 2 measured: the gradient of max over gamma against the iteration, next to the promised rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from wmlr import GDA, theory
from wmlr.core.round import Engine, Report, run
from wmlr.engines import ArrayRows
from wmlr.experiments import drawing
from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent, format_fixed
from wmlr.experiments.plan import Plan
from wmlr.experiments.store import Cell, Store
from wmlr.methods.task import Task
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.expectations import GaussHermite
from wmlr.statistics.minimax import SymmetricMinimax

NODES = 16
LAM_OVER_ETA = 8.0
CHECKPOINTS = 40


def measure_rate(n: int, d: int, snr: float, seed: int, iterations: int) -> dict[str, Any]:
    """GDA with the theorem's steps on rows of length 1, as its assumptions ask.

    The theorem speaks of F(beta) = max over gamma; its gradient is found at checkpoints by maximising over
    gamma to convergence, which a strongly concave problem allows.
    """
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    beta = generator.standard_normal(d)
    beta *= snr / np.linalg.norm(beta)
    y, _ = Mixture.symmetric_pair(beta, 1.0).sample(X, generator)
    rows = ArrayRows(X, y)
    eta = theory.data_eta(X, y, worst_case=True)
    lam = LAM_OVER_ETA * eta
    reference = theory.spectral_reference(X, y)
    start = generator.standard_normal(d) / np.sqrt(d)
    steps = theory.step_sizes(lam, eta, 1.0, radius=1.0)
    outcome: dict[str, Any] = {"eta": eta, "lam": lam, "L": steps.L, "kappa": steps.kappa}
    rules = {"theorem": (steps.alpha_max, steps.alpha_min), "paper": (0.5 / lam, 0.05 / lam)}
    wanted = set(np.unique(np.geomspace(1, iterations, CHECKPOINTS).astype(int)).tolist()) | {0}
    for name, (alpha_max, alpha_min) in rules.items():
        visited: dict[int, Array] = {}

        def note(report: Report, visited: dict[int, Array] = visited) -> None:
            if int(report.record["iteration"]) in wanted:
                visited[int(report.record["iteration"])] = report.mixture.coef[0]

        solver = GDA(
            lam=lam, alpha_max=alpha_max, alpha_min=alpha_min, regularizer="halved", coordinates="raw",
            reference=reference, nodes=NODES,
        )  # fmt: skip
        task = Task(symmetric=True, sigma=1.0, start=np.stack([start, -start]), max_iter=iterations, tol=0.0)
        run(solver.fit(task), rows, note)
        values = [outer(rows, n, b, reference, lam, steps.alpha_max) for b in visited.values()]
        outcome[name] = {
            "iteration": list(visited),
            "value": [value for value, _ in values],
            "gradient": [gradient for _, gradient in values],
        }
    outcome["delta"] = outcome["theorem"]["value"][0] - min(*outcome["theorem"]["value"], *outcome["paper"]["value"])
    return outcome


def outer(rows: Engine, n: int, beta: Array, reference: Array, lam: float, alpha: float) -> tuple[float, float]:
    """F(beta) = max over gamma of the objective, and the norm of its gradient (Danskin's theorem)."""
    gamma = np.stack([reference, reference], axis=1)
    for _ in range(5_000):
        sums = rows.total(SymmetricMinimax(beta, gamma, 1.0, GaussHermite(NODES)))
        apart = gamma - reference[:, None]
        ascent = sums["gradients"][:, 1:] / n - lam * apart
        if float(np.linalg.norm(ascent)) < 1e-10:
            break
        gamma = gamma + alpha * ascent
    value = float(sums["value"]) / n - 0.5 * lam * float(np.sum(apart**2))
    return value, float(np.linalg.norm(sums["gradients"][:, 0])) / n


def _cell(plan: Plan) -> Cell:
    iterations = 2_000 if plan.quick else 40_000
    return Cell.of("rate", 0.0005 * iterations, n=200, d=2, snr=1.0, seed=0, iterations=iterations)


def cells(plan: Plan) -> list[Cell]:
    return [_cell(plan)]


def numbers(plan: Plan, store: Store) -> Numbers:
    found = store.read(_cell(plan))
    promised = theory.iteration_bound(found["lam"], found["eta"], 1.0, found["delta"], 1.0)
    places = np.array(found["theorem"]["iteration"][1:], dtype=float)
    smallest = np.minimum.accumulate(np.array(found["theorem"]["gradient"]))[1:]
    bound = np.sqrt(promised / places)
    return found | {
        "promised": [float(value) for value in bound],
        "smallest": [float(value) for value in smallest],
        "largest_ratio": float(np.max(smallest / bound)),
        "last_gradient": float(smallest[-1]),
        "last_promised": float(bound[-1]),
        "paper_last_gradient": float(min(found["paper"]["gradient"])),
    }


def tables(found: Numbers) -> list[ResultTable]:
    rows = (
        ("η, C² times the mean of y²", format_fixed(found["eta"])),
        ("λ", format_fixed(found["lam"])),
        ("L", format_fixed(found["L"])),
        ("κ", format_fixed(found["kappa"])),
        ("Δ", exponent(found["delta"])),
        ("iterations", f"{found['theorem']['iteration'][-1]:,}"),
        ("smallest gradient norm reached", exponent(found["last_gradient"])),
        ("promised by then (constant 1)", exponent(found["last_promised"])),
        ("largest ratio of reached to promised, over all iterations", exponent(found["largest_ratio"])),
        ("smallest with the rule of thumb 1/(2λ), 1/(20λ)", exponent(found["paper_last_gradient"])),
    )
    return [ResultTable("Theorem 2: gradient norm and the promised rate", ("quantity", "value"), rows)]


def figures(found: Numbers) -> dict[str, Any]:
    ran = found["theorem"]["iteration"][1:]
    series = [
        {"x": ran, "y": found["promised"], "label": "promised by Theorem 2 (constant 1)", "style": "k--"},
        {"x": ran, "y": found["theorem"]["gradient"][1:], "label": "measured, the theorem's steps", "style": "-"},
        {"x": found["paper"]["iteration"][1:], "y": found["paper"]["gradient"][1:], "label": "measured, rule of thumb"},
    ]
    return {
        "theorem-rate": drawing.lines(
            series, x="iteration", y="‖∇F(β)‖", title="Gradient of max over γ against the iteration"
        )
    }


TARGET = Target("theorem-rate", "The convergence theorem, measured", cells, numbers, tables, figures)
