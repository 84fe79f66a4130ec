"""New components beside mixtures that stay, where all rows are at hand: many trials, asked for at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from wmlr.core.repeats import repeats
from wmlr.core.round import Rows
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.compiling import call
from wmlr.statistics.climbs import ClimbLaw, MixturesInPlace, as_numbers, loops_can_answer, stacked_columns
from wmlr.statistics.seeds import row_codes

MISSES, WINDOW, CROWD = -1, -2, -3
"""Rules of a trial that are no component."""


@dataclass(frozen=True)
class Trials:
    """Where new components begin, t of them for each of c mixtures: arrays (c, t).

    Attributes
    ----------
    salts : decide the draws of rows.
    rules : the component whose rows are drawn; MISSES draws by the squared distance from the nearest component that
        stays; WINDOW takes rows next to each other, as many as ``shares`` says; CROWD begins at the one of many lines
        through few rows that most rows crowd around.
    caps : the largest squared distance that counts in full; 0 draws all rows alike.
    wanted : how many rows are drawn, about.
    shares : the weight that a new component begins with.
    variances : the variance; 0 takes that of the nearest rows, as many as the weight says.
    along : (c, t, q + 1), columns and response whose weighted sum says which rows are next to each other.
    centres : (c, t, q), regressions from which the drawn rows move the new component.
    spans : (c, t, m, q), the directions in which they do; all, where the first is nil.
    """

    salts: Array
    rules: Integers
    caps: Array
    wanted: Array
    shares: Array
    variances: Array
    along: Array
    centres: Array
    spans: Array

    def __getitem__(self, chosen: slice) -> Trials:
        """Those of some of the mixtures."""
        return Trials(*(getattr(self, one.name)[chosen] for one in fields(self)))


@dataclass(frozen=True)
class Insertions(MixturesInPlace):
    """Mixtures, each with another component in the place of a dropped one.

    A trial draws some rows, fits a component to them, and takes so many ``steps`` of EM in which the other components
    stay (the partial EM of Verbeek, Vlassis and Kröse, 2003). The answer has the new components' ``coef`` (c, t, q),
    ``weights``, ``s2`` and the whole mixtures' ``values`` (c, t), all -inf where no loop can be compiled.

    A trial by CROWD looks at so many ``lines``, of which half move in some of the directions ``columns`` (p, q) alone;
    the last of these is the ``constant``'s, if there is one.
    """

    dropped: Integers
    trials: Trials
    law: ClimbLaw
    steps: int
    columns: Array
    constant: bool
    lines: int

    by_mixture = ("coef", "weights", "s2", "dropped", "trials")

    def em_steps(self, answer: Sums) -> float:
        return float(answer["values"].size * self.steps / self.coef.shape[1])

    def answer(self, rows: Rows) -> Sums:
        shape = self.trials.shares.shape
        found = {"coef": np.zeros((*shape, self.coef.shape[2])), "weights": np.zeros(shape), "s2": np.ones(shape)}
        found["values"] = np.full(shape, -np.inf)
        if not (len(rows) and loops_can_answer(rows, self.transform)):
            return found
        from wmlr.numerics.insertion_loops import insert

        law = as_numbers(self.law.of_rows(rows))
        copies = np.array(np.broadcast_to(repeats(rows), len(rows)), dtype=np.float64)
        places = [np.array(part, order="C") for part in (self.coef, self.weights, self.s2, self.dropped)]
        trials = [np.array(getattr(self.trials, one.name), order="C") for one in fields(Trials)]
        codes = row_codes(rows)
        order = codes.argsort(kind="stable")
        scan = np.array(self.columns, order="C"), self.constant, self.lines
        call(insert, stacked_columns(rows, self.transform), law, codes, order, copies[order].cumsum(), copies, *places,
             *trials, *scan, self.steps, *found.values(), wait=True)  # fmt: skip
        return found
