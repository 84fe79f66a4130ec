"""What commands show: tables on stdout, progress and notes on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wmlr.io.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

FORCED = {"FORCE_COLOR", "TTY_COMPATIBLE"}  # by which rich takes a pipe for a terminal
LEAST_WIDTH = 140  # a table wider than the terminal wraps there; its numbers are never cut

Advance = Callable[[str, float], None]


def show(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table to stdout; the first column is text, the others are aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=max(Console().width, LEAST_WIDTH))
    if title is not None:
        print(printable(title))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def print_line(text: str) -> None:
    """What was written and where, on stderr."""
    print(printable(text), file=sys.stderr)


def print_written(*paths: Path | None) -> None:
    """Say which of these files were written: those that were asked for."""
    for path in paths:
        if path is not None:
            print_line(f"wrote {path}")


@contextmanager
def status_line(text: str) -> Iterator[None]:
    """A line while something takes its time, with the components, pass, iteration and time of the fits inside.

    Nothing at all where stderr is not a terminal.
    """
    console = terminal()
    if console is None:
        yield
        return
    from wmlr.cli._bars import stages_on
    from wmlr.core.progress import announce_to

    with stages_on(console) as bar:
        task = bar.add_task(text, total=None)
        with announce_to(lambda stage: bar.update(task, description=f"{text}: {stage}")):
            yield


def terminal() -> Console | None:
    """The terminal that stderr is, if it is one."""
    if not sys.stderr.isatty() and not FORCED & os.environ.keys():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextmanager
def progress(total: float | None) -> Iterator[Advance]:
    """A bar on a terminal, and a function to move it: ``advance(what is being done, by how much)``.

    Without a total the bar only says that something is going on.
    """
    console = terminal()
    if console is None:
        yield lambda text, by: None
        return
    from wmlr.cli._bars import bar_on

    with bar_on(console) as bar:
        task = bar.add_task("", total=total)
        yield lambda text, by: bar.update(task, description=text, advance=by)
