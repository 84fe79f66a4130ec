"""Ten thousand agents in one process: a round beside an iteration in one place, and memory; then a million."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, fewest_seconds_in_turn, run_script
from wmlr.bench.kernels import ITERATIONS, answer_call, rows
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.federated import Federation

TIMES = 9
DEARER = 1.5
SPARE = 200e6

FIT = """
import json, sys, time
import numpy as np
from wmlr import MixedLinearRegression
from wmlr.federated import Federation
from wmlr.metrics import coefficient_error

def high():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

agents, size, d, level = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
generator = np.random.default_rng(0)
beta = generator.standard_normal(d)
beta *= 5 / np.linalg.norm(beta)
X, y = np.empty((agents * size, d)), np.empty(agents * size)
sign = generator.choice([-1.0, 1.0], agents if level == "agent" else agents * size)
sign = np.repeat(sign, size) if level == "agent" else sign
step = max(1, 2**20 // d)
for first in range(0, len(y), step):
    part = X[first : first + step]
    generator.standard_normal(out=part)
    y[first : first + step] = sign[first : first + step] * (part @ beta) + generator.standard_normal(len(part))
ids = np.repeat(np.arange(agents), size)
del sign
before = high()
begun = time.perf_counter()
federation = Federation.split(X, y, ids, level=level)
fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation)
seconds = time.perf_counter() - begun
print(json.dumps({
    "data": X.nbytes + y.nbytes + ids.nbytes, "extra": high() - before, "seconds": seconds,
    "rounds": len(fit.ledger_), "error": coefficient_error(fit.coef_[0], beta),
}))
"""


def compare(watch: Watch, agents: int, size: int, d: int, times: int) -> list[dict[str, Any]]:
    """Seconds of a round of each method and of the same query on the same rows in one place."""
    X, y = rows(agents * size, d)
    ids = np.repeat(np.arange(agents), size)
    threads = default_threads()
    found = []
    for level in ("row", "agent"):
        central = ArrayRows(X, y, None, ids if level == "agent" else None, n_jobs=threads)
        federation = Federation.split(X, y, ids, level=level, n_jobs=threads)
        for iteration in ITERATIONS[:3]:
            watch(f"{iteration.name}, level {level}")
            query = iteration.query(d)
            works = {"central": answer_call(central, query), "round": answer_call(federation, query)}
            with threadpool_limits(threads, user_api="blas"):
                seconds = fewest_seconds_in_turn(works, times)
            ratio = seconds["round"] / seconds["central"]
            found.append({"iteration": iteration.name, "level": level, **seconds, "ratio": ratio})
    return found


def run(
    watch: Watch,
    agents: int = 10_000,
    size: int = 10,
    n_features: int = 128,
    many: tuple[int, int] = (1_000_000, 16),
    times: int = TIMES,
) -> Result:
    """Measure rounds, then whole fits in processes of their own; ``many`` is how many agents, and their features."""
    compared = compare(watch, agents, size, n_features, times)
    fits = []
    for count, d in ((agents, n_features), many):
        for level in ("row", "agent"):
            watch(f"a fit among {count:,} agents, level {level}")
            fits.append({"agents": count, "features": d, "level": level, **run_script(FIT, count, size, d, level)})
    limits = [
        *(Limit(f"{one['iteration']}, level {one['level']}", one["ratio"], most=DEARER) for one in compared),
        *(Limit(_fit_name(one), one["extra"] / 1e6, most=SPARE / 1e6) for one in fits if one["agents"] == agents),
    ]
    judged = {limit.name: (limit.bound, limit.verdict) for limit in limits}
    lines = [
        (
            f"{one['iteration']}, level {one['level']}",
            f"{1e3 * one['round']:.2f} ms",
            f"{1e3 * one['central']:.2f} ms",
            f"{one['ratio']:.2f}",
            *judged[f"{one['iteration']}, level {one['level']}"],
        )
        for one in compared
    ]
    lines += [
        (
            _fit_name(one),
            f"{one['seconds']:.2f} s, {one['rounds']} rounds",
            f"{one['data'] / 1e6:.0f} MB",
            f"+{one['extra'] / 1e6:.0f} MB",
            *judged.get(_fit_name(one), ("", "")),
        )
        for one in fits
    ]
    return Result(
        suite="federation",
        title=f"A round among {agents:,} agents of {size} rows, d = {n_features}, beside one iteration in one place",
        columns=("what", "round, or fit", "in one place, or data", "ratio, or memory", "limit", ""),
        rows=tuple(lines),
        numbers={"rounds": compared, "fits": fits, "limits": [limit.plain() for limit in limits]},
    )


def _fit_name(one: dict[str, Any]) -> str:
    return f"a fit among {one['agents']:,} agents, d = {one['features']}, level {one['level']}"
