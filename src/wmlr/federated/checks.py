"""What may come over the wire: an agent looks at queries before it answers, a server at answers before it adds.

A query must be of a known kind, its arrays of shapes that fit the agent's columns, its numbers finite and not so
large that answering would take for ever. An answer must have the keys and shapes that the query gives, finite
numbers no larger than a bound, counts that agree with the rows the agent announced, and Gram matrices that are
symmetric and positive semi-definite to rounding. A wrong answer that keeps to all this cannot be told from a
right one.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from wmlr.core.round import Query, Sampled, Together
from wmlr.features.maps import Mapped
from wmlr.federated.messages import MessageError, query_kinds
from wmlr.federated.parts import AMOUNTS, GRAMS, SHAPES, SYMMETRIC, WRAPPERS, answer_shapes
from wmlr.federated.wire import refuse_infinite
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.robust import Trimmed
from wmlr.statistics.whitened import Whitened

LARGEST = 1e28
"""No number of an answer may be larger: far above what an agent's rows sum to, and small enough that neither the
square of a sum of answers nor the fixed point of a secure sum overflows."""

ROUNDING = 1e-8
LEAST_SQUARE = 1e-200
MOST_NODES = 512
MOST_SAMPLES = 4096
MOST_STEPS = 10_000
MOST_NUMBERS = 2**25

POSITIVE = ("s2", "tau2", "unit", "scale")
NOT_NEGATIVE = ("weights", "descent", "ascent", "pull", "lengths", "reach", "rate", "tail", "limit", "cap", "caps")
SHARED_OUT = ("mass", "counts")
ALL_ROWS = ("weight", "rows")


def check_query(query: Query, n_features: int) -> None:
    """Raise :class:`MessageError` unless an agent with ``n_features`` columns may answer the query."""
    _check_part(query, n_features)
    _expected(query, n_features)


def check_answer(sums: Sums, query: Query, n_features: int, rows: int, largest: float = LARGEST) -> None:
    """Raise :class:`MessageError` unless sums can be the answer of an agent with ``rows`` rows to the query.

    Parameters
    ----------
    sums : one agent's answer, as it was sent: not scaled, not yet added to others.
    query : what was asked.
    n_features : the columns every agent has.
    rows : how many rows the agent announced when it joined.
    largest : no entry may be larger.
    """
    options = _expected(query, n_features)
    found = {name: np.shape(value) for name, value in sums.items()}
    if found not in options:
        raise MessageError(_misfit(found, max(options, key=lambda option: len(option.keys() & found.keys()))))
    for name, value in sums.items():
        refuse_infinite(np.asarray(value), f"sums[{name!r}]")
        size = float(np.abs(value).max(initial=0.0))
        if size > largest:
            raise MessageError(f"sums[{name!r}] holds {size:.3g}, larger than {largest:.3g}")
    _check_meaning(sums, query, rows, whole=True)


def _check_part(query: Any, n_features: int) -> None:
    """A query's own fields, and those of the queries inside it."""
    name = type(query).__name__
    if type(query) not in query_kinds().values():
        raise MessageError(f"{name} is not a known query")
    width = _width(query.phi, n_features) if isinstance(query, Mapped) else n_features
    if isinstance(query, Whitened) and query.basis is not None and query.basis.ndim == 2:
        width = query.basis.shape[1]
    lengths = {"p": 0}
    for one in fields(query):
        value, at = getattr(query, one.name), f"{name}.{one.name}"
        if isinstance(value, np.ndarray):
            refuse_infinite(value, at)
            _check_shape(value, SHAPES.get(name, {}).get(one.name), lengths, n_features, at)
        _check_range(value, one.name, at)
        if isinstance(query, Together):
            for part in query.queries:
                _check_part(part, width)
        elif is_dataclass(value) and hasattr(value, "answer"):
            _check_part(value, width)
    _check_together(query, lengths)


