"""What commands show: tables on stdout, progress and notes on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import ceil
from time import perf_counter

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from wmlr.io.printable import printable

LEAST_WIDTH = 140  # a table wider than the terminal wraps there; its numbers are never cut

SEARCH = "wmlr.methods.search"  # whose loggers say what a search is doing

Advance = Callable[[str, float], None]


def show(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table to stdout; the first column is text, the others are aligned to the right."""
    console = Console(width=max(Console().width, LEAST_WIDTH))
    if title is not None:
        print(printable(title))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def say(text: str) -> None:
    """What was written and where, on stderr."""
    print(printable(text), file=sys.stderr)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner while something takes its time, with the stage of a search; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text) as status:
        begun = perf_counter()
        told = _Told(lambda said: status.update(f"{text}: {said}, {perf_counter() - begun:.0f} s"))
        search = logging.getLogger(SEARCH)
        level = search.level
        search.addHandler(told)
        search.setLevel(logging.INFO)
        try:
            yield
        finally:
            search.removeHandler(told)
            search.setLevel(level)


class _Told(logging.Handler):
    """Hands messages on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self.tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self.tell(printable(record.getMessage()))


class TimeLeft(ProgressColumn):
    """How much longer it takes, once that can be told."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = None if task.total is None else task.time_remaining
        return Text("" if left is None else f"{timedelta(seconds=ceil(left))} left", style="progress.remaining")


def bar_on(console: Console) -> Progress:
    """A bar with what is being done, how far it is, for how long, and how much longer; gone when it is full."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft())
    return Progress(*columns, console=console, transient=True)


@contextmanager
def progress(total: float | None) -> Iterator[Advance]:
    """A bar on a terminal, and a function to move it: ``advance(what is being done, by how much)``.

    Without a total the bar only says that something is going on.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text, by: None
        return
    with bar_on(console) as bar:
        task = bar.add_task("", total=total)
        yield lambda text, by: bar.update(task, description=text, advance=by)
