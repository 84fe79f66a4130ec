"""Every family: whether a default fit finds the components, intervals hold the truth, and what an iteration costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtri

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench._measure import Limit
from wmlr.engines.arrays import default_threads
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.families import family
from wmlr.inference.uncertainty import Estimates
from wmlr.io.users_line import without_warnings
from wmlr.metrics import coefficient_error
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

FAMILIES: tuple[Any, ...] = (
    "normal", "student", "laplace", "poisson", "negative-binomial", "binomial", "gamma", "beta",
    ("poisson", "poisson", "point-mass"),
)  # fmt: skip
K, D, ROWS, TRIALS = 3, 4, 1500, 10.0
SEEDS, FITS = 20, 400
LIMIT = 900.0  # seconds for all families; a later run into the same folder goes on
BATCH = 4
FOUND, HELD, WHO = "found", "held", "wmlr"
ENOUGH, LEAST = 1.5, 0.95
LEVEL, NEAR = 0.95, (0.93, 0.97)
TIMED_ROWS, TIMED_COLUMNS, ITERATIONS = 20_000, 8, 10
DEAREST = 2.5  # times a normal iteration, for Poisson's
INTERCEPTS = {"log": (0.3, 1.8, 3.2), "logit": (-2.0, 0.0, 2.0)}


def problem(given: Any, seed: int, n: int = ROWS, d: int = D) -> tuple[Mixture, Array, Array, dict[str, Any]]:
    """A mixture of three components, and rows drawn from it."""
    law, generator = family(given), np.random.default_rng([seed, len(str(given))])
    coef = 0.35 * generator.standard_normal((K, d)) * (4.0 if law.linear else 1.0)
    intercepts = np.array(INTERCEPTS.get(law.predictor_scale, (-3.0, 0.0, 3.0)))
    coef[list(law.without_predictor)], intercepts[list(law.without_predictor)] = 0.0, 0.0
    sigma = np.full(K, 1.0 if law.linear else 0.3)
    sigma = np.ones(K) if not law.has_scale else sigma
    truth = Mixture(coef, intercepts, np.array([0.4, 0.35, 0.25]), sigma, family=law)
    X = generator.standard_normal((n, d))
    roles = {"trials": np.full(n, TRIALS)} if law.takes_trials else {}
    y, _ = truth.sample(X, generator, beside=roles)
    return truth, X, y, roles


def is_recovered(given: Any, seed: int) -> bool:
    """Whether one default fit ends within 1.5 times the error of a fit started at the truth."""
    truth, X, y, roles = problem(given, seed)
    lines = truth.lines
    with without_warnings():
        default, helped = (
            MixedLinearRegression(K, family=given, start=start, random_state=seed, n_jobs=1).fit(X, y, **roles)
            for start in ("auto", lines)
        )
    errors = [coefficient_error(fit.mixture_.lines, lines) for fit in (default, helped)]
    return bool(default.log_likelihood_ >= helped.log_likelihood_ - 0.01 or errors[0] <= ENOUGH * errors[1])


def count_covered(given: Any, seed: int) -> tuple[int, int]:
    """How many of a fit's intervals hold the truth, of how many; the fit begins at the truth, which orders it."""
    truth, X, y, roles = problem(given, 1000 + seed)
    with without_warnings():
        fit = MixedLinearRegression(K, family=given, start=truth.lines, n_jobs=1).fit(X, y, **roles)
        gaps = np.linalg.norm(fit.mixture_.lines[:, None] - truth.lines, axis=2)
        order = gaps.argmin(axis=1)
        if len(set(order.tolist())) < K:
            return 0, 0
        intervals = fit.confidence_intervals(X, y, level=LEVEL, **roles)
    constraints, names = fit.fitted_.constraints, [f"x{c}" for c in range(D)]
    wanted = Estimates.of(truth.permuted(order), constraints, names).values
    inside = (intervals.lower <= wanted) & (wanted <= intervals.upper)
    return int(inside.sum()), len(wanted)


