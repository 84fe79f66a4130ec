"""EM with extrapolated steps, compiled: candidate mixtures climb to their maxima, one after another.

The steps are those that :mod:`wmlr.methods.search` takes by rounds; where all rows are at hand, nothing is to be said
between them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.loops import SUMS, exp, log

TILE = 256

SETTLED, LEFT, BROKEN = 1, 2, 3
"""What becomes of a candidate: at its maximum (or as far as asked), left on its way, or lost in rounding."""

EXACT: Any = {"nogil": True, "error_model": "numpy"}


@njit(**SUMS)
def add_products(A: Array, r: Array, first: int, m: int, scaled: Array, G: Array) -> None:
    """Add A diag(r) A' of m rows (columns of A) to the upper triangle of G, two lines by four at a time.

    The last line of A, which has the rows' weights, is left out; G is written to beside its triangle too.
    """
    p = A.shape[0] - 1
    for a in range(p):
        column, weighed = A[a, first : first + m], scaled[a]
        for i in range(m):
            weighed[i] = column[i] * r[i]
    for a in range(0, p, 2):
        s0, s1 = scaled[a], scaled[min(a + 1, p - 1)]
        fours = a + (p - a) // 4 * 4
        for b in range(a, fours, 4):
            z0, z1 = A[b, first : first + m], A[b + 1, first : first + m]
            z2, z3 = A[b + 2, first : first + m], A[b + 3, first : first + m]
            g00 = g01 = g02 = g03 = g10 = g11 = g12 = g13 = 0.0
            for i in range(m):
                g00 += s0[i] * z0[i]
                g01 += s0[i] * z1[i]
                g02 += s0[i] * z2[i]
                g03 += s0[i] * z3[i]
                g10 += s1[i] * z0[i]
                g11 += s1[i] * z1[i]
                g12 += s1[i] * z2[i]
                g13 += s1[i] * z3[i]
            G[a, b] += g00
            G[a, b + 1] += g01
            G[a, b + 2] += g02
            G[a, b + 3] += g03
            if a + 1 < p:
                G[a + 1, b] += g10
                G[a + 1, b + 1] += g11
                G[a + 1, b + 2] += g12
                G[a + 1, b + 3] += g13
        for b in range(fours, p):
            z0 = A[b, first : first + m]
            g00 = g10 = 0.0
            for i in range(m):
                g00 += s0[i] * z0[i]
                g10 += s1[i] * z0[i]
            G[a, b] += g00
            if a + 1 < p:
                G[a + 1, b] += g10


@njit(**SUMS)
def _expect(
    A: Array, coef: Array, weights: Array, s2: Array, R: Array, room: Array, scaled: Array, grams: Array, mass: Array
) -> float:
    """The E-step of one mixture: its log-likelihood without the constant, and each component's products and ``mass``.

    The lines of A are q columns, the response and the rows' weights.
    """
    k, q = coef.shape
    n = A.shape[1]
    value = 0.0
    for j in range(k):
        mass[j] = 0.0
        for a in range(q + 1):
            for b in range(q + 1):
                grams[j, a, b] = 0.0
    for first in range(0, n, TILE):
        m = min(TILE, n - first)
        top, norm = room[0, :m], room[1, :m]
        y, w = A[q, first : first + m], A[q + 1, first : first + m]
        for i in range(m):
            top[i] = -np.inf
            norm[i] = 0.0
        for j in range(k):
            joint = R[j, :m]
            factor, constant = -0.5 / s2[j], math.log(weights[j]) - 0.5 * math.log(s2[j])
            for i in range(m):
                joint[i] = y[i]
            for a in range(q):
                z, slope = A[a, first : first + m], coef[j, a]
                for i in range(m):
                    joint[i] -= slope * z[i]
            for i in range(m):
                joint[i] = joint[i] * joint[i] * factor + constant
                top[i] = max(top[i], joint[i])
        for j in range(k):
            joint = R[j, :m]
            for i in range(m):
                joint[i] = exp(joint[i] - top[i])
                norm[i] += joint[i]
        for i in range(m):
            value += w[i] * (top[i] + log(norm[i]))
            norm[i] = w[i] / norm[i]
        for j in range(k):
            joint, amount = R[j, :m], 0.0
            for i in range(m):
                joint[i] *= norm[i]
                amount += joint[i]
            mass[j] += amount
            add_products(A, joint, first, m, scaled, grams[j])
    return value


@njit(**EXACT)
def _decompose(gram: Array, hold: float, q: int, factor: Array) -> bool:
    """The lower triangle L with LL' = gram + hold I, of q columns, from the upper triangle; False where it has none."""
    for a in range(q):
        for b in range(a + 1):
            total = gram[b, a] + (hold if a == b else 0.0)
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = total / factor[b, b]
            elif total > 0.0:
                factor[a, a] = math.sqrt(total)
            else:
                return False
    return True


