"""What the first use costs: importing, and the first fit of a fresh interpreter, compiled before or not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, run_script

REPEATS = 3
HEAVY = ("numba", "llvmlite", "torch", "dask", "distributed", "flwr", "grpc", "matplotlib", "formulaic")
SMALL = (1_000, 8, 3)
OVER = 1.5

IMPORT = """
import json, sys, time
begun = time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - begun
print(json.dumps({"seconds": seconds, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""

FIT = """
import json, sys, time
from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.numerics.compiling import wait_until_compiled
n, d, k = map(int, sys.argv[1:])
data = make_mixed_regression(n, d, k, snr=5, symmetric=k == 2, random_state=0)
fit = MixedLinearRegression(k, symmetric=k == 2, random_state=0)
begun = time.perf_counter()
fit.fit(data.X, data.y)
seconds = time.perf_counter() - begun
wait_until_compiled()
print(json.dumps({"seconds": seconds, "coef": fit.coef_.tolist(), "compiled": "wmlr.numerics.loops" in sys.modules}))
"""


def time_import(statement: str, times: int = REPEATS) -> tuple[float, list[str]]:
    """The fewest seconds an import takes in a fresh interpreter, and the packages it brings in.

    With bytecode at hand, which pip writes when it installs, whatever this environment says of writing it.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        env = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        run_script(IMPORT, statement, env=env)
        found = [run_script(IMPORT, statement, env=env) for _ in range(times)]
    return min(one["seconds"] for one in found), found[0]["modules"]


def first_fit(n: int, d: int, k: int, cache: str, kernels: str = "") -> float:
    """Seconds of the first fit in a fresh interpreter whose compiled code is kept in ``cache``.

    ``kernels`` is "compiled" where the fit is to wait for the compiler. The process ends when all is compiled.
    """
    return float(
        run_script(FIT, n, d, k, env=os.environ | {"NUMBA_CACHE_DIR": cache, "WMLR_KERNELS": kernels})["seconds"]
    )


def first_fits(watch: Watch, name: str, size: tuple[int, int, int]) -> Iterator[tuple[str, float]]:
    """Seconds of a first fit: with nothing compiled, the fewest with all compiled, and waiting for the compiler."""
    with tempfile.TemporaryDirectory() as cache:
        watch(f"first fit of {name}, nothing compiled")
        yield f"first fit of {name}, nothing compiled", first_fit(*size, cache)
        watch(f"first fit of {name}, compiled before")
        yield f"first fit of {name}, compiled before", min(first_fit(*size, cache) for _ in range(REPEATS))
    with tempfile.TemporaryDirectory() as cache:
        watch(f"first fit of {name}, waiting for the compiler")
        yield f"first fit of {name}, waiting for the compiler", first_fit(*size, cache, "compiled")


def run(watch: Watch, n_samples: int = 100_000, n_features: int = 128) -> Result:
    """Import what the estimator needs, and fit a small problem and the paper's in fresh interpreters."""
    watch("importing")
    base, _ = time_import("import sklearn.base")
    package, _ = time_import("import wmlr")
    estimator, modules = time_import("from wmlr import MixedLinearRegression")
    seconds = {
        "import sklearn.base": base,
        "import wmlr": package,
        "import of the estimator, less import sklearn.base": estimator - base,
        **dict(first_fits(watch, "a small problem", SMALL)),
        **dict(first_fits(watch, "the paper's problem", (n_samples, n_features, 2))),
    }
    more = "first fit of the paper's problem: nothing compiled, less compiled before"
    seconds[more] = (
        seconds["first fit of the paper's problem, nothing compiled"]
        - seconds["first fit of the paper's problem, compiled before"]
    )
    most = {
        "import wmlr": 0.3,
        "import of the estimator, less import sklearn.base": 0.3,
        "first fit of a small problem, nothing compiled": 3.0,
        "first fit of a small problem, compiled before": 0.2,
        more: OVER,
    }
    loaded = [name for name in HEAVY if name in modules]
    limits = {name: Limit(name, 1e3 * seconds[name], most=1e3 * bound) for name, bound in most.items()}
    judged = {name: (limit.bound, limit.verdict) for name, limit in limits.items()}
    compilers = Limit("compilers loaded by importing", float("numba" in loaded or "llvmlite" in loaded), most=0.0)
    return Result(
        suite="first",
        title=f"First use in a fresh interpreter; the paper's problem has {n_samples:,} rows, {n_features} columns",
        columns=("what", "milliseconds", "limit", ""),
        rows=tuple((name, f"{1e3 * took:.0f}", *judged.get(name, ("", ""))) for name, took in seconds.items()),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "seconds": seconds,
            "loaded": loaded,
            "limits": [limit.plain() for limit in [*limits.values(), compilers]],
        },
    )