def _width(phi: Any, n_features: int) -> int:
    """How many columns phi makes of the agent's."""
    try:
        width: int = phi.width(n_features)
    except (ValueError, TypeError, MemoryError) as error:
        raise MessageError(f"phi does not fit {n_features} columns: {error}") from None
    return width


def _check_shape(value: Array, wanted: str | None, lengths: dict[str, int], n_features: int, at: str) -> None:
    if wanted is None:
        raise MessageError(f"{at} has no agreed shape")
    letters = wanted.split()
    if value.ndim != len(letters):
        raise MessageError(f"{at} has shape {value.shape} where ({', '.join(letters)}) is wanted")
    for letter, length in zip(letters, value.shape):
        known = lengths.setdefault(letter, length) or length
        lengths[letter] = known
        if length != known or (letter == "p" and length not in (n_features, n_features + 1)):
            fits = f"{n_features} columns" if letter == "p" else f"{letter} = {known}"
            raise MessageError(f"{at} has shape {value.shape}, which does not fit {fits}")


def _check_range(value: Any, name: str, at: str) -> None:
    if isinstance(value, float) and not np.isfinite(value):
        raise MessageError(f"{at} is not finite ({value})")
    if value is None:
        return
    if name in POSITIVE and not np.all(np.asarray(value) > 0):
        raise MessageError(f"{at} must be positive")
    if name in NOT_NEGATIVE and not np.all(np.asarray(value) >= 0):
        raise MessageError(f"{at} must not be negative")
    if name == "share" and not 0 < value <= 1:
        raise MessageError(f"{at} must be above 0 and at most 1 (got {value})")
    if name == "edges" and not (len(value) > 1 and np.all(np.diff(value) > 0)):
        raise MessageError(f"{at} must rise")
    if name == "steps" and not 1 <= value <= MOST_STEPS:
        raise MessageError(f"{at} must be from 1 to {MOST_STEPS} (got {value})")
    if isinstance(value, GaussHermite) and not 1 <= value.nodes <= MOST_NODES:
        raise MessageError(f"{at} must have from 1 to {MOST_NODES} nodes (got {value.nodes})")
    if isinstance(value, Drawn) and not (1 <= value.samples <= MOST_SAMPLES and value.seed >= 0):
        raise MessageError(f"{at} must draw from 1 to {MOST_SAMPLES} samples with a seed of at least 0 (got {value})")


def _check_together(query: Any, lengths: dict[str, int]) -> None:
    """What several fields of a query say together."""
    p, k, name = lengths["p"], lengths.get("k", 1), type(query).__name__
    columns = {"Minimax": 2 * k, "SymmetricMinimax": 2}.get(name)
    if columns is not None and lengths["g"] != columns:
        raise MessageError(f"{name}.gamma has {lengths['g']} columns where {columns} are wanted")
    if name == "HeldScore" and (lengths["c"], k) != ((1, 2) if query.symmetric else (k, k)):
        raise MessageError(f"HeldScore.coef has {lengths['c']} columns for {k} components")
    if isinstance(query, LocalSteps) and query.reference.shape != query.query.gamma.shape:
        raise MessageError(f"LocalSteps.reference has shape {query.reference.shape}, gamma {query.query.gamma.shape}")
    if isinstance(query, Trimmed) and not query.low <= query.high:
        raise MessageError(f"Trimmed keeps no row: low {query.low} is above high {query.high}")
    answer = (k * p + 2 * k) ** 2 if name == "ObservedInformation" else (k + 1) * p * p
    if isinstance(query, CandidateScores):
        answer = lengths["s"] * k * lengths["q"] ** 2
    if answer > MOST_NUMBERS:
        raise MessageError(f"{name} asks for {answer} numbers (at most {MOST_NUMBERS})")


def _expected(query: Query, n_features: int) -> list[dict[str, tuple[int, ...]]]:
    return [answer_shapes(query, n_features, grouped) for grouped in (False, True)]


