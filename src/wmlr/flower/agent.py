"""An agent: rows of its own, and what it will not do with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Rows
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.federated.checks import check_query, check_work
from wmlr.federated.floors import (
    BLOCKS,
    MOST_TO_KNOWERS,
    Disclosure,
    fewest_rows,
    largest_part,
    round_answer,
    shares_in,
    weights_in,
)
from wmlr.federated.privacy.budget import Budget
from wmlr.federated.values import DIGITS, bits_of_noisy, most_bits
from wmlr.flower.assignment import Assignment
from wmlr.flower.policy import Policy
from wmlr.flower.refusals import RefusalError, RowsRefusalError, refusals_for_rows
from wmlr.flower.replay import Replay
from wmlr.flower.terms import RunTerms
from wmlr.flower.vouching import Vouching
from wmlr.numerics.arrays import Array, Integers, Sums

PAIRED = 30  # agents that each is paired with in secure sums, where there are more
THRESHOLD = 2 / 3 - 1e-9  # of them that must answer
LARGEST_PART = 0.5  # of a number that the rows of one random block may have, of 32
HIDING = 2.0  # epsilon of all noisy answers together, up to which their noise hides rows
REMEDY = (
    "it leaves under masks (wmlr server --secure) or noise (--epsilon 2) only, or with --min-rows 1, where the server "
    "may see single rows"
)


@dataclass
class Run:
    """A fit that an agent takes part in: where it stands, what was answered last, and what went wrong."""

    replay: Replay | None
    turn: int = -1
    reply: dict[str, Any] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """How many entries of the transcript were read."""
        return 0 if self.replay is None else self.replay.read


@dataclass(eq=False)
class Agent:
    """The rows of one agent, as its own operator read them, and the limits he sets.

    Attributes
    ----------
    name : what it is called among the agents.
    X, y : its rows.
    columns, target : what they are called.
    min_rows : the fewest rows that a number may stand on that leaves in the clear: neither masked nor noisy.
    only_secure : whether it answers under masks only.
    min_agents : the fewest agents, itself among them, whose answers a secure sum may be made of.
    vouching : its certificate, and the authority that must vouch for every other agent of a secure sum; None believes
        whom the server names.
    max_epsilon : what all its noisy answers together may cost; with it, it gives no answer without noise.
    max_delta : the delta at which that cost is counted; a server that wants a larger one is refused.
    budget : what its noisy answers have cost so far, over all runs.
    policy : the fits it takes part in.
    answered, trouble, begun : how many questions it has answered, how many it refused or answered again, and how many
        fits it has begun, over all runs.
    shown, bits_shown : what has left in the clear, and how many bits of y it may hold.
    """

    name: str
    X: Array
    y: Array
    columns: tuple[str, ...]
    target: str
    min_rows: int = 10
    only_secure: bool = False
    min_agents: int = 3
    vouching: Vouching | None = None
    max_epsilon: float | None = None
    max_delta: float = 1e-5
    budget: Budget = field(default_factory=Budget)
    policy: Policy = field(default_factory=Policy)
    answered: int = 0
    trouble: int = 0
    begun: int = 0
    bits_shown: float = 0.0
    shown: tuple[Disclosure, Disclosure] = field(init=False, repr=False)
    _block: Integers = field(init=False, repr=False)
    _runs: dict[tuple[str, str, bytes], Run] = field(default_factory=dict, repr=False)
    _engines: dict[str, ArrayRows] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.shown = Disclosure(len(self)), Disclosure(len(self), MOST_TO_KNOWERS)
        self._block = np.random.default_rng().permutation(len(self)) % BLOCKS

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def most_bits(self) -> float:
        """The most bits that may leave in the clear before who knows the columns can solve for y."""
        return most_bits(self.X, self.y)

    def card(self, terms: RunTerms, assignment: Assignment) -> dict[str, Any]:
        """What it says of itself on joining, if it can live with the terms; in privacy, nothing of its rows."""
        if len(self) < self.min_rows:
            raise RefusalError(f"{len(self)} rows are fewer than the {self.min_rows} that an answer must stand on")
        self.policy.check(assignment, len(self.columns))
        assignment.check_roles(self.columns)
        if terms.secure is not None and (terms.secure.neighbours < PAIRED or terms.secure.threshold < THRESHOLD):
            raise RefusalError(
                "in secure sums agents are paired with thirty others, of whom two thirds must answer: with fewer, a "
                "server that pairs them as it likes sees single answers"
            )
        if self.only_secure and terms.secure is None:
            raise RefusalError("this agent answers under masks only: the server must fit with --secure")
        if self.max_epsilon is not None:
            if terms.privacy is None:
                raise RefusalError("this agent gives noisy answers only: the server must fit with --epsilon")
            self._refuse_cost(terms, terms.privacy.rounds)
        if self._is_guarded(terms) and not self._bits(terms, min(len(self), self.X.shape[1] + 1)) <= self.most_bits:
            raise RefusalError(self._few_values())
        rows = len(self) if terms.privacy is None else 0
        floor = self.min_rows if self.is_seen(terms) else 0
        return {"name": self.name, "rows": rows, "columns": list(self.columns), "target": self.target, "floor": floor}

    def run(self, name: str, terms: RunTerms, task: bytes) -> Run:
        """The fit of this name; one that is new begins, and the others end."""
        key = (name, terms.to_text(), task)
        if key not in self._runs:
            if self.policy.max_runs is not None and self.begun >= self.policy.max_runs:
                raise RefusalError(f"{self.begun} fits were begun: this agent begins no more (--stay would)")
            self.begun += 1
            for other in self._runs.values():
                if other.replay is not None:
                    other.replay.stop()
            self._runs.clear()
            assignment = Assignment.from_bytes(task)
            self._runs[key] = Run(Replay(assignment, terms, self.columns) if assignment.follows else None)
        return self._runs[key]

    def answer(self, query: Query, terms: RunTerms) -> Sums:
        """Its part of the sums that a query asks for; where agents count alike, the mean over its rows.

        Where there is privacy, that mean times the public number of rows.

        Raises
        ------
        ValueError
            Where the query takes too much work, or a number that leaves in the clear would stand on too few rows.
        """
        check_query(query, self.X.shape[1])
        check_work(query, len(self), self.X.shape[1])
        guarded = self._is_guarded(terms)
        if guarded:
            with refusals_for_rows():
                self._show(query, terms)
        with refusals_for_rows():
            sums = self._sums(query, terms)
            if guarded:
                sums = round_answer(sums, query, self._rows(terms), self._block)
        if terms.weighting == "agents":
            scale = (1.0 if terms.privacy is None else terms.privacy.rows) / len(self)
            return {name: np.asarray(value * scale) for name, value in sums.items()}
        return sums

    def is_seen(self, terms: RunTerms) -> bool:
        """Whether the server sees its answer: under no masks, with no noise or with too little of it to hide a row."""
        if terms.secure is not None:
            return False
        return terms.privacy is None or self.budget.epsilon(self.max_delta, terms.privacy.multiplier, 1) > HIDING * (
            1 + 1e-6
        )

    def noise_sharers(self, terms: RunTerms, members: int, fewest: int) -> int:
        """Among how many agents of a sum the noise is shared out.

        Where there is a limit, among those alone that must be in it, of those that the agent can believe.
        """
        if self.max_epsilon is None:
            return terms.least(members)
        return 1 if self.vouching is None else min(fewest, terms.least(members))

    def spend(self, terms: RunTerms) -> None:
        """Write down a noisy answer before it leaves, or refuse it where it would cost too much."""
        if terms.privacy is not None:
            with self.budget.lock():
                self._refuse_cost(terms, 1)
                self.budget.spend(terms.privacy.multiplier)

    def _sums(self, query: Query, terms: RunTerms) -> Sums:
        if query.of_each_agent:
            return query.answer_each(self._rows(terms), np.zeros(1, dtype=np.int64))
        if terms.level not in self._engines:
            groups = np.zeros(len(self), dtype=np.int64) if terms.grouped else None
            self._engines[terms.level] = ArrayRows(self.X, self.y, groups=groups, n_jobs=default_threads())
        return self._engines[terms.level].total(query)

    def _rows(self, terms: RunTerms) -> Rows:
        starts = np.zeros(1, dtype=np.int64) if terms.grouped else None
        return Rows(self.X, self.y, None, starts, np.arange(len(self)))

    def _is_guarded(self, terms: RunTerms) -> bool:
        return self.is_seen(terms) and self.min_rows > 1

    @staticmethod
    def _bits(terms: RunTerms, numbers: int) -> float:
        """What so many numbers may say that rows are weighed into, and the likelihood beside them."""
        of_one = DIGITS if terms.privacy is None else bits_of_noisy(terms.privacy.multiplier)
        return of_one * (numbers + 1) if numbers else 0.0

    def _few_values(self) -> str:
        few = f"{self.target} has few values, or is rounded, and {len(self)} rows are few"
        return f"{few}: whoever knows the columns could solve for it: {REMEDY}"

    def _show(self, query: Query, terms: RunTerms) -> None:
        """Refuse what stands on too few rows, or would with all that was shown before let y or a row be told."""
        rows = self._rows(terms)
        if query.maps_columns:
            raise RefusalError(f"features that the server gives could pick out single rows: {REMEDY}")
        fewest = fewest_rows(query, rows)
        if not fewest >= self.min_rows:
            raise RowsRefusalError(f"a number would stand on {fewest:.1f} rows, fewer than {self.min_rows}: {REMEDY}")
        if not (part := largest_part(query, rows, self._block)) <= LARGEST_PART:
            raise RowsRefusalError(f"{part:.0%} of a number would come of a few rows: {REMEDY}")
        alone, known = self.shown
        all_shares = chain(shares_in(query, rows), shares_in(query, rows, scalars=True, choosing=True))
        leverage, basis = alone.leverage(alone.places @ shares for shares in all_shares)
        most, weighed = known.leverage(weights_in(query, rows, known.places))
        if leverage > alone.most or most > known.most:
            raise RowsRefusalError(f"with all that was shown so far, one row could be told from the others: {REMEDY}")
        bits_shown = self.bits_shown + self._bits(terms, weighed.shape[1] - known.numbers)
        if not bits_shown <= self.most_bits:
            raise RowsRefusalError(self._few_values())
        self.bits_shown = bits_shown
        alone.show(basis)
        known.show(weighed)

    def _refuse_cost(self, terms: RunTerms, rounds: int) -> None:
        if terms.privacy is None:
            return
        if terms.privacy.delta > self.max_delta * (1 + 1e-9):
            raise RefusalError(f"a delta of {terms.privacy.delta:.3g} is above --max-delta {self.max_delta:.3g}")
        if self.max_epsilon is None:
            return
        cost = self.budget.epsilon(self.max_delta, terms.privacy.multiplier, rounds)
        if cost > self.max_epsilon * (1 + 1e-6):
            limit = f"--max-epsilon {self.max_epsilon:.3g}"
            raise RefusalError(f"{rounds} more answers would bring the cost to epsilon {cost:.3g}, above {limit}")
