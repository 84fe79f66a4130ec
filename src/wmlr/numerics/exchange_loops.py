"""Rows that change components one at a time, compiled: annealed exchanges of the classification likelihood.

Each row in turn is taken out of its component and put into one drawn by what the whole likelihood would be, with the
coefficients and variances of both components fitted anew: a row that alone holds a component in some direction is known
to do so, which the residuals that an EM step looks at hide. A rank-one change of each component makes that cheap.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.climb_loops import EXACT, TILE, add_products, invert
from wmlr.numerics.drawing_loops import draw, mix_bits
from wmlr.numerics.loops import SUMS, exp, log

SURE = 8.0  # logarithm of the odds at which a row stays where it is without another component being tried
LOOSE = 1.25  # times the deviation of a row that another component meets: leverages change while rows do
LONE = 1e-6  # of a row's leverage: what leaves less to the others of its component stays


@njit(**EXACT)
def _likeliest(rows: Array, coef: Array, log_weights: Array, s2: Array, label: Integers) -> None:
    """The component that each row most likely is of."""
    k, q = coef.shape
    for i in range(len(rows)):
        best = -np.inf
        for j in range(k):
            residual = rows[i, q]
            for a in range(q):
                residual -= coef[j, a] * rows[i, a]
            value = log_weights[j] - 0.5 * math.log(s2[j]) - 0.5 * residual * residual / s2[j]
            if value > best:
                best, label[i] = value, j


@njit(**SUMS)
def _add_products(A: Array, label: Integers, j: int, room: Array, gram: Array) -> float:
    """The products of one component's rows and responses, in the upper triangle, and what the rows weigh."""
    p = len(gram)
    mass = 0.0
    gram[:] = 0.0
    for first in range(0, A.shape[1], TILE):
        m = min(TILE, A.shape[1] - first)
        weight, own = A[p, first : first + m], room[p]
        for i in range(m):
            own[i] = weight[i] if label[first + i] == j else 0.0
            mass += own[i]
        add_products(A, own, first, m, room, gram)
    return mass


@njit(**EXACT)
def _fit_labels(
    A: Array, label: Integers, law: Array, coef: Array, inverse: Array, squares: Array, mass: Array, gram: Array,
    tile: Array, factor: Array,
) -> bool:  # fmt: skip
    """Least squares of each component's rows, with inverse Gram matrices and the squares left; False where none is."""
    ridge, rounding, least_mass = law[7], law[8], law[9]
    k, q = coef.shape
    for j in range(k):
        mass[j] = _add_products(A, label, j, tile, gram)
        largest = 0.0
        for a in range(q):
            largest = max(largest, gram[a, a])
        hold = max(ridge * max(mass[j], least_mass), rounding * largest)
        if not invert(gram, hold, inverse[j], factor):
            return False
        squares[j] = gram[q, q]
        for a in range(q):
            coef[j, a] = 0.0
            for b in range(q):
                coef[j, a] += inverse[j, a, b] * gram[b, q]
            squares[j] -= coef[j, a] * gram[a, q]
        squares[j] = max(squares[j], 0.0)
    return True


@njit(**SUMS)
def _variance(squares: float, mass: float, law: Array) -> float:
    hold, common, floor, ceiling = law[3], law[4], law[5], law[6]
    return float(min(max((squares + 2.0 * hold * common) / max(mass + 2.0 * hold, law[9]), floor), ceiling))


@njit(**SUMS)
def _log_likelihood(squares: float, mass: float, log_weight: float, s2: float, law: Array) -> float:
    """What one component's rows bring to the classification likelihood; of a common variance, without it."""
    shared, known, fixed, hold, common = law[0] > 0, law[1] > 0, law[2] > 0, law[3], law[4]
    value = mass * (log_weight if fixed else log(max(mass, 1.0)))
    if known:
        return float(value - 0.5 * squares / s2)
    if shared:
        return float(value)
    s2 = _variance(squares, mass, law)
    return float(value - (0.5 * mass + hold) * log(s2) - (0.5 * squares + hold * common) / s2)


