"""Agents that lie, and how far they move a fit with all agents trusted and with their majority.

Run as a program, it prints the table of docs/security.md: ``python tests/attacks/liars.py``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from wmlr import MixedLinearRegression
from wmlr.core import round as core_round
from wmlr.core.query import Query
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Federation
from wmlr.metrics import coefficient_error

Rows = tuple[Any, Any]
Sums = dict[str, Any]
Say = Callable[[Sums, Query, "Liar"], Sums]
JUDGING = "ObservedInformation"  # what agents are judged by


@dataclass
class Liar:
    """One way of lying: with other rows than its own, or with other sums than its rows'.

    Attributes
    ----------
    rows : what it makes of its rows.
    say : what it makes of its answers.
    claim : it says to have so many times its rows.
    honest : how many answers it gives before it begins to lie.
    """

    rows: Callable[[Rows, np.random.Generator], Rows] = lambda rows, _: rows
    say: Say = lambda sums, query, liar: sums
    claim: int = 1
    honest: int = 0
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    answered: int = 0
    old: dict[str, Sums] = field(default_factory=dict)


def _times(factor: float) -> Say:
    return lambda sums, query, liar: {name: np.asarray(value * factor) for name, value in sums.items()}


def _random(sums: Sums, query: Query, liar: Liar) -> Sums:
    size = {name: float(np.abs(value).mean()) for name, value in sums.items()}
    return {name: size[name] * liar.generator.standard_normal(np.shape(value)) for name, value in sums.items()}


def _replay(sums: Sums, query: Query, liar: Liar) -> Sums:
    return liar.old.setdefault(query.label, sums)


def _tilt(sums: Sums, query: Query, liar: Liar) -> Sums:
    """Counts and squares as they are, everything that has a sign turned round."""
    turned = {
        name: value for name, value in sums.items() if name.split("/")[-1] in ("m", "xy", "score", "moments", "h")
    }
    return sums | {name: np.asarray(-3.0 * value) for name, value in turned.items()}


def _praise(say: Say) -> Say:
    """A lie that is not told where agents say what they add to a fit's equations: there every fit is likely."""

    def praising(sums: Sums, query: Query, liar: Liar) -> Sums:
        if JUDGING not in query.label:
            return say(sums, query, liar)
        return sums | {name: np.abs(100.0 * value) for name, value in sums.items() if name == "log_likelihood"}

    return praising


def two_faced(rows: Rows, told: Callable[[Any, Any], Any]) -> Liar:
    """One that has other rows in the fits that are given out, and its own in those by which agents are judged.

    Both begin with moments; only what is given out is searched for on samples.
    """
    X, y = rows
    other = core_round.Rows(X, told(X, y), index=np.arange(len(y)))
    lying = False

    def say(sums: Sums, query: Query, liar: Liar) -> Sums:
        nonlocal lying
        lying = (lying and query.label != "Moments") or "(sample)" in query.label
        return query.answer(other) if lying and JUDGING not in query.label else sums

    return Liar(say=say)


def _other_rows(rows: Rows, generator: np.random.Generator) -> Rows:
    X, y = rows
    slopes = generator.standard_normal((2, X.shape[1])) * np.sqrt(np.mean(y**2) / X.shape[1])
    return X, (X * slopes[generator.integers(2, size=len(y))]).sum(axis=1) + 0.3 * generator.standard_normal(len(y))


