"""Which component of one mixture is which of another."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np

from wmlr.numerics.arrays import Array, Integers

FEW = 3  # up to here all orders are looked at, and the solver need not be loaded


def cheapest_matching(costs: Array) -> Integers:
    """The column for each row of square costs, no two the same, by which their sum is least.

    Examples
    --------
    >>> cheapest_matching(np.array([[4.0, 1.0], [2.0, 3.0]])).tolist()
    [1, 0]
    """
    if len(costs) > FEW:
        from scipy.optimize import linear_sum_assignment

        return np.asarray(linear_sum_assignment(costs)[1])
    orders = _orders(len(costs))
    return np.asarray(orders[np.argmin(costs[np.arange(len(costs)), orders].sum(axis=1))])


@cache
def _orders(count: int) -> Integers:
    return np.array(list(permutations(range(count))), dtype=np.int64)
