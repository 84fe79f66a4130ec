"""The option ``--dashboard`` of the commands that fit among agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlr.cli import _places
from wmlr.cli._console import say

if TYPE_CHECKING:
    from wmlr.core.round import Engine, Watcher
    from wmlr.dashboard import Live

Dashboard = Annotated[
    bool,
    typer.Option(
        "--dashboard", help="Show the run as it goes on, on a page of this machine.", rich_help_panel=_places.PANEL
    ),
]
Port = Annotated[
    int,
    typer.Option(
        help="With --dashboard: its port; 0 takes a free one.", min=0, max=65535, rich_help_panel=_places.PANEL
    ),
]


class Unseen:
    """What stands for the page where none is wanted."""

    def over(self, engine: Engine) -> Any:
        """The engine itself."""
        return engine

    def also(self, watch: Watcher | None) -> Watcher | None:
        """The other watcher alone."""
        return watch


def open_page(ctx: typer.Context, wanted: bool, port: int, title: str) -> Live | Unseen:
    """A page that is there until the command ends; nothing where it is not wanted.

    On a terminal the page outlives the run until Enter or Ctrl-C, so that a quick run can be looked at.
    """
    if not wanted:
        return Unseen()
    from wmlr.dashboard import Live

    live = Live(title, port=port)
    say(f"the run can be watched at {live.start()}")
    ctx.call_on_close(lambda: _end(live))
    return live


def _end(live: Live) -> None:
    failed = sys.exc_info()[0] is not None
    try:
        if not failed and sys.stdin.isatty() and sys.stderr.isatty():
            live.finish()
            say(f"the page stays at {live.url} until Enter or Ctrl-C")
            sys.stdin.readline()
    except KeyboardInterrupt:
        pass
    finally:
        live.stop()