@njit(**SUMS)
def _shared_log_likelihood(squares: float, total: float, law: Array) -> float:
    """What all rows bring by the variance that their components share."""
    s2 = _variance(squares, total, law)
    return float(-0.5 * (total * log(s2) + squares / s2))


@njit(**SUMS)
def _state(
    j: int, squares: Array, mass: Array, total: float, log_weights: Array, s2: Array, law: Array
) -> tuple[float, float, float]:
    """A component's variance, the log-density of a row that it meets, and what it brings."""
    shared, known, fixed = law[0] > 0, law[1] > 0, law[2] > 0
    variance = s2[j]
    if not known:
        variance = _variance(squares.sum(), total, law) if shared else _variance(squares[j], mass[j], law)
    level = (log_weights[j] if fixed else log(max(mass[j], 1.0))) - 0.5 * log(max(variance, 1.0))
    return variance, level, _log_likelihood(squares[j], mass[j], log_weights[j], s2[j], law)


@njit(**SUMS)
def _leverages(A: Array, inverse: Array, hats: Array) -> None:
    """Of each row in each component (k, n), were it one of its rows."""
    k, q = len(inverse), inverse.shape[1]
    bent = np.empty(TILE)
    for first in range(0, A.shape[1], TILE):
        m = min(TILE, A.shape[1] - first)
        w = A[q + 1, first : first + m]
        for j in range(k):
            hat = hats[j, first : first + m]
            for i in range(m):
                hat[i] = 0.0
            for a in range(q):
                z = A[a, first : first + m]
                for i in range(m):
                    bent[i] = 0.5 * inverse[j, a, a] * z[i]
                for b in range(a + 1, q):
                    other, held = A[b, first : first + m], inverse[j, a, b]
                    for i in range(m):
                        bent[i] += held * other[i]
                for i in range(m):
                    hat[i] += 2.0 * w[i] * bent[i] * z[i]


@njit(**SUMS)
def _pull(x: Array, inverse: Array, pull: Array) -> float:
    """``pull`` becomes inverse x, for x' inverse x."""
    q = len(pull)
    hat = 0.0
    for a in range(q):
        bent, line = 0.0, inverse[a]
        for b in range(q):
            bent += line[b] * x[b]
        pull[a] = bent
        hat += bent * x[a]
    return hat


