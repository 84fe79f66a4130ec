"""A terminal for programs under test."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread


def run_on_terminal(command: Sequence[str], **environment: str) -> tuple[bytes, str]:
    """What a program prints, and what a terminal shows of its standard error.

    The terminal is read while the program runs: one that nobody reads takes some 10 kB, and then holds its writer.
    """
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # a terminal that all have left ends in an error
            while part := os.read(ours, 65536):
                shown.append(part)

    reader = Thread(target=read)
    try:
        told = {**os.environ, "TERM": "xterm", **environment}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=told) as process:
            os.close(theirs)
            reader.start()
            printed, _ = process.communicate(timeout=300)
        reader.join()
    finally:
        os.close(ours)
    assert process.returncode == 0, b"".join(shown).decode()
    return printed, b"".join(shown).decode(errors="replace")