def iteration_seconds(given: Any) -> float:
    """Processor seconds of some EM iterations from near the truth."""
    truth, X, y, roles = problem(given, 0, TIMED_ROWS, TIMED_COLUMNS)
    start = truth.lines + 0.05
    settings = {"family": given, "method": "em", "start": start, "tol": 0.0, "n_jobs": 1}
    best = []
    for turn in range(3):
        used = []
        for iterations in (1, 1 + ITERATIONS):
            model = MixedLinearRegression(K, max_iter=iterations, **settings)
            begin = time.process_time()
            with without_warnings():
                model.fit(X, y, **roles)
            used.append(time.process_time() - begin)
        best += [used[1] - used[0]] if turn else []  # the first turn compiles
    return max(min(best), 1e-9)


def measure(
    given: Any, seeds: int, fits: int, ledger: ResultLedger, until: float, threads: int
) -> tuple[list[Line], list[Line]]:
    """What fits of a family have shown so far, and those that are still to be made, until a time on the clock.

    Every family's first fits are made, however late it is.
    """
    name = family_label(given)
    wanted = [(seed / count, part, seed) for part, count in ((FOUND, seeds), (HELD, fits)) for seed in range(count)]
    left = [(part, seed) for _, part, seed in sorted(wanted) if not ledger.has(part, name, WHO, seed)]
    for first in range(0, len(left), BATCH):
        done = [[line for line in ledger.of(part) if line["problem"] == name] for part in (FOUND, HELD)]
        if time.monotonic() > until and all(done):
            break
        ledger.add(Parallel(n_jobs=threads)(delayed(_line)(given, *one) for one in left[first : first + BATCH]))
    kept = [[line for line in ledger.of(part) if line["problem"] == name] for part in (FOUND, HELD)]
    return kept[0][:seeds], kept[1][:fits]


def family_label(given: Any) -> str:
    """What a family, or a list of them, is called."""
    return given if isinstance(given, str) else ", ".join(given)


def _line(given: Any, part: str, seed: int) -> Line:
    """One fit's line in the ledger."""
    outcome = (
        {"found": is_recovered(given, seed)}
        if part == FOUND
        else dict(zip(("inside", "of"), count_covered(given, seed)))
    )
    return {"part": part, "problem": family_label(given), "who": WHO, "seed": seed, **outcome}


def run(
    watch: Watch,
    seeds: int = SEEDS,
    fits: int = FITS,
    chosen: tuple[Any, ...] = FAMILIES,
    out: Path | None = None,
    limit: float = LIMIT,
) -> Result:
    """Measure every family, within about ``limit`` seconds; what is in ``out`` already is not measured again."""
    ledger = ResultLedger(None if out is None else out / "families.jsonl")
    lines, numbers, limits = [], [], []
    begun, threads = time.monotonic(), default_threads()
    for number, given in enumerate(chosen):
        name = family_label(given)
        watch(name)
        until = begun + limit * (number + 1) / len(chosen)
        shown, counted = measure(given, seeds, fits, ledger, until, threads)
        share = float(np.mean([line["found"] for line in shown]))
        counts = np.array([[line["inside"], line["of"]] for line in counted])
        covered, intervals = counts.sum(axis=0)
        coverage, cost = float(covered / intervals), iteration_seconds(given) / iteration_seconds("normal")
        made = f"{len(shown)}, {len(counted)}"
        off = float(ndtri(0.975) * np.sqrt(LEVEL * (1 - LEVEL) / intervals))
        numbers.append(
            {
                "family": name,
                "found": share,
                "coverage": coverage,
                "intervals": int(intervals),
                "cost": cost,
                "seeds": len(shown),
                "fits": len(counted),
            }
        )
        lines.append((name, made, f"{100 * share:.0f}%", f"{100 * coverage:.1f}%", f"{100 * off:.1f}%", f"{cost:.2f}"))
        limits.append(Limit(f"{name}: share of {len(shown)} default fits that find the components", share, least=LEAST))
        limits.append(Limit(f"{name}: distance of the coverage from 95%", abs(coverage - LEVEL), most=NEAR[1] - LEVEL))
        if name == "poisson":
            limits.append(Limit("an iteration of Poisson's, in normal ones", cost, most=DEAREST))
    return Result(
        suite="families",
        title=f"{K} components, {D} columns, {ROWS:,} rows: up to {seeds} default fits, 95% intervals of up to {fits}, "
        "processor time of an EM iteration beside the normal one",
        columns=("family", "fits", "found", "coverage", "(+-)", "iteration"),
        rows=tuple(lines),
        numbers={"families": numbers, "seeds": seeds, "fits": fits, "limits": [limit.plain() for limit in limits]},
    )
