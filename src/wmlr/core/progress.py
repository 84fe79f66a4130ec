"""How far a fit has come, for whoever wants to know: a bar on a terminal, say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stage:
    """Where a fit is.

    Attributes
    ----------
    components : how many it has.
    passes : how many questions have been put to the rows.
    iteration : of the climb; None while the search for a start goes on.
    search : what the search is at, and with how many candidates.
    """

    components: int = 0
    passes: int = 0
    iteration: int | None = None
    search: str = "searching for a start"

    def __str__(self) -> str:
        what = self.search if self.iteration is None else f"iteration {self.iteration}"
        return f"{self.components} component{'s' if self.components != 1 else ''}, {what}, pass {self.passes:,}"


Listener = Callable[[Stage], None]


@dataclass
class _Audience:
    """A listener, and the last stage announced to it."""

    listener: Listener
    stage: Stage = Stage()


_audience: ContextVar[_Audience | None] = ContextVar("progress", default=None)


@contextmanager
def announce_to(listener: Listener) -> Iterator[None]:
    """Announce every question and iteration of the fits inside to a listener."""
    token = _audience.set(_Audience(listener))
    try:
        yield
    finally:
        _audience.reset(token)


def _announce(change: Callable[[Stage], Stage]) -> None:
    if (audience := _audience.get()) is not None:
        audience.stage = change(audience.stage)
        audience.listener(audience.stage)


def announce_fit(components: int) -> None:
    """A fit of so many components begins."""
    _announce(lambda stage: Stage(components))


def announce_pass() -> None:
    """A question is put to the rows."""
    _announce(lambda stage: replace(stage, passes=stage.passes + 1))


def announce_iteration(number: float) -> None:
    """An iteration is done."""
    _announce(lambda stage: replace(stage, iteration=int(number)))


def announce_search(what: str, candidates: int) -> None:
    """A search for the likeliest maximum comes to its next stage."""
    _announce(lambda stage: replace(stage, iteration=None, search=f"{what}, {candidates} candidates"))
