"""The compiled loops: one pass over a block of rows per answer.

Rows go through in tiles small enough for a cache of the core: a tile's products with the coefficients,
the elementwise part, then its share of the gradients, while its features are still at hand. Elementary
functions are polynomials without branches, so that the compiler works on several rows at once.

Everything is in one file because stored machine code is renewed when its own file changes, and only then.

In every loop row i of ``X`` begins at ``X[i]`` and has d entries, though ``X`` may be wider. Or ``X`` is a tuple: of
one array whose rows are the columns of the features, where these lie by columns in memory; or of indptr, indices and
data, where they are sparse, and the products are those of their entries. ``P`` is (columns, d + 1) with the intercept
(or zero) last, and so are the gradients ``H``, which are added to.
``w`` has a weight for each row; ``starts`` is empty when every row is a unit of its own. ``U``, ``W``,
``S`` and ``unit`` are room for a tile to work in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.kernels import LOG_2, LOG_2PI
from wmlr.numerics.stirling import NEAR

EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
SUMS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}

ROWS_AT_ONCE = 4
COLUMNS_AT_ONCE = 8
CACHE_LINE = 64
LONGEST_SOFTMAX = 1024  # rows whose joint densities stay in the nearest cache

LOG2_E = 1.0 / math.log(2.0)
LOG_2_HIGH = 6.93147180369123816490e-01
LOG_2_LOW = 1.90821492927058770002e-10
ROUNDER = 1.5 * 2.0**52
SMALLEST = -708.0
LARGEST = 709.0
HALF_ROOT_BITS = np.uint64(0x3FE6A09E667F3BCD)
TWO_52 = 2.0**52
MOST_RATIO = 300.0  # of a log of joint densities: the product of two such ratios is still a float
TWO_52_BITS = np.uint64(0x4330000000000000)


@njit(**EXACT)
def _exp_parts(x: float) -> tuple[float, float]:
    """2^k and exp(r) - 1 with x = k log 2 + r: a power from its bits, and Taylor's series on |r| < .35."""
    x = min(max(x, SMALLEST), LARGEST)
    shifted = x * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1 / 2 + r * (1 / 6)) + r2 * (1 / 24 + r * (1 / 120))
    middle = (1 / 720 + r * (1 / 5040)) + r2 * (1 / 40320 + r * (1 / 362880))
    high = (1 / 3628800 + r * (1 / 39916800)) + r2 * (1 / 479001600 + r * (1 / 6227020800))
    power = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return power, r + r2 * (low + r4 * (middle + r4 * high))


@njit(**EXACT)
def exp(x: float) -> float:
    """The exponential of x <= 709; nil below -708."""
    power, rest = _exp_parts(x)
    return 0.0 if x < SMALLEST else power + power * rest


@njit(**EXACT)
def log(x: float) -> float:
    """The logarithm of x >= 1: 2 artanh of (m - 1)/(m + 1), with m the mantissa nearest one."""
    bits = np.float64(x).view(np.uint64)
    k = np.uint64((bits - HALF_ROOT_BITS) >> np.uint64(52))
    m = np.uint64(bits - np.uint64(k << np.uint64(52))).view(np.float64)
    exponent = np.uint64(k | TWO_52_BITS).view(np.float64) - TWO_52
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    s4 = s2 * s2
    low = (1 / 3 + s2 * (1 / 5)) + s4 * (1 / 7 + s2 * (1 / 9))
    high = (1 / 11 + s2 * (1 / 13)) + s4 * ((1 / 15 + s2 * (1 / 17)) + s4 * (1 / 19 + s2 * (1 / 21)))
    return exponent * LOG_2 + 2.0 * (s + s * s2 * (low + s4 * s4 * high))


@njit(**EXACT)
def tanh_decay(z: float) -> tuple[float, float]:
    """``tanh z`` and ``1 + exp(-2|z|)``, both to full relative precision."""
    power, rest = _exp_parts(-2.0 * abs(z))
    less = power * rest + (power - 1.0)
    return math.copysign(less / (2.0 + less), z), 2.0 + less


