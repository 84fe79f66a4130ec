"""Compiled loops without waiting for the compiler.

Compiling a loop takes seconds, once on a machine: the machine code is kept on disk. Where it is not there yet, a
process beside this one compiles it while NumPy answers in the loop's place, and the loop takes over as soon as it can.
The two agree to rounding. With ``WMLR_KERNELS=compiled`` nobody answers before the loop does, so that every digit of a
first fit is that of the next.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any

COMPILE = "from wmlr.numerics import compiling; compiling.compile_as_asked()"
NICENESS = 10

_ready: set[Any] = set()
_compiling: dict[Any, subprocess.Popen[bytes]] = {}
_lock = Lock()


def call(loop: Any, X: Any, *others: Any) -> bool:
    """Call a compiled loop, unless its machine code is still to be made: then it returns False, and does nothing.

    Parameters
    ----------
    loop : a function of :mod:`wmlr.numerics.loops` or :mod:`wmlr.numerics.climb_loops`.
    X : the features, an array or the parts of sparse ones; they alone decide which machine code is wanted.
    others : the other arguments.
    """
    wanted = loop.__name__, tuple(part.dtype for part in X) if isinstance(X, tuple) else X.dtype
    if wanted not in _ready and not _obtain(wanted, loop, (X, *others)):
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
    getattr(import_module(module), name).compile(types)


def _obtain(wanted: Any, loop: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether the loop may be called now; if not, somebody is compiling it."""
    with _lock:
        process = _compiling.get(wanted)
        if process is None and not (_patient() or _kept_on_disk(loop, arguments)):
            process = _compiling[wanted] = _compile_beside(loop, arguments)
        if process is not None and process.poll() is None:
            return False
        _ready.add(wanted)
        return True


def _patient() -> bool:
    """Whether to compile in this process: as told, or where no other interpreter can be started."""
    return os.environ.get("WMLR_KERNELS") == "compiled" or not sys.executable


def _kept_on_disk(loop: Any, arguments: tuple[Any, ...]) -> bool:
    return loop._cache.load_overload(_types(arguments), loop.targetctx) is not None


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
