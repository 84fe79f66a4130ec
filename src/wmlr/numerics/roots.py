"""Roots of many functions at once, by Chandrupatla's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wmlr.numerics.arrays import Array, Integers

ROUNDS = 200  # halvings: more than floats between any two
EPS = float(np.finfo(np.float64).eps)


def roots(function: Callable[[Array, Integers], Array], low: Array, high: Array, tolerance: float) -> Array:
    """A root of each of many functions between ``low`` and ``high``, by Chandrupatla's method.

    Inverse quadratic interpolation where it is safe, halving where it is not. Where a function has the
    same sign at both ends, the end at which it is nearer to zero.

    Parameters
    ----------
    function : values at points (m, c), given the numbers (m,) of the rows they belong to; rows whose roots
        are found are left out.
    low, high : the ends (n, c).
    tolerance : how near to a root is near enough, besides rounding.
    """
    rows: Integers = np.arange(len(low))
    a, b = np.array(high, dtype=np.float64), np.array(low, dtype=np.float64)
    fa, fb = function(a, rows), function(b, rows)
    found = np.where(np.abs(fa) < np.abs(fb), a, b)
    open_ = np.sign(fa) * np.sign(fb) < 0
    share = np.full_like(a, 0.5)
    for _ in range(ROUNDS):
        left = open_.any(axis=1)
        if not left.any():
            break
        rows, open_ = rows[left], open_[left]
        a, b, fa, fb, share = (array[left] for array in (a, b, fa, fb, share))
        x = a + share * (b - a)
        fx = function(x, rows)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        found[rows] = np.where(open_, best, found[rows])
        least = (2.0 * EPS * np.abs(best) + 0.5 * tolerance) / np.maximum(np.abs(b - a), 1e-300)
        open_ &= (least <= 0.5) & (fa != 0)
        share = np.clip(_share(a, b, c, fa, fb, fc), np.minimum(least, 0.5), np.maximum(1.0 - least, 0.5))
    return found


def _share(a: Array, b: Array, c: Array, fa: Array, fb: Array, fc: Array) -> Array:
    """How far from a towards b to look next."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi * phi < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        guess = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return np.where(safe & np.isfinite(guess), guess, 0.5)
