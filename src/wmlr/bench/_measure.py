"""Measuring for the suites: things timed in turn, and what they were to be."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t as student

from wmlr.numerics.arrays import Array

Work = Callable[[], object]

SETTLE = 0.2


@dataclass(frozen=True)
class Limit:
    """A number that was measured, and the bound it is to keep: at most ``most``, at least ``least``."""

    name: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    @property
    def bound(self) -> str:
        if self.least is not None and self.most is not None:
            return f"{self.least:.4g} to {self.most:.4g}"
        return f"at most {self.most:.4g}" if self.most is not None else f"at least {self.least:.4g}"

    @property
    def verdict(self) -> str:
        return "met" if self.met else "MISSED"

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {"name": self.name, "value": self.value, "bound": self.bound, "met": self.met}


def wall_seconds(work: Work, times: int) -> list[float]:
    """Wall seconds of each of several calls."""
    return time_in_turn({"": work}, times)[""]


def time_in_turn(works: Mapping[str, Work], times: int, settle: float = 0.0) -> dict[str, list[float]]:
    """Wall seconds of several works, called one after the other again and again.

    What disturbs the machine for a while then disturbs them all. Each is called until ``settle`` seconds have
    passed, and its last call counts.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            seconds[name].append(_last(work, settle))
    return seconds


def _last(work: Work, settle: float) -> float:
    first = time.perf_counter()
    while True:
        begun = time.perf_counter()
        work()
        ended = time.perf_counter()
        if ended - first >= settle:
            return ended - begun


def fewest_seconds_in_turn(works: Mapping[str, Work], times: int) -> dict[str, float]:
    """The fewest seconds each work took, in turn, each time called until it had the machine to itself.

    Threads of the linear algebra library go on spinning for a while after a product, and threads that slept may
    find themselves on one processor: both are over after some milliseconds of the same work, as in a fit.
    """
    return {name: min(seconds) for name, seconds in time_in_turn(works, times, SETTLE).items()}


@dataclass(frozen=True)
class Slope:
    """An exponent on log-log axes with its 95% interval."""

    exponent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.exponent:.3f} [{self.low:.3f}, {self.high:.3f}]"


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> Slope:
    """Least squares of log seconds on log size."""
    x: Array = np.log(np.asarray(sizes, dtype=np.float64))
    y: Array = np.log(np.asarray(seconds, dtype=np.float64))
    x = x - x.mean()
    spread = float(x @ x)
    exponent = float(x @ y) / spread
    left = y - y.mean() - exponent * x
    freedom = len(x) - 2
    error = float(np.sqrt(left @ left / freedom / spread))
    width = float(student.ppf(0.975, freedom)) * error
    return Slope(exponent, exponent - width, exponent + width)


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> Slope:
    """The exponent p of seconds = a + b size^p, by least squares of log seconds, with its interval.

    ``a`` is what each row costs however wide it is.
    """
    x, y = np.log(np.asarray(sizes, dtype=np.float64)), np.log(np.asarray(seconds, dtype=np.float64))
    middle = float(x.mean())

    def misfit(parameters: Array) -> Array:
        a, b, p = parameters
        return np.asarray(np.logaddexp(a, b + p * (x - middle)) - y)

    found: Any = least_squares(misfit, [float(y.min()) - 1.0, float(y.mean()), 1.0], xtol=1e-12, ftol=1e-12)
    freedom = len(x) - 3
    spread = np.linalg.pinv(found.jac.T @ found.jac)[2, 2] * 2.0 * found.cost / freedom
    exponent, width = float(found.x[2]), float(student.ppf(0.975, freedom) * np.sqrt(spread))
    return Slope(exponent, exponent - width, exponent + width)


def run_script(script: str, *arguments: object, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a script says as its last line, as JSON, when a fresh interpreter runs it."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=None if env is None else dict(env))
    if ran.returncode != 0:
        raise RuntimeError(f"a measuring process failed: {(ran.stderr.strip().splitlines() or ['no word'])[-1]}")
    said: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return said
