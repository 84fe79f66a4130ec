"""Benchmarks: every module of this package is a suite.

A suite ``fit.py`` holds a function ``run(watch)`` that returns a :class:`Result`, and a docstring whose first
line says what it measures. Its numbers are ratios to something measured in the same run, so that they mean
the same on another machine. To add a suite, add its file; a module whose name begins with an underscore is
shared between suites, and ``page`` writes the page of results.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import scipy

from wmlr.engines.arrays import default_threads
from wmlr.experiments.report import processor
from wmlr.io.files import write_text
from wmlr.version import __version__

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What a suite found: a table to print, and the numbers behind it.

    Attributes
    ----------
    suite, title : what was measured.
    columns, rows : the table, as text.
    numbers : everything measured, as plain JSON data.
    """

    suite: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: dict[str, Any] = field(default_factory=dict)


def suite_names() -> list[str]:
    """The suites there are."""
    return sorted(module.name for module in iter_modules(__path__) if module.name != "page" and module.name[0] != "_")


def run(suite: str, watch: Watch | None = None, out: Path | None = None, **options: Any) -> Result:
    """Run a suite by its name; ``watch`` is told what is being measured.

    ``options`` that are None are left out; others must be among the suite's own. A suite that keeps what it measures
    as it goes has a parameter ``out`` for the folder.
    """
    if suite not in suite_names():
        raise ValueError(f"there is no benchmark {suite!r}; there are {', '.join(suite_names())}")
    measure = import_module(f"{__name__}.{suite}").run
    known = signature(measure).parameters
    given = {name: value for name, value in options.items() if value is not None}
    foreign = [name for name in given if name not in known]
    if foreign:
        raise ValueError(f"the benchmark {suite!r} has no option --{foreign[0]}: leave it out")
    if "out" in known:
        given["out"] = out
    with use_kernels("compiled"):
        result: Result = measure(watch or (lambda text: None), **given)
    return result


@contextmanager
def use_kernels(which: str) -> Iterator[None]:
    """The "compiled" loops, waited for where they are still to be compiled, or "numpy" in their place."""
    before = os.environ.get("WMLR_KERNELS")
    os.environ["WMLR_KERNELS"] = which
    try:
        yield
    finally:
        del os.environ["WMLR_KERNELS"]
        if before is not None:
            os.environ["WMLR_KERNELS"] = before


def write(result: Result, out: Path) -> Path:
    """Write a result and the machine it was had on as JSON."""
    path = out / f"{result.suite}.json"
    write_text(path, json.dumps(asdict(result) | {"machine": machine()}, indent=1))
    return path


def machine() -> dict[str, Any]:
    """What the numbers were had on."""
    return {
        "processor": processor(),
        "processors": os.cpu_count(),
        "threads": default_threads(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "wmlr": __version__,
    }