@njit(**EXACT)
def _substitute(factor: Array, right: Array) -> None:
    """``right`` becomes the solution of LL'x = right."""
    q = len(right)
    for a in range(q):
        for c in range(a):
            right[a] -= factor[a, c] * right[c]
        right[a] /= factor[a, a]
    for a in range(q - 1, -1, -1):
        for c in range(a + 1, q):
            right[a] -= factor[c, a] * right[c]
        right[a] /= factor[a, a]


@njit(**EXACT)
def solve(gram: Array, hold: float, right: Array, factor: Array) -> bool:
    """``right`` becomes the solution of (gram + hold I) x = right, from the upper triangle; False where it has none."""
    if not _decompose(gram, hold, len(right), factor):
        return False
    _substitute(factor, right)
    return True


@njit(**EXACT)
def invert(gram: Array, hold: float, inverse: Array, factor: Array) -> bool:
    """``inverse`` (q, q) becomes that of gram + hold I, from the upper triangle; False where there is none."""
    q = len(inverse)
    if not _decompose(gram, hold, q, factor):
        return False
    for a in range(q):
        inverse[a] = 0.0
        inverse[a, a] = 1.0
        _substitute(factor, inverse[a])
    return True


@njit(**EXACT)
def regress(gram: Array, mass: float, law: Array, coef: Array, factor: Array) -> float:
    """Weighted least squares of one component, in place: the squares it leaves, or nan where there is no solution."""
    ridge, rounding, least_mass = law[7], law[8], law[9]
    q = len(coef)
    largest = 0.0
    for a in range(q):
        largest = max(largest, gram[a, a])
    held = max(ridge * max(mass, least_mass), rounding * largest)
    solution = factor[q]
    for a in range(q):
        solution[a] = gram[a, q] + held * coef[a]
    if not solve(gram, held, solution[:q], factor):
        return np.nan
    squares = gram[q, q]
    for a in range(q):
        bent = 0.0
        for b in range(q):
            bent += gram[min(a, b), max(a, b)] * solution[b]
        squares += (bent - 2.0 * gram[a, q]) * solution[a]
        coef[a] = solution[a]
    return float(max(squares, 0.0))


@njit(**EXACT)
def _maximise(grams: Array, mass: Array, law: Array, coef: Array, weights: Array, s2: Array, factor: Array) -> bool:
    """The M-step in place; False where a system has no solution.

    ``law`` is a :class:`wmlr.statistics.climbs.ClimbLaw`.
    """
    shared, known, fixed = law[0] > 0, law[1] > 0, law[2] > 0
    hold, common, floor, ceiling = law[3], law[4], law[5], law[6]
    least_mass, least_weight = law[9], law[10]
    k = len(coef)
    rows, pooled = 0.0, 0.0
    for j in range(k):
        squares = regress(grams[j], mass[j], law, coef[j], factor)
        if np.isnan(squares):
            return False
        squares += 2.0 * hold * common
        rows += mass[j]
        pooled += squares
        if not known and not shared:
            s2[j] = min(max(squares / max(mass[j] + 2.0 * hold, least_mass), floor), ceiling)
    if shared and not known:
        each = min(max(pooled / max(rows + 2.0 * k * hold, 1e-300), floor), ceiling)
        for j in range(k):
            s2[j] = each
    if not fixed:
        total = 0.0
        for j in range(k):
            weights[j] = max(mass[j] / rows, least_weight)
            total += weights[j]
        for j in range(k):
            weights[j] /= total
    return True


