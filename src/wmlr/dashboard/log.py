"""What is known of a running fit: its rounds, its iterations, and what it waits for."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any

import numpy as np

from wmlr.core.capabilities import capabilities_of
from wmlr.core.query import Query
from wmlr.core.round import Engine, EngineWrapper
from wmlr.federated.ledger import Round
from wmlr.numerics.arrays import Sums
from wmlr.report.parts import RECORDS, Plain, evenly_spaced

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
SHOWN = ("asked", "answered", "late", "bytes")


class RunLog:
    """The rounds and iterations of a run, written by the fit and read by the page's thread.

    Where the engine keeps a ledger, rounds are its lines; else a round is one answer of one holder of rows.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._engine: Any = None
        self._read = 0
        self._rounds: list[tuple[Round, float | None]] = []
        self._history: list[dict[str, float]] = []
        self._asked: tuple[str, float] | None = None
        self._state, self._reason = WAITING, ""

    def follow(self, engine: Any) -> None:
        """Read this engine's ledger from now on."""
        with self._lock:
            self._engine = engine
            self._read = capabilities_of(engine).rounds
            if self._state == WAITING:
                self._began, self._state = time.monotonic(), RUNNING

    def begin(self, query: Query) -> None:
        """A query goes out."""
        with self._lock:
            self._asked = query.label, time.monotonic()

    def end(self, error: BaseException | None = None) -> None:
        """Its answers are there, or it has failed."""
        with self._lock:
            assert self._asked is not None
            name, since = self._asked
            self._asked = None
            if error is not None:
                self._state, self._reason = FAILED, f"{type(error).__name__}: {error}"
                return
            if capabilities_of(self._engine).ledger is None:
                self._rounds.append((Round(name, 1, 1, 0, 0, 0), None))
            self._sync()
            if self._rounds and self._rounds[-1][1] is None:
                self._rounds[-1] = self._rounds[-1][0], time.monotonic() - since

    def note(self, record: dict[str, float]) -> None:
        """An iteration is over."""
        with self._lock:
            first = self._history[0]["iteration"] if self._history else record.get("iteration", 0.0)
            place = {"iteration": first + len(self._history), "seconds": time.monotonic() - self._began}
            self._history.append(record | place)

    def finish(self) -> None:
        """The run is over; what failed stays failed."""
        with self._lock:
            self._sync()
            self._ended = time.monotonic()
            self._state = self._state if self._state == FAILED else DONE

    def state(self) -> Plain:
        """All of it as plain data; of very many rounds and iterations, some."""
        with self._lock:
            self._sync()
            now = time.monotonic() if self._ended is None else self._ended
            rounds, history = list(self._rounds), list(self._history)
            asked, state, reason = self._asked, self._state, self._reason
            agents = capabilities_of(self._engine).agents
        return {
            "state": state,
            "reason": reason,
            "seconds": 0.0 if state == WAITING else now - self._began,
            "agents": agents,
            "asking": None if asked is None else {"query": asked[0], "seconds": now - asked[1]},
            "rounds": _to_list(rounds),
            "history": _columns(history),
        }

    def _sync(self) -> None:
        """Take over what the ledger has beyond what was read."""
        ledger = capabilities_of(self._engine).ledger
        if ledger is not None:
            lines = ledger[self._read : len(ledger)]
            self._read += len(lines)
            self._rounds += [(line, None) for line in lines]


class WatchedEngine(EngineWrapper):
    """An engine that tells a log what it is asked and when it has answered; it declares what the engine does."""

    def __init__(self, engine: Engine, log: RunLog) -> None:
        super().__init__(engine)
        self._log = log
        log.follow(engine)

    def total(self, query: Query) -> Sums:
        """The engine's sums."""
        self._log.begin(query)
        try:
            sums = self.engine.total(query)
        except BaseException as error:
            self._log.end(error)
            raise
        self._log.end()
        return sums


def _to_list(rounds: list[tuple[Round, float | None]]) -> Plain:
    every = evenly_spaced(len(rounds), RECORDS)
    some = [rounds[place] for place in every]
    sent = np.cumsum([line.bytes for line, _ in rounds])
    columns = {name: [getattr(line, name) for line, _ in some] for name in SHOWN}
    return {
        "count": len(rounds),
        "round": [int(place) + 1 for place in every],
        "query": [line.query for line, _ in some],
        "seconds": [seconds for _, seconds in some],
        "cumulative": [int(sent[place]) for place in every],
        **columns,
    }


def _columns(history: list[dict[str, float]]) -> Plain:
    some = [history[place] for place in evenly_spaced(len(history), RECORDS)]
    names = dict.fromkeys(name for record in some for name in record)
    return {"count": len(history), "columns": {name: [record.get(name) for record in some] for name in names}}
