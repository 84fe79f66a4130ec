"""What the unknown signs of the symmetric mixture take away from the information about beta."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Kind, Part, Parts, Query, unit
from wmlr.core.round import Rows
from wmlr.families import OMIT_DEFAULT
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.moments import positive_gram, response


@dataclass(frozen=True)
class MissingInformation(Query):
    """sum over units of (1 - t^2) vv' with v = sum w y x over the unit's rows and t = tanh(v'beta / s2).

    With the Gram matrix S and h of :class:`SymmetricScore` it gives the observed information: S / s2 less
    this over s2^2 for beta, and everything about sigma too. ``mean`` is taken off y first. With ``gram`` S comes along.
    """

    beta: Annotated[Array, Field("p")]
    s2: Annotated[float, Field(above=0.0)]
    mean: Annotated[Array | None, Field("p")] = None
    gram: bool = field(default=False, metadata=OMIT_DEFAULT)

    def parts(self, columns: int, grouped: bool) -> Parts:
        lost = {"lost": Part(self.beta.shape * 2, unit(x=2, y=2), Kind.GRAM)}
        return lost | {"gram": Part(self.beta.shape * 2, unit(x=2), Kind.GRAM)} if self.gram else lost

    def shares(self, rows: Rows) -> Array:
        y, starts = response(rows, self.mean), rows.starts
        z = kernels.unit_sums(y * kernels.forward(rows.X, self.beta), rows.weight, starts) / self.s2
        lost = 1.0 - kernels.tanh_log_cosh(z)[0] ** 2
        return kernels.to_rows(lost[:, None], None, starts, len(y))

    def answer(self, rows: Rows) -> Sums:
        lost = {"lost": self._lost_information(rows)}
        return lost | {"gram": positive_gram(rows.X, rows.weight, self._intercept(rows))} if self.gram else lost

    def _intercept(self, rows: Rows) -> bool:
        return len(self.beta) > int(rows.X.shape[1])

    def _lost_information(self, rows: Rows) -> Array:
        y, w, starts = response(rows, self.mean), rows.weight, rows.starts
        intercept = self._intercept(rows)
        z = kernels.unit_sums(y * kernels.forward(rows.X, self.beta), w, starts) / self.s2
        lost = kernels.unit_counts(len(y), w, starts) * (1.0 - kernels.tanh_log_cosh(z)[0] ** 2)
        if starts is None:
            return positive_gram(rows.X, lost * y * y, intercept)
        wy = y if w is None else w * y
        V = kernels.group_sums(rows.X, wy, starts)
        square = kernels.gram(V, lost, intercept=False)
        if intercept:
            last = np.add.reduceat(wy, starts)
            square = kernels.border(square, np.append(kernels.backward(V, lost * last, False), (lost * last) @ last))
        return square
