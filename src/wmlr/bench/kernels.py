"""One iteration of each method beside the products with X it cannot do without; threads, roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from wmlr.bench import Result, Watch, use_kernels
from wmlr.bench._measure import Limit, fewest_seconds_in_turn
from wmlr.core.query import Query
from wmlr.core.round import Engine, Rows
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.expectations import GaussHermite
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

TIMES = 15
NODES = 8
COMPONENTS = 4
GROUP = 10
PEAK = 1536


@dataclass(frozen=True)
class FloorProducts(Query):
    """X'(X P), block by block: what gradients of anything linear in x cost at least."""

    P: Array

    def answer(self, rows: Rows) -> Sums:
        return {"gradients": rows.X.T @ (rows.X @ self.P)}


@dataclass(frozen=True)
class Sum(Query):
    """The sum of all entries of X: reading it once."""

    def answer(self, rows: Rows) -> Sums:
        return {"sum": np.asarray(rows.X.sum())}


@dataclass(frozen=True)
class Iteration:
    """One iteration of a method: its query, the columns it multiplies X with, and how much dearer it may be.

    Where ``forward`` is true the floor is one plain ``X @ v``, and not the products both ways. One that is ``general``
    is measured on rows as they are alone; ``elsewhere`` is how much dearer it may be on rows that come otherwise.
    """

    name: str
    query: Callable[[int], Query]
    columns: int
    most: float
    forward: bool = False
    general: bool = False
    elsewhere: Mapping[str, float] = field(default_factory=dict)


def _draw(d: int, *shape: int) -> Array:
    return np.asarray(np.random.default_rng(d).standard_normal((d, *shape)) / np.sqrt(d))


def score(d: int) -> Query:
    return SymmetricScore(_draw(d), 1.0)


def descent(d: int) -> Query:
    return SymmetricMinimax(_draw(d), _draw(d, 2), 1.0, GaussHermite(NODES))


def general(d: int, k: int = COMPONENTS) -> Query:
    return MixtureScore(_draw(d, k), np.full(k, -np.log(k)), np.ones(k))


def general_descent(d: int) -> Query:
    k = COMPONENTS
    draws = _draw(d, k), _draw(d, 2 * k)
    return Minimax(*draws, np.full(k, -np.log(k)), np.ones(k), 1.0, GaussHermite(NODES))


ITERATIONS = (
    Iteration("symmetric, refreshed", score, 1, 1.5, forward=True, elsewhere={"float32": 1.5, "by columns": 2.0}),
    Iteration(f"symmetric GDA, {NODES} nodes", descent, 3, 1.6),
    Iteration(f"k = {COMPONENTS}, refreshed", general, COMPONENTS, 2.0),
    Iteration(f"k = {COMPONENTS} GDA, {NODES} nodes", general_descent, 3 * COMPONENTS, 1.6, general=True),
)


