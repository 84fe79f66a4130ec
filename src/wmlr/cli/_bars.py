"""Bars on a terminal; imported where there is one, as rich takes its time."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

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
from rich.text import Text


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


def stages_on(console: Console) -> Progress:
    """A line that says what is being done, and for how long; gone at the end."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, refresh_per_second=8)
