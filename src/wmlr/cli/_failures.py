"""What a command says when it cannot do what it was asked: one line, on stderr."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from wmlr.cli._words import in_options
from wmlr.io.notes import note
from wmlr.io.printable import one_line, printable

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130
TERMINATED = 143
REMEDIES: dict[int | None, str] = {
    errno.EACCES: "name another place, or change its permissions",
    errno.EROFS: "name another place",
    errno.ENOTDIR: "it is a file: name a folder",
    errno.ENOSPC: "make room on the disk, or name another place",
    errno.EFBIG: "files may not grow so large here: name another place",
}


class TerminatedError(KeyboardInterrupt):
    """Somebody asked the process to end, by SIGTERM."""


def report(error: BaseException) -> int:
    """Say what went wrong, and return the exit code."""
    line, code = explain(error)
    print(f"wmlr: {line}", file=sys.stderr)
    return code


def leave_at_once(code: int) -> NoReturn:
    """End the process without taking the interpreter down step by step.

    Ctrl-C may land inside a compiler or beside threads at work, whose memory cannot be freed safely any more.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def explain(error: BaseException) -> tuple[str, int]:
    """One line for an exception, and the exit code it deserves.

    A usage error of the command line and a ValueError are bad input; everything else is a failure.
    """
    if isinstance(error, TerminatedError):
        return "stopped by SIGTERM; no file was left half-written", TERMINATED
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return "stopped by Ctrl-C; no file was left half-written", INTERRUPTED
    usage: Any = getattr(error, "format_message", None)
    if usage is not None:
        context = getattr(error, "ctx", None)
        command = "wmlr" if context is None else str(context.command_path).replace("root", "wmlr", 1)
        return f"{one_line(usage()).rstrip('.')}; see {command} --help", int(getattr(error, "exit_code", BAD_INPUT))
    if isinstance(error, ValueError):
        return in_options(one_line(str(error))), BAD_INPUT
    if isinstance(error, ImportError):
        return one_line(str(error)), FAILED
    if isinstance(error, OSError) and error.strerror:
        remedy = REMEDIES.get(error.errno)
        where = "" if error.filename is None else f": {error.filename}"
        return printable(f"{error.strerror.lower()}{where}{f' ({remedy})' if remedy else ''}"), FAILED
    return f"{type(error).__name__}: {one_line(str(error))} (add --debug for the traceback)", FAILED


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Let warnings be notes, in the words of the command line; commands say themselves what did not converge."""

    def note_warning(message: Warning | str, *place: Any, **more: Any) -> None:
        note(in_options(str(message)))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "stopped after .* without converging")
        warnings.showwarning = note_warning
        yield
