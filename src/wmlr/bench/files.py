"""Files larger than memory: the peak memory of a fit, and its speed beside plainly reading the same file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, run_script
from wmlr.io.table import arrow
from wmlr.metrics import coefficient_error
from wmlr.numerics.arrays import Array

SIZE, FOLDER, COLD = "WMLR_BENCH_GB", "WMLR_BENCH_FOLDER", "WMLR_BENCH_COLD"
FEATURES = 64
COMPONENTS = (2, 3)
CHUNK = 2**17
READS = 2

COMMON = """
import json, os, sys, time
path, cold = sys.argv[1], sys.argv[2] == "True"

def drop():
    if cold:
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
"""

READ = (
    COMMON
    + """
def plain():
    if path.endswith(".npy"):
        room = bytearray(2**23)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(room):
                pass
    else:
        import pyarrow.parquet
        with pyarrow.parquet.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                file.read_row_group(number)

seconds = []
for turn in range(int(sys.argv[3])):
    drop()
    begun = time.perf_counter()
    plain()
    seconds.append(time.perf_counter() - begun)
print(json.dumps({"seconds": seconds}))
"""
)

FIT = (
    COMMON
    + """
from wmlr import MixedLinearRegression
from wmlr.engines import NpyRows, ParquetRows

k, d = int(sys.argv[3]), int(sys.argv[4])
marks = []

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what))

def progress(done, rows, number):
    if done == rows:
        ended = time.perf_counter()
        drop()
        marks.append((ended, time.perf_counter()))

if path.endswith(".npy"):
    rows = NpyRows(path, d + k - 2, range(d), progress=progress)
else:
    rows = ParquetRows(path, f"y{k}", [f"x{j}" for j in range(d)], progress=progress)
before = memory("VmRSS")
drop()
begun = time.perf_counter()
fit = MixedLinearRegression(k, symmetric=k == 2, random_state=0).fit_on(rows)
starts = [begun, *(resumed for _, resumed in marks)]
print(json.dumps({
    "passes": rows.passes,
    "seconds": [ended - start for (ended, _), start in zip(marks, starts)],
    "peak_bytes": memory("VmHWM"),
    "bytes_before": before,
    "coef": fit.coef_.tolist(),
    "iterations": fit.n_iter_,
}))
"""
)


@dataclass(frozen=True)
class FileTiming:
    """One fit from one file."""

    file: str
    n_components: int
    rows: int
    gigabytes: float
    passes: int
    read_seconds: float
    pass_seconds: float
    peak_megabytes: float
    before_megabytes: float
    error: float

    @property
    def speed(self) -> float:
        """Of a pass of the fit, in units of plainly reading the file."""
        return self.read_seconds / self.pass_seconds


@dataclass(frozen=True)
class Truth:
    """What the rows are drawn from: a symmetric pair for y2, three regressions for y3."""

    coef: dict[int, Array]

    @classmethod
    def draw(cls, d: int) -> Truth:
        generator = np.random.default_rng(0)
        beta = generator.standard_normal(d) * 5 / np.sqrt(d)
        three = generator.standard_normal((3, d)) * 5 / np.sqrt(d)
        return cls({2: np.stack([beta, -beta]), 3: three})

    def chunks(self, rows: int) -> Iterator[tuple[Array, list[Array]]]:
        """X, and a y for each number of components, chunk by chunk."""
        generator = np.random.default_rng(1)
        for first in range(0, rows, CHUNK):
            count = min(CHUNK, rows - first)
            X = generator.standard_normal((count, self.coef[2].shape[1]))
            targets = []
            for k in COMPONENTS:
                means = X @ self.coef[k].T
                labels = generator.integers(k, size=count)
                targets.append(means[np.arange(count), labels] + generator.standard_normal(count))
            yield X, targets


def write_npy(path: Path, truth: Truth, rows: int, d: int) -> None:
    """All columns as one matrix."""
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (rows, d + len(COMPONENTS))}
        np.lib.format.write_array_header_1_0(file, header)
        for X, targets in truth.chunks(rows):
            file.write(np.column_stack([X, *targets]).tobytes())


def write_parquet(path: Path, truth: Truth, rows: int, d: int) -> None:
    """All columns by name, with the writer's usual settings."""
    parquet = import_module("pyarrow.parquet")
    names = [*(f"x{j}" for j in range(d)), *(f"y{k}" for k in COMPONENTS)]
    writer = None
    for X, targets in truth.chunks(rows):
        table = arrow().table(dict(zip(names, [*X.T.copy(), *targets])))
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


WRITERS = {"npy": write_npy, "parquet": write_parquet}


