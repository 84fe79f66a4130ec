"""What may come over the wire: an agent looks at queries before it answers, a server at answers before it adds.

A query must be of a known kind, its arrays of shapes that fit the agent's columns, its numbers finite and not so
large that answering would take for ever. An answer must have the keys and shapes that the query gives, finite
numbers no larger than a bound, counts that agree with the rows the agent announced, and Gram matrices that are
symmetric and positive semi-definite to rounding. A wrong answer that keeps to all this cannot be told from a
right one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import isqrt
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np

from wmlr.core.query import Field, Kind, Parts, Query
from wmlr.engines.arrays import rows_per_block
from wmlr.federated.floors import MOST_HELD
from wmlr.federated.ledger import floats_in
from wmlr.federated.messages import MessageError, query_kinds
from wmlr.federated.wire import refuse_infinite
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.candidates import unfold

LARGEST = 1e28
"""No number of an answer may be larger: far above what an agent's rows sum to, and small enough that neither the
square of a sum of answers nor the fixed point of a secure sum overflows."""

ROUNDING = 1e-8
LEAST_SQUARE = 1e-200
MOST_NUMBERS = 2**25
MOST_WORK = 1e12


def check_query(query: Query, n_features: int) -> None:
    """Raise :class:`MessageError` unless an agent with ``n_features`` columns may answer the query."""
    if type(query) not in query_kinds().values():
        raise MessageError(f"{type(query).__name__} is not a known query")
    lengths = {"p": 0}
    for name, hint in get_type_hints(type(query), include_extras=True).items():
        value, at = getattr(query, name), f"{type(query).__name__}.{name}"
        if isinstance(value, np.ndarray):
            refuse_infinite(value, at)
        _check_number(value, at)
        for declared in getattr(hint, "__metadata__", ()):
            if value is not None:
                _check_shape(value, declared.shape, lengths, n_features, at)
                _check_range(value, declared, at)
        if isinstance(value, np.ndarray) and get_origin(hint) is not Annotated:
            raise MessageError(f"{at} has no agreed shape")
    try:
        query.check()
        width = query.width(n_features)
    except (ValueError, TypeError, MemoryError) as error:
        raise MessageError(f"{type(query).__name__} does not fit {n_features} columns: {error}") from None
    for child in query.children():
        check_query(child, width)
    numbers = sum(part.size for part in query.parts(n_features, grouped=True).values())
    if numbers > MOST_NUMBERS:
        raise MessageError(f"{type(query).__name__} asks for {numbers} numbers (at most {MOST_NUMBERS})")


def check_work(query: Query, rows: int, n_features: int) -> None:
    """Raise :class:`MessageError` where answering for so many rows would take too long, or too much memory."""
    work = rows * query.repeats * (floats_in(query) + sum(part.size for part in query.parts(n_features, True).values()))
    if work > MOST_WORK:
        raise MessageError(
            f"{query.label} takes some {work:.2g} multiplications of this agent (at most {MOST_WORK:.2g})"
        )
    wide, at_once = _numbers_of_a_row(query, n_features), min(rows, rows_per_block(rows, n_features))
    if wide > max(MOST_HELD / max(at_once, 1), 4 * n_features, 32):
        raise MessageError(f"{query.label} takes memory for {wide:,} numbers of each of this agent's rows")


def _numbers_of_a_row(query: Query, columns: int) -> int:
    """How many numbers a row becomes at once, at most: its columns as a query inside sees them, or what that holds."""
    width = query.width(columns)
    return max(columns, width, query.numbers_per_row, *(_numbers_of_a_row(one, width) for one in query.children()))


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
    _check_sums(sums, query, rows, largest, _options(query, n_features))


def check_answers(
    answers: Mapping[Hashable, Sums], query: Query, n_features: int, rows: Mapping[Hashable, int]
) -> dict[Hashable, str]:
    """What is wrong with the answers of several agents, by agent; nothing of those that can be answers."""
    wrong, options = {}, _options(query, n_features)
    for agent, sums in answers.items():
        try:
            _check_sums(sums, query, rows[agent], LARGEST, options)
        except MessageError as error:
            wrong[agent] = str(error)
    return wrong


def _options(query: Query, n_features: int) -> list[Parts]:
    """What an answer may be made of."""
    return [query.parts(n_features, grouped) for grouped in (False, True)]


def _check_sums(sums: Sums, query: Query, rows: int, largest: float, options: list[Parts]) -> None:
    found = {name: np.shape(value) for name, value in sums.items()}
    fitting = [parts for parts in options if {name: part.shape for name, part in parts.items()} == found]
    if not fitting:
        raise MessageError(_misfit(found, max(options, key=lambda option: len(option.keys() & found.keys()))))
    for name, value in sums.items():
        refuse_infinite(np.asarray(value), f"sums[{name!r}]")
        size = float(np.abs(value).max(initial=0.0))
        if size > largest:
            raise MessageError(f"sums[{name!r}] holds {size:.3g}, larger than {largest:.3g}")
    for name, part in fitting[0].items():
        _check_meaning(name, sums[name], part.kind, rows, query.looks_at_all(name))


def _check_shape(value: Any, wanted: str, lengths: dict[str, int], n_features: int, at: str) -> None:
    letters, shape = wanted.split(), np.shape(value)
    if len(shape) != len(letters):
        raise MessageError(f"{at} has shape {shape} where ({', '.join(letters)}) is wanted")
    for letter, length in zip(letters, shape):
        known = lengths.setdefault(letter, length) or length
        lengths[letter] = known
        if length != known or (letter == "p" and length not in (n_features, n_features + 1)):
            fits = f"{n_features} columns" if letter == "p" else f"{letter} = {known}"
            raise MessageError(f"{at} has shape {shape}, which does not fit {fits}")


def _check_number(value: Any, at: str) -> None:
    if isinstance(value, float) and not np.isfinite(value):
        raise MessageError(f"{at} is not finite ({value})")


def _check_range(value: Any, declared: Field, at: str) -> None:
    numbers = np.asarray(value)
    if declared.above is not None and not np.all(numbers > declared.above):
        raise MessageError(f"{at} must be above {declared.above:g}")
    if declared.least is not None and not np.all(numbers >= declared.least):
        raise MessageError(f"{at} must be at least {declared.least:g}")
    if declared.most is not None and not np.all(numbers <= declared.most):
        raise MessageError(f"{at} must be at most {declared.most:g}")
    if declared.rising and not (len(numbers) > 1 and np.all(np.diff(numbers) > 0)):
        raise MessageError(f"{at} must rise")


def _misfit(found: dict[str, tuple[int, ...]], wanted: Parts) -> str:
    for name in [*wanted, *found]:
        if name not in found:
            return f"the answer lacks {name!r}"
        if name not in wanted:
            return f"the answer has {name!r}, which was not asked for"
        if found[name] != wanted[name].shape:
            return f"sums[{name!r}] has shape {found[name]} where {wanted[name].shape} is wanted"
    return "the answer has not the parts that were asked for"


def _check_meaning(name: str, value: Array, kind: Kind, rows: int, whole: bool) -> None:
    """Counts, amounts and matrices; ``whole`` where every row of the agent is looked at."""
    if kind.is_amount:
        _check_amounts(name, value)
    if kind is Kind.SYMMETRIC:
        _check_symmetric(name, value)
    if kind in (Kind.GRAM, Kind.TRIANGLE):
        _check_gram(name, unfold(value, isqrt(2 * value.shape[-1])) if kind is Kind.TRIANGLE else value)
    if kind is Kind.COUNT:
        _check_count(name, value, rows, whole)
    if kind is Kind.UNITS and float(np.max(_over_last_axis(value), initial=0.0)) > rows * (1 + ROUNDING):
        raise MessageError(f"sums[{name!r}] counts more units than the {rows} rows announced")


def _over_last_axis(value: Array) -> Array:
    return np.atleast_1d(np.sum(value, axis=-1) if np.ndim(value) else value)


def _check_amounts(name: str, value: Array) -> None:
    least = float(np.min(value, initial=0.0))
    if least < -ROUNDING * max(1.0, float(np.abs(value).max(initial=0.0))):
        raise MessageError(f"sums[{name!r}] is an amount and cannot be negative (got {least:.6g})")


def _check_count(name: str, value: Array, rows: int, whole: bool) -> None:
    """Every row counts once, in one place or shared out."""
    counts, slack = _over_last_axis(value), ROUNDING * max(rows, 1)
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
    if np.any(diagonal < 0) or not _is_positive(value / (scale[..., :, None] * scale[..., None, :])):
        raise MessageError(f"sums[{name!r}] is not positive semi-definite, as a sum of squares must be")


def _is_positive(matrices: Array) -> bool:
    """Whether no eigenvalue is negative, but for rounding."""
    order = matrices.shape[-1]
    try:
        np.linalg.cholesky(matrices + ROUNDING * order * np.eye(order))
    except np.linalg.LinAlgError:
        return False
    return True
