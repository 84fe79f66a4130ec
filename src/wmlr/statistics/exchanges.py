"""Rows that change components one at a time, where all of them are at hand: mixtures shaken, asked for at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Sums, mix
from wmlr.numerics.compiling import call
from wmlr.statistics.climbs import ClimbLaw, MixturesInPlace, as_numbers, loops_can_answer, stacked_columns
from wmlr.statistics.seeds import row_codes

LEAST_FLOOR = 1e-14  # of the common variance
COST = 8.0  # EM steps that take as long as one sweep


@dataclass(frozen=True)
class Exchanges(MixturesInPlace):
    """Annealed exchanges of rows between the components of c mixtures.

    Every row begins in the component that it most likely is of. In each of t sweeps every row once leaves its component
    for one that is drawn by the classification likelihood of all rows (Symons, 1981), in which both components are
    fitted anew, to the power of 1 / ``temperatures`` (c, t); ``salts`` (c,) decide the draws. The answer has the
    mixtures that the labels make, and whether they make one (``done``): nowhere, where no loop can be compiled.
    """

    salts: NDArray[np.uint64]
    temperatures: Array
    law: ClimbLaw

    by_mixture = ("coef", "weights", "s2", "salts", "temperatures")

    def em_steps(self, answer: Sums) -> float:
        return COST * float(answer["done"].sum()) * float(self.temperatures.shape[1])

    def answer(self, rows: Rows) -> Sums:
        found: Sums = {name: np.array(getattr(self, name), dtype=np.float64) for name in ("coef", "weights", "s2")}
        found["done"] = np.zeros(len(self.coef))
        if not loops_can_answer(rows, self.transform):
            return found
        from wmlr.numerics.exchange_loops import anneal

        law = self.law.of_rows(rows)
        unit, floor = rows.total_weight / len(rows), max(law.floor, LEAST_FLOOR * law.common)
        scale = np.sqrt(floor)
        inside = replace(law, hold=law.hold / unit, common=law.common / floor, floor=1.0, ceiling=law.ceiling / floor)
        lines = stacked_columns(rows, self.transform) / np.array([[1.0]] * self.coef.shape[2] + [[scale], [unit]])
        codes, salts = row_codes(rows), np.array(self.salts)
        coef, s2, masses = found["coef"] / scale, found["s2"] / floor, np.zeros_like(found["weights"])
        call(anneal, lines, np.ascontiguousarray(lines.T), as_numbers(inside), codes,
             mix(codes ^ salts[:, None]).argsort(axis=1), coef, np.log(found["weights"]), s2, salts,
             np.array(self.temperatures, dtype=np.float64), masses, found["done"], wait=True)  # fmt: skip
        found |= {"coef": coef * scale, "s2": s2 * floor}
        if not law.fixed:
            weights = np.maximum(masses / len(rows), law.least_weight)
            found["weights"] = weights / weights.sum(axis=1, keepdims=True)
        return found
