"""Remarks of a command: gathered while it works, printed below its table, and kept for its page and its JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from wmlr.io.printable import one_line

_gathered: ContextVar[list[str] | None] = ContextVar("notes", default=None)


def note(text: str) -> None:
    """Remark something; it is printed once, when the command ends, or at once where nobody gathers notes."""
    found = _gathered.get()
    line = one_line(text)
    if found is None:
        _print(line)
    elif line not in found:
        found.append(line)


def notes() -> tuple[str, ...]:
    """What has been remarked so far."""
    return tuple(_gathered.get() or ())


@contextmanager
def gather_notes() -> Iterator[None]:
    """Gather notes, and print them on stderr at the end, however it ends."""
    found: list[str] = []
    token = _gathered.set(found)
    try:
        yield
    finally:
        _gathered.reset(token)
        for line in found:
            _print(line)


def _print(line: str) -> None:
    print(f"wmlr: note: {line}", file=sys.stderr)
