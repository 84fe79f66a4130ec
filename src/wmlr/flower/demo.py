"""A federation on one machine: a server and three agents with certificates and keys, each a process of its own.

python -m wmlr.flower.demo
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from wmlr import flower
from wmlr.datasets import load_tone
from wmlr.io import tables

AGENTS = 3
PATIENCE = 20.0


def main() -> int:
    """Make keys, start everything, fit, and stop everything; the server's exit code."""
    flower.require()
    from wmlr.flower.processes import free_port

    with TemporaryDirectory(prefix="wmlr-demo-") as name:
        folder = Path(name)
        _write_rows(folder)
        port = str(free_port())
        subprocess.run(_command("server", "keys", "--out", "keys", "--agents", str(AGENTS)), cwd=folder, check=True)
        started: list[subprocess.Popen[Any]] = []
        try:
            server = _start(
                folder, started, "server", "--tls", "keys", "--keys", "keys/agents", "--port", port,
                "--agents", str(AGENTS), "--separate-sigma", "--patience", "120",
            )  # fmt: skip
            for number in range(1, AGENTS + 1):
                _start(
                    folder, started, "agent", "--data", f"agent-{number}.csv", "--target", "tuned",
                    "--server", f"127.0.0.1:{port}", "--tls", "keys/ca.crt", "--key", f"keys/agents/agent-{number}",
                    "--pause", "0.1",
                )  # fmt: skip
            code = server.wait()
            if code != 0:
                print(_agents_words(folder), file=sys.stderr)
            return code
        finally:
            for process in started:
                _stop(process)


def _write_rows(folder: Path) -> None:
    """The tone data, a third of the rows to each agent."""
    tone = load_tone()
    columns = {"stretchratio": np.asarray(tone.data)[:, 0], "tuned": np.asarray(tone.target)}
    for number in range(AGENTS):
        part = {name: values[number::AGENTS] for name, values in columns.items()}
        tables.write(folder / f"agent-{number + 1}.csv", part)


def _command(*words: str) -> list[str]:
    print("$ wmlr", *words, flush=True)
    return [sys.executable, "-m", "wmlr.cli", *words]


def _start(folder: Path, started: list[subprocess.Popen[Any]], *words: str) -> subprocess.Popen[Any]:
    """Start a command; what agents say goes to a file, so that the server can be heard."""
    log = None if words[0] == "server" else (folder / f"{len(started)}.log").open("wb")
    process = subprocess.Popen(_command(*words), cwd=folder, stderr=log)
    started.append(process)
    return process


def _agents_words(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.log")))


def _stop(process: subprocess.Popen[Any]) -> None:
    """Let it end by itself, as agents do when the fit is done; else end it."""
    for end in (process.terminate, process.kill):
        try:
            process.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            end()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
