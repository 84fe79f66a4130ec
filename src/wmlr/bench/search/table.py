"""Problems on which the search before this one failed: how often each contestant solves them.

One real one, three components of perceived tones, against the best known value; and drawn ones of 100 columns as in
Mix-IRLS's paper, by whether all components are found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlr.bench import Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench.search import likelihood, peers, recovery
from wmlr.bench.search.known import KnownProblem, KnownValues
from wmlr.bench.search.recovery import RecoveryPoint, Setting
from wmlr.datasets import load_tone

PART = "table"
TONE = KnownProblem("tone", 3, True)
DRAWN = (
    RecoveryPoint(Setting(100, (0.4, 0.3, 0.2, 0.1)), 1600),
    RecoveryPoint(Setting(100, (0.7, 0.2, 0.1)), 1300),
    RecoveryPoint(Setting(100, (0.2,) * 5), 2500),
)


def measure(seeds: int, ledger: ResultLedger, known: KnownValues, watch: Watch, contestants: Sequence[str]) -> None:
    """Try every problem with every seed, as far as the ledger does not have them."""
    tone = load_tone()
    for who in contestants:
        left = [seed for seed in range(seeds) if not ledger.has(PART, TONE.key, who, seed)]
        if left:
            watch(f"{TONE.key}: {who}")
            judged = likelihood.attempt(TONE, tone.data, tone.target, who, left)
            raised = [known.offer(TONE, one.value, who) for one in judged if one.value is not None]
            if any(raised):
                known.save()
            ledger.add(one.line | {"part": PART} for one in judged)
    recovery.measure(PART, DRAWN, seeds, ledger, watch, [who for who in contestants if who not in peers.PEERS])


def summary(lines: Sequence[Line], known: KnownValues) -> list[dict[str, Any]]:
    """Of each problem and contestant: in how many fits it was solved, and the median seconds."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        if line["who"] != recovery.KNOWN_LABELS:
            groups[line["problem"], line["who"]].append(line)
    return [
        {
            "problem": problem,
            "who": who,
            "fits": len(fits),
            "found": sum(_is_solved(line, known) for line in fits),
            "seconds": float(np.median([line["seconds"] for line in fits])),
        }
        for (problem, who), fits in groups.items()
    ]


def _is_solved(line: Line, known: KnownValues) -> bool:
    if line["problem"] == TONE.key:
        return bool(likelihood.shortfall(line, known) <= likelihood.NEAR)
    return bool(line["found"])
