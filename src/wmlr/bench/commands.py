"""What a command costs from a cold start, beside importing a regression of scikit-learn."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit

REPEATS = 7
TYPO = 700.0
"""Milliseconds of the processor within which a mistyped word must be answered: a busy machine's clock says nothing."""

REFERENCE = "python -c 'import sklearn.linear_model'"
COMMANDS = {
    "wmlr --help": ("--help",),
    "wmlr fit --help": ("fit", "--help"),
    "a mistyped command": ("fti", "tone"),
    "a mistyped option": ("fit", "tone", "--taget", "tuned"),
    "a mistyped column": ("fit", "tone", "--target", "tunde"),
    "wmlr fit tone --target tuned": ("fit", "tone", "--target", "tuned"),
}


def run(watch: Watch, repeats: int = REPEATS) -> Result:
    """Time each command in processes of their own, in turns with the import, so that a busy hour is everybody's.

    Parameters
    ----------
    watch : told what is being measured.
    repeats : how often each is run; the least counts.
    """
    programs = {REFERENCE: ["-c", "import sklearn.linear_model"]}
    programs |= {name: ["-m", "wmlr.cli", *words] for name, words in COMMANDS.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for number in range(repeats):
        for name, words in programs.items():
            watch(f"{name}, {number + 1} of {repeats}")
            found[name].append(_cost([sys.executable, *words]))
    wall = {name: 1e3 * min(cost[0] for cost in costs) for name, costs in found.items()}
    work = {name: 1e3 * min(cost[1] for cost in costs) for name, costs in found.items()}
    limits = [
        Limit(f"milliseconds of the processor for {name}", work[name], most=TYPO) for name in work if "mistyped" in name
    ]
    return Result(
        suite="commands",
        title=f"The command line from a cold start, least of {repeats}",
        columns=("", "milliseconds", "of the processor", "imports of scikit-learn"),
        rows=tuple(
            (name, f"{wall[name]:.0f}", f"{work[name]:.0f}", f"{work[name] / work[REFERENCE]:.2f}") for name in programs
        ),
        numbers={"milliseconds": wall, "processor": work, "limits": [limit.plain() for limit in limits]},
    )


def _cost(program: list[str]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, of a process."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(program, capture_output=True, check=False)
    spent, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, used
