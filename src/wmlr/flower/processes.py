"""Flower's processes as children of ours: started apart from the terminal, ended by their id, never left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from wmlr.flower import QUIET

WORD = "WMLR_WORD"
PARENT = "WMLR_PARENT"
PATIENCE = 5.0
LAST_LINES = 8
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Folder(tempfile.TemporaryDirectory[str]):
    """A folder that only this user can look into, gone at the end; Flower keeps its things there."""

    def __init__(self) -> None:
        super().__init__(prefix="wmlr-", ignore_cleanup_errors=True)

    @property
    def path(self) -> Path:
        return Path(self.name)


class Child:
    """A Flower process that we start and end.

    It writes to a log file, gets no Ctrl-C from the terminal, and ends by itself when we are gone.

    Parameters
    ----------
    module : what ``python -m`` runs.
    options : its command line.
    folder : its home, and where its log is.
    environment : what it is told besides.
    """

    def __init__(
        self, module: str, options: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.module, self.options, self.folder = module, tuple(options), folder
        self.log = folder / f"{module.rsplit('.', 1)[-1]}.log"
        self._environment = {
            **os.environ,
            **QUIET,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "PYTHONSAFEPATH": "1",  # or what lies in the folder we were started in would be run
            "FLWR_HOME": str(folder / "flower"),
            PARENT: str(os.getpid()),
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def last_lines(self) -> str:
        """The end of its log, on one line."""
        lines = [line.strip() for line in COLOURS.sub("", self._log_text()).splitlines() if line.strip()]
        return " / ".join(lines[-LAST_LINES:]) or "it said nothing"

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def follow_parent(every: float = 0.5) -> None:
    """In a child: end when the process that started us has gone."""
    parent = int(os.environ.pop(PARENT, "0"))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)

    if parent:
        threading.Thread(target=watch, daemon=True).start()
