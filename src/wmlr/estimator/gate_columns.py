"""The columns that mixing weights depend on: which they are, and how rows have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.core.roles import RoleRows, Roles
from wmlr.core.round import Engine
from wmlr.estimator.named_columns import places_of
from wmlr.formulas.formula import ModelFormula
from wmlr.io.frames import as_frame
from wmlr.model import gates
from wmlr.numerics.arrays import Array

ROLE = "gate"
LOGIT = "gate_logit"  # what the formula of a gate is taken to explain


@dataclass(frozen=True, eq=False)
class GateColumns:
    """Columns of X by their places, or those that a formula makes of a data frame.

    Attributes
    ----------
    names : what they are called.
    places : their numbers in X.
    formula : what makes them; None where they are columns of X.
    """

    names: tuple[str, ...]
    places: tuple[int, ...] = ()
    formula: ModelFormula | None = None

    @classmethod
    def of(cls, given: Any, columns: Sequence[str]) -> GateColumns | None:
        """What a setting means among the columns of X; None where weights depend on none.

        A column of text stands for its levels, as in ``shared=`` and ``only=``.
        ``"~ a + b"`` means the columns of these names, where X is no data frame that a formula is read with.
        """
        if not gates.gate(given).columns:
            return None
        listed = (
            [one.strip().strip("`") for one in given.partition("~")[2].split("+")] if isinstance(given, str) else given
        )
        places = [place for item in listed for place in places_of("gate", item, columns)]
        if len(set(places)) < len(places):
            raise ValueError(f"gate names a column twice (got {given!r})")
        return cls(tuple(columns[place] for place in places), tuple(places))

    @classmethod
    def by_formula(cls, given: str, data: Any) -> GateColumns:
        """What ``"~ w"`` means beside a formula, with the data frame of the fit."""
        frame = as_frame(data)
        formula = ModelFormula.read(f"{LOGIT} {given.strip()}", frame.assign(**{LOGIT: 0.0}))
        if not formula.intercept or formula.group is not None or not formula.names:
            raise ValueError(f"gate= has columns, a constant, and no bar: '~ w' (got {given!r})")
        return cls(formula.names, (), formula)

    def of_rows(self, X: Any) -> Array:
        """(n, g) of rows of X."""
        if self.formula is not None:
            raise ValueError("the weights depend on columns of the data frame: give the frame itself, not its design")
        return np.column_stack([np.asarray(X[:, place], dtype=np.float64) for place in self.places])

    def of_frame(self, frame: Any) -> Array:
        """(n, g) of a data frame, by the formula."""
        assert self.formula is not None
        return np.asarray(self.formula.design(frame), dtype=np.float64)

    def engine(self, rows: Engine) -> Engine:
        """An engine whose rows have these columns beside all of their features."""
        roles = Roles(tuple(range(rows.n_features)), {ROLE: self.places})
        return RoleRows(rows, roles)


def is_gate_formula(given: Any) -> bool:
    """Whether a setting is such as ``"~ w"``."""
    return isinstance(given, str) and given.lstrip().startswith("~")


def columns_of_gate(given: str, data: Any) -> list[str]:
    """The columns of a data frame that ``"~ w"`` needs; they may have gaps."""
    frame = as_frame(data).assign(**{LOGIT: 0.0})
    return [name for name in ModelFormula.columns_of(f"{LOGIT} {given.strip()}", frame) if name != LOGIT]