def _prefetch(_typing: Any, X: Any, byte: Any) -> Any:
    """Ask for the cache line at ``byte`` of X without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.gep(builder.bitcast(data, cgutils.voidptr_t), [args[1]])
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(prefetch, [address, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(X, byte), generate


_fetch: Any = intrinsic(_prefetch)


@njit(**EXACT)
def _fetch_rows(X: Any, d: int, first: int, rows: int) -> None:
    for i in range(first, min(first + rows, X.shape[0])):
        begin = i * X.shape[1] * X.itemsize
        for byte in range(begin, begin + d * X.itemsize, CACHE_LINE):
            _fetch(X, byte)


@njit(**SUMS)
def _dense_forward(X: Any, first: int, m: int, d: int, P: Array, U: Array) -> None:
    """``U[:, :m] = P [X 1]'`` for m rows.

    One row after the other for the first column of P, or two: memory is read fastest in its own order. The tile is at
    hand for the others, four rows and two columns at a time; its last row is repeated to make up four, for which U has
    room.
    """
    columns = P.shape[0]
    p = P[0]
    if columns % 2:
        for i in range(m):
            x = X[first + i]
            a = p[d]
            for j in range(d):
                a += x[j] * p[j]
            U[0, i] = a
    else:
        q = P[1]
        for i in range(m):
            x = X[first + i]
            a = p[d]
            b = q[d]
            for j in range(d):
                a += x[j] * p[j]
                b += x[j] * q[j]
            U[0, i] = a
            U[1, i] = b
    if columns <= 2:
        return
    last = first + m - 1
    for i in range(0, m, ROWS_AT_ONCE):
        x0 = X[first + i]
        x1 = X[min(first + i + 1, last)]
        x2 = X[min(first + i + 2, last)]
        x3 = X[min(first + i + 3, last)]
        for c in range(2 - columns % 2, columns, 2):
            p = P[c]
            q = P[c + 1]
            a0 = a1 = a2 = a3 = p[d]
            b0 = b1 = b2 = b3 = q[d]
            for j in range(d):
                a0 += x0[j] * p[j]
                a1 += x1[j] * p[j]
                a2 += x2[j] * p[j]
                a3 += x3[j] * p[j]
                b0 += x0[j] * q[j]
                b1 += x1[j] * q[j]
                b2 += x2[j] * q[j]
                b3 += x3[j] * q[j]
            U[c, i] = a0
            U[c, i + 1] = a1
            U[c, i + 2] = a2
            U[c, i + 3] = a3
            U[c + 1, i] = b0
            U[c + 1, i + 1] = b1
            U[c + 1, i + 2] = b2
            U[c + 1, i + 3] = b3


@njit(**SUMS)
def _dense_backward(X: Any, first: int, m: int, d: int, W: Array, H: Array) -> None:
    """``H += W [X 1]`` for m rows, four rows and two columns at a time; asks for a quarter of the next tile.

    The last row is repeated to make up four, and W cleared behind the tile's end.
    """
    last = first + m - 1
    columns = W.shape[0]
    for c in range(columns):
        row = W[c]
        total = 0.0
        for i in range(m):
            total += row[i]
        H[c, d] += total
        for i in range(m, m + ROWS_AT_ONCE):
            row[i] = 0.0
    for i in range(0, m, ROWS_AT_ONCE):
        _fetch_rows(X, d, first + m + i // ROWS_AT_ONCE, 1)
        x0 = X[first + i]
        x1 = X[min(first + i + 1, last)]
        x2 = X[min(first + i + 2, last)]
        x3 = X[min(first + i + 3, last)]
        for c in range(0, columns - 1, 2):
            g = H[c]
            h = H[c + 1]
            a0, a1, a2, a3 = W[c, i], W[c, i + 1], W[c, i + 2], W[c, i + 3]
            b0, b1, b2, b3 = W[c + 1, i], W[c + 1, i + 1], W[c + 1, i + 2], W[c + 1, i + 3]
            for j in range(d):
                g[j] += (x0[j] * a0 + x1[j] * a1) + (x2[j] * a2 + x3[j] * a3)
                h[j] += (x0[j] * b0 + x1[j] * b1) + (x2[j] * b2 + x3[j] * b3)
        if columns % 2:
            c = columns - 1
            g = H[c]
            a0, a1, a2, a3 = W[c, i], W[c, i + 1], W[c, i + 2], W[c, i + 3]
            for j in range(d):
                g[j] += (x0[j] * a0 + x1[j] * a1) + (x2[j] * a2 + x3[j] * a3)


@njit(**SUMS)
def _columns_forward(X: Any, first: int, m: int, d: int, P: Array, U: Array) -> None:
    """``U[:, :m] = P [X 1]'`` for m rows that lie by columns, eight columns at a time."""
    (T,) = X
    last = first + m
    for c in range(P.shape[0]):
        u, constant = U[c], P[c, d]
        for i in range(m):
            u[i] = constant
    whole = d - d % COLUMNS_AT_ONCE
    for j in range(0, whole, COLUMNS_AT_ONCE):
        x0, x1, x2, x3 = T[j, first:last], T[j + 1, first:last], T[j + 2, first:last], T[j + 3, first:last]
        x4, x5, x6, x7 = T[j + 4, first:last], T[j + 5, first:last], T[j + 6, first:last], T[j + 7, first:last]
        for c in range(P.shape[0]):
            u = U[c]
            p0, p1, p2, p3 = P[c, j], P[c, j + 1], P[c, j + 2], P[c, j + 3]
            p4, p5, p6, p7 = P[c, j + 4], P[c, j + 5], P[c, j + 6], P[c, j + 7]
            for i in range(m):
                low = (x0[i] * p0 + x1[i] * p1) + (x2[i] * p2 + x3[i] * p3)
                high = (x4[i] * p4 + x5[i] * p5) + (x6[i] * p6 + x7[i] * p7)
                u[i] += low + high
    for j in range(whole, d):
        x = T[j, first:last]
        for c in range(P.shape[0]):
            u, p = U[c], P[c, j]
            for i in range(m):
                u[i] += x[i] * p


@njit(**SUMS)
def _columns_backward(X: Any, first: int, m: int, d: int, W: Array, H: Array) -> None:
    """``H += W [X 1]`` for m rows that lie by columns, eight columns at a time."""
    (T,) = X
    last = first + m
    for c in range(W.shape[0]):
        w, total = W[c], 0.0
        for i in range(m):
            total += w[i]
        H[c, d] += total
    whole = d - d % COLUMNS_AT_ONCE
    for j in range(0, whole, COLUMNS_AT_ONCE):
        x0, x1, x2, x3 = T[j, first:last], T[j + 1, first:last], T[j + 2, first:last], T[j + 3, first:last]
        x4, x5, x6, x7 = T[j + 4, first:last], T[j + 5, first:last], T[j + 6, first:last], T[j + 7, first:last]
        for c in range(W.shape[0]):
            w = W[c]
            h0 = h1 = h2 = h3 = h4 = h5 = h6 = h7 = 0.0
            for i in range(m):
                h0 += x0[i] * w[i]
                h1 += x1[i] * w[i]
                h2 += x2[i] * w[i]
                h3 += x3[i] * w[i]
                h4 += x4[i] * w[i]
                h5 += x5[i] * w[i]
                h6 += x6[i] * w[i]
                h7 += x7[i] * w[i]
            H[c, j] += h0
            H[c, j + 1] += h1
            H[c, j + 2] += h2
            H[c, j + 3] += h3
            H[c, j + 4] += h4
            H[c, j + 5] += h5
            H[c, j + 6] += h6
            H[c, j + 7] += h7
    for j in range(whole, d):
        x = T[j, first:last]
        for c in range(W.shape[0]):
            w, h = W[c], 0.0
            for i in range(m):
                h += x[i] * w[i]
            H[c, j] += h


