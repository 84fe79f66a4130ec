"""How finely y was recorded, and whether many rows have a value of it in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.query import Kind, Part, Parts, Query, all_alike, unit
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Integers, Sums, mix

POWERS = tuple(range(3, -7, -1))
CLASSES = 4096
CHANCE = 6.0  # deviations of a class's count, of values that are all different
NEAR = 1e-9  # of a number: what rounding leaves of a whole one


@dataclass(frozen=True)
class Grain(Query):
    """Of each of 1000, 100, ... 1e-6: the rows, where every y of them is a multiple of it, else none."""

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"rows": Part((), unit(), Kind.COUNT), "multiples": Part((len(POWERS),), unit(), Kind.AMOUNT)}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        return grain_of(rows.y)


def grain_of(y: Array) -> Sums:
    """What :class:`Grain` answers for rows with these y."""
    counts = np.zeros(len(POWERS))
    for place in reversed(range(len(POWERS))):  # multiples of a power are multiples of the finer ones
        if not np.all(_multiples(y, POWERS[place])):
            break
        counts[place] = len(y)
    return {"rows": np.array(float(len(y))), "multiples": counts}


@dataclass(frozen=True)
class Repeats(Query):
    """How many rows have each value of y, the values scrambled into ``CLASSES`` classes; of rows in reach."""

    travels = False

    def answer(self, rows: Rows) -> Sums:
        return {"rows": np.bincount(_classes(rows.y), minlength=CLASSES).astype(float)}


def _classes(y: Array) -> Integers:
    return np.asarray(mix((y + 0.0).view(np.uint64)) % np.uint64(CLASSES), dtype=np.int64)


def has_common_value(sums: Sums) -> bool:
    """Whether a class of :class:`Repeats` holds more rows than different values would bring together by chance."""
    mean = float(sums["rows"].mean())
    return bool(sums["rows"].max() > mean + CHANCE * (np.sqrt(mean) + 1.0))


def coarsest(sums: Sums) -> float:
    """The largest power of ten of which every y is a multiple; 0 where there is none."""
    for power, count in zip(POWERS, sums["multiples"]):
        if count >= float(sums["rows"]):
            return float(10.0**power)
    return 0.0


def _multiples(y: Array, power: int) -> Array:
    units = y * 10.0**-power
    return np.asarray(np.abs(units - np.round(units)) <= NEAR * np.maximum(1.0, np.abs(units)))
