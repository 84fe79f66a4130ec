"""Among 50 agents: how often a search of so many rounds ends no lower than the quick search on all rows at hand.

At level "row", 24 real problems, dealt out row by row: six data sets of 250 to 1,100 rows and at most 8 columns, three
and four components, one sigma and a sigma each. At level "agent", 24 drawn ones: 50 agents of 12 rows, four
components in five columns of which every agent has one. No lower means by no more than .1 nats, each end climbed on
by the same judge where there is one. Bytes are those of one agent, both ways, in the median.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.bench import Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench.search import real
from wmlr.bench.search.likelihood import NEAR
from wmlr.bench.search.value import Judge
from wmlr.datasets import make_mixed_regression
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.federated import Federation
from wmlr.methods.search.effort import Effort
from wmlr.numerics.arrays import Array, Integers

PART = "rounds"
AGENTS = 50
BUDGETS = (8, 15, 25, 45, 90, 180)
QUICK = "quick"
DRAWN = 24


@dataclass(frozen=True)
class Dealt:
    """Rows among agents; at level "agent" every agent is of one component."""

    name: str
    X: Array
    y: Array
    agents: Integers
    level: str
    k: int
    shared_sigma: bool = True

    def value(self, fit: MixedLinearRegression) -> float:
        """What a fit is worth; with a row's own component after the judge has climbed on."""
        if self.level == "agent":
            return float(fit.log_likelihood_)
        return Judge(self.X, self.y, self.shared_sigma).settle(fit.mixture_).ranked

    def model(self, search: str | Effort) -> MixedLinearRegression:
        return MixedLinearRegression(self.k, shared_sigma=self.shared_sigma, random_state=0, n_jobs=1, search=search)


def problems() -> Iterator[Dealt]:
    """Both levels' problems."""
    fitting = [case for case in real.cases()[1::3] if 250 <= case.rows <= 1_100 and len(case.features) <= 8]
    for case in fitting[:6]:
        X, y = real.rows_of(case)
        for k in (3, 4):
            for shared in (True, False):
                name = f"{case.name} k={k} {'one sigma' if shared else 'a sigma each'}"
                yield Dealt(name, X, y, np.arange(len(y)) % AGENTS, "row", k, shared)
    for seed in range(DRAWN):
        data = make_mixed_regression(12 * AGENTS, 5, 4, snr=1.5, groups=12, random_state=seed)
        yield Dealt(f"drawn, {seed}", data.X, data.y, np.asarray(data.groups), "agent", 4)


def measure(ledger: ResultLedger, watch: Watch) -> None:
    """Fit each problem with every budget, as far as the ledger does not have it."""
    for problem in problems():
        wanted = [QUICK, *(f"{rounds} rounds" for rounds in BUDGETS)]
        missing = [who for who in wanted if not ledger.has(PART, problem.name, who, 0)]
        if missing:
            watch(f"{problem.name} among agents")
            ledger.add(_attempts(problem, missing))


def _attempts(problem: Dealt, missing: Sequence[str]) -> list[Line]:
    groups = problem.agents if problem.level == "agent" else None
    federation = Federation.split(problem.X, problem.y, problem.agents, level=problem.level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        central = problem.value(problem.model(QUICK).fit(problem.X, problem.y, groups=groups))
        lines = []
        for who in missing:
            search = QUICK if who == QUICK else Effort.among_agents(int(who.split()[0]))
            fit = problem.model(search).fit_on(federation)
            totals = fit.ledger_.totals()
            behind = central - problem.value(fit)
            lines.append(
                {"part": PART, "problem": problem.name, "who": who, "seed": 0, "level": problem.level}
                | {"found": bool(behind <= NEAR), "behind": float(behind), "rounds": float(totals["rounds"])}
                | {"bytes": float(totals["bytes_down"] + totals["bytes_up"])}
            )
    return lines


def summary(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Of each level and budget: how many fits there were, how many no lower, median rounds and bytes, most rounds."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["level"], line["who"]].append(line)
    return [
        {
            "level": level,
            "who": who,
            "fits": len(fits),
            "found": sum(line["found"] for line in fits),
            "rounds": float(np.median([line["rounds"] for line in fits])),
            "within_80": sum(line["rounds"] <= 80 for line in fits),
            "bytes": float(np.median([line["bytes"] for line in fits])),
        }
        for (level, who), fits in groups.items()
    ]
