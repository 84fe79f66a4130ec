"""How the cost of an iteration grows with rows, columns and components, and what a fit needs in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, Slope, Work, growth, run_script, slope
from wmlr.bench.kernels import COMPONENTS, ITERATIONS, general, rows
from wmlr.core.query import Query
from wmlr.engines.arrays import ArrayRows
from wmlr.numerics.arrays import Array

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
COLUMNS = (16, 32, 64, 128, 256, 512, 1024)
PARTS = (1, 2, 4, 8, 16, 32)
ROUNDS = 4
LEAST_CALLS = 2
SECONDS = 0.2

MEMORY = """
import json, sys
import numpy as np
from wmlr import MixedLinearRegression

def high():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

n, d, k = map(int, sys.argv[1:])
generator = np.random.default_rng(0)
coef = generator.standard_normal((k, d)) / np.sqrt(d)
if k == 2:
    coef[1] = -coef[0]
X, y = np.empty((n, d)), np.empty(n)
step = max(1, 2**20 // d)
for first in range(0, n, step):
    part = X[first : first + step]
    generator.standard_normal(out=part)
    which = generator.integers(k, size=len(part))
    y[first : first + step] = np.einsum("ij,ij->i", part, 5 * coef[which]) + generator.standard_normal(len(part))
before = high()
fit = MixedLinearRegression(k, symmetric=k == 2, random_state=0).fit(X, y)
print(json.dumps({"data": X.nbytes, "before": before, "after": high(), "iterations": fit.n_iter_}))
"""


def fewest_processor_seconds(work: Work) -> float:
    """The fewest processor seconds of several calls, more of them where they are short."""
    work()
    best, begun, calls = np.inf, time.process_time(), 0
    while calls < LEAST_CALLS or time.process_time() - begun < SECONDS:
        before = time.process_time()
        work()
        best, calls = min(best, time.process_time() - before), calls + 1
    return float(best)


def fewest_of_rounds(measure: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The fewest seconds of everything that is measured, over several rounds of all of it.

    A machine's speed may change between one size and the next, which then have an exponent of their own.
    """
    rounds = [measure() for _ in range(ROUNDS)]
    return [min(same, key=lambda one: float(one["seconds"])) for same in zip(*rounds)]


def seconds_by_rows(watch: Watch, sizes: Sequence[int], d: int) -> list[dict[str, Any]]:
    """Seconds of each iteration for more and more rows, on one thread."""
    X, y = rows(max(sizes), d)
    found = []
    for n in sizes:
        watch(f"{n:,} rows")
        found += [_measure(iteration.name, n, iteration.query(d), X[:n], y[:n]) for iteration in ITERATIONS[:3]]
    return found


def seconds_by_columns(watch: Watch, n: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of each iteration for wider and wider rows, on one thread."""
    found = []
    for d in sizes:
        watch(f"{d:,} columns")
        X, y = rows(n, d)
        found += [_measure(iteration.name, d, iteration.query(d), X, y) for iteration in ITERATIONS[:3]]
    return found


def seconds_by_components(watch: Watch, n: int, d: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of a refreshed iteration for more and more components, on one thread."""
    X, y = rows(n, d)
    found = []
    for k in sizes:
        watch(f"{k} components")
        found.append(_measure("k components, refreshed", k, general(d, k), X, y))
    return found


def _measure(name: str, size: int, query: Query, X: Array, y: Array) -> dict[str, Any]:
    engine = ArrayRows(X, y, n_jobs=1)
    with threadpool_limits(1, user_api="blas"):
        return {"iteration": name, "size": size, "seconds": fewest_processor_seconds(lambda: engine.total(query))}


def peak_memory(n: int, d: int, k: int) -> dict[str, Any]:
    """The most memory a fresh process has with the rows, and in fitting them."""
    found = run_script(MEMORY, n, d, k)
    return found | {"k": k, "extra": found["after"] - found["before"]}


def memory_limit(found: dict[str, Any]) -> Limit:
    """Beyond the rows a fit takes a tenth of them, and 250 MB."""
    data = found["data"]
    return Limit(
        f"memory of a fit, k = {found['k']}, in units of X", (data + found["extra"]) / data, most=1.1 + 250e6 / data
    )


def slopes(found: list[dict[str, Any]], fit: Callable[..., Slope] = slope) -> dict[str, Slope]:
    """The exponent of each iteration."""
    names = dict.fromkeys(one["iteration"] for one in found)
    series = {name: [(one["size"], one["seconds"]) for one in found if one["iteration"] == name] for name in names}
    return {name: fit(*zip(*points)) for name, points in series.items()}


def run(
    watch: Watch,
    sizes: Sequence[int] = ROWS,
    n_features: int = 16,
    columns: Sequence[int] = COLUMNS,
    n_samples: int = 200_000,
    components: Sequence[int] = PARTS,
    memory: tuple[int, int] | None = (1_000_000, 128),
) -> Result:
    """Measure all of it; ``memory`` is the size of the fits whose memory is looked at, in processes of their own."""
    found = {
        "rows": fewest_of_rounds(lambda: seconds_by_rows(watch, sizes, n_features)),
        "columns": fewest_of_rounds(lambda: seconds_by_columns(watch, n_samples, columns)),
        "components": fewest_of_rounds(lambda: seconds_by_components(watch, n_samples, 128, components)),
    }
    watch("memory")
    peaks = [] if memory is None else [peak_memory(*memory, k) for k in (2, COMPONENTS)]
    fitted = {
        "rows": slopes(found["rows"]),
        "columns, all of the cost": slopes(found["columns"]),
        "columns, what grows with them": slopes(found["columns"], growth),
        "components": slopes(found["components"]),
    }
    limits = [
        *_exponents("rows", fitted["rows"]),
        *_exponents("columns", fitted["columns, what grows with them"]),
        *map(memory_limit, peaks),
    ]
    return Result(
        suite="scaling",
        title="Cost of an iteration on one thread, in processor time; exponents with 95% intervals",
        columns=("what", "least", "most", "exponent or ratio", "limit", ""),
        rows=(*_lines(found, fitted, limits), *(_memory_line(peak) for peak in peaks)),
        numbers=found
        | {
            "n_samples": n_samples,
            "n_features": n_features,
            "slopes": {what: {name: vars(value) for name, value in each.items()} for what, each in fitted.items()},
            "memory": peaks,
            "limits": [limit.plain() for limit in limits],
        },
    )


def _exponents(what: str, found: dict[str, Slope]) -> list[Limit]:
    return [Limit(_label(what, name), value.exponent, least=0.9, most=1.1) for name, value in found.items()]


def _label(what: str, name: str) -> str:
    return f"exponent in {what}, {name}"


def _lines(
    found: dict[str, list[dict[str, Any]]], fitted: dict[str, dict[str, Slope]], limits: list[Limit]
) -> list[tuple[str, ...]]:
    judged = {limit.name: (limit.bound, limit.verdict) for limit in limits}
    lines: list[tuple[str, ...]] = []
    for what, each in fitted.items():
        axis, _, which = what.partition(", ")
        for name, value in each.items():
            ends = [one for one in found[axis] if one["iteration"] == name]
            least, most = ends[0], ends[-1]
            verdict = ("", "") if which.startswith("all") else judged.get(_label(axis, name), ("", ""))
            cost = f"{1e3 * least['seconds']:.2f} ms", f"{1e3 * most['seconds']:.1f} ms"
            lines.append((f"{least['size']:,} to {most['size']:,} {what}: {name}", *cost, str(value), *verdict))
    return lines


def _memory_line(peak: dict[str, Any]) -> tuple[str, ...]:
    bound = memory_limit(peak)
    size = f"{peak['data'] / 1e6:.0f} MB", f"+{peak['extra'] / 1e6:.0f} MB"
    return (bound.name, *size, f"{bound.value:.3f}", bound.bound, bound.verdict)
