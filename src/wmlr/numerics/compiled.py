"""The compiled loops: whether they are at hand, and arrays as they want them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.numerics.arrays import Array
from wmlr.numerics.compiling import call
from wmlr.numerics.sparse import Csr

EXPONENTIAL = 16
WORTHWHILE = 3 * 2**18
"""Loading the compiler takes half a second, once. Blocks with at least this many entries of X, counting
each exponential as ``EXPONENTIAL`` entries, take NumPy some two milliseconds: a fit gets it back."""


REPAID = 2**14
"""Entries of a block from which on a loop that is loaded is faster than NumPy."""
MANY_SMALL = 100 * WORTHWHILE
"""Entries in small blocks with which NumPy has been busy for as long as loading takes: more of them are to come."""

_numpy_entries = [0]


def repays_loading(entries: int) -> bool:
    """Whether a block of so many entries, one of many in a search, is to be answered by the loops."""
    if os.environ.get("WMLR_KERNELS") == "compiled" or load_loops.cache_info().currsize:
        return entries >= REPAID
    _numpy_entries[0] += entries
    return entries >= WORTHWHILE or _numpy_entries[0] >= MANY_SMALL


def sparse_gram(X: Csr, weight: Array | None) -> Array | None:
    """``X' diag(weight) X`` of sparse features."""
    counts = np.diff(X.indptr).astype(np.float64)
    if counts @ counts < WORTHWHILE or not compiled_form_exists(X):
        return None
    loops = load_loops()
    if loops is None:
        return None
    square = np.zeros((X.shape[1], X.shape[1]))
    counted = np.ones(len(X)) if weight is None else writable_floats(weight)
    return square if call(loops.sparse_gram, writable_parts(X), counted, square) else None


def row_terms(
    loop: str,
    predictor: Array,
    rows: Sequence[Array],
    law: Sequence[Array | float],
    count: int,
    tables: Sequence[Array] = (),
) -> list[Array] | None:
    """What a loop of that name makes of each row and component: ``count`` arrays like ``predictor`` (n, ...).

    ``rows`` are arrays of n numbers; ``law`` numbers, or arrays with one for each component, and ``tables`` have
    several (m, ...) for each. None where NumPy is to answer. In memory, components come first, so that rows lie side
    by side.
    """
    entries = EXPONENTIAL * predictor.size
    if predictor.ndim < 2 or not (compiled_form_exists(predictor) and repays_loading(entries)):
        return None
    loops = load_loops()
    if loops is None:
        return None
    turned = np.ascontiguousarray(predictor.T)
    eta = turned.reshape(-1, len(predictor))
    of_components = [np.broadcast_to(one, predictor.shape[1:]).T.reshape(-1, 1) for one in law]
    of_components += [one.T.reshape(len(eta), -1) for one in tables]
    terms = np.empty((count, *eta.shape))
    columns = np.stack([one.ravel() for one in rows])
    of_all = np.ascontiguousarray(np.concatenate(of_components, axis=1))
    if not call(vars(loops)[loop], eta, columns, of_all, terms):
        return None
    return [term.reshape(turned.shape).T for term in terms]


def code_rows(X: Array, y: Array, seed: int, step: int) -> NDArray[np.uint64] | None:
    """Scrambled numbers of rows in memory, see :func:`wmlr.core.round.content_codes`; None where NumPy is to answer."""
    looked_at = len(y) * (1 + len(range(0, X.shape[1], step)))
    if not (X.flags.c_contiguous and compiled_form_exists(X) and repays_loading(looked_at)) or load_loops() is None:
        return None
    from wmlr.numerics.drawing_loops import code_rows

    codes = np.empty(len(y), dtype=np.uint64)
    rows = X if X.flags.writeable else np.asarray(WritableMemory(X))
    return codes if call(code_rows, rows, X.shape[1], writable_floats(y), np.uint64(seed), step, codes) else None


def log_cosh_sums(z: Array, factors: Array, count: Array) -> Array | None:
    """See :func:`wmlr.numerics.kernels.log_cosh_sums`."""
    if not (compiled_form_exists(z) and repays_loading(EXPONENTIAL * z.size * len(factors))):
        return None
    loops = load_loops()
    sums = np.empty(len(factors))
    given = [writable_floats(one) for one in (z, factors, count)]
    return sums if loops is not None and call(loops.log_cosh_sums, *given, sums) else None


def shares_of_log_joint(joint: Array) -> Array | None:
    """Responsibilities in the place of logarithms of weight times density (k, s, n); the logarithms of their sums.

    None, with nothing done, where NumPy is to answer.
    """
    if not (joint.flags.c_contiguous and compiled_form_exists(joint) and repays_loading(EXPONENTIAL * joint.size)):
        return None
    loops = load_loops()
    if loops is None:
        return None
    logs = np.empty(joint.shape[1:])
    return logs if call(loops.shares_of_log_joint, joint, logs) else None


def weigh_responses(counted: Array, predictor: Array, residual: Array) -> tuple[Array, Array] | None:
    """See :func:`wmlr.numerics.kernels.weigh_responses`."""
    given = counted, predictor, residual
    if not all(one.flags.c_contiguous for one in given) or not compiled_form_exists(counted):
        return None
    loops = load_loops() if repays_loading(counted.size) else None
    if loops is None:
        return None
    pulled, squares = np.empty(counted.shape), np.empty(counted.shape[:2])
    return (pulled, squares) if call(loops.weigh_responses, *given, pulled, squares) else None


@cache
def load_loops() -> Any | None:
    """The compiled loops, or None: no numba, or no folder in which it may keep what it compiled."""
    try:
        from wmlr.numerics import loops
    except (ImportError, RuntimeError):
        return None
    return loops


def compiled_form_exists(X: Csr | Array) -> bool:
    return X.dtype in (np.float64, np.float32) and os.environ.get("WMLR_KERNELS") != "numpy"


class WritableMemory:
    """The memory of X in whole rows, as wide as they lie apart; nobody writes to it, though it looks writable.

    So one compiled loop serves arrays that are columns of wider ones, or protected.
    """

    def __init__(self, X: Any) -> None:
        wide = X.shape[1:] if X.flags.c_contiguous else (X.strides[0] // X.itemsize,)
        address, _ = X.__array_interface__["data"]
        self.owner = X
        self.__array_interface__ = X.__array_interface__ | {
            "shape": (len(X), *wide),
            "strides": None,
            "data": (address, False),
        }


def writable_parts(X: Csr) -> tuple[Any, ...]:
    """Sparse features as the loops want them."""
    return tuple(part if part.flags.writeable else np.asarray(WritableMemory(part)) for part in X.parts)


def writable_floats(values: Array) -> Array:
    return np.require(values, np.float64, ["C", "W"])
