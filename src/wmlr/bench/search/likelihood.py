"""Part (a): how near each contestant comes to the best known maximum of real regressions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from wmlr.bench import Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench.search import peers
from wmlr.bench.search.contestants import Data, Ended, ours
from wmlr.bench.search.known import KnownProblem, KnownValues
from wmlr.bench.search.real import RealCase, rows_of
from wmlr.bench.search.value import Judge, Value
from wmlr.engines.arrays import default_threads
from wmlr.io.plain_data import plain
from wmlr.numerics.arrays import Array

PART = "real"
COMPONENTS = (2, 3, 4, 5)
NEAR = 0.1
MIDDLING = (500, 2000)
QUANTILES = np.arange(1, 101) / 100


@dataclass(frozen=True)
class Judged:
    """A line for the ledger, and the maximum behind it where there is one."""

    line: Line
    value: Value | None


def problems(cases: Sequence[RealCase]) -> Iterator[tuple[RealCase, KnownProblem]]:
    """Every data set with every number of components, one sigma and a sigma each."""
    for case in cases:
        for k in COMPONENTS:
            for shared in (True, False):
                yield case, KnownProblem(case.name, k, shared)


def measure(
    chosen: Iterable[tuple[RealCase, KnownProblem]],
    seeds: int,
    ledger: ResultLedger,
    known: KnownValues,
    watch: Watch,
    contestants: Sequence[str],
    limit: float = peers.PATIENCE,
) -> None:
    """Run what the ledger does not have yet; raise the table of best values wherever a fit does."""
    for case, problem in chosen:
        missing = {
            who: [seed for seed in range(seeds) if not ledger.has(PART, problem.key, who, seed)] for who in contestants
        }
        tasks = [(who, left) for who, left in missing.items() if left]
        if not tasks:
            continue
        watch(problem.key)
        X, y = rows_of(case)
        split = [(who, part) for who, left in tasks for part in ([left] if who in peers.PEERS else [[s] for s in left])]
        found = Parallel(n_jobs=default_threads())(
            delayed(attempt)(problem, X, y, who, part, limit) for who, part in split
        )
        judged = [one for several in found for one in several]
        raised = [known.offer(problem, one.value, one.line["who"]) for one in judged if one.value is not None]
        if any(raised):
            known.save()
        ledger.add(one.line for one in judged)


def attempt(
    problem: KnownProblem, X: Array, y: Array, who: str, seeds: list[int], limit: float = peers.PATIENCE
) -> list[Judged]:
    """One contestant's fits, judged."""
    data = Data(X, y, problem.k, problem.shared_sigma)
    ended = (
        peers.fits(who, data, seeds, limit) if who in peers.PEERS else {seed: ours()[who](data, seed) for seed in seeds}
    )
    judge = Judge(X, y, problem.shared_sigma)
    return [_judge(problem, judge, who, seed, one, len(y)) for seed, one in ended.items()]


def _judge(problem: KnownProblem, judge: Judge, who: str, seed: int, ended: Ended, n: int) -> Judged:
    line: Line = {"part": PART, "problem": problem.key, "who": who, "seed": seed, "n": n}
    line |= {"name": problem.name, "k": problem.k, "shared_sigma": problem.shared_sigma}
    line |= {"seconds": ended.seconds, "passes": None if np.isnan(ended.passes) else ended.passes}
    if ended.mixture is None:
        return Judged(line | {"ranked": None, "failure": ended.failure}, None)
    value = judge.settle(ended.mixture)
    line |= {"ranked": value.ranked, "log_likelihood": value.log_likelihood, "at_floor": value.at_floor}
    return Judged(line | {"before": judge.value(ended.mixture)}, value)


def shortfall(line: Line, known: KnownValues) -> float:
    """Nats behind the best known value; infinite where the fit failed."""
    if line["ranked"] is None:
        return np.inf
    best = known[KnownProblem(line["name"], line["k"], line["shared_sigma"])].ranked
    return max(best - float(line["ranked"]), 0.0)


def fitted_by_all(lines: Sequence[Line]) -> list[Line]:
    """The fits of those data sets that every contestant fitted."""
    names: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        names[line["who"]].add(line["name"])
    common = set.intersection(*names.values()) if names else set()
    return [line for line in lines if line["name"] in common]


def summary(lines: Sequence[Line], known: KnownValues) -> list[dict[str, Any]]:
    """Each contestant's share within .1 nats, median shortfall, seconds and passes; by one sigma or a sigma each."""
    groups: dict[tuple[str, bool], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["who"], line["shared_sigma"]].append(line)
    return [
        {"who": who, "shared_sigma": shared} | _figures(groups[who, shared], known)
        for who, shared in sorted(groups, key=lambda key: (not key[1], _order(key[0])))
    ]


def _order(who: str) -> int:
    order = ["default", "quick", "thorough", *ours(), *peers.PEERS]
    return order.index(who) if who in order else len(order)


def _figures(lines: Sequence[Line], known: KnownValues) -> dict[str, Any]:
    gaps = np.array([shortfall(line, known) for line in lines])
    passes = [line["passes"] for line in lines if line["passes"] is not None]
    return {
        "fits": len(lines),
        "near": float(np.mean(gaps <= NEAR)),
        "median_shortfall": plain(float(np.median(gaps))),
        "ninth_decile_shortfall": plain(float(np.quantile(gaps, 0.9, method="higher"))),
        "quantiles": [plain(float(gap)) for gap in np.quantile(gaps, QUANTILES, method="inverted_cdf")],
        "failed": int(np.sum(np.isinf(gaps))),
        "seconds": float(np.median([line["seconds"] for line in lines])),
        "passes": float(np.median(passes)) if passes else None,
    }


def beaten(lines: Sequence[Line], known: KnownValues, champion: str = "default") -> list[dict[str, Any]]:
    """Problems on which someone else came near the best known value more often than the champion."""
    shares: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        shares[line["problem"]][line["who"]].append(shortfall(line, known) <= NEAR)
    found = []
    for problem, by in shares.items():
        mine = float(np.mean(by[champion])) if champion in by else 0.0
        better = {who: float(np.mean(hits)) for who, hits in by.items() if np.mean(hits) > mine}
        if better:
            found.append({"problem": problem, champion: mine, "better": better})
    return found