@dataclass(frozen=True)
class KernelLayout:
    """How rows come."""

    name: str
    dtype: Any = np.float64
    order: Any = "C"
    weights: bool = False
    groups: bool = False
    plain: bool = False

    def engine(self, X: Array, y: Array, threads: int) -> ArrayRows:
        X = np.asarray(X, dtype=self.dtype, order=self.order)
        weight = np.linspace(0.5, 1.5, len(y)) if self.weights else None
        return ArrayRows(X, y, weight, np.arange(len(y)) // GROUP if self.groups else None, n_jobs=threads)


LAYOUTS = (
    KernelLayout("as they are"),
    KernelLayout("float32", dtype=np.float32),
    KernelLayout("by columns", order="F"),
    KernelLayout("weighted", weights=True),
    KernelLayout(f"in groups of {GROUP}", groups=True),
    KernelLayout("by NumPy alone", plain=True),
)


def rows(n: int, d: int) -> tuple[Array, Array]:
    """Standard normal features and a response on their scale."""
    generator = np.random.default_rng(0)
    return generator.standard_normal((n, d)), generator.standard_normal(n)


def compare(iteration: Iteration, engine: ArrayRows, threads: int, times: int) -> dict[str, float]:
    """Seconds of an iteration and of its floor, on the same rows and threads."""
    d = engine.n_features
    vector = np.ones(d, dtype=engine.X.dtype)
    products = FloorProducts(np.asarray(_draw(d, iteration.columns), dtype=engine.X.dtype))
    floor = (lambda: engine.X @ vector) if iteration.forward else answer_call(engine, products)
    with threadpool_limits(threads, user_api="blas"):
        found = fewest_seconds_in_turn({"seconds": answer_call(engine, iteration.query(d)), "floor": floor}, times)
    return found | {"ratio": found["seconds"] / found["floor"]}


def iterations(watch: Watch, n: int, d: int, threads: int, times: int) -> list[dict[str, Any]]:
    """Every iteration on every layout; groups of a k-component GDA need drawn noise, and are left out."""
    X, y = rows(n, d)
    found = []
    for layout in LAYOUTS:
        engine = layout.engine(X, y, threads)
        for iteration in ITERATIONS:
            if layout is not LAYOUTS[0] and iteration.general:
                continue
            watch(f"{iteration.name}, {layout.name}")
            with use_kernels("numpy" if layout.plain else "compiled"):
                measured = compare(iteration, engine, threads, times)
            most = iteration.most if layout is LAYOUTS[0] else iteration.elsewhere.get(layout.name)
            found.append({"iteration": iteration.name, "rows": layout.name, "most": most, **measured})
    return found


def speed_up(watch: Watch, n: int, d: int, threads: int, times: int) -> list[dict[str, Any]]:
    """Each iteration with one thread and with several, on more rows than any cache holds."""
    X, y = rows(n, d)
    found = []
    for iteration in ITERATIONS[:3]:
        watch(f"{iteration.name}, {n:,} rows, 1 and {threads} threads")
        query = iteration.query(d)
        engines = {count: ArrayRows(X, y, n_jobs=count) for count in (1, threads)}
        seconds = fewest_seconds_in_turn({str(count): answer_call(engines[count], query) for count in engines}, times)
        one, several = seconds["1"], seconds[str(threads)]
        found.append({"iteration": iteration.name, "one": one, "several": several, "ratio": one / several})
    return found


def answer_call(engine: Engine, query: Query) -> Callable[[], object]:
    """The work of answering a query once."""
    return lambda: engine.total(query)


def roofline(watch: Watch, n: int, d: int, threads: int, times: int) -> dict[str, Any]:
    """Bytes and operations per second of each iteration, beside a sum over X and a product of matrices.

    Operations are the multiplications and additions with X alone: exponentials come on top.
    """
    watch("roofline")
    X, y = rows(n, d)
    engine = ArrayRows(X, y, n_jobs=threads)
    square = np.random.default_rng(0).standard_normal((PEAK, PEAK))
    works = {iteration.name: answer_call(engine, iteration.query(d)) for iteration in ITERATIONS}
    with threadpool_limits(threads, user_api="blas"):
        seconds = fewest_seconds_in_turn(
            {"sum": answer_call(engine, Sum()), "product": lambda: square @ square, **works}, times
        )
    points = []
    for iteration in ITERATIONS:
        operations = 4.0 * n * d * iteration.columns
        points.append(
            {
                "iteration": iteration.name,
                "bytes_per_second": X.nbytes / seconds[iteration.name],
                "operations_per_second": operations / seconds[iteration.name],
                "operations_per_byte": operations / X.nbytes,
            }
        )
    return {
        "bytes_per_second": X.nbytes / seconds["sum"],
        "operations_per_second": 2.0 * PEAK**3 / seconds["product"],
        "points": points,
    }


def run(
    watch: Watch,
    n_samples: int = 100_000,
    n_features: int = 128,
    large: int = 1_000_000,
    times: int = TIMES,
) -> Result:
    """Time iterations, threads, the roofline."""
    threads = default_threads()
    timed = iterations(watch, n_samples, n_features, threads, times)
    faster = speed_up(watch, large, n_features, threads, max(3, times // 3))
    roof = roofline(watch, n_samples, n_features, threads, times)
    limits = [
        *(Limit(_title(one), one["ratio"], most=one["most"]) for one in timed if one["most"] is not None),
        *(Limit(f"{one['iteration']}: {threads} threads against 1", one["ratio"], least=1.5) for one in faster),
    ]
    return Result(
        suite="kernels",
        title=f"Iterations at n = {n_samples:,}, d = {n_features}, {threads} threads, fastest of {times}",
        columns=("what", "milliseconds", "floor", "ratio", "limit", ""),
        rows=(*_timing_lines(timed), *_faster_lines(faster, large, threads), *_roof_lines(roof)),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "large": large,
            "threads": threads,
            "iterations": timed,
            "threads_compared": faster,
            "roofline": roof,
            "limits": [limit.plain() for limit in limits],
        },
    )


def _title(one: dict[str, Any]) -> str:
    return f"{one['iteration']}, rows {one['rows']}"


def _timing_lines(timed: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in timed:
        limit = ("", "") if one["most"] is None else _judge(Limit("", one["ratio"], most=one["most"]))
        yield (_title(one), f"{1e3 * one['seconds']:.2f}", f"{1e3 * one['floor']:.2f}", f"{one['ratio']:.2f}", *limit)


def _faster_lines(faster: list[dict[str, Any]], n: int, threads: int) -> Iterator[tuple[str, ...]]:
    for one in faster:
        name = f"{one['iteration']}, {n:,} rows: {threads} threads, and 1"
        times = f"{1e3 * one['several']:.1f}", f"{1e3 * one['one']:.1f}", f"{one['ratio']:.2f}"
        yield (name, *times, *_judge(Limit("", one["ratio"], least=1.5)))


def _roof_lines(roof: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for one in roof["points"]:
        reached, top = one["bytes_per_second"], roof["bytes_per_second"]
        yield (f"{one['iteration']}: GB/s, and of a sum over X", f"{reached / 1e9:.1f}", f"{top / 1e9:.1f}",
               f"{reached / top:.2f}", "", "")  # fmt: skip


def _judge(limit: Limit) -> tuple[str, str]:
    return limit.bound, limit.verdict
