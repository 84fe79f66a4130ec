"""EM of one component beside a mixture that stays, compiled: many trials of a new component for little.

A step costs a k-th of one of the whole mixture, and where most trials lead nowhere that is soon seen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.climb_loops import EXACT, TILE, add_products, regress, solve
from wmlr.numerics.loops import SUMS, exp, log

SQUARED_QUARTILE = 0.455  # squared deviations within which half of a normal component's rows lie
PULL = 1e-9  # towards the centre, of the drawn rows' mean square: where fewer rows than coefficients are drawn
LEAST_AMOUNT = 1e-12
MOST_DRAWS = 6  # for as many rows as are wanted, where these are few
WINDOW = -2  # the rule of :class:`wmlr.statistics.insertions.Trials` by which rows next to each other are taken


@njit(**SUMS)
def _residuals(A: Array, coef: Array, residual: Array) -> None:
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
def _leave_out(
    A: Array, coef: Array, weights: Array, s2: Array, dropped: int, room: Array, density: Array, nearest: Array,
    owner: Integers,
) -> None:  # fmt: skip
    """A mixture without one component: each row's log-density, its squared distance from the nearest component.

    ``owner`` is the component that the row most likely is of, in the whole mixture.
    """
    n = A.shape[1]
    residual, best = room[0], room[1]
    left = math.log(1.0 - weights[dropped])
    for i in range(n):
        density[i], nearest[i], best[i], owner[i] = 0.0, np.inf, -np.inf, -1
    for j in range(len(weights)):
        if j != dropped:
            _residuals(A, coef[j], residual)
            constant = math.log(weights[j]) - left - 0.5 * math.log(s2[j])
            for i in range(n):
                distance = residual[i] * residual[i] / s2[j]
                nearest[i] = min(nearest[i], distance)
                value = constant - 0.5 * distance
                if value > best[i]:
                    density[i] = density[i] * math.exp(best[i] - value) + 1.0
                    best[i], owner[i] = value, j
                else:
                    density[i] += math.exp(value - best[i])
    _residuals(A, coef[dropped], residual)
    constant = math.log(weights[dropped]) - left - 0.5 * math.log(s2[dropped])
    for i in range(n):
        if constant - 0.5 * residual[i] * residual[i] / s2[dropped] > best[i]:
            owner[i] = dropped
        density[i] = best[i] + math.log(density[i])


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


@njit(**EXACT)
def _quantile(values: Array, weights: Array, amount: float) -> float:
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
def _fit_drawn(
    A: Array, codes: Array, salt: Any, centre: Array, span: Array, counts: Array, wanted: float, gram: Array,
    coef: Array, factor: Array,
) -> bool:  # fmt: skip
    """Least squares around a centre at rows drawn by their content, in proportion to their counts.

    Where ``span`` (m, q) has a direction that is not nil, the centre is left in these alone, at no fewer rows than
    wanted.
    """
    q, n = len(coef), A.shape[1]
    tied = False
    for b in range(q):
        tied |= span[0, b] != 0.0
    free = len(span) if tied else q
    total = 0.0
    for i in range(n):
        total += counts[i]
    rate = wanted / max(total, 1e-300)
    x, moved = factor[q], coef[:free]
    for _ in range(MOST_DRAWS if tied else 1):
        drawn = 0
        for a in range(q + 1):
            for b in range(q + 1):
                gram[a, b] = 0.0
        for i in range(n):
            if draw(codes[i] ^ salt) < rate * counts[i]:
                drawn += 1
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
        if drawn >= wanted:
            break
        rate *= 1.5
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
def _count_window(
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
    reach = _quantile(room[1], counts, np.floor(share * repeats.sum()))
    for i in range(n):
        counts[i] = repeats[i] if place[i] <= reach else 0.0


@njit(**SUMS)
def _expect_beside(
    A: Array, density: Array, coef: Array, weight: float, s2: float, shares: Array, scaled: Array, gram: Array
) -> tuple[float, float]:
    """The E-step of one component beside a fixed density: the log-likelihood, and the component's mass and products."""
    q, n = len(coef), A.shape[1]
    value = mass = 0.0
    for a in range(q + 1):
        for b in range(q + 1):
            gram[a, b] = 0.0
    left = math.log(1.0 - weight)
    factor, constant = -0.5 / s2, math.log(weight) - 0.5 * math.log(s2) - left
    for first in range(0, n, TILE):
        m = min(TILE, n - first)
        share, beside = shares[:m], density[first : first + m]
        y, w = A[q, first : first + m], A[q + 1, first : first + m]
        for i in range(m):
            share[i] = y[i]
        for a in range(q):
            z, slope = A[a, first : first + m], coef[a]
            for i in range(m):
                share[i] -= slope * z[i]
        for i in range(m):
            odds = share[i] * share[i] * factor + constant - beside[i]
            small = exp(-abs(odds))
            value += w[i] * (beside[i] + left + max(odds, 0.0) + log(1.0 + small))
            share[i] = w[i] * (1.0 if odds > 0.0 else small) / (1.0 + small)
            mass += share[i]
        add_products(A, share, first, m, scaled, gram)
    return value, mass