@njit(**SUMS)
def _sparse_forward(X: Any, first: int, m: int, d: int, P: Array, U: Array) -> None:
    """``U[:, :m] = P [X 1]'`` for m rows."""
    indptr, indices, data = X
    columns = P.shape[0]
    for i in range(m):
        begin, end = indptr[first + i], indptr[first + i + 1]
        if columns == 1:
            total = P[0, d]
            for e in range(begin, end):
                total += P[0, indices[e]] * data[e]
            U[0, i] = total
            continue
        for c in range(columns):
            U[c, i] = P[c, d]
        for e in range(begin, end):
            for c in range(columns):
                U[c, i] += P[c, indices[e]] * data[e]


@njit(**SUMS)
def _sparse_backward(X: Any, first: int, m: int, d: int, W: Array, H: Array) -> None:
    """``H += W [X 1]`` for m rows."""
    indptr, indices, data = X
    columns = W.shape[0]
    for i in range(m):
        for c in range(columns):
            H[c, d] += W[c, i]
        for e in range(indptr[first + i], indptr[first + i + 1]):
            for c in range(columns):
                H[c, indices[e]] += W[c, i] * data[e]


def _forward(X: Any, first: int, m: int, d: int, P: Array, U: Array) -> None:
    """The products of m rows, by rows, by columns or sparse: decided when a loop is compiled."""


def _backward(X: Any, first: int, m: int, d: int, W: Array, H: Array) -> None:
    """A tile's share of the gradients, in the same way."""


@overload(_forward, jit_options=SUMS, strict=False)
def _choose_forward(X: Any, first: int, m: int, d: int, P: Array, U: Array) -> Any:
    if isinstance(X, types.BaseTuple) and len(X) == 1:
        return lambda X, first, m, d, P, U: _columns_forward(X, first, m, d, P, U)
    if isinstance(X, types.BaseTuple):
        return lambda X, first, m, d, P, U: _sparse_forward(X, first, m, d, P, U)
    return lambda X, first, m, d, P, U: _dense_forward(X, first, m, d, P, U)


@overload(_backward, jit_options=SUMS, strict=False)
def _choose_backward(X: Any, first: int, m: int, d: int, W: Array, H: Array) -> Any:
    if isinstance(X, types.BaseTuple) and len(X) == 1:
        return lambda X, first, m, d, W, H: _columns_backward(X, first, m, d, W, H)
    if isinstance(X, types.BaseTuple):
        return lambda X, first, m, d, W, H: _sparse_backward(X, first, m, d, W, H)
    return lambda X, first, m, d, W, H: _dense_backward(X, first, m, d, W, H)


@njit(cache=True, **SUMS)
def sparse_gram(X: Any, w: Array, G: Array) -> None:
    """``G += X' diag(w) X`` of sparse rows whose entries are in the order of their columns."""
    indptr, indices, data = X
    for i in range(w.shape[0]):
        begin, end = indptr[i], indptr[i + 1]
        for e in range(begin, end):
            share = w[i] * data[e]
            row = G[indices[e]]
            for f in range(e, end):
                row[indices[f]] += share * data[f]
    for a in range(G.shape[0]):
        for b in range(a):
            G[a, b] = G[b, a]


@njit(**EXACT)
def _tile_end(first: int, tile: int, n: int, starts: Integers, group: int) -> tuple[int, int]:
    """Where the tile that begins at row ``first`` ends, and the group that begins there."""
    groups = starts.shape[0]
    if groups == 0:
        return min(first + tile, n), 0
    group += 1
    while group < groups and (starts[group + 1] if group + 1 < groups else n) - first <= tile:
        group += 1
    return (starts[group] if group < groups else n), group


@njit(**SUMS)
def _load(
    y: Array, w: Array, starts: Integers, scale: float, first: int, m: int, group: int, units: int,
    r: Array, v: Array, count: Array, unit: Integers,
) -> None:  # fmt: skip
    """A tile's ``y / scale`` and weights, how often each unit counts, and each row's unit."""
    for i in range(m):
        r[i] = y[first + i] / scale
        v[i] = w[first + i]
    if starts.shape[0] == 0:
        for i in range(m):
            count[i] = v[i]
        return
    for g in range(units):
        count[g] = 0.0
    g = 0
    for i in range(m):
        if group + g + 1 < starts.shape[0] and starts[group + g + 1] <= first + i:
            g += 1
        unit[i] = g
        count[g] += v[i]
    for g in range(units):
        count[g] = 1.0 if count[g] > 0.0 else 0.0


@njit(**SUMS)
def _gather(a: Array, b: Array, v: Array, m: int, grouped: bool, units: int, unit: Integers, out: Array) -> None:
    """``a b`` per unit: the product itself, or its weighted sum over the group."""
    if not grouped:
        for i in range(m):
            out[i] = a[i] * b[i]
        return
    for g in range(units):
        out[g] = 0.0
    for i in range(m):
        out[unit[i]] += v[i] * (a[i] * b[i])


@njit(**SUMS)
def _to_rows(values: Array, m: int, unit: Integers, out: Array) -> None:
    """Each unit's value for each of its rows."""
    for i in range(m):
        out[i] = values[unit[i]]


@njit(**SUMS)
def _tanh_log_cosh(z: Array, count: Array, units: int, t: Array) -> float:
    """``t = tanh z``, and the sum of log cosh z over the units."""
    total = 0.0
    for i in range(units):
        t[i], decay = tanh_decay(z[i])
        total += count[i] * (abs(z[i]) + (log(decay) - LOG_2))
    return total


@njit(cache=True, **SUMS)
def log_cosh_sums(z: Array, factors: Array, count: Array, sums: Array) -> None:
    """The sums over units of log cosh(factor z), for each factor."""
    for place in range(factors.shape[0]):
        factor, total = factors[place], 0.0
        for i in range(z.shape[0]):
            size = abs(factor * z[i])
            _, decay = tanh_decay(size)
            total += count[i] * (size + (log(decay) - LOG_2))
        sums[place] = total


