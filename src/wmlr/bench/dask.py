"""A fit on a Dask cluster of worker processes beside the same fit on as many threads of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._cluster import PARTS, ROUNDS, TIMES, WORKERS, draw_part, measure, rows_in_process, table_lines
from wmlr.bench._measure import Limit
from wmlr.engines.dask import DaskRows
from wmlr.engines.dask_sources import extra


def rows_on_cluster(n: int, d: int, parts: int, client: Any) -> DaskRows:
    """The rows on the workers, drawn there."""
    arrays, delayed = extra("dask.array"), extra("dask").delayed
    made = [delayed(draw_part, nout=2)(number, n // parts, d) for number in range(parts)]
    X = [arrays.from_delayed(one[0], (n // parts, d), dtype=np.float64) for one in made]
    y = [arrays.from_delayed(one[1], (n // parts,), dtype=np.float64) for one in made]
    return DaskRows(arrays.concatenate(X), arrays.concatenate(y), client=client)


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
    rounds: int = ROUNDS,
    client: Any = None,
) -> Result:
    """Time both in turn; loading is counted apart, and each fit runs once unmeasured.

    Without a ``client`` a cluster is made on this machine.
    """
    distributed = extra("distributed")
    size = n_samples, n_features, PARTS
    watch("drawing rows")
    here = rows_in_process(*size, workers)
    with cluster(workers) if client is None else nullcontext(client) as client:
        _, found = measure(watch, here, lambda: rows_on_cluster(*size, client), n_features, times, rounds)
    against = f"{workers} workers against {workers} threads"
    limits = [Limit(f"{one['name']}: {against}", one["ratio"], most=1.3) for one in found["fits"]]
    return Result(
        suite="dask",
        title=f"{workers} worker processes and {workers} threads of one process, n = {n_samples:,}, d = {n_features}, "
        f"fastest of {times}; loading apart",
        columns=("what", "workers, ms", "threads, ms", "ratio", "limit", ""),
        rows=tuple(table_lines(found, limits)),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "workers": workers,
            "partitions": PARTS,
            **found,
            "dask": distributed.__version__,
            "limits": [limit.plain() for limit in limits],
        },
    )
