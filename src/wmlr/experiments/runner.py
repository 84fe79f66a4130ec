"""Carry cells through, several at a time, keeping each as soon as it is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context, parent_process
from multiprocessing.pool import Pool
from threading import Thread

from threadpoolctl import threadpool_limits

from wmlr.experiments.recipes import RECIPES
from wmlr.experiments.store import Cell, Store, Values

Advance = Callable[[str, float], None]


def compute(cell: Cell) -> tuple[Values, float]:
    """Run a cell with one thread of linear algebra, so that cells side by side do not hinder each other."""
    begun = time.process_time()
    with threadpool_limits(limits=1):
        values = RECIPES[cell.recipe](**cell.keywords)
    return values, time.process_time() - begun


def missing_cells(cells: Iterable[Cell], store: Store) -> list[Cell]:
    """The cells still to be computed, each once: those of the first data sets first, and of these the longest.

    An interrupted run then has whole data sets to show, with ``--seeds``; the many short cells of the later ones keep
    all processes busy to the end.
    """
    wanted = {cell.key: cell for cell in cells if not store.has(cell)}
    return sorted(wanted.values(), key=lambda cell: (cell.keywords.get("seed", 0), -cell.cost))


def complete(cells: Iterable[Cell], store: Store, jobs: int, advance: Advance) -> None:
    """Compute what is missing; on an interruption, what is done stays done."""
    todo = missing_cells(cells, store)
    if jobs == 1 or len(todo) <= 1:
        for cell in todo:
            store.write(cell, *compute(cell))
            advance(cell.key, cell.cost)
        return
    with start_workers(jobs) as pool:
        for cell, values, seconds in pool.imap_unordered(_compute, todo):
            store.write(cell, values, seconds)
            advance(cell.key, cell.cost)


def start_workers(jobs: int) -> Pool:
    """Processes that end when the one that started them does, however it ends, even in the midst of a cell."""
    return get_context("spawn").Pool(jobs, initializer=_follow_parent)


def _compute(cell: Cell) -> tuple[Cell, Values, float]:
    return (cell, *compute(cell))


def _follow_parent() -> None:
    """In a worker: Ctrl-C is the parent's to handle, and without a parent nobody wants the cell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_after_parent, daemon=True).start()


def _end_after_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