@njit(**SUMS)
def _sweep(
    rows: Array, hats: Array, order: Integers, draws: Array, temperature: float, law: Array, log_weights: Array,
    s2: Array, label: Integers, coef: Array, inverse: Array, squares: Array, mass: Array, room: Array,
) -> None:  # fmt: skip
    """Every row once: out of its component, and into one drawn by the likelihood to the power of 1/temperature.

    ``hats`` are leverages of a while ago: with these a row's chances are bounded, and where it stays whatever they are
    within the bounds, nothing is fitted anew.
    """
    k, q = coef.shape
    in_common = law[0] > 0 and not law[1] > 0
    total, least = mass.sum(), q + 1.0
    leverage, residual, chance, variance, level, worth = room[:6, :k]
    pull = room[6:, :q]
    for j in range(k):
        variance[j], level[j], worth[j] = _state(j, squares, mass, total, log_weights, s2, law)
    for place in range(len(order)):
        i = order[place]
        x, y, weight, own = rows[i], rows[i, q], rows[i, q + 1], label[i]
        if weight <= 0.0 or mass[own] - weight < least:
            continue
        best, heat = -np.inf, weight / temperature
        for j in range(k):
            slope, fitted = coef[j], 0.0
            for a in range(q):
                fitted += slope[a] * x[a]
            residual[j] = y - fitted
            square, part = residual[j] * residual[j] / variance[j], weight / mass[j]
            loose = LOOSE * (1.0 + hats[j, i]) + part * square
            if j == own:
                part, loose = -part, max(1.0 - hats[j, i] - part * square, LONE)
            chance[j] = heat * (level[j] + part - 0.5 * square / loose)
            if j != own:
                best = max(best, chance[j])
        bound = chance[own] - SURE
        if best < bound:
            continue
        amount = 1.0
        for j in range(k):
            if j != own:
                amount += exp(min(chance[j] - chance[own], SURE))
        if draws[i] * amount < 1.0:
            continue
        leverage[own] = weight * _pull(x, inverse[own], pull[own])
        left = 1.0 - leverage[own]
        if left < LONE:
            continue
        alone = max(squares[own] - weight * residual[own] * residual[own] / left, 0.0)
        others = alone - squares[own]
        for j in range(k):
            others += squares[j]
        best = -np.inf
        for j in range(k):
            if j != own and chance[j] < bound:
                chance[j] = -np.inf
                continue
            if j == own:
                added = squares[j] - alone
                value = worth[j] - _log_likelihood(alone, mass[j] - weight, log_weights[j], s2[j], law)
            else:
                leverage[j] = weight * _pull(x, inverse[j], pull[j])
                added = weight * residual[j] * residual[j] / (1.0 + leverage[j])
                value = _log_likelihood(squares[j] + added, mass[j] + weight, log_weights[j], s2[j], law) - worth[j]
            if in_common:
                value += _shared_log_likelihood(others + added, total, law)
            chance[j] = value / temperature
            best = max(best, chance[j])
        amount = 0.0
        for j in range(k):
            chance[j] = exp(chance[j] - best)
            amount += chance[j]
        amount, new = amount * draws[i] - chance[own], own
        for j in range(k):
            if j != own and amount >= 0.0 and chance[j] > 0.0:
                amount, new = amount - chance[j], j
        if new == own:
            continue
        squares[own] = alone
        squares[new] += weight * residual[new] * residual[new] / (1.0 + leverage[new])
        for j in (own, new):
            sign = -1.0 if j == own else 1.0
            step = sign * weight / (1.0 + sign * leverage[j])
            for a in range(q):
                line, scaled = inverse[j, a], step * pull[j, a]
                coef[j, a] += residual[j] * scaled
                for b in range(q):
                    line[b] -= scaled * pull[j, b]
            mass[j] += sign * weight
        for j in range(k):
            if in_common or j in (own, new):
                variance[j], level[j], worth[j] = _state(j, squares, mass, total, log_weights, s2, law)
        label[i] = new


@njit(cache=True, **EXACT)
def anneal(
    A: Array, rows: Array, law: Array, codes: Array, orders: Integers, coef: Array, log_weights: Array, s2: Array,
    salts: Array, temperatures: Array, masses: Array, done: Array,
) -> None:  # fmt: skip
    """Mixtures (c, k, q) whose rows changed components sweep by sweep, at temperatures (c, t), in place.

    The arguments are those of :class:`wmlr.statistics.exchanges.Exchanges`, where rows weigh 1 in the mean and the
    least variance is 1; ``rows`` are those of A, taken in the order of ``orders`` (c, n). ``masses`` (c, k) become what
    the components' rows weigh, ``done`` 0 where the rows of one have no regression.
    """
    c, k, q = coef.shape
    n = A.shape[1]
    label, inverse, squares = np.empty(n, dtype=np.int64), np.empty((k, q, q)), np.empty(k)
    room, draws = np.empty((6 + max(k, q + 1), max(k, q + 1))), np.empty(n)
    gram, hats, tile = np.empty((q + 1, q + 1)), np.empty((k, n)), np.empty((q + 2, TILE))
    for line in range(c):
        salt, mass = salts[line], masses[line]
        _likeliest(rows, coef[line], log_weights[line], s2[line], label)
        fits = _fit_labels(A, label, law, coef[line], inverse, squares, mass, gram, tile, room)
        for temperature in temperatures[line]:
            if not fits:
                break
            salt = mix_bits(salt)
            for i in range(n):
                draws[i] = draw(codes[i] ^ salt)
            _leverages(A, inverse, hats)
            _sweep(
                rows, hats, orders[line], draws, temperature, law, log_weights[line], s2[line], label, coef[line],
                inverse, squares, mass, room,
            )  # fmt: skip
            fits = _fit_labels(A, label, law, coef[line], inverse, squares, mass, gram, tile, room)
        done[line] = 1.0 if fits else 0.0
        if fits and not law[1] > 0:
            for j in range(k):
                s2[line, j] = _state(j, squares, mass, float(n), log_weights[line], s2[line], law)[0]