@njit(**EXACT)
def _step(
    A: Array, law: Array, coef: Array, weights: Array, s2: Array, R: Array, room: Array, scaled: Array, grams: Array,
    mass: Array, factor: Array,
) -> float:  # fmt: skip
    """One EM step in place: the guarded value of the place that is left, or nan where the step is lost."""
    hold, common, constant = law[3], law[4], law[11]
    value = _expect(A, coef, weights, s2, R, room, scaled, grams, mass)
    for j in range(len(mass)):
        value += constant * mass[j]
    if hold > 0.0:
        for j in range(len(s2)):
            ratio = common / s2[j]
            value -= hold * (ratio - math.log(ratio))
    return value if _maximise(grams, mass, law, coef, weights, s2, factor) else np.nan


@njit(**EXACT)
def _extrapolate(law: Array, coefs: Array, weights: Array, s2: Array) -> None:
    """SQUAREM's leap from places 0, 1 and 2 to place 3, on the scale of coefficients and logarithms."""
    known, floor, least_weight, longest, largest = law[1] > 0, law[5], law[10], law[12], law[13]
    _, k, q = coefs.shape
    size = bends = 0.0
    for j in range(k):
        for a in range(q):
            step = coefs[1, j, a] - coefs[0, j, a]
            bend = coefs[2, j, a] - 2.0 * coefs[1, j, a] + coefs[0, j, a]
            size += step * step
            bends += bend * bend
        for values in (weights, s2):
            first, second, third = math.log(values[0, j]), math.log(values[1, j]), math.log(values[2, j])
            size += (second - first) ** 2
            bends += (third - 2.0 * second + first) ** 2
    least = max(size / (2.0 * longest) ** 2, 1e-300)
    length = min(max(math.sqrt(size / max(bends, least)), 1.0), longest)
    top = -np.inf
    for j in range(k):
        for a in range(q):
            step = coefs[1, j, a] - coefs[0, j, a]
            bend = coefs[2, j, a] - 2.0 * coefs[1, j, a] + coefs[0, j, a]
            coefs[3, j, a] = coefs[0, j, a] + 2.0 * length * step + length * length * bend
        first, second, third = math.log(weights[0, j]), math.log(weights[1, j]), math.log(weights[2, j])
        bend = third - 2.0 * second + first
        weights[3, j] = first + 2.0 * length * (second - first) + length * length * bend
        top = max(top, weights[3, j])
        first, second, third = math.log(s2[0, j]), math.log(s2[1, j]), math.log(s2[2, j])
        bend = third - 2.0 * second + first
        ahead = first + 2.0 * length * (second - first) + length * length * bend
        s2[3, j] = s2[0, j] if known else math.exp(min(max(ahead, math.log(floor)), max(largest, math.log(floor))))
    total = 0.0
    for j in range(k):
        weights[3, j] = math.exp(max(weights[3, j] - top, math.log(least_weight)))
        total += weights[3, j]
    for j in range(k):
        weights[3, j] /= total


@njit(**EXACT)
def _copy(coef: Array, weights: Array, s2: Array, into: Array, its_weights: Array, its_s2: Array) -> None:
    """A mixture into the place of another; slices that are assigned take the compiler much longer."""
    k, q = coef.shape
    for j in range(k):
        its_weights[j], its_s2[j] = weights[j], s2[j]
        for a in range(q):
            into[j, a] = coef[j, a]


