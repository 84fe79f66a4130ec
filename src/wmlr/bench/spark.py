"""A fit on Spark, local[2], beside the same fit on two threads of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wmlr.bench import Result, Watch
from wmlr.bench._cluster import PARTS, ROUNDS, TIMES, WORKERS, draw_part, measure, rows_in_process, table_lines
from wmlr.bench._measure import Limit
from wmlr.engines.spark import SparkRows, open_session
from wmlr.io import tables

SAME = 1e-10  # relative: coefficients of the two may not be further apart


@contextmanager
def local_session(workers: int) -> Iterator[Any]:
    """A session on this machine with so many tasks at once; ended afterwards."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    with open_session() as session:
        try:
            yield session
        finally:
            session.stop()


def write_parts(folder: Path, n: int, d: int, parts: int) -> Path:
    """The rows as a folder of Parquet files, one for each part."""
    place = folder / "rows.parquet"
    place.mkdir()
    for number in range(parts):
        X, y = draw_part(number, n // parts, d)
        columns = {f"x{column:03d}": X[:, column] for column in range(d)}
        tables.write(place / f"part-{number:03d}.parquet", columns | {"y": y})
    return place


def run(
    watch: Watch,
    n_samples: int = 200_000,
    n_features: int = 64,
    workers: int = WORKERS,
    times: int = TIMES,
    parts: int = PARTS,
    rounds: int = ROUNDS,
    session: Any = None,
) -> Result:
    """Time both in turn; loading is counted apart, and each fit runs once unmeasured.

    Without a ``session`` one is made on this machine.
    """
    watch("drawing rows")
    here = rows_in_process(n_samples, n_features, parts, workers)
    with TemporaryDirectory(prefix="wmlr-spark-") as name:
        folder = write_parts(Path(name), n_samples, n_features, parts)
        with local_session(workers) if session is None else nullcontext(session) as session:
            there, found = measure(
                watch, here, lambda: SparkRows(str(folder), "y", session=session), n_features, times, rounds
            )
            version = session.version
            there.release()
    apart = max(one["apart"] for one in found["fits"])
    limits = [Limit("Spark: coefficients beside those of arrays, relative", apart, most=SAME)]
    return Result(
        suite="spark",
        title=f"Spark with {workers} tasks at once and {workers} threads of one process, n = {n_samples:,}, "
        f"d = {n_features}, fastest of {times}; loading apart",
        columns=("what", "Spark, ms", "threads, ms", "ratio", "limit", ""),
        rows=tuple(table_lines(found, [])),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "workers": workers,
            "partitions": parts,
            **found,
            "spark": version,
            "limits": [limit.plain() for limit in limits],
        },
    )