@njit(cache=True, **EXACT)
def insert(
    A: Array, law: Array, codes: Array, repeats: Array, coef: Array, weights: Array, s2: Array, dropped: Integers,
    salts: Array, rules: Integers, caps: Array, wanted: Array, shares: Array, starts: Array, along: Array,
    centres: Array, spans: Array, steps: int, found: Array, found_weights: Array, found_s2: Array, values: Array,
) -> None:  # fmt: skip
    """New components (c, t, q) in the place of dropped ones, each by a few EM steps in which the others stay.

    The arguments are those of :class:`wmlr.statistics.insertions.Insertions`; ``values`` become -inf where a trial is
    lost.
    """
    c, t = values.shape
    q, n = coef.shape[2], A.shape[1]
    shared, known, fixed = law[0] > 0, law[1] > 0, law[2] > 0
    hold, common, floor, ceiling, least_mass = law[3], law[4], law[5], law[6], law[9]
    density, nearest, counts, owner = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    room, share, scaled = np.empty((2, n)), np.empty(TILE), np.empty((q + 1, TILE))
    gram, factor = np.empty((q + 1, q + 1)), np.empty((q + 1, q + 1))
    rows = repeats.sum()
    total = A[q + 1].sum()
    for line in range(c):
        _leave_out(A, coef[line], weights[line], s2[line], dropped[line], room, density, nearest, owner)
        for trial in range(t):
            rule, cap, new = rules[line, trial], caps[line, trial], found[line, trial]
            values[line, trial] = -np.inf
            salt, few = salts[line, trial], wanted[line, trial]
            for i in range(n):
                if rule >= 0:
                    counts[i] = repeats[i] if owner[i] == rule else 0.0
                else:
                    counts[i] = repeats[i] * (min(nearest[i], cap) if cap > 0.0 else 1.0)
            if rule == WINDOW:
                _count_window(A, codes, salt, along[line, trial], repeats, shares[line, trial], room, counts)
                few = counts.sum()
            centre, span = centres[line, trial], spans[line, trial]
            if not _fit_drawn(A, codes, salt, centre, span, counts, few, gram, new, factor):
                continue
            weight, variance = shares[line, trial], starts[line, trial]
            if variance <= 0.0:
                _residuals(A, new, room[0])
                for i in range(n):
                    room[1, i], counts[i] = room[0, i] * room[0, i], repeats[i]
                nearer = np.floor(0.5 * weight * rows)
                variance = min(max(_quantile(room[1], counts, nearer) / SQUARED_QUARTILE, floor), ceiling)
            value = -np.inf
            for _ in range(steps):
                value, mass = _expect_beside(A, density, new, weight, variance, share, scaled, gram)
                value -= hold * (common / variance - math.log(common / variance))
                squares = regress(gram, mass, law, new, factor)
                if not (np.isfinite(value) and np.isfinite(squares)):
                    value = -np.inf
                    break
                if not (known or shared):
                    held = (squares + 2.0 * hold * common) / max(mass + 2.0 * hold, least_mass)
                    variance = min(max(held, floor), ceiling)
                if not fixed:
                    weight = min(max(mass / total, 1.0 / rows), 1.0 - 1.0 / rows)
            found_weights[line, trial], found_s2[line, trial], values[line, trial] = weight, variance, value
