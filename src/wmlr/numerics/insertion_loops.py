"""EM of one component beside a mixture that stays, compiled: many trials of a new component for little.

A step costs a k-th of one of the whole mixture, and where most trials lead nowhere that is soon seen. Stored machine
code is renewed when this file changes, and not with the others of which it holds loops.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.climb_loops import EXACT, TILE, add_products, regress
from wmlr.numerics.crowd_loops import find_crowd
from wmlr.numerics.drawing_loops import count_window, fit_drawn, quantile, residuals
from wmlr.numerics.loops import SUMS, exp, log

SQUARED_QUARTILE = 0.455  # squared deviations within which half of a normal component's rows lie
WINDOW, CROWD = -2, -3  # rules of :class:`wmlr.statistics.insertions.Trials`: rows next to each other, or to a line
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)  # which logarithms of densities leave out


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
            residuals(A, coef[j], residual)
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
    residuals(A, coef[dropped], residual)
    constant = math.log(weights[dropped]) - left - 0.5 * math.log(s2[dropped])
    for i in range(n):
        if constant - 0.5 * residual[i] * residual[i] / s2[dropped] > best[i]:
            owner[i] = dropped
        density[i] = best[i] + math.log(density[i])


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
    A: Array, law: Array, codes: Array, by_code: Integers, edges: Array, repeats: Array,
    coef: Array, weights: Array, s2: Array, dropped: Integers,
    salts: Array, rules: Integers, caps: Array, wanted: Array, shares: Array, starts: Array, along: Array,
    centres: Array, spans: Array, columns: Array, constant: bool, lines: int, steps: int,
    found: Array, found_weights: Array, found_s2: Array, values: Array,
) -> None:  # fmt: skip
    """New components (c, t, q) in the place of dropped ones, each by a few EM steps in which the others stay.

    The arguments are those of :class:`wmlr.statistics.insertions.Insertions`; ``by_code`` has the rows in the order of
    their content, ``edges`` how many there are up to each. ``values`` become -inf where a trial is lost.
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
            centre, span = centres[line, trial], spans[line, trial]
            weight, variance = shares[line, trial], starts[line, trial]
            if rule == CROWD:
                own, spread = weights[line, dropped[line]], s2[line, dropped[line]]
                residuals(A, coef[line, dropped[line]], room[0])
                for i in range(n):
                    dropped_one = own / math.sqrt(spread) * math.exp(-0.5 * room[0, i] * room[0, i] / spread)
                    counts[i] = DENSITY * ((1.0 - own) * math.exp(density[i]) + dropped_one)
                least = math.sqrt(3.0 * floor)
                crowd = find_crowd(
                    A, by_code, edges, repeats, owner, dropped[line], counts, columns, constant, coef[line], salt,
                    lines, least, gram, factor, room[0], new,
                )  # fmt: skip
                if crowd <= 0.0:
                    continue
                weight = weight if fixed else min(max(crowd, 1.0 / rows), 1.0 - 1.0 / rows)
            else:
                for i in range(n):
                    if rule >= 0:
                        counts[i] = repeats[i] if owner[i] == rule else 0.0
                    else:
                        counts[i] = repeats[i] * (min(nearest[i], cap) if cap > 0.0 else 1.0)
                if rule == WINDOW:
                    count_window(A, codes, salt, along[line, trial], repeats, shares[line, trial], room, counts)
                    few = counts.sum()
                if not fit_drawn(A, codes, salt, centre, span, counts, few, gram, new, factor):
                    continue
            if variance <= 0.0:
                residuals(A, new, room[0])
                for i in range(n):
                    room[1, i], counts[i] = room[0, i] * room[0, i], repeats[i]
                nearer = np.floor(0.5 * weight * rows)
                variance = min(max(quantile(room[1], counts, nearer) / SQUARED_QUARTILE, floor), ceiling)
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
