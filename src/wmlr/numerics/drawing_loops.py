"""Rows drawn by their content, compiled, and least squares at them.

What a number decides about a row belongs to the row: the same rows are drawn in whatever order they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.climb_loops import EXACT, solve
from wmlr.numerics.loops import SUMS

PULL = 1e-9  # towards the centre, of the drawn rows' mean square: where fewer rows than coefficients are drawn
LEAST_AMOUNT = 1e-12
MOST_DRAWS = 6  # for as many rows as are wanted, where these are few


@njit(**SUMS)
def residuals(A: Array, coef: Array, residual: Array) -> None:
    """The residuals from one regression; the lines of A are q columns, the response and the rows' weights."""
    q = len(coef)
    y = A[q]
    for i in range(len(y)):
        residual[i] = y[i]
    for a in range(q):
        z, slope = A[a], coef[a]
        for i in range(len(y)):
            residual[i] -= slope * z[i]


@njit(**EXACT)
def mix_bits(bits: Any) -> Any:
    """See :func:`wmlr.numerics.arrays.mix`."""
    z = bits + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(**EXACT)
def draw(bits: Any) -> float:
    """A number between 0 and 1 that bits decide."""
    return float(np.float64(mix_bits(bits) >> np.uint64(11)) * 2.0**-53)


@njit(cache=True, **EXACT)
def code_rows(X: Array, d: int, y: Array, seed: Any, step: int, codes: Any) -> None:
    """See :func:`wmlr.core.round.content_codes`; every ``step``-th of d columns counts."""
    for i in range(len(codes)):
        code = mix_bits(np.float64(y[i]).view(np.uint64) ^ seed)
        for j in range(0, d, step):
            code = mix_bits(code ^ np.float64(X[i, j] + 0.0).view(np.uint64))
        codes[i] = code


@njit(**EXACT)
def quantile(values: Array, weights: Array, amount: float) -> float:
    """The value, in rising order, with which the weight of those so far exceeds an amount; both change places."""
    low, high, below = 0, len(values) - 1, 0.0
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                weights[i], weights[j] = weights[j], weights[i]
                i += 1
                j -= 1
        left = middle = 0.0
        for place in range(low, j + 1):
            left += weights[place]
        for place in range(j + 1, i):
            middle += weights[place]
        if below + left > amount:
            high = j
        elif below + left + middle > amount:
            return float(pivot)
        else:
            low, below = i, below + left + middle
    return float(values[min(low, len(values) - 1)])


@njit(**EXACT)
def is_tied(span: Array) -> bool:
    """Whether a regression may move in the directions ``span`` (m, q) alone: in all, where the first is nil."""
    tied = False
    for b in range(span.shape[1]):
        tied |= span[0, b] != 0.0
    return tied


@njit(**EXACT)
def _clear(gram: Array) -> None:
    for a in range(gram.shape[0]):
        for b in range(gram.shape[1]):
            gram[a, b] = 0.0


@njit(**EXACT)
def _add_row(A: Array, i: int, centre: Array, span: Array, tied: bool, x: Array, gram: Array) -> None:
    """Add a row to the products of least squares around a centre, in the free directions."""
    q = len(centre)
    free = len(span) if tied else q
    residual = A[q, i]
    for a in range(q):
        residual -= centre[a] * A[a, i]
    for a in range(free):
        x[a] = 0.0 if tied else A[a, i]
        for b in range(q if tied else 0):
            x[a] += span[a, b] * A[b, i]
    for a in range(free):
        for b in range(a, free):
            gram[a, b] += x[a] * x[b]
        gram[a, q] += x[a] * residual


@njit(**EXACT)
def _solve_drawn(gram: Array, centre: Array, span: Array, tied: bool, coef: Array, factor: Array) -> bool:
    """The regression that the added rows make; False where they make none."""
    q = len(coef)
    free = len(span) if tied else q
    x, moved = factor[q], coef[:free]
    level = 0.0
    for a in range(free):
        level += gram[a, a] / free
        moved[a] = gram[a, q]
    if not solve(gram, PULL * level + LEAST_AMOUNT, moved, factor):
        return False
    if tied:
        for a in range(free):
            x[a] = moved[a]
        for b in range(q):
            coef[b] = 0.0
            for a in range(free):
                coef[b] += x[a] * span[a, b]
    for a in range(q):
        coef[a] += centre[a]
    return True


@njit(**EXACT)
def fit_drawn(
    A: Array, codes: Array, salt: Any, centre: Array, span: Array, counts: Array, wanted: float, gram: Array,
    coef: Array, factor: Array,
) -> bool:  # fmt: skip
    """Least squares around a centre at rows drawn by their content, in proportion to their counts.

    Where ``span`` (m, q) has a direction that is not nil, the centre is left in these alone, at no fewer rows than
    wanted.
    """
    n, tied = A.shape[1], is_tied(span)
    total = 0.0
    for i in range(n):
        total += counts[i]
    rate = wanted / max(total, 1e-300)
    for _ in range(MOST_DRAWS if tied else 1):
        drawn = 0
        _clear(gram)
        for i in range(n):
            if draw(codes[i] ^ salt) < rate * counts[i]:
                drawn += 1
                _add_row(A, i, centre, span, tied, factor[len(coef)], gram)
        if drawn >= wanted:
            break
        rate *= 1.5
    return bool(_solve_drawn(gram, centre, span, tied, coef, factor))


@njit(**EXACT)
def fit_at(
    A: Array, chosen: Integers, centre: Array, span: Array, gram: Array, coef: Array, factor: Array
) -> bool:  # fmt: skip
    """Least squares around a centre at the rows ``chosen``, in the directions of ``span`` as :func:`fit_drawn`."""
    tied = is_tied(span)
    _clear(gram)
    for i in chosen:
        _add_row(A, i, centre, span, tied, factor[len(coef)], gram)
    return bool(_solve_drawn(gram, centre, span, tied, coef, factor))


@njit(**EXACT)
def count_window(
    A: Array, codes: Array, salt: Any, along: Array, repeats: Array, share: float, room: Array, counts: Array
) -> None:
    """The rows nearest to one drawn by its content, a share of all; ``along`` weighs columns and response."""
    n = A.shape[1]
    place, drawn = room[0], 0
    for i in range(n):
        place[i] = 0.0
        if mix_bits(codes[i] ^ salt) < mix_bits(codes[drawn] ^ salt):
            drawn = i
    for a in range(len(along)):
        if along[a] != 0.0:
            for i in range(n):
                place[i] += along[a] * A[a, i]
    middle = place[drawn]
    for i in range(n):
        place[i] = abs(place[i] - middle)
        room[1, i], counts[i] = place[i], repeats[i]
    reach = quantile(room[1], counts, np.floor(share * repeats.sum()))
    for i in range(n):
        counts[i] = repeats[i] if place[i] <= reach else 0.0