@njit(cache=True, **SUMS)
def symmetric_score(
    X: Any, d: int, y: Array, w: Array, starts: Integers, P: Array, s2: Array, less: float,
    tile: int, U: Array, W: Array, S: Array, unit: Integers, H: Array, sums: Array,
) -> None:  # fmt: skip
    """The sums of ``SymmetricScore`` at several states, a row of P each; one more row is a regression to take off y.

    With ``less`` = 1 those of ``SymmetricResiduals``, where w u is taken off w t y.

    ``sums``, a row for each state: log cosh, missing, missing along, w t y u, w u^2, w y^2, w.
    """
    n, states = y.shape[0], s2.shape[0]
    grouped = starts.shape[0] > 0
    r, v, count, q = S[0], S[1], S[2], S[4]
    first = group = 0
    while first < n:
        last, next_group = _tile_end(first, tile, n, starts, group)
        m = last - first
        units = next_group - group if grouped else m
        _forward(X, first, m, d, P, U)
        _load(y, w, starts, 1.0, first, m, group, units, r, v, count, unit)
        if P.shape[0] > states:
            for i in range(m):
                r[i] -= U[states, i]
        _gather(r, r, v, m, grouped, units, unit, q)
        yy = total = 0.0
        for i in range(m):
            yy += v[i] * (r[i] * r[i])
            total += v[i]
        for state in range(states):
            u, out, z, t, variance = U[state], W[state], S[3], S[5], s2[state]
            _gather(r, u, v, m, grouped, units, unit, z)
            for i in range(units):
                z[i] /= variance
            sums[state, 0] += _tanh_log_cosh(z, count, units, t)
            missing = along = 0.0
            for i in range(units):
                lost = count[i] * (1.0 - t[i] * t[i])
                missing += lost * q[i]
                along += lost * (z[i] * z[i])
            if grouped:
                _to_rows(t, m, unit, z)
                t = z
            tyu = uu = 0.0
            for i in range(m):
                share = v[i] * t[i] * r[i]
                out[i] = share - less * (v[i] * u[i])
                tyu += share * u[i]
                uu += v[i] * (u[i] * u[i])
            sums[state, 1] += missing / variance
            sums[state, 2] += along * variance
            sums[state, 3] += tyu
            sums[state, 4] += uu
            sums[state, 5] += yy
            sums[state, 6] += total
        _backward(X, first, m, d, W, H)
        first, group = last, next_group


@njit(**SUMS)
def _expected_log_cosh(
    p: Array, s: Array, count: Array, units: int, points: Array, shares: Array, T: Array, D: Array
) -> float:
    """T = E tanh and D = E[e tanh] at p + s e, and the sum over the units of E log cosh.

    ``points`` are the nodes that are not negative and ``shares`` their weights: e and -e go together, so
    that one logarithm serves both.
    """
    for i in range(units):
        T[i] = 0.0
        D[i] = 0.0
    total = 0.0
    for node in range(points.shape[0]):
        e, share = points[node], shares[node]
        for i in range(units):
            over = p[i] + s[i] * e
            under = p[i] - s[i] * e
            t_over, decay_over = tanh_decay(over)
            t_under, decay_under = tanh_decay(under)
            T[i] += share * (t_over + t_under)
            D[i] += (share * e) * (t_over - t_under)
            total += (share * count[i]) * (abs(over) + abs(under) + (log(decay_over * decay_under) - 2.0 * LOG_2))
    return total


@njit(cache=True, **SUMS)
def symmetric_minimax(
    X: Any, d: int, y: Array, w: Array, starts: Integers, P: Array, s2: float, scale: float,
    points: Array, shares: Array,
    tile: int, U: Array, W: Array, S: Array, unit: Integers, H: Array, sums: Array,
) -> None:  # fmt: skip
    """The sums of ``SymmetricMinimax``. Row 3 of P, if there is one, is the regression to take off y.

    ``sums``: the objective, log cosh, w t y u.
    """
    n = y.shape[0]
    grouped = starts.shape[0] > 0
    sigma = math.sqrt(s2)
    u, r, v, count = U[0], S[0], S[1], S[2]
    first = group = 0
    while first < n:
        last, next_group = _tile_end(first, tile, n, starts, group)
        m = last - first
        units = next_group - group if grouped else m
        _forward(X, first, m, d, P, U)
        _load(y, w, starts, scale, first, m, group, units, r, v, count, unit)
        if P.shape[0] > 3:
            for i in range(m):
                r[i] -= U[3, i] / scale
        for half in range(3):
            a, z, t, p, s, T, D = U[half], S[3], S[4], S[5], S[6], S[7], S[8]
            sign = 1.0 if half == 1 else -1.0
            _gather(r, a, v, m, grouped, units, unit, z)
            if half == 0:
                for i in range(units):
                    z[i] /= s2
            value = _tanh_log_cosh(z, count, units, t)
            if grouped:
                _to_rows(t, m, unit, z)
                t, z = z, t
            if half == 0:
                sums[1] += value
                tyu = 0.0
                for i in range(m):
                    tyu += v[i] * t[i] * (r[i] * u[i])
                sums[2] += tyu
                for i in range(m):
                    W[0, i] = 0.0
                continue
            _gather(u, a, v, m, grouped, units, unit, p)
            _gather(a, a, v, m, grouped, units, unit, s)
            for i in range(units):
                s[i] = sigma * math.sqrt(s[i])
            value -= _expected_log_cosh(p, s, count, units, points, shares, T, D)
            sums[0] += sign * value
            for i in range(units):
                D[i] *= s2 / (s[i] if s[i] > 0.0 else 1.0)
            if grouped:
                _to_rows(T, m, unit, p)
                _to_rows(D, m, unit, s)
                T, D = p, s
            down, up = W[0], W[half]
            for i in range(m):
                down[i] += (sign * v[i]) * (a[i] * T[i])
            for i in range(m):
                up[i] = (sign * v[i]) * (r[i] * t[i] - (u[i] * T[i] + a[i] * D[i]))
        _backward(X, first, m, d, W, H)
        first, group = last, next_group


