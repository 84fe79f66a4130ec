"""How many exact numbers may be shown before a y of few values can be solved for by who knows the columns.

Exact sums of a y whose values are few, or lie on a grid, are solved for all of them by lattices (Lagarias and Odlyzko,
1985; with blocks, Schnorr and Euchner, 1994), and a y of two values by its bounds alone, from half as many sums as
there are rows (Mangasarian and Recht, 2011).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmlr.numerics.arrays import Array
from wmlr.statistics.grain import coarsest, grain_of

DIGITS = 40.0  # bits of a number that leaves in the clear, which is rounded to 1e-12
ANYTHING = 52.0  # bits of a y that is on no grid, and that no other row has
FINEST = 2.0**-24  # of the range of y: steps of a grid that are found
OFF_GRID = 0.01  # of a step: what rounding leaves of a whole number of them
PREVIEW_ROWS = 2048  # rows that show that there is no grid
OUT_OF_REACH = 500.0  # unknowns: twice the size of blocks that are beyond anybody's means
SLACK = 1 / 128  # bits that a reduction by such blocks loses for each unknown and each other one: log2(1.0054)
CONVEX = 10.0  # a fourth of a number of 40 bits for each bit of y: half of what bounds on y need


def most_bits(X: Array, y: Array) -> float:
    """The most bits that exact numbers may say of rows before their y can be solved for.

    As many as y has: numbers that say no more leave other y that are possible. Beyond :data:`OUT_OF_REACH` unknowns
    more, by what no reduction of a lattice finds; and never more than half of what linear programming needs.
    """
    bits = bits_of(X, y)
    unknowns = min(float(len(y)), bits)
    return min(CONVEX * bits, bits + SLACK * unknowns * max(0.0, unknowns - OUT_OF_REACH))


def bits_of(X: Array, y: Array) -> float:
    """How many bits all y have together, to who knows which values are possible.

    A value that c of n rows have has log2(n / c); one on a grid, also after a change of units or where y is a whole
    number over a column, no more than log2 of the places there.
    """
    _, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = counts[place]
    bits = np.where(shared > 1, np.log2(len(y) / shared), ANYTHING)
    return float(np.minimum(bits, min(map(_grid_bits, _forms(X, y)))).sum())


def bits_of_noisy(multiplier: float) -> float:
    """The most bits of a number with noise of so many times the bound on an answer: log2(1 + SNR)/2 (Shannon, 1948)."""
    return min(DIGITS, float(np.log2(np.hypot(1.0, 1.0 / multiplier))))


def _forms(X: Array, y: Array) -> Iterator[Array]:
    """y, and y times each column that it may be a share or a rate of."""
    yield y
    for column in X.T:
        if column.min() > 0 and column.min() < column.max():
            yield y * column


def _grid_bits(y: Array) -> float:
    """log2 of the places of the grid that all y lie on; that of any number where there is none."""
    width = float(y.max() - y.min())
    steps = [_common_step(y), coarsest(grain_of(y))]
    return min(ANYTHING, *(float(np.log2(width / step + 1.0)) if step > 0 else ANYTHING for step in steps))


def _common_step(y: Array) -> float:
    """The step of which all differences of y are multiples, by Euclid's algorithm; 0 where there is none."""
    if len(y) > PREVIEW_ROWS and _common_step(y[:PREVIEW_ROWS]) == 0 and np.ptp(y[:PREVIEW_ROWS]) > 0:
        return 0.0
    apart = np.unique(y - y.min())[1:]
    if not len(apart):
        return 0.0
    rest, step = apart, float(apart[0])
    while len(rest):
        step = float(rest.min())
        rest = np.abs(rest - np.rint(rest / step) * step)
        rest = rest[rest > FINEST * apart[-1]]
    times = np.rint(apart / step)
    step = float(apart @ times / (times @ times))
    return step if np.max(np.abs(apart - times * step)) <= OFF_GRID * step else 0.0
