"""How finely y was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.query import Kind, Part, Parts, Query, all_alike, unit
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Sums

POWERS = tuple(range(3, -7, -1))
NEAR = 1e-9  # of a number: what rounding leaves of a whole one


@dataclass(frozen=True)
class Grain(Query):
    """Of each of 1000, 100, ... 1e-6: the rows, where every y of them is a multiple of it, else none."""

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"rows": Part((), unit(), Kind.COUNT), "multiples": Part((len(POWERS),), unit(), Kind.AMOUNT)}

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        counts = np.zeros(len(POWERS))
        for place in reversed(range(len(POWERS))):  # multiples of a power are multiples of the finer ones
            if not np.all(_multiples(rows.y, POWERS[place])):
                break
            counts[place] = len(rows)
        return {"rows": np.array(float(len(rows))), "multiples": counts}


def coarsest(sums: Sums) -> float:
    """The largest power of ten of which every y is a multiple; 0 where there is none."""
    for power, count in zip(POWERS, sums["multiples"]):
        if count >= float(sums["rows"]):
            return float(10.0**power)
    return 0.0


def _multiples(y: Array, power: int) -> Array:
    units = y * 10.0**-power
    return np.asarray(np.abs(units - np.round(units)) <= NEAR * np.maximum(1.0, np.abs(units)))
