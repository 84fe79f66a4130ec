"""The option ``--dashboard`` of the commands that fit among agents."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlr.cli import _places
from wmlr.cli._console import print_line

if TYPE_CHECKING:
    from wmlr.core.round import Engine, Watcher
    from wmlr.dashboard import Live


@dataclass(frozen=True)
class Watching:
    """Whether the run is shown on a page, and where."""

    dashboard: Annotated[
        bool, _places.option("Show the run as it goes on, on a page of this machine.", "--dashboard")
    ] = False
    dashboard_port: Annotated[
        int, _places.option("With --dashboard: its port; 0 takes a free one.", min=0, max=65535)
    ] = 0


class Unseen:
    """What stands for the page where none is wanted."""

    def over(self, engine: Engine) -> Any:
        """The engine itself."""
        return engine

    def also(self, watch: Watcher | None) -> Watcher | None:
        """The other watcher alone."""
        return watch


def open_page(ctx: typer.Context, watching: Watching, title: str) -> Live | Unseen:
    """A page that is there until the command ends; nothing where it is not wanted.

    On a terminal the page outlives the run until Enter or Ctrl-C, so that a quick run can be looked at.
    """
    if not watching.dashboard:
        return Unseen()
    from wmlr.dashboard import Live

    live = Live(title, port=watching.dashboard_port)
    print_line(f"the run can be watched at {live.start()}")
    ctx.call_on_close(lambda: _end(live))
    return live


def _end(live: Live) -> None:
    failed = sys.exc_info()[0] is not None
    try:
        if not failed and sys.stdin.isatty() and sys.stderr.isatty():
            live.finish()
            print_line(f"the page stays at {live.url} until Enter or Ctrl-C")
            sys.stdin.readline()
    except KeyboardInterrupt:
        pass
    finally:
        live.stop()