@njit(cache=True, **SUMS)
def symmetric_minimax_drawn(
    X: Any, d: int, y: Array, w: Array, starts: Integers, P: Array, s2: float, scale: float, noise: Array,
    tile: int, U: Array, W: Array, S: Array, unit: Integers, H: Array, sums: Array,
) -> None:  # fmt: skip
    """``symmetric_minimax`` with the expectation taken at one drawn response per row, u + sigma noise."""
    n = y.shape[0]
    grouped = starts.shape[0] > 0
    sigma = math.sqrt(s2)
    u, r, v, count, made = U[0], S[0], S[1], S[2], S[3]
    first = group = 0
    while first < n:
        last, next_group = _tile_end(first, tile, n, starts, group)
        m = last - first
        units = next_group - group if grouped else m
        _forward(X, first, m, d, P, U)
        _load(y, w, starts, scale, first, m, group, units, r, v, count, unit)
        if P.shape[0] > 3:
            for i in range(m):
                r[i] -= U[3, i] / scale
        for i in range(m):
            made[i] = u[i] + sigma * noise[first + i]
            W[0, i] = 0.0
        for half in range(3):
            a, z, t, p, T = U[half], S[4], S[5], S[6], S[7]
            _gather(r, a, v, m, grouped, units, unit, z)
            if half == 0:
                for i in range(units):
                    z[i] /= s2
            value = _tanh_log_cosh(z, count, units, t)
            if grouped:
                _to_rows(t, m, unit, z)
                t, z = z, t
            if half == 0:
                sums[1] += value
                tyu = 0.0
                for i in range(m):
                    tyu += v[i] * t[i] * (r[i] * u[i])
                sums[2] += tyu
                continue
            sign = 1.0 if half == 1 else -1.0
            _gather(made, a, v, m, grouped, units, unit, p)
            sums[0] += sign * (value - _tanh_log_cosh(p, count, units, T))
            if grouped:
                _to_rows(T, m, unit, p)
                T, p = p, T
            down, up = W[0], W[half]
            for i in range(m):
                down[i] += (sign * v[i]) * (a[i] * T[i])
            for i in range(m):
                up[i] = (sign * v[i]) * (r[i] * t[i] - made[i] * T[i])
        _backward(X, first, m, d, W, H)
        first, group = last, next_group


@njit(**SUMS)
def _posteriors(
    E: Array, log_weights: Array, s2: Array, v: Array, count: Array, m: int, grouped: bool, units: int,
    unit: Integers, J: Array, top: Array, norm: Array, squares: Array, mass: Array, expected: Array,
) -> float:  # fmt: skip
    """Residuals E (k, rows) times weighted responsibilities, left in J; the log-likelihood.

    Adds w r e^2, w r and the expected number of units of each component to the last three arrays.
    """
    k = log_weights.shape[0]
    for j in range(k):
        e, joint = E[j], J[j]
        _gather(e, e, v, m, grouped, units, unit, joint)
        slope = -0.5 / s2[j]
        constant = 0.5 * (LOG_2PI + math.log(s2[j]))
        if grouped:
            for g in range(units):
                joint[g] = joint[g] * slope + log_weights[j]
            for i in range(m):
                joint[unit[i]] -= v[i] * constant
        else:
            for i in range(m):
                joint[i] = joint[i] * slope + (log_weights[j] - constant)
        if j == 0:
            for i in range(units):
                top[i] = joint[i]
        else:
            for i in range(units):
                top[i] = max(top[i], joint[i])
    for i in range(units):
        norm[i] = 0.0
    for j in range(k):
        joint = J[j]
        for i in range(units):
            joint[i] = exp(joint[i] - top[i])
            norm[i] += joint[i]
    log_likelihood = 0.0
    for i in range(units):
        log_likelihood += count[i] * (top[i] + log(norm[i]))
        norm[i] = 1.0 / norm[i]
    for j in range(k):
        e, joint = E[j], J[j]
        total = 0.0
        for i in range(units):
            joint[i] *= norm[i]
            total += count[i] * joint[i]
        expected[j] += total
        if grouped:
            _to_rows(joint, m, unit, top)
            for i in range(m):
                joint[i] = top[i]
        total = square = 0.0
        for i in range(m):
            share = v[i] * joint[i]
            total += share
            square += share * (e[i] * e[i])
            joint[i] = share * e[i]
        mass[j] += total
        squares[j] += square
    return log_likelihood


@njit(cache=True, **SUMS)
def mixture_score(
    X: Any, d: int, y: Array, w: Array, starts: Integers, P: Array, log_weights: Array, s2: Array,
    tile: int, U: Array, W: Array, S: Array, unit: Integers,
    H: Array, squares: Array, mass: Array, expected: Array, sums: Array,
) -> None:  # fmt: skip
    """The sums of ``MixtureScore``, without the Grams. ``sums``: the log-likelihood."""
    n = y.shape[0]
    grouped = starts.shape[0] > 0
    r, v, count, top, norm = S[0], S[1], S[2], S[3], S[4]
    first = group = 0
    while first < n:
        last, next_group = _tile_end(first, tile, n, starts, group)
        m = last - first
        units = next_group - group if grouped else m
        _forward(X, first, m, d, P, U)
        _load(y, w, starts, 1.0, first, m, group, units, r, v, count, unit)
        for j in range(P.shape[0]):
            e = U[j]
            for i in range(m):
                e[i] = r[i] - e[i]
        sums[0] += _posteriors(
            U, log_weights, s2, v, count, m, grouped, units, unit, W, top, norm, squares, mass, expected
        )
        _backward(X, first, m, d, W, H)
        first, group = last, next_group


