"""Compiled loops without waiting for the compiler.

Compiling a loop takes seconds, once on a machine: the machine code is kept on disk. Where it is not there yet, a
process beside this one compiles it while NumPy answers in the loop's place, and the loop takes over as soon as it can.
The two agree to rounding. Where NumPy has no answer, in moves of the search, the loop is waited for. With
``WMLR_KERNELS=compiled`` nobody answers before any loop does, so that every digit of a first fit is that of the next.
Processes that want the same loop at once wait for the first of them to compile it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock, current_thread, main_thread
from typing import Any

COMPILE = "from wmlr.numerics import compiling; compiling.compile_as_asked()"
NICENESS = 10

_ready: set[Any] = set()
_compiling: dict[Any, subprocess.Popen[bytes]] = {}
_lock = Lock()


def call(loop: Any, X: Any, *others: Any, wait: bool = False) -> bool:
    """Call a compiled loop, unless its machine code is still to be made: then it returns False, and does nothing.

    Where nobody can answer in the loop's place, ``wait`` for it: what comes of a seed must not depend on what was
    compiled before.

    Parameters
    ----------
    loop : a function of :mod:`wmlr.numerics.loops` or :mod:`wmlr.numerics.climb_loops`.
    X : the features, an array or the parts of sparse ones; they alone decide which machine code is wanted.
    others : the other arguments.
    """
    wanted = loop.__name__, tuple(part.dtype for part in X) if isinstance(X, tuple) else X.dtype
    if wanted not in _ready and not _obtain(wanted, loop, (X, *others), wait):
        return False
    loop(X, *others)
    return True


def wait_until_compiled() -> None:
    """Wait for the loops that are being compiled beside this process."""
    for process in list(_compiling.values()):
        process.wait()


def compile_as_asked() -> None:
    """Compile the loop that the process which started this one names on the standard input, and keep it on disk."""
    if sys.platform != "win32":
        os.nice(NICENESS)
    module, name, types = pickle.load(sys.stdin.buffer)
    _compile(getattr(import_module(module), name), types)


def _obtain(wanted: Any, loop: Any, arguments: tuple[Any, ...], wait: bool) -> bool:
    """Whether the loop may be called now; if not, somebody is compiling it."""
    with _lock:
        process = _compiling.get(wanted)
        if process is None and not (wait or _patient() or _is_on_disk(loop, arguments)):
            process = _compiling[wanted] = _compile_beside(loop, arguments)
        if process is not None and process.poll() is None and not wait:
            return False
        _compile(loop, _types(arguments))
        _ready.add(wanted)
        return True


def _patient() -> bool:
    """Whether to compile in this process: as told, or where no other interpreter can be started."""
    return os.environ.get("WMLR_KERNELS") == "compiled" or not sys.executable


def _is_on_disk(loop: Any, arguments: tuple[Any, ...]) -> bool:
    with _signals_deferred():
        return loop._cache.load_overload(_types(arguments), loop.targetctx) is not None


def _compile(loop: Any, types: tuple[Any, ...]) -> None:
    """Load the loop's machine code from disk, or make it, while no other process makes the same."""
    with _signals_deferred(), _only_compiler_of(loop):
        loop.compile(types)


@contextmanager
def _only_compiler_of(loop: Any) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import fcntl

    folder = Path(loop._cache.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{loop.__name__}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the end: what their handlers raise in a callback of the compiler is lost."""
    numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    came: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _compile_beside(loop: Any, arguments: tuple[Any, ...]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-c", COMPILE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as asked:  # one that cannot run has ended before it is told
        pickle.dump((loop.__module__, loop.__name__, _types(arguments)), asked)
    return process


def _types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    from numba import typeof

    return tuple(map(typeof, arguments))
