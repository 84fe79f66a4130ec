"""Flower's waiting times, shortened: a round has to wait for the slowest of all its looks and pauses.

Flower looks for messages every three seconds and, where it comes a moment too early for a message's content,
waits another second. For small sums that is most of what a round takes. Where a later Flower keeps its times
elsewhere, nothing here changes anything.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from flwr.supercore.inflatable import inflatable_utils

BESIDE = 0.05
BACKOFF = {"initial_backoff": BESIDE, "backoff_cap": 1.0}


class Clock:
    """The module ``time``, with shorter sleeps.

    ``pause`` is between two looks at the server's messages. Sleeps below a second are between two looks at what
    the process beside this one has answered, and take next to nothing.
    """

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self.pause if seconds >= 1.0 else BESIDE))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def look_every(pause: float, module: ModuleType) -> None:
    """Let a module of Flower's sleep no longer than a pause."""
    vars(module)["time"] = Clock(pause)


def fetch_sooner() -> None:
    """Let content that is still on its way be asked for again at once."""
    for name in ("pull_objects", "pull_and_inflate_object_from_tree"):
        defaults = getattr(getattr(inflatable_utils, name, None), "__kwdefaults__", None) or {}
        defaults.update({given: value for given, value in BACKOFF.items() if given in defaults})
