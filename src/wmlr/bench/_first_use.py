"""What the first use costs: importing, and the first fit of a fresh interpreter."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field

from wmlr.bench import Watch
from wmlr.bench._measure import Limit, told

REPEATS = 3
HEAVY = ("numba", "llvmlite", "torch", "dask", "distributed", "flwr", "grpc", "matplotlib", "formulaic")

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
n, d, k = map(int, sys.argv[1:])
data = make_mixed_regression(n, d, k, snr=5, symmetric=k == 2, random_state=0)
fit = MixedLinearRegression(k, symmetric=k == 2, random_state=0)
begun = time.perf_counter()
fit.fit(data.X, data.y)
print(json.dumps({"seconds": time.perf_counter() - begun, "compiled": "wmlr.numerics.loops" in sys.modules}))
"""

SMALL = (1_000, 8, 3)


@dataclass(frozen=True)
class FirstUse:
    """Seconds by what was done, the heavy packages that importing loads, and what was to be kept."""

    seconds: dict[str, float] = field(default_factory=dict)
    loaded: list[str] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


def time_import(statement: str, times: int = REPEATS) -> tuple[float, list[str]]:
    """The fewest seconds an import takes in a fresh interpreter, and the packages it brings in."""
    found = [told(IMPORT, statement) for _ in range(times)]
    return min(one["seconds"] for one in found), found[0]["modules"]


def first_fit(n: int, d: int, k: int, cache: str) -> float:
    """Seconds of the first fit in a fresh interpreter whose compiled code is kept in ``cache``."""
    return float(told(FIT, n, d, k, env=os.environ | {"NUMBA_CACHE_DIR": cache})["seconds"])


def first_use(watch: Watch, n: int, d: int) -> FirstUse:
    """Import everything the estimator needs, and fit a small and a large problem, cold and again."""
    watch("importing")
    base, _ = time_import("import sklearn.base")
    package, _ = time_import("import wmlr")
    estimator, modules = time_import("from wmlr import MixedLinearRegression")
    seconds = {
        "import sklearn.base": base,
        "import wmlr": package,
        "import of the estimator, less import sklearn.base": estimator - base,
    }
    with tempfile.TemporaryDirectory() as cache:
        for name, size in (("a small problem", SMALL), ("the paper's problem", (n, d, 2))):
            for state in ("nothing compiled", "compiled before"):
                watch(f"first fit of {name}, {state}")
                seconds[f"first fit of {name}, {state}"] = first_fit(*size, cache)
    loaded = [name for name in HEAVY if name in modules]
    milliseconds = {
        "import wmlr": 300.0,
        "import of the estimator, less import sklearn.base": 300.0,
        "first fit of a small problem, nothing compiled": 3000.0,
        "first fit of a small problem, compiled before": 200.0,
    }
    limits = [Limit(name, 1e3 * seconds[name], most=most) for name, most in milliseconds.items()]
    limits.append(Limit("compilers loaded by importing", float("numba" in loaded or "llvmlite" in loaded), most=0.0))
    return FirstUse(seconds, loaded, limits)