@njit(**EXACT)
def _near(coef: Array, known: Array, variances: Array, exchange: Array, same: float) -> bool:
    """Whether every component is near one of a known maximum, and every one of that near one of these."""
    k, q = coef.shape
    for j in range(2 * k):
        nearest = np.inf
        for other in range(k):
            one, two = (j, other) if j < k else (other, j - k)
            gap = exchange[one, two]
            for a in range(q):
                gap += (coef[one, a] - known[two, a]) ** 2 / variances[two]
            nearest = min(nearest, gap)
        if not nearest < same:
            return False
    return True


@njit(**EXACT)
def _is_known_maximum(
    coef: Array, lineage: int, known: Array, variances: Array, of_lineage: Integers, exchange: Array, same: float
) -> bool:
    """Whether a candidate stands at a known maximum of its own lineage."""
    for other in range(len(known)):
        if of_lineage[other] == lineage and _near(coef, known[other], variances[other], exchange, same):
            return True
    return False


@njit(cache=True, **EXACT)
def climb(
    A: Array, law: Array, plan: Array, coef: Array, weights: Array, s2: Array, values: Array, lowest: Array,
    lineage: Integers, known: Array, variances: Array, of_lineage: Integers, exchange: Array, steps: Array,
    ends: Array,
) -> None:  # fmt: skip
    """Candidates (s, k, q), (s, k), (s, k) climb in place; ``values``, ``steps`` and ``ends`` say how it went.

    ``plan`` holds: how many plain steps come first, how many steps of EM there may be in all after them, what three
    steps gain at a maximum, how often in succession, and how near, in squared deviations, is at a known maximum; after
    how many steps, and at how many times three steps' gain, a candidate that lies so far below ``lowest`` is left.
    """
    s, k, q = coef.shape
    plain, most, settled, calm_enough = int(plan[0]), plan[1], plan[2], plan[3]
    same, tried, hopeless = plan[4], plan[5], plan[6]
    R, room, scaled = np.empty((k, TILE)), np.empty((2, TILE)), np.empty((q + 1, TILE))
    grams, mass, factor = np.empty((k, q + 1, q + 1)), np.empty(k), np.empty((q + 1, q + 1))
    B, W, V = np.empty((4, k, q)), np.empty((4, k)), np.empty((4, k))
    at = np.empty(3)
    for c in range(s):
        ends[c], steps[c] = SETTLED, 0
        _copy(coef[c], weights[c], s2[c], B[0], W[0], V[0])
        value = values[c]
        for _ in range(plain):
            value = _step(A, law, B[0], W[0], V[0], R, room, scaled, grams, mass, factor)
            steps[c] += 1
            if not np.isfinite(value):
                ends[c] = BROKEN
                break
        if plain and _is_known_maximum(B[0], lineage[c], known, variances, of_lineage, exchange, same):
            ends[c] = LEFT
        calm, taken = 0.0, 0
        while ends[c] == SETTLED and calm < calm_enough and taken < most:
            for place in range(3):
                if place < 2:
                    _copy(B[place], W[place], V[place], B[place + 1], W[place + 1], V[place + 1])
                else:
                    _extrapolate(law, B, W, V)
                at[place] = _step(
                    A, law, B[place + 1], W[place + 1], V[place + 1], R, room, scaled, grams, mass, factor
                )
            taken += 3
            steps[c] += 3
            if not (np.isfinite(at[0]) and np.isfinite(at[1])):
                ends[c] = BROKEN
                break
            reached = 3 if at[2] >= at[1] else 2
            value = at[reached - 1]
            _copy(B[reached], W[reached], V[reached], B[0], W[0], V[0])
            gain = value - at[0]
            calm = calm + 1.0 if gain < settled else 0.0
            if _is_known_maximum(B[0], lineage[c], known, variances, of_lineage, exchange, same):
                ends[c] = LEFT
            if taken >= tried and lowest[lineage[c]] - value > hopeless * gain:
                ends[c] = LEFT
        _copy(B[0], W[0], V[0], coef[c], weights[c], s2[c])
        values[c] = value