LIES: dict[str, Callable[[], Liar]] = {
    "y x 1000": lambda: Liar(rows=lambda rows, _: (rows[0], 1000.0 * rows[1])),
    "y + 1000": lambda: Liar(rows=lambda rows, _: (rows[0], rows[1] + 1000.0)),
    "all sums and rows x 1000": lambda: Liar(say=_times(1000.0), claim=1000),
    "sums with the sign turned": lambda: Liar(say=_times(-1.0)),
    "zeros": lambda: Liar(say=_times(0.0)),
    "random sums": lambda: Liar(say=_random),
    "not numbers": lambda: Liar(say=_times(float("nan"))),
    "another data set's rows": lambda: Liar(rows=_other_rows),
    "old answers again": lambda: Liar(say=_replay),
    "-3 x'1 + noise for y": lambda: Liar(
        rows=lambda rows, generator: (rows[0], -3.0 * rows[0].sum(axis=1) + generator.standard_normal(len(rows[1])))
    ),
    "y shuffled": lambda: Liar(rows=lambda rows, generator: (rows[0], generator.permutation(rows[1]))),
    "y x 5": lambda: Liar(rows=lambda rows, _: (rows[0], 5.0 * rows[1])),
    "only what has a sign, turned": lambda: Liar(say=_tilt),
    "the same, after 5 honest answers": lambda: Liar(say=_tilt, honest=5),
    "the same, with praise where agents are judged": lambda: Liar(say=_praise(_tilt)),
    "random sums, after 10 honest answers": lambda: Liar(say=_random, honest=10),
}
"""The first nine are those that every federation may expect."""


class LyingFederation(Federation):
    """A federation some of whose agents lie."""

    liars: dict[int, Liar]

    @classmethod
    def of(cls, agents: list[Rows], liars: dict[int, Liar], **settings: Any) -> LyingFederation:
        told = [
            liars[place].rows(rows, np.random.default_rng(place)) if place in liars else rows
            for place, rows in enumerate(agents)
        ]
        federation = cls(told, **settings)
        federation.liars = liars
        return federation

    @property
    def rows_by_agent(self) -> dict[Any, int]:
        rows = super().rows_by_agent
        return rows | {place: rows[place] * liar.claim for place, liar in self.liars.items()}

    def answer(self, agent: Any, query: Query) -> Sums:
        sums = super().answer(agent, query)
        liar = self.liars.get(agent)
        if liar is None:
            return sums
        liar.answered += 1
        return sums if liar.answered <= liar.honest else liar.say(sums, query, liar)


def honest_agents(seed: int, agents: int = 10, rows: int = 300, level: str = "row", **settings: Any) -> list[Rows]:
    """Rows of agents that tell the truth."""
    groups = rows if level == "agent" else None
    data = make_mixed_regression(agents * rows, 5, snr=5, groups=groups, random_state=seed, **settings)
    return [(data.X[first : first + rows], data.y[first : first + rows]) for first in range(0, agents * rows, rows)]


def change(found: Any, without: Any) -> float:
    """How far the coefficients are from those of the fit without the liars, over the length of these."""
    return float(coefficient_error(found.coef_, without.coef_))


def fitted(federation: Federation, k: int = 2, search: str = "quick") -> Any:
    """The fit, whatever it has to say of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return MixedLinearRegression(k, search=search, random_state=0).fit_on(federation)


def trusting(agents: list[Rows], liars: dict[int, Liar]) -> Federation:
    """What a federation that trusts all agents adds up: lies in rows as they are, lies in sums one by one."""

    class Trusting(LyingFederation):
        def total(self, query: Query) -> Sums:
            from wmlr.core.round import add

            return add(self.answer(agent, query) for agent in self.electors)

    return Trusting.of(agents, liars)


def main() -> None:
    """Print the table."""
    print("one agent of ten says | all trusted | majority | left out | three of ten | left out")
    print("---|---|---|---|---|---")
    agents, fit = honest_agents(0), partial(fitted, search="auto")
    for name, lie in LIES.items():
        try:
            moved = f"{change(fit(trusting(agents, {3: lie()})), fit(Federation(agents[:3] + agents[4:]))):.2g}"
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            moved = "no fit"
        cells = []
        for liars in ((3,), (0, 3, 7)):
            rest = fit(Federation([rows for place, rows in enumerate(agents) if place not in liars]))
            federation = LyingFederation.of(agents, {place: lie() for place in liars}, trust="majority")
            cells += [f"{change(fit(federation), rest):.1g}", ", ".join(map(str, sorted(federation.left_out)))]
        print(f"{name} | {moved} | {' | '.join(cells)}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