def _misfit(found: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]]) -> str:
    for name in [*wanted, *found]:
        if name not in found:
            return f"the answer lacks {name!r}"
        if name not in wanted:
            return f"the answer has {name!r}, which was not asked for"
        if found[name] != wanted[name]:
            return f"sums[{name!r}] has shape {found[name]} where {wanted[name]} is wanted"
    return "the answer has not the parts that were asked for"


def _check_meaning(sums: Sums, query: Any, rows: int, whole: bool) -> None:
    """Counts, amounts and matrices; ``whole`` where every row of the agent is looked at."""
    if isinstance(query, Together):
        for part, own in zip(query.queries, query.apart(sums)):
            _check_meaning(own, part, rows, whole)
        return
    if isinstance(query, WRAPPERS):
        part_only = isinstance(query, Trimmed) or (isinstance(query, Sampled) and query.share < 1.0)
        _check_meaning(sums, query.query, rows, whole and not part_only)
        return
    kind, packed = type(query).__name__, isinstance(query, CandidateScores)
    for name, value in sums.items():
        if name in AMOUNTS:
            _check_amounts(name, value)
        if name in SYMMETRIC.get(kind, ()):
            _check_symmetric(name, value)
        if name in GRAMS.get(kind, ()):
            _check_gram(name, value)
    if packed:
        _check_gram("grams", _unfolded(sums["grams"]))
    for name in (*ALL_ROWS, *SHARED_OUT):
        if name in sums:
            _check_count(name, sums[name], rows, whole, packed)
    if "units" in sums and float(np.max(np.sum(sums["units"], axis=-1 if packed else None))) > rows * (1 + ROUNDING):
        raise MessageError(f"sums['units'] counts more units than the {rows} rows announced")


def _check_amounts(name: str, value: Array) -> None:
    least = float(np.min(value, initial=0.0))
    if least < -ROUNDING * max(1.0, float(np.abs(value).max(initial=0.0))):
        raise MessageError(f"sums[{name!r}] is an amount and cannot be negative (got {least:.6g})")


def _check_count(name: str, value: Array, rows: int, whole: bool, packed: bool) -> None:
    """Every row counts once, in one place or shared out."""
    counts = np.atleast_1d(np.sum(value, axis=-1) if packed else np.sum(value))
    slack = ROUNDING * max(rows, 1)
    wrong = counts[(np.abs(counts - rows) > slack) if whole else (counts > rows + slack)]
    if wrong.size:
        bound = "" if whole else "at most "
        raise MessageError(f"sums[{name!r}] counts {wrong[0]:.10g} rows where the agent has {bound}{rows}")


def _check_symmetric(name: str, value: Array) -> None:
    size = float(np.abs(value).max(initial=0.0))
    if float(np.abs(value - np.swapaxes(value, -1, -2)).max(initial=0.0)) > ROUNDING * size:
        raise MessageError(f"sums[{name!r}] is not symmetric")


def _check_gram(name: str, value: Array) -> None:
    """Symmetric, and no direction in which the squares sum to less than nothing."""
    _check_symmetric(name, value)
    diagonal = np.diagonal(value, axis1=-2, axis2=-1)
    scale = np.sqrt(np.maximum(diagonal, LEAST_SQUARE))
    least = np.linalg.eigvalsh(value / (scale[..., :, None] * scale[..., None, :])) if value.size else np.zeros(1)
    if np.any(diagonal < 0) or not float(least.min()) > -ROUNDING * value.shape[-1]:
        raise MessageError(f"sums[{name!r}] is not positive semi-definite, as a sum of squares must be")


def _unfolded(triangles: Array) -> Array:
    """Matrices from their upper triangles along the last axis."""
    order = int((np.sqrt(8 * triangles.shape[-1] + 1) - 1) / 2)
    upper = np.triu_indices(order)
    matrices = np.zeros((*triangles.shape[:-1], order, order))
    matrices[..., upper[0], upper[1]] = triangles
    matrices[..., upper[1], upper[0]] = triangles
    return matrices
