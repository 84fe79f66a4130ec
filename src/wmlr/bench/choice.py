"""Choosing the number of components beside one fit of the largest number."""

from __future__ import annotations

import time

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, Work
from wmlr.datasets import make_mixed_regression
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.io.users_line import without_warnings
from wmlr.selection import select_components

SIZES = ((2_000, 8, 3), (2_000, 4, 5), (10_000, 8, 3))
LARGEST = 6
TIMES = 3
MOST = 2.0


def processor_seconds(work: Work) -> float:
    """Seconds of the processor for one call."""
    begun = time.process_time()
    with without_warnings():  # of components that are too many, and of fits that say so
        work()
    return time.process_time() - begun


def run(
    watch: Watch, sizes: tuple[tuple[int, int, int], ...] = SIZES, largest: int = LARGEST, times: int = TIMES
) -> Result:
    """Time ``select_components`` over 1 to the largest number, and the largest alone, in turn on drawn rows."""
    lines, limits, numbers = [], [], []
    for n, d, k in sizes:
        data = make_mixed_regression(n, d, k, snr=5, random_state=2)
        name = f"n={n:,} d={d}, {k} components drawn"
        model = MixedLinearRegression(largest, random_state=0)
        works: dict[str, Work] = {
            "alone": lambda data=data, model=model: model.fit(data.X, data.y),  # type: ignore[misc]
            "chosen": lambda data=data: select_components(data.X, data.y, range(1, largest + 1)),  # type: ignore[misc]
        }
        seconds: dict[str, list[float]] = {what: [] for what in works}
        for turn in range(times):
            watch(f"{name}, {turn + 1} of {times}")
            for what, work in works.items():
                seconds[what].append(processor_seconds(work))
        least = {what: min(took) for what, took in seconds.items()}
        limit = Limit(f"{name}: choice among 1 to {largest}", least["chosen"] / least["alone"], most=MOST)
        limits.append(limit)
        numbers.append({"n": n, "d": d, "k": k, **seconds})
        taken = f"{least['chosen']:.2f}", f"{least['alone']:.2f}"
        lines.append((name, *taken, f"{limit.value:.2f}", limit.bound, limit.verdict))
    return Result(
        suite="choice",
        title=f"Choosing among 1 to {largest} components, and {largest} alone; processor seconds, least of {times}",
        columns=("problem", "choice", f"{largest} alone", "ratio", "limit", ""),
        rows=tuple(lines),
        numbers={"problems": numbers, "limits": [limit.plain() for limit in limits]},
    )