@njit(**SUMS)
def _discriminate(
    y: Array, U: Array, W: Array, near: int, far: int, log_weights: Array, tau2: float, share: float, v: Array,
    m: int, J: Array, top: Array, norm: Array,
) -> float:  # fmt: skip
    """``share`` times one half of psi at y: its value, and its slopes added to W.

    Rows ``near`` and on of U are the half's x'gamma; row ``far`` of W takes minus the slope in y.
    """
    k = log_weights.shape[0]
    slope = -0.5 / tau2
    for j in range(k):
        g, joint = U[near + j], J[j]
        weight = log_weights[j]
        for i in range(m):
            gap = y[i] - g[i]
            joint[i] = gap * gap * slope + weight
        if j == 0:
            for i in range(m):
                top[i] = joint[i]
        else:
            for i in range(m):
                top[i] = max(top[i], joint[i])
    for i in range(m):
        norm[i] = 0.0
    for j in range(k):
        joint = J[j]
        for i in range(m):
            joint[i] = exp(joint[i] - top[i])
            norm[i] += joint[i]
    value = 0.0
    for i in range(m):
        value += v[i] * (top[i] + log(norm[i]))
        norm[i] = v[i] * (share / tau2) / norm[i]
    total = W[far]
    for j in range(k):
        g, joint, pull = U[near + j], J[j], W[near + j]
        for i in range(m):
            joint[i] *= (y[i] - g[i]) * norm[i]
        for i in range(m):
            pull[i] += joint[i]
            total[i] += joint[i]
    return share * value


@njit(**SUMS)
def _tilts(U: Array, near: int, log_weights: Array, tau2: float, m: int, slopes: Array, offsets: Array) -> float:
    """log of component j's joint density less that of the first, ``offsets + y slopes`` for j = 1, ...; max |slope|."""
    first = U[near]
    largest = 0.0
    for j in range(log_weights.shape[0] - 1):
        g, slope, offset = U[near + j + 1], slopes[j], offsets[j]
        weight = log_weights[j + 1] - log_weights[0]
        for i in range(m):
            slope[i] = (g[i] - first[i]) / tau2
        for i in range(m):
            offset[i] = weight - 0.5 * slope[i] * (g[i] + first[i])
        for i in range(m):
            largest = max(largest, abs(slope[i]))
    return largest


@njit(**SUMS)
def _powers(slopes: Array, sigma: float, points: Array, k: int, m: int, up: Array, down: Array) -> None:
    """exp(+-sigma point slope) for each node that is not negative, and each component but the first."""
    for node in range(points.shape[0]):
        offset = sigma * points[node]
        for j in range(k - 1):
            slope, e, f = slopes[j], up[node * (k - 1) + j], down[node * (k - 1) + j]
            for i in range(m):
                e[i] = exp(offset * slope[i])
            for i in range(m):
                f[i] = 1.0 / e[i]


@njit(**SUMS)
def _steepest(mean: Array, slopes: Array, offsets: Array, k: int, m: int, at: Array) -> float:
    """``at = offsets + mean slopes``, and its largest size."""
    largest = 0.0
    for j in range(k - 1):
        slope, offset, there = slopes[j], offsets[j], at[j]
        for i in range(m):
            there[i] = offset[i] + mean[i] * slope[i]
        for i in range(m):
            largest = max(largest, abs(there[i]))
    return largest


@njit(**SUMS)
def _expect(
    mean: Array, U: Array, W: Array, near: int, far: int, log_weights: Array, tau2: float, share: float, sigma: float,
    points: Array, shares: Array, v: Array, m: int, at: Array, up: Array, down: Array, T: Array, Q: Array,
    rest: Array, moved: Array,
) -> float:  # fmt: skip
    """``share`` times the expectation of one half of psi over y = mean + sigma z: like :func:`_discriminate`.

    Nodes come in pairs +-z. Ratios of the joint densities to the first one's are products of ``exp(at)``, which ``at``
    is replaced by, and of ``up`` and ``down``; ``T`` and ``Q`` take them, ``rest`` and ``moved`` (a row for each
    component) the sums of responsibilities and of z times these.
    """
    k = log_weights.shape[0]
    plus, minus, logs = rest[k], rest[k + 1], rest[k + 2]
    for j in range(k - 1):
        a = at[j]
        for i in range(m):
            a[i] = exp(a[i])
    for j in range(k):
        for i in range(m):
            rest[j, i] = 0.0
        for i in range(m):
            moved[j, i] = 0.0
    for i in range(m):
        logs[i] = 0.0
    total = second = 0.0
    for node in range(points.shape[0]):
        point, q = points[node], shares[node]
        total += 2.0 * q
        second += 2.0 * q * point * point
        for i in range(m):
            plus[i] = 1.0
        for i in range(m):
            minus[i] = 1.0
        for j in range(k - 1):
            a, e, f, t, b = at[j], up[node * (k - 1) + j], down[node * (k - 1) + j], T[j], Q[j]
            for i in range(m):
                t[i] = a[i] * e[i]
                plus[i] += t[i]
            for i in range(m):
                b[i] = a[i] * f[i]
                minus[i] += b[i]
        for i in range(m):
            both = plus[i] * minus[i]
            logs[i] += q * log(both)
            inverse = q / both
            kept = plus[i]
            plus[i] = minus[i] * inverse
            minus[i] = kept * inverse
        r, z = rest[0], moved[0]
        for i in range(m):
            r[i] += plus[i] + minus[i]
        for i in range(m):
            z[i] += point * (plus[i] - minus[i])
        for j in range(k - 1):
            t, b, r, z = T[j], Q[j], rest[j + 1], moved[j + 1]
            for i in range(m):
                r[i] += t[i] * plus[i] + b[i] * minus[i]
            for i in range(m):
                z[i] += point * (t[i] * plus[i] - b[i] * minus[i])
    first = U[near]
    half = 0.5 / tau2
    value = 0.0
    for i in range(m):
        gap = mean[i] - first[i]
        value += v[i] * (total * (log_weights[0] - half * gap * gap) - half * sigma * sigma * second + logs[i])
    factor = share / tau2
    pulled = W[far]
    for j in range(k):
        g, r, z, pull = U[near + j], rest[j], moved[j], W[near + j]
        for i in range(m):
            r[i] = factor * v[i] * ((mean[i] - g[i]) * r[i] + sigma * z[i])
        for i in range(m):
            pull[i] += r[i]
        for i in range(m):
            pulled[i] += r[i]
    return share * value


