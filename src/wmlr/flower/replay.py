"""The same fit at every agent: a method is a deterministic function of the sums it receives.

The server keeps a *transcript* of what its fit has received. An agent runs the same fit on an engine that reads the
transcript in place of asking anybody; where the transcript ends stands the one question that may be answered now.
So a server can neither ask anything else, nor ask once more; all that it can forge are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.federated.messages import pack_sums, unpack_answer
from wmlr.federated.privacy.fitting import fit_privately
from wmlr.flower.assignment import Assignment
from wmlr.flower.refusals import RefusalError
from wmlr.flower.terms import RunTerms
from wmlr.numerics.arrays import Sums

AGAIN, INTERRUPTED = b"again", b"interrupted"
LONGEST_STEP = 600.0  # seconds that a fit may think between two questions
NEAR = 1e-6  # what rounding on another machine may change in a question, relative to its size
PROBES = 3


class Transcript:
    """What a fit has received so far: sums, and where it began again."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def write(self, sums: Sums) -> None:
        """Add a round's sums, as the method received them."""
        self.entries.append(pack_sums(sums))

    def mark(self, event: bytes) -> None:
        """Add what was no sum: the fit began again, or was interrupted."""
        self.entries.append(event)

    def __len__(self) -> int:
        return len(self.entries)


def fingerprint(query: Query) -> list[float]:
    """A few numbers that two queries share, to rounding, if they are the same."""
    numbers = np.array([*_numbers(query)], dtype=np.float64)
    probes = np.random.default_rng(len(numbers)).uniform(0.5, 1.5, (PROBES, len(numbers)))
    size = float(np.linalg.norm(numbers))
    return [float(len(numbers)), size, *(probes @ numbers).tolist()]


def same(query: Query, label: Any, mark: Any) -> bool:
    """Whether a question is the one that the server's fit asks, as far as its label and fingerprint tell."""
    own = fingerprint(query)
    if label != query.label or not isinstance(mark, list) or len(mark) != len(own):
        return False
    if not all(isinstance(number, float) for number in mark) or mark[0] != own[0]:
        return False
    return bool(np.all(np.abs(np.subtract(mark, own)) <= NEAR * np.sqrt(own[0] + 1) * (own[1] + 1e-12)))


def run_fit(
    wanted: Any,
    rows: Any,
    private: bool,
    again: Callable[[], bool],
    watch: Callable[[Any], None] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Any:
    """The fit as server and agents run it; ``again`` says whether to fit on from where it ended.

    ``roles`` are the columns that are no features, by their role.
    """
    roles = roles or {}
    if private:
        return fit_privately(wanted, rows, watch, **roles)
    wanted.fit_on(rows, watch, **roles)
    while again():
        wanted.set_params(warm_start=True).fit_on(rows, watch, **roles)
    return wanted.set_params(warm_start=False)


class Replay:
    """A fit at an agent, in a thread of its own, that waits for sums.

    Parameters
    ----------
    assignment : what is to be fitted.
    terms : how answers are guarded, which methods are adapted to.
    columns : what the features are called.
    """

    def __init__(self, assignment: Assignment, terms: RunTerms, columns: Sequence[str]) -> None:
        self.assignment, self.terms, self.columns = assignment, terms, columns
        self.n_features = len(columns)
        self.read = 0
        self._entries: SimpleQueue[Any] = SimpleQueue()
        self._asked: SimpleQueue[Any] = SimpleQueue()
        self._kept: list[Any] = []
        self._rounds = 0
        self._over: str = ""
        Thread(target=self._run, daemon=True).start()

    def advance(self, entries: Sequence[bytes]) -> Query:
        """Read on in the transcript; what the fit asks where it ends.

        Raises
        ------
        RefusalError
            Where the fit asks nothing any more, or cannot go on with such sums.
        """
        if self._over:
            raise RefusalError(self._over)
        for entry in entries:
            self._entries.put(entry)
        self.read += len(entries)
        self._entries.put(None)
        try:
            asked = self._asked.get(timeout=LONGEST_STEP)
        except Empty:
            asked = f"the fit did not come to its next question within {LONGEST_STEP:.0f} s"
        if isinstance(asked, str):
            self._over = asked
            raise RefusalError(asked)
        query: Query = asked
        return query

    def stop(self) -> None:
        """Let the thread end."""
        self._over = self._over or "the fit is over"
        self._entries.put(_StoppedError())

    @property
    def capabilities(self) -> Capabilities:
        """What the server's engine declares."""
        privacy = self.terms.privacy
        left = None if privacy is None else max(0, privacy.rounds - self._rounds)
        return Capabilities(
            answering=self.assignment.answering,
            grouped=self.terms.grouped,
            hides_rows=True,
            slow_rounds=True,
            rounds_left=left,
            feature_names=self.columns,
        )

    def total(self, query: Query) -> Sums:
        """The sums that the transcript has for a query."""
        entry = self._next()
        while entry is None:
            self._asked.put(query)
            entry = self._next()
        self._rounds += 1
        if entry == INTERRUPTED:
            raise KeyboardInterrupt
        return unpack_answer(entry, query, self.n_features, self.terms.grouped)

    def _must_refit(self) -> bool:
        entry = self._next()
        if entry == AGAIN:
            return True
        self._kept.append(entry)
        return False

    def _next(self) -> Any:
        entry = self._kept.pop() if self._kept else self._entries.get()
        if isinstance(entry, _StoppedError):
            raise entry
        return entry

    def _run(self) -> None:
        over = "the fit is over: it asks nothing more"
        try:
            wanted = self.assignment.estimator()
            private = self.terms.privacy is not None
            roles = self.assignment.roles
            fitted = run_fit(wanted, self, private, self._must_refit, roles=roles)
            if self.assignment.errors and not private:
                fitted.covariance_on(self, **roles)
        except _StoppedError:
            return
        except BaseException as error:
            over = f"the fit cannot go on with these sums ({type(error).__name__}: {error})"
        self._asked.put(over)


class _StoppedError(BaseException):
    """The agent has no more use for this fit."""


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return np.ravel(value).tolist()
    if isinstance(value, (bool, int, float, np.generic)):
        return [float(value)]
    if isinstance(value, tuple):
        return [number for item in value for number in _numbers(item)]
    if is_dataclass(value):
        return [number for one in fields(value) for number in _numbers(getattr(value, one.name))]
    return []
