"""Narrow components, compiled: of many regressions through few rows the one that most rows crowd around.

A component that holds few rows, but lies close to them, crosses the others: no row shows that it is badly explained.
Yet more rows are within reach of its line than the other components' density there would have.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.climb_loops import EXACT
from wmlr.numerics.drawing_loops import draw, fit_at, mix_bits, residuals

FEW_COLUMNS = 3  # at most, in which a line differs from a component or from nil: components seldom differ in all
SOME_COLUMNS = 0.5  # of the lines
LEVELS = 40  # halvings of the reach within which rows are counted
ATTEMPTS = 16  # to draw a row of the component that is left out
OWN_ROWS = 0.5  # of the lines go through rows of that component
WIDEST = 4  # halvings of the widest reach: beyond, a component is no narrow one
GLANCE = 256  # rows that are looked at first
TURNS = 4  # of the best line found, each about all but one of the rows that it meets
STILL = 1e-3  # of the least deviation: residuals that change no more are those of the rows that a line is turned about
FEWEST_TURNED = 4.0  # rows that a turned line is to come near; then twice as many, and so on
HIGHEST = 1023  # the exponent's bits of a double in [1, 2)


@njit(**EXACT)
def _crowd_around(
    room: Array, height: Array, repeats: Array, least: float, fitted: int, counts: Array
) -> tuple[float, float]:
    """How much more likely a component makes the rows near a line, of the residuals ``room``; and its share.

    A row's reach is its residual times the density of the others there: within reach t they would have 2 t of all rows.
    Rows that the others explain so badly that they are near any line say nothing, and are left out.
    """
    n, bits, seen_everywhere = len(height), room.view(np.int64), 2.0**-LEVELS
    for i in range(n):
        room[i] = max(abs(room[i]), least) * height[i]
    counts[:] = 0.0
    for i in range(n):
        level = HIGHEST - 1 - (bits[i] >> 52)
        counts[min(max(level, 0), LEVELS)] += repeats[i] if least * height[i] >= seen_everywhere else 0.0
    total = rows = 0.0
    for level in range(LEVELS + 1):
        total += counts[level]
    best, share, expected = 0.0, 0.0, total * 2.0 ** (1 - LEVELS)
    for level in range(LEVELS, WIDEST - 1, -1):
        rows += counts[level]
        seen = rows - fitted
        if seen > expected:
            gain = seen * math.log(seen / expected) - seen + expected
            if gain > best:
                best, share = gain, rows / total
        expected *= 2.0
    return best, share


@njit(**EXACT)
def _turn(
    A: Array, line: Array, other: Array, height: Array, repeats: Array, least: float, fitted: int, counts: Array,
    room: Array, beside: Array,
) -> tuple[float, float, float, int]:  # fmt: skip
    """Of all lines between and beyond two, the one that most rows crowd around.

    The answer has its gain and its share, how far it is from the first line to the second, and a row that it meets.
    Each row is met by one of these lines: where many rows are met by lines next to each other, one of them is tried,
    for several numbers of rows.
    """
    n = len(height)
    residuals(A, line, room)
    residuals(A, other, beside)
    met, pace = np.empty(n), np.empty(n)
    for i in range(n):
        bend = room[i] - beside[i]
        met[i] = room[i] / bend if abs(bend) > STILL * least else np.inf
        pace[i] = abs(bend) * height[i]
    order = np.argsort(met)
    start = room.copy()
    last = n
    while last and not np.isfinite(met[order[last - 1]]):
        last -= 1
    total = 0.0
    for place in range(last):
        total += repeats[order[place]]
    best, share, far, row = 0.0, 0.0, 0.0, -1
    wanted = FEWEST_TURNED
    while wanted <= 0.5 * total:
        first, inside, narrowest, middle = 0, 0.0, np.inf, -1
        for place in range(last):
            inside += repeats[order[place]]
            while inside - repeats[order[first]] >= wanted:
                inside -= repeats[order[first]]
                first += 1
            if inside >= wanted:
                low, high = order[first], order[place]
                width = (met[high] - met[low]) * (pace[low] + pace[high]) + least * (height[low] + height[high])
                if width < narrowest:
                    narrowest, middle = width, order[(first + place) // 2]
        if middle >= 0:
            turn = met[middle]
            for i in range(n):
                room[i] = start[i] + turn * (beside[i] - start[i])
            gain, crowd = _crowd_around(room, height, repeats, least, fitted, counts)
            if gain > best:
                best, share, far, row = gain, crowd, turn, middle
        wanted *= 2.0
    return best, share, far, row


@njit(**EXACT)
def _choose_columns(bits: Any, columns: Array, constant: bool, order: Array, span: Array) -> int:
    """Directions of a few columns drawn, in ``span``; the constant is one of them, where there is one and half else."""
    m, most = 1 + int(draw(bits) * FEW_COLUMNS), len(columns)
    for a in range(most):
        order[a] = draw(bits + np.uint64(1 + a))
    if constant and draw(bits + np.uint64(1 + most)) < 0.5:
        order[most - 1] = -1.0
    m = min(m, most)
    for place in range(m):
        chosen = 0
        for a in range(most):
            if order[a] < order[chosen]:
                chosen = a
        span[place] = columns[chosen]
        order[chosen] = 2.0
    return m


@njit(**EXACT)
def _choose_rows(by_code: Integers, edges: Array, owner: Integers, dropped: int, bits: Any, chosen: Integers) -> None:
    """Rows drawn by content: anywhere, or of the component that is left out."""
    own, last = draw(bits) < OWN_ROWS, len(by_code) - 1
    place = mix_bits(bits)
    for a in range(len(chosen)):
        for _ in range(ATTEMPTS):
            place += np.uint64(1)
            i = by_code[min(np.searchsorted(edges, draw(place) * edges[last], side="right"), last)]
            if not own or owner[i] == dropped:
                break
        chosen[a] = i


@njit(**EXACT)
def find_crowd(
    A: Array, by_code: Integers, edges: Array, repeats: Array, owner: Integers, dropped: int, height: Array,
    columns: Array, constant: bool, mixture: Array, salt: Any, lines: int, least: float, gram: Array, factor: Array,
    room: Array, new: Array,
) -> float:  # fmt: skip
    """``new`` becomes the line, of so many drawn, that most rows crowd around: the share of these, or 0 for none.

    Half of the lines meet as many rows as there are coefficients, half differ in few columns from a component of the
    ``mixture`` or from nil. ``height`` is the mixture's density at each row, ``least`` a component's least deviation;
    ``by_code`` has the rows in the order of their content, ``edges`` how many there are up to each. A look at some of
    the rows says which lines are worth a look at all. The best of them is then turned about all but one of its rows,
    to where it meets the most others.
    """
    q, k, n = len(new), len(mixture), A.shape[1]
    line, counts = np.empty(q), np.zeros(LEVELS + 1)
    centre, all_columns, span = np.zeros(q), np.zeros((1, q)), np.zeros((FEW_COLUMNS, q))
    chosen, order = np.empty(q, dtype=np.int64), np.empty(len(columns))
    some_rows = min(n, GLANCE)
    glance, glance_height, glance_repeats = np.empty((q + 1, some_rows)), np.empty(some_rows), np.empty(some_rows)
    for place in range(some_rows):
        i = by_code[place]
        glance_height[place], glance_repeats[place] = height[i], repeats[i]
        for a in range(q + 1):
            glance[a, place] = A[a, i]
    some_room, beside, free_ways = np.empty(some_rows), np.empty(n), 1
    promising = best = share = 0.0
    support, about, ways, fixed = chosen.copy(), centre.copy(), span.copy(), 0
    for number in range(lines):
        seed = mix_bits(salt + np.uint64(number))
        some = q > FEW_COLUMNS and draw(seed + np.uint64(1)) < SOME_COLUMNS
        centre[:], free = 0.0, all_columns
        if some:
            begin = int(draw(seed + np.uint64(2)) * 2 * k)
            if begin < k:
                centre[:] = mixture[begin]
            free = span[: _choose_columns(mix_bits(seed + np.uint64(3)), columns, constant or begin >= k, order, span)]
        fitted = len(free) if some else q
        _choose_rows(by_code, edges, owner, dropped, mix_bits(seed + np.uint64(4)), chosen[:fitted])
        if not fit_at(A, chosen[:fitted], centre, free, gram, line, factor):
            continue
        residuals(glance, line, some_room)
        gain, crowd = _crowd_around(some_room, glance_height, glance_repeats, least, fitted, counts)
        if gain <= promising:
            continue
        promising = gain
        if some_rows < n:
            residuals(A, line, room)
            gain, crowd = _crowd_around(room, height, repeats, least, fitted, counts)
        if gain > best:
            best, share = gain, crowd
            new[:], support[:], about[:], fixed = line, chosen, centre, fitted
            ways[: len(free), :] = free
            free_ways = len(free)
    if best <= 0.0:
        return share
    for number in range(TURNS):
        seed = mix_bits(salt + np.uint64(lines + number))
        chosen[:] = support
        place = int(draw(seed + np.uint64(1)) * fixed)
        _choose_rows(by_code, edges, owner, dropped, seed, chosen[place : place + 1])
        if chosen[place] == support[place] or not fit_at(
            A, chosen[:fixed], about, ways[:free_ways], gram, line, factor
        ):
            continue
        gain, crowd, far, row = _turn(A, new, line, height, repeats, least, fixed, counts, room, beside)
        if gain > best:
            best, share, support[place] = gain, crowd, row
            for a in range(q):
                new[a] += far * (line[a] - new[a])
    return share