@njit(cache=True, **SUMS)
def minimax(
    X: Any, d: int, y: Array, w: Array, starts: Integers, P: Array, log_weights: Array, s2: Array, tau2: float,
    scale: float, points: Array, shares: Array,
    tile: int, U: Array, W: Array, S: Array, unit: Integers,
    H: Array, squares: Array, mass: Array, expected: Array, sums: Array,
) -> None:  # fmt: skip
    """The sums of ``Minimax`` for rows without groups. W has one row more than P, for what is not wanted.

    ``points`` and ``shares`` are of the nodes that are not negative. ``sums``: the objective, the log-likelihood.
    Where densities are so far apart that their ratios leave the range of floats, each node is taken by itself.
    """
    n = y.shape[0]
    k = log_weights.shape[0]
    nodes = points.shape[0]
    r, v, count, top, norm, Y, J = S[0], S[1], S[2], S[3], S[4], S[5], S[6 : 6 + k]
    room = S[6 + k :]
    slopes, offsets, at, T, Q = room[:k], room[k : 2 * k], room[2 * k : 3 * k], room[3 * k : 4 * k], room[4 * k : 5 * k]
    rest, moved = room[5 * k : 6 * k + 3], room[6 * k + 3 : 7 * k + 3]
    up = room[7 * k + 3 : 7 * k + 3 + nodes * k]
    down = room[7 * k + 3 + nodes * k :]
    farthest = points[nodes - 1]
    for first in range(0, n, tile):
        m = min(tile, n - first)
        _forward(X, first, m, d, P, U)
        _load(y, w, starts, scale, first, m, 0, m, r, v, count, unit)
        for c in range(3 * k + 1):
            for i in range(m):
                W[c, i] = 0.0
        for half in range(2):
            sign = 1.0 - 2.0 * half
            near = k + half * k
            sums[0] += _discriminate(r, U, W, near, 3 * k, log_weights, tau2, sign, v, m, J, top, norm)
            steep = _tilts(U, near, log_weights, tau2, m, slopes, offsets)
            powered = -1.0
            for j in range(k):
                mean = U[j]
                sigma = math.sqrt(s2[j])
                share = -sign * math.exp(log_weights[j])
                reach = steep * sigma * farthest
                if reach + _steepest(mean, slopes, offsets, k, m, at) < MOST_RATIO:
                    if sigma != powered:
                        _powers(slopes, sigma, points, k, m, up, down)
                        powered = sigma
                    sums[0] += _expect(
                        mean, U, W, near, j, log_weights, tau2, share, sigma, points, shares, v, m, at, up, down,
                        T, Q, rest, moved,
                    )  # fmt: skip
                    continue
                for side in range(2):
                    for node in range(nodes):
                        offset = sigma * points[node] * (1.0 - 2.0 * side)
                        for i in range(m):
                            Y[i] = mean[i] + offset
                        part = share * shares[node]
                        sums[0] += _discriminate(Y, U, W, near, j, log_weights, tau2, part, v, m, J, top, norm)
        for j in range(k):
            e = U[j]
            for i in range(m):
                e[i] = r[i] - e[i]
        sums[1] += _posteriors(U, log_weights, s2, v, count, m, False, m, unit, J, top, norm, squares, mass, expected)
        _backward(X, first, m, d, W[: 3 * k], H)


@njit(cache=True, **SUMS)
def candidate_shares(
    Z: Array, y: Array, coef: Array, factors: Array, constants: Array, room: Array, R: Array, values: Array
) -> None:
    """Responsibilities R (k, s, n) of s candidates, and the log-likelihood of each: ``values``.

    Component j of candidate c has log-density factors[j, c] (y - coef[j, c] z)^2 + constants[j, c]; Z is (q, n), a row
    for each column of the features. ``room`` (2, tile) says how many rows are at hand at once.
    """
    k, s, q = coef.shape
    n = y.shape[0]
    tile = room.shape[1]
    for c in range(s):
        values[c] = 0.0
        for first in range(0, n, tile):
            last = min(first + tile, n)
            m = last - first
            top, norm, r = room[0, :m], room[1, :m], y[first:last]
            for i in range(m):
                top[i] = -np.inf
                norm[i] = 0.0
            for j in range(k):
                joint, factor, constant = R[j, c, first:last], factors[j, c], constants[j, c]
                for i in range(m):
                    joint[i] = r[i]
                for a in range(q):
                    z, b = Z[a, first:last], coef[j, c, a]
                    for i in range(m):
                        joint[i] -= b * z[i]
                for i in range(m):
                    joint[i] = joint[i] * joint[i] * factor + constant
                    top[i] = max(top[i], joint[i])
            for j in range(k):
                joint = R[j, c, first:last]
                for i in range(m):
                    joint[i] = exp(joint[i] - top[i])
                    norm[i] += joint[i]
            for i in range(m):
                values[c] += top[i] + log(norm[i])
                norm[i] = 1.0 / norm[i]
            for j in range(k):
                joint = R[j, c, first:last]
                for i in range(m):
                    joint[i] *= norm[i]


@njit(cache=True, **SUMS)
def shares_of_log_joint(joint: Array, logs: Array) -> None:
    """Responsibilities from logarithms of weight times density (k, s, n), in their place, and of their sums (s, n).

    Rows that have no density at all have none, NaN.
    """
    k, s, n = joint.shape
    tile = LONGEST_SOFTMAX
    for c in range(s):
        for first in range(0, n, tile):
            last = min(first + tile, n)
            total = logs[c, first:last]
            norm = np.zeros(last - first)
            for i in range(last - first):
                total[i] = joint[0, c, first + i]
            for j in range(1, k):
                line = joint[j, c, first:last]
                for i in range(last - first):
                    total[i] = max(total[i], line[i])
            for j in range(k):
                line = joint[j, c, first:last]
                for i in range(last - first):
                    line[i] = exp(line[i] - total[i])
                    norm[i] += line[i]
            for i in range(last - first):
                norm[i] = norm[i] if total[i] > -np.inf else np.nan
                total[i] += log(norm[i])
                norm[i] = 1.0 / norm[i]
            for j in range(k):
                line = joint[j, c, first:last]
                for i in range(last - first):
                    line[i] *= norm[i]


