"""IFCA's own problems: agents of p clusters, each with one regression of 1,000 coefficients.

The synthetic experiment of Ghosh, Chung, Yin and Ramchandran (2020): every coefficient is r or nil with even chances,
features are standard normal, all rows of an agent are of one cluster. A run succeeds, by their rule, where the mean
distance of the estimates from the true vectors, matched one to one, is at most .6 sigma.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench._measure import Limit
from wmlr.core.round import run as run_method
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.federated import Federation
from wmlr.methods.ifca import IFCA
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array, Integers

PART = "ifca"
COLUMNS = 1_000
RADII = (0.1, 0.25, 0.5, 0.75, 1.0)
SIGMAS = (0.0, 0.1, 0.2, 0.4)
SIZES = (50, 100, 200)
AGENTS = {2: (50, 100, 200, 400), 4: (100, 200, 400, 800)}
USUAL_AGENTS = {2: 100, 4: 400}
USUAL_SIZE, USUAL_RADIUS, USUAL_SIGMA = 100, 0.5, 0.1
SUCCESS = 0.6
EXACT = 1e-4  # of a true vector's length: what counts as found where there is no noise
ROUNDS = 200
STILL = 1e-5  # of the vectors' length: a shorter step ends IFCA
LABELS, OURS, THEIRS = "known labels", "wmlr", "IFCA"
NEAR_LABELS = 1.05


@dataclass(frozen=True)
class Clusters:
    """One problem: p clusters among m agents of n rows."""

    p: int
    m: int
    n: int
    r: float
    sigma: float
    d: int = COLUMNS

    @property
    def name(self) -> str:
        return f"p={self.p} m={self.m} n={self.n} r={self.r:g} sigma={self.sigma:g}"

    def draw(self, seed: int) -> ClusteredRows:
        generator = np.random.default_rng([seed, self.p, self.m, self.n])
        theta = self.r * generator.binomial(1, 0.5, (self.p, self.d)).astype(np.float64)
        start = self.r * generator.binomial(1, 0.5, (self.p, self.d)).astype(np.float64)
        agents = np.repeat(np.arange(self.m), self.n)
        labels = (np.arange(self.m) % self.p)[agents]
        X = generator.standard_normal((self.m * self.n, self.d))
        y = self.sigma * generator.standard_normal(len(X))
        for cluster in range(self.p):
            mine = labels == cluster
            y[mine] += X[mine] @ theta[cluster]
        return ClusteredRows(X, y, agents, labels, theta, start)

    def succeeds(self, distance: float) -> bool:
        """Their rule; without noise, a vector found but for rounding."""
        most = SUCCESS * self.sigma if self.sigma > 0 else EXACT * self.r * np.sqrt(self.d / 2)
        return bool(distance <= most)


@dataclass(frozen=True)
class ClusteredRows:
    """Drawn rows, the agents and clusters they are of, the true vectors, and a start drawn like them."""

    X: Array
    y: Array
    agents: Integers
    labels: Integers
    theta: Array
    start: Array

    def distance(self, coef: Array) -> float:
        """The mean distance of estimates from the true vectors, matched one to one."""
        apart = np.linalg.norm(coef[:, None] - self.theta[None], axis=2)
        return float(apart[linear_sum_assignment(apart)].mean())


def problems(d: int = COLUMNS) -> list[Clusters]:
    """Both numbers of clusters: radii by noise, then agents by rows."""
    found = []
    for p, m in USUAL_AGENTS.items():
        found += [Clusters(p, m, USUAL_SIZE, r, sigma, d) for r in RADII for sigma in SIGMAS]
        found += [Clusters(p, m, n, USUAL_RADIUS, USUAL_SIGMA, d) for m in AGENTS[p] for n in SIZES]
    return list(dict.fromkeys(found))


def fit_with_labels(rows: ClusteredRows) -> dict[str, Any]:
    """Least squares in each cluster, told which rows are its own."""
    found = []
    for cluster in range(len(rows.theta)):
        mine = rows.labels == cluster
        X, y = rows.X[mine], rows.y[mine]
        enough = len(X) >= X.shape[1]
        found.append(np.linalg.solve(X.T @ X, X.T @ y) if enough else X.T @ np.linalg.solve(X @ X.T, y))
    return {"distance": rows.distance(np.stack(found))}


def fit_by_default(rows: ClusteredRows) -> dict[str, Any]:
    """The default fit at level "agent"."""
    federation = Federation.split(rows.X, rows.y, rows.agents, level="agent")
    model = MixedLinearRegression(len(rows.theta), fit_intercept=False, random_state=0).fit_on(federation)
    return _messages(federation) | {"distance": rows.distance(model.coef_)}


def fit_by_ifca(rows: ClusteredRows) -> dict[str, Any]:
    """IFCA from one start drawn as the true vectors are; a cluster that no agent chooses stays as it is."""
    federation = Federation.split(rows.X, rows.y, rows.agents, level="agent")
    task = Task(len(rows.theta), start=rows.start, max_iter=ROUNDS, tol=STILL)
    fit = run_method(IFCA().fit(task), federation)
    return _messages(federation) | {"distance": rows.distance(fit.mixture.coef)}


def _messages(federation: Federation) -> dict[str, Any]:
    messages = federation.ledger.totals()
    return {"rounds": int(messages["rounds"]), "bytes": messages["bytes"]}


CONTESTANTS: dict[str, Callable[[ClusteredRows], dict[str, Any]]] = {
    LABELS: fit_with_labels,
    OURS: fit_by_default,
    THEIRS: fit_by_ifca,
}


def measure(problem: Clusters, seed: int, ledger: ResultLedger) -> None:
    """Every contestant on one draw, as far as the ledger does not have it."""
    missing = [who for who in CONTESTANTS if not ledger.has(PART, problem.name, who, seed)]
    rows = problem.draw(seed) if missing else None
    for who in missing:
        assert rows is not None
        begun = time.perf_counter()
        found = CONTESTANTS[who](rows)
        line = {"part": PART, "problem": problem.name, "who": who, "seed": seed}
        ledger.add([line | found | {"seconds": time.perf_counter() - begun}])


def run(watch: Watch, out: Path | None = None, cases: str | None = None, seeds: int = 1, d: int = COLUMNS) -> Result:
    """Measure what is not in the folder's ``ifca.jsonl`` yet; ``cases`` are parts of problems' names, as p=2,p=4."""
    ledger = ResultLedger(None if out is None else out / "ifca.jsonl")
    words = ["p="] if cases in (None, "all") else [word.strip() for word in str(cases).split(",")]
    chosen = [problem for problem in problems(d) if any(word in problem.name for word in words)]
    if not chosen:
        raise ValueError(f"no problem has {cases!r} in its name: `--cases all` runs every one")
    for seed in range(seeds):
        for number, problem in enumerate(chosen):
            watch(f"{number + 1} of {len(chosen)}, seed {seed}: {problem.name}")
            measure(problem, seed, ledger)
    return result(ledger, d)


def result(ledger: ResultLedger, d: int = COLUMNS) -> Result:
    """The table and its numbers, of all that the ledger has."""
    found = list(_summaries(ledger.of(PART), d))
    solvable = [one for one in found if one[LABELS]["success"] == 1.0]
    limits = [
        Limit(
            "share of IFCA's problems solved, of those that known labels solve",
            float(np.mean([one[OURS]["success"] for one in solvable])) if solvable else float("nan"),
            least=1.0,
        ),
        Limit(
            "distance over that with known labels, the largest where these succeed",
            max((one[OURS]["ratio"] for one in solvable if one["sigma"] > 0), default=float("nan")),
            most=NEAR_LABELS,
        ),
    ]
    return Result(
        suite="ifca",
        title=f"IFCA's problems, d = {d:,}: distance in units of sigma, and whether it succeeds",
        columns=(
            "problem", "known labels", "wmlr", "rounds", "MB an agent", "seconds",
            "IFCA, one start", "rounds", "MB an agent", "seconds",
        ),
        rows=tuple(_line(one) for one in found),
        numbers={
            "d": d,
            "seeds": max((one["seeds"] for one in found), default=0),
            "problems": found,
            "limits": [limit.plain() for limit in limits],
        },
    )  # fmt: skip


def _summaries(lines: list[Line], d: int) -> Iterator[dict[str, Any]]:
    for problem in problems(d):
        mine = [line for line in lines if line["problem"] == problem.name]
        told = {line["seed"]: line["distance"] for line in mine if line["who"] == LABELS}
        if {line["who"] for line in mine} != set(CONTESTANTS):
            continue
        summary: dict[str, Any] = {"problem": problem.name, "sigma": problem.sigma, "m": problem.m, "seeds": len(told)}
        for who in CONTESTANTS:
            his = [line for line in mine if line["who"] == who]
            summary[who] = {
                "success": float(np.mean([problem.succeeds(line["distance"]) for line in his])),
                "distance": float(np.median([line["distance"] for line in his])),
                "ratio": float(np.median([line["distance"] / told[line["seed"]] for line in his])),
                "seconds": float(np.median([line["seconds"] for line in his])),
                "rounds": float(np.median([line.get("rounds", 1) for line in his])),
                "bytes": float(np.median([line.get("bytes", 0) for line in his])) / problem.m,
            }
        yield summary


def _line(one: dict[str, Any]) -> tuple[str, ...]:
    def distance_cell(who: str) -> str:
        distance = one[who]["distance"] / (one["sigma"] or 1.0)
        word = {1.0: "yes", 0.0: "no"}.get(one[who]["success"], f"{100 * one[who]['success']:.0f}%")
        return f"{distance:.3g}, {word}"

    def cost_cells(who: str) -> tuple[str, ...]:
        return f"{one[who]['rounds']:.0f}", f"{one[who]['bytes'] / 1e6:.1f}", f"{one[who]['seconds']:.1f}"

    return (
        one["problem"],
        distance_cell(LABELS),
        distance_cell(OURS),
        *cost_cells(OURS),
        distance_cell(THEIRS),
        *cost_cells(THEIRS),
    )
