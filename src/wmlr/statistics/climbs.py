"""Candidate mixtures climbed to their maxima where all rows are at hand: many EM steps, asked for at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Rows
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.compiled import EXPONENTIAL, compiled_form_exists, load_loops, repays_loading, writable_floats
from wmlr.numerics.compiling import call
from wmlr.statistics.candidates import project

UNTRIED, SETTLED, LEFT, BROKEN = range(4)
"""What becomes of a candidate: nothing, for want of a compiled loop; at its maximum; left on its way; lost in rounding.
"""


@dataclass(frozen=True)
class MixturesInPlace(Query):
    """A query about c mixtures of normal regressions: coef (c, k, q) on z = transform'x, weights and s2 (c, k).

    It is about all rows in one place, and no sum: nobody is asked for it across a border. Threads take some mixtures
    ``at_once``; ``by_mixture`` names the fields that have an entry for each.
    """

    transform: Array
    coef: Array
    weights: Array
    s2: Array

    of_each_agent = True
    travels = False
    at_once: ClassVar[int] = 1
    by_mixture: ClassVar[tuple[str, ...]] = ("coef", "weights", "s2")

    def pieces(self, rows: float) -> tuple[Self, ...]:
        cuts = (slice(first, first + self.at_once) for first in range(0, len(self.coef), self.at_once))
        return tuple(replace(self, **{name: getattr(self, name)[cut] for name in self.by_mixture}) for cut in cuts)


@dataclass(frozen=True)
class ClimbLaw:
    """What an EM step goes by, as numbers in the order in which the loop reads them.

    Attributes
    ----------
    shared, known, fixed : 1 where components share a variance, where it is known, where weights are known.
    hold, common : the weight of the guard on the variances, of one row, and the variance that it holds them towards.
    floor, ceiling : the least and the largest variance.
    ridge, rounding : what holds an M-step's coefficients where they are: of a component's mass, of its largest square.
    least_mass, least_weight : below which no component falls.
    constant : of every row's log-density.
    longest : how many EM steps an extrapolation may go ahead; largest : the logarithm of the largest variance there.
    """

    shared: float
    known: float
    fixed: float
    hold: float
    common: float
    floor: float
    ceiling: float
    ridge: float
    rounding: float
    least_mass: float
    least_weight: float
    constant: float
    longest: float
    largest: float

    def of_rows(self, rows: Rows) -> ClimbLaw:
        """The same for all these rows: the guard's weight is that of one row, spread over them."""
        return replace(self, hold=self.hold * rows.total_weight)


@dataclass(frozen=True)
class ClimbPlan:
    """How far candidates climb, in the order in which the loop reads it.

    Attributes
    ----------
    plain : steps of EM before steps are extrapolated.
    most : steps of EM after these.
    settled, calm : a candidate is at its maximum when three steps gain less than this so many times in succession.
    same : squared deviations within which a candidate is at a known maximum of its lineage, and is left.
    tried, hopeless : after so many steps a candidate is left that lies lower than the lowest known maximum by this many
        times what three steps gain.
    """

    plain: float
    most: float
    settled: float = 0.0
    calm: float = 1.0
    same: float = 0.0
    tried: float = np.inf
    hopeless: float = np.inf


def as_numbers(part: ClimbLaw | ClimbPlan) -> Array:
    """Its fields in their order; ``dataclasses.astuple`` copies each deeply, which takes longer than a small climb."""
    return np.array(list(vars(part).values()), dtype=np.float64)


@dataclass(frozen=True)
class CandidateClimbs(MixturesInPlace):
    """Climbs of s candidates.

    The answer has where each of them came to, its value (that of the place before its last step), how many steps of EM
    it took and what became of it (``ends``). Where no compiled loop is at hand every candidate stays where it is,
    ``UNTRIED``.

    Attributes
    ----------
    values : (s,), of the candidates, where they have been evaluated.
    lineage : (s,), whose ``lowest`` known value, and whose ``known`` maxima (g, k, q) with ``variances`` (g, k) and
        lineages ``of_lineage`` (g,), count for each.
    exchange : (k, k), infinite for components that may not change places.
    """

    values: Array
    law: ClimbLaw
    plan: ClimbPlan
    lineage: Integers
    lowest: Array
    known: Array
    variances: Array
    of_lineage: Integers
    exchange: Array

    at_once = 4  # some take ten times as long as others
    by_mixture = ("coef", "weights", "s2", "values", "lineage")

    def em_steps(self, answer: Sums) -> float:
        return float(answer["steps"].sum())

    def answer(self, rows: Rows) -> Sums:
        names = ("coef", "weights", "s2", "values")
        places: Sums = {name: np.array(getattr(self, name), dtype=np.float64, order="C") for name in names}
        found = places | {"steps": np.zeros(len(self.coef)), "ends": np.zeros(len(self.coef))}
        if not (_loading_is_worth(rows, self.weights.size) and loops_can_answer(rows, self.transform)):
            return found
        from wmlr.numerics.climb_loops import climb

        law = self.law.of_rows(rows)
        numbers = [as_numbers(part) for part in (law, self.plan)]
        known = [np.array(part, order="C") for part in (self.known, self.variances, self.of_lineage, self.exchange)]
        call(climb, stacked_columns(rows, self.transform), *numbers, *places.values(), np.array(self.lowest),
             np.array(self.lineage), *known, found["steps"], found["ends"])  # fmt: skip
        return found


def loops_can_answer(rows: Rows, transform: Array) -> bool:
    """Whether compiled loops exist for such rows: single ones of which no component is known."""
    plain = rows.starts is None and KNOWN not in rows.beside
    return plain and compiled_form_exists(transform) and load_loops() is not None


def _loading_is_worth(rows: Rows, components: int) -> bool:
    """Whether climbs of so many components repay loading the compiler: once loaded always, however few the rows."""
    return bool(load_loops.cache_info().currsize) or repays_loading(EXPONENTIAL * components * len(rows))


def stacked_columns(rows: Rows, transform: Array) -> Array:
    """(q + 2, n): z, the response and the rows' weights, each side by side in memory; kept with the rows."""
    key = transform.shape, transform.tobytes()
    if rows.memo.get(stacked_columns, (None,))[0] != key:
        Z, _ = project(rows, transform)
        rows.memo[stacked_columns] = key, writable_floats(np.vstack([Z.T, rows.y[None], rows.counts[None]]))
    lines: Array = rows.memo[stacked_columns][1]
    return lines
