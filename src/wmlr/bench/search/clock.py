"""How long a user waits: the default fit of real regressions of 500 to 2,000 rows, on the clock.

One fit at a time, on all processors; beside it flexmix, which has one thread, from one random start and from ten. The
problems are those of the first eleven data sets of such sizes, with 2 to 5 components, one sigma and a sigma each.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wmlr.bench import Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench.search import peers
from wmlr.bench.search.contestants import Data
from wmlr.bench.search.known import KnownProblem
from wmlr.bench.search.likelihood import MIDDLING
from wmlr.bench.search.real import RealCase, cases, rows_of
from wmlr.engines.arrays import default_threads
from wmlr.estimator.regression import MixedLinearRegression

PART = "clock"
DATA_SETS = 11
CONTESTANTS = ("default", *(peer for peer in peers.PEERS if peer.startswith("flexmix")))


def measure(
    chosen: Iterable[tuple[RealCase, KnownProblem]],
    ledger: ResultLedger,
    watch: Watch,
    contestants: Sequence[str],
    limit: float,
) -> None:
    """Time each problem by itself, as far as the ledger does not have it."""
    middling = [case.name for case in cases() if MIDDLING[0] <= case.rows <= MIDDLING[1]][:DATA_SETS]
    for case, problem in chosen:
        if case.name not in middling:
            continue
        missing = [who for who in CONTESTANTS if who in contestants and not ledger.has(PART, problem.key, who, 0)]
        if missing:
            watch(f"{problem.key} on the clock")
            data = Data(*rows_of(case), problem.k, problem.shared_sigma)
            ledger.add([_timed(problem, data, who, limit) for who in missing])


def _timed(problem: KnownProblem, data: Data, who: str, limit: float) -> Line:
    if who in peers.PEERS:
        seconds = peers.fits(who, data, [0], limit)[0].seconds
    else:
        model = MixedLinearRegression(data.k, shared_sigma=data.shared_sigma, random_state=0, n_jobs=default_threads())
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(data.X, data.y)
        seconds = time.perf_counter() - begun
    return {"part": PART, "problem": problem.key, "who": who, "seed": 0, "seconds": seconds}


def summary(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Of each contestant: how many fits, and the quartiles of their seconds."""
    found = []
    for who in dict.fromkeys(line["who"] for line in lines):
        seconds = [line["seconds"] for line in lines if line["who"] == who]
        found.append({"who": who, "fits": len(seconds), "seconds": np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()})
    return found
