"""Warnings that point at the line of the user's own code which led to them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parents[1])
_BETWEEN = "contextlib"  # whose frames stand between ours where a context ends


def users_line() -> tuple[str, int, dict[str, Any]]:
    """The file and line that called the library, and the names of its module; the outermost where all is ours."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_OURS) or frame.f_globals.get("__name__") == _BETWEEN
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, at the user's line."""
    file, line, names = users_line()
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module=names.get("__name__"), registry=registry)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Let nothing inside warn users, where what it would say is no news or not theirs to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
