"""The types of the arrays that everything is made of, and bits that are mixed for draws which belong to rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Sums = dict[str, Array]
Beside = Mapping[str, Array]
"""What is known of each row besides x and y, by its role: "offset" (n,), "trials" (n,) and so on."""

NOTHING_BESIDE: Beside = MappingProxyType({})


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit integers (the finaliser of splitmix64)."""
    z = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def uniform_of(numbers: Integers) -> Array:
    """Numbers between 0 and 1 that look drawn, and are the same for the same numbers."""
    return np.asarray((mix(numbers.astype(np.uint64)) >> np.uint64(11)) * 2.0**-53)


def one_hot(places: Integers, count: int) -> Array:
    """For each of some places, out of so many, a line with a 1 there and 0 elsewhere: (..., count)."""
    return np.asarray(places[..., None] == np.arange(count), dtype=np.float64)