@njit(cache=True, **SUMS)
def weigh_responses(counted: Array, predictor: Array, residual: Array, pulled: Array, squares: Array) -> None:
    """Responses, predictor plus residual, times their rows' weights (k, s, n); their weighted squares (k, s)."""
    k, s, n = counted.shape
    for j in range(k):
        for c in range(s):
            amount, line, rest, pull, total = counted[j, c], predictor[j, c], residual[j, c], pulled[j, c], 0.0
            for i in range(n):
                response = line[i] + rest[i]
                pull[i] = amount[i] * response
                total += pull[i] * response
            squares[j, c] = total


@njit(cache=True, **SUMS)
def poisson_terms(eta: Array, rows: Array, law: Array, terms: Array) -> None:
    """Log-density, working residual and weight of counts whose mean is exp(eta): (components, rows) each.

    ``rows`` are the counts, the logarithms of those that are not nil, and those of their factorials. ``law`` is one
    pair of numbers: how far out eta may be, and which ratios of count and mean, less 1, are above nil.
    """
    y, log_y, constant = rows[0], rows[1], rows[2]
    farthest, near = law[0, 0], law[0, 1]
    for c in range(eta.shape[0]):
        line, density, residual, weight = eta[c], terms[0, c], terms[1, c], terms[2, c]
        for i in range(eta.shape[1]):
            e = min(max(line[i], -farthest), farthest)
            mean = exp(e)
            gap = y[i] - mean
            ratio, logs = gap / mean, log_y[i] - e
            above = ratio > near
            density[i] = y[i] * e - mean - constant[i]
            residual[i] = logs if above else ratio
            weight[i] = gap / logs if above else mean


@njit(cache=True, **SUMS)
def logit_terms(eta: Array, rows: Array, law: Array, terms: Array) -> None:
    """Log-density, working residual and weight of successes whose probability's logit is eta.

    ``rows`` are the successes, the trials, and the logarithm of the ways in which they can come; ``law`` says how far
    out eta may be, and how near to nil it is taken to be.
    """
    y, trials, ways = rows[0], rows[1], rows[2]
    farthest, near = law[0, 0], law[0, 1]
    for c in range(eta.shape[0]):
        line, density, residual, weight = eta[c], terms[0, c], terms[1, c], terms[2, c]
        for i in range(eta.shape[1]):
            e = min(max(line[i], -farthest), farthest)
            t, decay = tanh_decay(0.5 * e)
            density[i] = ways[i] + y[i] * e - trials[i] * (max(e, 0.0) + log(decay))
            g = trials[i] * (abs(t) / (2.0 * abs(e)) if abs(e) > near else 0.25)
            weight[i] = g
            gap = y[i] - trials[i] * (0.5 + 0.5 * t)
            residual[i] = gap / g + (e - line[i] if abs(gap) > near * trials[i] else 0.0)


@njit(cache=True, **SUMS)
def gamma_terms(eta: Array, rows: Array, law: Array, terms: Array) -> None:
    """Log-density, working residual, weight and what is said of sigma, of amounts whose mean is exp(eta).

    ``rows`` are the amounts and their logarithms. ``law`` says how far out eta may be, which ratios less 1 are above
    nil, and for each component the shape, and the constants of log-density and squares.
    """
    y, log_y = rows[0], rows[1]
    for c in range(eta.shape[0]):
        farthest, near, shape, constant, of_squares = law[c, 0], law[c, 1], law[c, 2], law[c, 3], law[c, 4]
        line, density, residual, weight, squares = eta[c], terms[0, c], terms[1, c], terms[2, c], terms[3, c]
        for i in range(eta.shape[1]):
            e = min(max(line[i], -farthest), farthest)
            ratio, logs = y[i] * exp(-e), log_y[i] - e
            gap = ratio - 1.0
            above = gap > near
            half = gap / (2.0 + gap)
            square, series = half * half, 0.0
            for power in range(19, 1, -2):
                series = series * square + 2.0 / power
            short = half * (square * series - gap) if abs(gap) < NEAR else logs - gap  # as stirling.log_less_gap
            density[i] = shape * short + constant - log_y[i]
            residual[i] = logs if above else gap
            weight[i] = gap / logs if above else 1.0
            squares[i] = of_squares - 2.0 * short


@njit(cache=True, **SUMS)
def negative_binomial_terms(eta: Array, rows: Array, law: Array, terms: Array) -> None:
    """Log-density, working residual, weight and what is said of sigma, of counts that vary by more than Poisson's.

    ``rows`` are the counts, the logarithms of those that are not nil, those of their factorials, and each one's place
    among the different counts. ``law`` says how far out eta may be, which ratios of count and mean, less 1, are above
    nil, and for each component sigma^2, what a row says of it where all of its variance comes from it, and for every
    different count log(Gamma(size + y) / Gamma(size) / size^y) and psi(size + y) - psi(size).
    """
    y, log_y, constant, place = rows[0], rows[1], rows[2], rows[3]
    counts = (law.shape[1] - 4) // 2
    for c in range(eta.shape[0]):
        farthest, near, s2, certain = law[c, 0], law[c, 1], law[c, 2], law[c, 3]
        rising, rise = law[c, 4 : 4 + counts], law[c, 4 + counts :]
        line, density, residual, weight = eta[c], terms[0, c], terms[1, c], terms[2, c]
        squares, scale_weight = terms[3, c], terms[4, c]
        size = 1.0 / s2
        for i in range(eta.shape[1]):
            e = min(max(line[i], -farthest), farthest)
            mean = exp(e)
            gap = y[i] - mean
            ratio, logs = gap / mean, log_y[i] - e
            above = ratio > near
            spread = 1.0 + s2 * mean
            scale = log(spread)
            at = np.int64(place[i])
            residual[i] = logs if above else ratio
            weight[i] = (gap / logs if above else mean) * (s2 / spread)
            density[i] = rising[at] - constant[i] + y[i] * e - (y[i] + size) * scale
            share = s2 * mean / spread
            certainty = certain * share * share
            scale_weight[i] = certainty
            squares[i] = s2 * certainty - 2.0 * (rise[at] - scale - gap / (size + mean))