def run(
    watch: Watch,
    gigabytes: float | tuple[float, ...] | None = None,
    folder: str | None = None,
    n_features: int = FEATURES,
    cold: bool | None = None,
) -> Result:
    """Write a .npy and a Parquet file, and fit each in a process of its own.

    Parameters
    ----------
    watch : told what is being measured.
    gigabytes : the size of both files, or of each; WMLR_BENCH_GB, as 20 or 20,2, or 1.
    folder : where to write them; WMLR_BENCH_FOLDER, or where temporary files go.
    n_features : how many columns, besides the targets.
    cold : drop the file from the system's cache before every pass, as a file larger than memory does by itself;
        WMLR_BENCH_COLD=0 leaves it there.
    """
    arrow()
    sizes = _sizes(os.environ.get(SIZE, "1") if gigabytes is None else gigabytes)
    folder = os.environ.get(FOLDER) if folder is None else folder
    cold = os.environ.get(COLD) != "0" if cold is None else cold
    truth = Truth.draw(n_features)
    outcomes = []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for (ending, write), size in zip(WRITERS.items(), sizes):
            path = Path(place) / f"rows.{ending}"
            rows = max(1, int(size * 1e9 / (8 * (n_features + len(COMPONENTS)))))
            _check_room(path.parent, size)
            watch(f"writing {size:g} GB of .{ending}")
            write(path, truth, rows, n_features)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            for k in COMPONENTS:
                outcomes.append(_measure(watch, path, truth, rows, k, cold))
            path.unlink()
    return _result(outcomes, n_features, cold)


def _sizes(given: str | float | tuple[float, ...]) -> tuple[float, ...]:
    """Gigabytes of each file, from one number for all or one for each."""
    words = given.split(",") if isinstance(given, str) else given if isinstance(given, tuple) else (given,)
    try:
        sizes = tuple(float(word) for word in words)
    except ValueError:
        sizes = ()
    if len(sizes) not in (1, len(WRITERS)) or not all(0 < size < np.inf for size in sizes):
        raise ValueError(
            f"{SIZE} must be gigabytes, one number or one for each of {', '.join(WRITERS)} (got {given!r})"
        )
    return sizes if len(sizes) > 1 else sizes * len(WRITERS)


def _check_room(folder: Path, gigabytes: float) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    if free < 1.5 * gigabytes:
        raise ValueError(
            f"{folder} has {free:.1f} GB left for a file of {gigabytes:g} GB: lower {SIZE}, or set {FOLDER}"
        )


def _measure(watch: Watch, path: Path, truth: Truth, rows: int, k: int, cold: bool) -> FileTiming:
    d = truth.coef[k].shape[1]

    def read() -> list[float]:
        watch(f"reading {path.name}")
        seconds: list[float] = run_script(READ, path, cold, READS)["seconds"]
        return seconds

    before = read()
    watch(f"fitting {k} components to {path.name}")
    fit = run_script(FIT, path, cold, k, d)
    return FileTiming(
        file=path.suffix,
        n_components=k,
        rows=rows,
        gigabytes=path.stat().st_size / 1e9,
        passes=fit["passes"],
        read_seconds=float(np.median(before + read())),
        pass_seconds=float(np.mean(fit["seconds"])),
        peak_megabytes=fit["peak_bytes"] / 1e6,
        before_megabytes=fit["bytes_before"] / 1e6,
        error=coefficient_error(np.array(fit["coef"]), truth.coef[k]),
    )


def _result(outcomes: list[FileTiming], d: int, cold: bool) -> Result:
    limits = [
        limit
        for outcome in outcomes
        for limit in (
            Limit(
                f"{outcome.file} k={outcome.n_components}: peak memory in GB", outcome.peak_megabytes / 1e3, most=1.0
            ),
            Limit(f"{outcome.file} k={outcome.n_components}: speed beside reading", outcome.speed, least=0.5),
        )
    ]
    lines: list[tuple[str, ...]] = [
        (
            f"{outcome.file} k={outcome.n_components}{' symmetric' if outcome.n_components == 2 else ''}",
            f"{outcome.gigabytes:.2f}",
            f"{outcome.rows:,}",
            str(outcome.passes),
            f"{outcome.read_seconds:.2f}",
            f"{outcome.pass_seconds:.2f}",
            f"{outcome.speed:.2f}",
            f"{outcome.peak_megabytes:.0f}",
            f"{outcome.peak_megabytes - outcome.before_megabytes:.0f}",
            f"{outcome.error:.4f}",
        )
        for outcome in outcomes
    ]
    how = "dropped from the cache before every pass" if cold else "as the system caches it"
    numbers: dict[str, Any] = {
        "n_features": d,
        "cold": cold,
        "fits": [asdict(outcome) | {"speed": outcome.speed} for outcome in outcomes],
        "limits": [limit.plain() for limit in limits],
    }
    return Result(
        suite="files",
        title=f"Fits from files of {d} features, {how} (wanted: at most 1 GB, and half the speed of reading)",
        columns=("file", "GB", "rows", "passes", "read s", "pass s", "speed", "peak MB", "grown MB", "error"),
        rows=tuple(lines),
        numbers=numbers,
    )
