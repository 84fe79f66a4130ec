"""Thirty agents, each a process of its own: their memory, how soon all have joined, a round, and the central fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.io import tables
from wmlr.numerics.arrays import Array

AGENTS, ROWS = 30, 60
LONGEST = 600.0  # seconds that the whole may take
LOOK, ENDING = 0.5, 20.0
RARELY = 5  # looks between two looks at memory, which take a while
SOURCE = "WMLR_BENCH_SOURCE"
MEGABYTES, JOINED, ROUND, SAME = 150.0, 60.0, 3.0, 1e-8


def run(watch: Watch, agents: int = AGENTS, rows: int = ROWS, parts: str | None = None) -> Result:
    """Let a server and its agents fit two components under masks, on the loopback address.

    Parameters
    ----------
    watch : told how far it is.
    agents, rows : how many there are, and how many rows each has.
    parts : "rounds" asks what rounds take of four agents, in the clear and under masks, in place of that.
    """
    if parts is not None:
        if parts != "rounds":
            raise ValueError(f"the benchmark 'agents' has one part of its own, rounds (got {parts!r})")
        return measure_rounds(watch)
    X, y = _data(agents * rows)
    with TemporaryDirectory(prefix="wmlr-agents-") as name:
        found = _deploy(Path(name), X, y, agents, watch, "server --json")
    from wmlr import MixedLinearRegression

    central = MixedLinearRegression(2, search="quick", random_state=0).fit(X, y)
    coef = np.array([list(component["coef"].values()) for component in found.told["components"]])
    gap = min(_distance(coef, central.coef_), _distance(coef[::-1], central.coef_))
    seconds = np.array(found.told["seconds"])
    limits = [
        Limit("megabytes of an agent", found.megabytes, most=MEGABYTES),
        Limit("seconds until all have joined a server that listens", found.joined, most=JOINED),
        Limit("seconds of a round, in the mean", float(seconds.mean()), most=ROUND),
        Limit("coefficients beside the central fit, relative", gap, most=SAME),
    ]
    return Result(
        suite="agents",
        title=f"{agents} agents of {rows} rows, a process each, under masks: {len(seconds)} rounds",
        columns=("", "measured", "bound", ""),
        rows=(
            *((limit.name, f"{limit.value:.3g}", limit.bound, limit.verdict) for limit in limits),
            ("processor seconds of an agent until it has joined", f"{found.joining:.3g}", "", ""),
            ("processor seconds of a round, all processes together", f"{found.working / len(seconds):.3g}", "", ""),
            ("others' processes that wanted a core meanwhile, in the mean", f"{found.others:.2g}", "", ""),
        ),
        numbers={
            "limits": [limit.plain() for limit in limits],
            "joining": found.joining,
            "working": found.working,
            "others": found.others,
            "seconds": seconds.tolist(),
            "bytes": found.told["totals"]["bytes"],
        },
    )


def measure_rounds(watch: Watch, agents: int = 4, rows: int = 600, columns: int = 8) -> Result:
    """Seconds and bytes of a round by the server's ledger, of fits whose answers are seen or masked.

    The programs are those of the source tree that WMLR_BENCH_SOURCE names, where it is set.
    """
    from wmlr import MixedLinearRegression
    from wmlr.datasets import make_mixed_regression

    lines, numbers = [], []
    for what, words, settings in (
        ("symmetric", "--symmetric", {"symmetric": True}),
        ("two components", "--start spectral", {"n_components": 2, "start": "spectral"}),
    ):
        data = make_mixed_regression(
            agents * rows, columns, 2, snr=4, symmetric="symmetric" in settings, random_state=0
        )
        central = MixedLinearRegression(**settings, random_state=0).fit(data.X, data.y)
        for masks, guard in (("in the clear", _plain_option()), ("under masks", "--secure")):
            watch(f"{what}, {masks}")
            with TemporaryDirectory(prefix="wmlr-agents-") as name:
                server = f"server --json {words} {guard}"
                found = _deploy(Path(name), data.X, data.y, agents, watch, server, "--min-rows 1")
            seconds, totals = np.array(found.told["seconds"]), found.told["totals"]
            coef = np.array([list(component["coef"].values()) for component in found.told["components"]])
            gap = min(_distance(coef, central.coef_), _distance(coef[::-1], central.coef_))
            each = [totals[name] / len(seconds) for name in ("bytes_down", "bytes_up")]
            numbers.append({"fit": what, "masks": masks, "seconds": seconds.tolist(), "bytes": each, "gap": gap})
            working = found.working / len(seconds)
            told = (
                f"{len(seconds)}",
                f"{np.median(seconds):.2g}",
                f"{working:.2g}",
                *(f"{size:,.0f}" for size in each),
            )
            lines.append((f"{what}, {masks}", *told, f"{gap:.1e}"))
    return Result(
        suite="agents",
        title=f"{agents} agents of {rows} rows and {columns} columns, a process each",
        columns=("fit", "rounds", "seconds of a round", "processor", "bytes down", "bytes up", "off the central fit"),
        rows=tuple(lines),
        numbers={"rounds": numbers},
    )


def _plain_option() -> str:
    """What makes a server see each answer: in versions that masked none unasked, nothing."""
    source = os.environ.get(SOURCE)
    known = source is None or "--plain" in Path(source, "wmlr", "cli", "server.py").read_text(encoding="utf-8")
    return "--plain" if known else ""


@dataclass(frozen=True)
class Deployment:
    """What was seen of a server and its agents.

    Attributes
    ----------
    told : the server's JSON.
    megabytes : of the largest agent.
    joined : the seconds until all were in.
    joining : the processor seconds that an agent took until then, in the mean.
    working : the processor seconds of all processes from then on.
    others : how many processes that are none of these wanted a core at a time, in the mean.
    """

    told: dict[str, Any]
    megabytes: float
    joined: float
    joining: float
    working: float
    others: float


def _deploy(
    folder: Path, X: Array, y: Array, agents: int, watch: Watch, server_words: str, agent_words: str = ""
) -> Deployment:
    from wmlr.flower.processes import free_port

    for number in range(agents):
        part = {f"x{column + 1}": X[number::agents, column] for column in range(X.shape[1])}
        tables.write(folder / f"{number}.csv", part | {"y": y[number::agents]})
    port, begun, largest, joined = free_port(), time.monotonic(), 0.0, float("nan")
    spent: dict[int, float] = {}
    others: list[float] = []
    joining = before = float("nan")
    with program_starter() as start:
        server = start(folder, "server", *server_words.split(), "--agents", str(agents), "--port", str(port))
        while "listening on" not in (folder / "server.err").read_text() and time.monotonic() - begun < LONGEST:
            time.sleep(LOOK)
        begun = time.monotonic()
        where = ("--server", f"127.0.0.1:{port}", "--target", "y", *agent_words.split())
        members = [
            start(folder, f"agent-{number}", "agent", "--data", f"{number}.csv", "--name", f"agent-{number}", *where)
            for number in range(agents)
        ]
        while server.poll() is None:
            if time.monotonic() - begun > LONGEST:
                raise RuntimeError(f"the fit did not end within {LONGEST:.0f} s: {_words(folder)}")
            said = (folder / "server.err").read_text(errors="replace")
            spent |= {
                process: _processor_seconds(process) for process in _family(server.pid, *(m.pid for m in members))
            }
            others.append(_count_running() - _count_running(spent))
            if np.isnan(joined) and said.count(" joined with ") >= agents:
                joined, before = time.monotonic() - begun, sum(spent.values())
                joining = float(np.mean([spent[member.pid] for member in members if member.pid in spent]))
            if len(others) % RARELY == 0:
                largest = max(largest, *map(_megabytes, members))
            watch(f"{said.count(' joined with ')} of {agents} agents joined, {said.count('iteration')} iterations")
            time.sleep(LOOK)
    if server.returncode:
        raise RuntimeError(f"the server ended with {server.returncode}: {_words(folder)}")
    told = json.loads((folder / "server.out").read_text())
    return Deployment(told, largest, joined, joining, sum(spent.values()) - before, float(np.mean(others)))


def _data(n: int) -> tuple[Array, Array]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, 3))
    coef = np.where(generator.random((n, 1)) < 0.4, [[1.0, 2.0, 3.0]], [[-2.0, 1.0, 0.0]])
    return X, (X * coef).sum(axis=1) + 0.5 * generator.standard_normal(n)


def _distance(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@contextmanager
def program_starter() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A function that starts ``wmlr`` programs, which are ended afterwards if they have not ended by themselves.

    Their bytecode is kept, as that of an installed package is.
    """
    programs: list[subprocess.Popen[bytes]] = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if SOURCE in environment:
        environment["PYTHONPATH"] = environment[SOURCE]

    def start(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.err").open("wb") as err:
            command = [sys.executable, "-m", "wmlr.cli", *words]
            programs.append(subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=environment))
        return programs[-1]

    try:
        yield start
    finally:
        for program in programs:
            if program.poll() is None:
                program.terminate()
        for program in programs:
            try:
                program.wait(ENDING)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def _megabytes(program: subprocess.Popen[bytes]) -> float:
    """What a program has of memory, pages that it shares counted in parts (its PSS); nothing once it has ended."""
    try:
        lines = Path(f"/proc/{program.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _family(*parents: int) -> Iterator[int]:
    """Processes that run, and the children of each."""
    for parent in parents:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        yield parent
        yield from map(int, children)


def _processor_seconds(process: int) -> float:
    """What a process has had of processors; nothing once it has ended."""
    fields = _status(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _count_running(processes: Iterable[int] | None = None) -> int:
    """How many of these processes, or of all on this machine, run or wait for a core."""
    if processes is None:
        processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return sum(_status(process)[:1] == ["R"] for process in processes)


def _status(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _words(folder: Path) -> str:
    return (folder / "server.err").read_text(errors="replace")[-500:]
