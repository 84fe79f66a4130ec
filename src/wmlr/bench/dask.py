"""A fit on a Dask cluster of worker processes beside the same fit on as many threads of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, in_turn, wall_seconds
from wmlr.core.query import Query
from wmlr.core.round import Engine, Rows
from wmlr.engines import ArrayRows
from wmlr.engines.dask import DaskRows
from wmlr.engines.dask_sources import extra
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.numerics.arrays import Array, Sums

WORKERS = 2
PARTS = 16
TIMES = 3
ROUNDS = 40
SNR = 10.0


@dataclass(frozen=True)
class Nothing(Query):
    """A query that costs nothing: what is left is the round itself."""

    state: Array

    def answer(self, rows: Rows) -> Sums:
        return {"sum": self.state}


def part(number: int, n: int, d: int) -> tuple[Array, Array]:
    """Rows of the symmetric problem; a worker draws them where it is."""
    generator = np.random.default_rng([number, n, d])
    beta = np.full(d, SNR / np.sqrt(d))
    X = generator.standard_normal((n, d))
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0) * (X @ beta) + generator.standard_normal(n)
    return X, y


def on_cluster(n: int, d: int, parts: int, client: Any) -> DaskRows:
    """The rows on the workers, drawn there."""
    arrays, delayed = extra("dask.array"), extra("dask").delayed
    made = [delayed(part, nout=2)(number, n // parts, d) for number in range(parts)]
    X = [arrays.from_delayed(one[0], (n // parts, d), dtype=np.float64) for one in made]
    y = [arrays.from_delayed(one[1], (n // parts,), dtype=np.float64) for one in made]
    return DaskRows(arrays.concatenate(X), arrays.concatenate(y), client=client)


def in_process(n: int, d: int, parts: int, threads: int) -> ArrayRows:
    """The same rows here."""
    X, y = np.empty((n // parts * parts, d)), np.empty(n // parts * parts)
    for number in range(parts):
        place = slice(number * (n // parts), (number + 1) * (n // parts))
        X[place], y[place] = part(number, n // parts, d)
    return ArrayRows(X, y, n_jobs=threads)


def fits() -> dict[str, Callable[[Engine], MixedLinearRegression]]:
    """What is fitted: the default for the symmetric model, and a few steps of EM for three components."""
    return {
        "default fit, symmetric": lambda rows: MixedLinearRegression(symmetric=True, random_state=0).fit_on(rows),
        "3 components, 5 steps": lambda rows: MixedLinearRegression(3, max_iter=5, random_state=0).fit_on(rows),
    }


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of worker processes on this machine, with one thread each."""
    distributed = extra("distributed")
    settings = {"processes": True, "n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as local, distributed.Client(local) as client:
        yield client


def run(
    watch: Watch,
    n_samples: int = 1_000_000,
    n_features: int = 128,
    workers: int = WORKERS,
    times: int = TIMES,
    client: Any = None,
) -> Result:
    """Time both in turn; loading is counted apart, and each fit runs once unmeasured.

    Without a ``client`` a cluster is made on this machine.
    """
    distributed = extra("distributed")
    size = n_samples, n_features, PARTS
    watch("drawing rows")
    here = in_process(*size, workers)
    with cluster(workers) if client is None else nullcontext(client) as client:
        watch("loading")
        held: list[DaskRows] = []
        loading = wall_seconds(lambda: held.append(on_cluster(*size, client)), 1)[0]
        there = held[0]
        query = Nothing(np.zeros(n_features))
        watch("rounds")
        rounds = wall_seconds(lambda: there.total(query), ROUNDS)
        found = [_compare(watch, name, fit, here, there, times) for name, fit in fits().items()]
    limits = [Limit(f"{found[0]['name']}: {workers} workers against {workers} threads", found[0]["ratio"], most=1.3)]
    return Result(
        suite="dask",
        title=f"{workers} worker processes and {workers} threads of one process, n = {n_samples:,}, d = {n_features}, "
        f"fastest of {times}; loading apart",
        columns=("what", "workers, ms", "threads, ms", "ratio", "limit", ""),
        rows=tuple(_lines(found, limits, loading, rounds)),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "workers": workers,
            "partitions": PARTS,
            "loading_seconds": loading,
            "round_seconds": rounds,
            "fits": found,
            "dask": distributed.__version__,
            "limits": [limit.plain() for limit in limits],
        },
    )


def _compare(
    watch: Watch, name: str, fit: Callable[[Engine], MixedLinearRegression], here: Engine, there: Engine, times: int
) -> dict[str, Any]:
    watch(name)
    fitted = [fit(here), fit(there)]
    apart = float(np.abs(fitted[0].coef_ - fitted[1].coef_).max() / np.abs(fitted[0].coef_).max())
    seconds = in_turn({"threads": lambda: fit(here), "workers": lambda: fit(there)}, times)
    threads, workers = min(seconds["threads"]), min(seconds["workers"])
    return {"name": name, "threads": threads, "workers": workers, "ratio": workers / threads, "apart": apart}


def _lines(
    found: Sequence[dict[str, Any]], limits: Sequence[Limit], loading: float, rounds: Sequence[float]
) -> list[tuple[str, ...]]:
    judged = [(limit.bound, limit.verdict) for limit in limits] + [("", "")] * len(found)
    lines = [
        (one["name"], f"{1e3 * one['workers']:.0f}", f"{1e3 * one['threads']:.0f}", f"{one['ratio']:.2f}", *verdict)
        for one, verdict in zip(found, judged)
    ]
    return [
        *lines,
        ("a round that asks nothing, median", f"{1e3 * float(np.median(rounds)):.1f}", "", "", "", ""),
        ("loading, once", f"{1e3 * loading:.0f}", "", "", "", ""),
        ("largest relative difference of coefficients", f"{max(one['apart'] for one in found):.0e}", "", "", "", ""),
    ]
