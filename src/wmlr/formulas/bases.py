"""Factors of a design that are more than one column: levels, splines and polynomials, with their numbers."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wmlr.formulas.expressions import Columns, Expression, evaluate
from wmlr.numerics.arrays import Array

MOST_LEVELS = 100_000
MOST_CODED = 1000
MOST_KNOTS = 10_000
MOST_DEGREES = 30
LONGEST_LABEL = 10_000

Knots = Annotated[list[float], Meta(min_length=2, max_length=MOST_KNOTS)]
Label = Annotated[str, Meta(max_length=LONGEST_LABEL)] | bool | int | float
Extrapolation = Literal["raise", "clip", "na", "zero", "extend"]


class Basis(msgspec.Struct, frozen=True):
    """A factor: a matrix with a row for each row of the table."""

    def matrix(self, columns: Columns, n: int) -> Array:
        """The factor's columns in a table of n rows."""
        raise NotImplementedError

    def width(self) -> int:
        """How many columns it has."""
        raise NotImplementedError

    @property
    def has_levels(self) -> bool:
        """Whether it takes what it is a function of for levels."""
        return False

    def known(self, columns: Columns, n: int) -> NDArray[np.bool_]:
        """The rows that it has a value for; all, unless it knows certain levels only."""
        return np.ones(n, dtype=bool)

    def refuse_damaged(self) -> None:
        """Raise where its numbers do not fit each other."""


class Numeric(Basis, frozen=True, tag="numeric"):
    """One column: the value of an expression."""

    of: Expression

    def matrix(self, columns: Columns, n: int) -> Array:
        return evaluate(self.of, columns, n)[:, None]

    def width(self) -> int:
        return 1


class Levels(Basis, frozen=True, tag="levels"):
    """A column of ones and zeros for each of some levels.

    Attributes
    ----------
    of : the categorical column.
    levels : what may stand in it.
    kept : the places of the levels that have a column.
    """

    of: Expression
    levels: Annotated[list[Label], Meta(min_length=1, max_length=MOST_LEVELS)]
    kept: Annotated[list[int], Meta(min_length=1, max_length=MOST_LEVELS)]

    @property
    def has_levels(self) -> bool:
        return True

    def matrix(self, columns: Columns, n: int) -> Array:
        return np.asarray(_codes(self, columns, n)[:, None] == np.array(self.kept), dtype=np.float64)

    def known(self, columns: Columns, n: int) -> NDArray[np.bool_]:
        return _places(self, columns, n)[1] >= 0

    def width(self) -> int:
        return len(self.kept)

    def refuse_damaged(self) -> None:
        _refuse_repeated(self.levels)
        if min(self.kept) < 0 or max(self.kept) >= len(self.levels):
            raise ValueError(f"a factor names level {max(self.kept)} of {len(self.levels)}")


class Contrast(Basis, frozen=True, tag="contrast"):
    """A line of numbers for each level of a categorical column: ``coding``, (levels, columns)."""

    of: Expression
    levels: Annotated[list[Label], Meta(min_length=1, max_length=MOST_CODED)]
    coding: Annotated[list[list[float]], Meta(min_length=1, max_length=MOST_CODED)]

    @property
    def has_levels(self) -> bool:
        return True

    def matrix(self, columns: Columns, n: int) -> Array:
        return np.asarray(np.array(self.coding)[_codes(self, columns, n)], dtype=np.float64)

    def known(self, columns: Columns, n: int) -> NDArray[np.bool_]:
        return _places(self, columns, n)[1] >= 0

    def width(self) -> int:
        return len(self.coding[0])

    def refuse_damaged(self) -> None:
        _refuse_repeated(self.levels)
        if len(self.coding) != len(self.levels) or len({len(line) for line in self.coding}) != 1:
            raise ValueError(f"a factor has {len(self.levels)} levels and {len(self.coding)} lines of numbers for them")


class Spline(Basis, frozen=True, tag="spline"):
    """The B-splines of some knots, as bs() has them."""

    of: Expression
    knots: Knots
    degree: Annotated[int, Meta(ge=0, le=MOST_DEGREES)]
    lower: float
    upper: float
    extrapolation: Extrapolation = "raise"

    def matrix(self, columns: Columns, n: int) -> Array:
        from scipy.interpolate import BSpline

        x, outside = _within(self, evaluate(self.of, columns, n))
        spline = BSpline(np.array(self.knots), np.eye(self.width()), self.degree, extrapolate=True)
        return _outside(self, np.asarray(spline(x), dtype=np.float64), outside)

    def width(self) -> int:
        return len(self.knots) - self.degree - 1

    def refuse_damaged(self) -> None:
        if self.width() < self.degree + 1 or np.any(np.diff(self.knots) < 0) or not self.lower < self.upper:
            raise ValueError(f"a spline of degree {self.degree} has {len(self.knots)} knots, or not in their order")
        if self.knots[self.degree] >= self.knots[-self.degree - 1]:
            raise ValueError("a spline has knots without a distance between the first and the last")


class Cubic(Basis, frozen=True, tag="cubic"):
    """The cubic regression splines of some knots, natural as cr() and cs() have them or cyclic as cc().

    ``mixing`` (free columns, columns) is what a constraint leaves of them.
    """

    of: Expression
    knots: Knots
    lower: float
    upper: float
    cyclic: bool = False
    extrapolation: Extrapolation = "extend"
    mixing: list[list[float]] | None = None

    def matrix(self, columns: Columns, n: int) -> Array:
        x, outside = _within(self, evaluate(self.of, columns, n))
        found = self._cyclic(x) if self.cyclic else self._natural(x)
        found = found if self.mixing is None else found @ np.asarray(self.mixing)
        return _outside(self, found, outside)

    def _natural(self, x: Array) -> Array:
        from scipy.interpolate import CubicSpline

        knots = np.array(self.knots)
        curves = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        inner = np.clip(x, knots[0], knots[-1])
        return np.asarray(curves(inner) + curves(inner, 1) * (x - inner)[:, None], dtype=np.float64)

    def _cyclic(self, x: Array) -> Array:
        from scipy.interpolate import CubicSpline

        knots = np.array(self.knots)
        low, length = knots[0], knots[-1] - knots[0]
        inner = np.where((x < knots[0]) | (x > knots[-1]), low + (x - low) % length, x)
        unit = np.eye(len(knots) - 1)
        return np.asarray(CubicSpline(knots, np.vstack([unit, unit[:1]]), bc_type="periodic")(inner), dtype=np.float64)

    def width(self) -> int:
        return self._free() if self.mixing is None else len(self.mixing[0])

    def _free(self) -> int:
        return len(self.knots) - int(self.cyclic)

    def refuse_damaged(self) -> None:
        if len(self.knots) < 3 or np.any(np.diff(self.knots) <= 0) or not self.lower <= self.upper:
            raise ValueError(f"a cubic spline has {len(self.knots)} knots, too few or not in their order")
        widths = {0} if self.mixing is None else {len(line) for line in self.mixing}
        if self.mixing is not None and (len(self.mixing) != self._free() or len(widths) != 1 or widths == {0}):
            raise ValueError(f"a cubic spline of {self._free()} columns is mixed by a matrix of another shape")


class Polynomial(Basis, frozen=True, tag="polynomial"):
    """Orthogonal polynomials by their recurrence, as poly() has them."""

    of: Expression
    alpha: Annotated[list[float], Meta(min_length=1, max_length=MOST_DEGREES)]
    norms: Annotated[list[float], Meta(min_length=2, max_length=MOST_DEGREES + 1)]

    def matrix(self, columns: Columns, n: int) -> Array:
        x = evaluate(self.of, columns, n)
        found = [np.ones(n)]
        with np.errstate(all="ignore"):
            for i, alpha in enumerate(self.alpha):
                following = (x - alpha) * found[i]
                found.append(following if i == 0 else following - self.norms[i] / self.norms[i - 1] * found[i - 1])
            return np.asarray(np.stack(found[1:], axis=1) / np.sqrt(self.norms[1:]), dtype=np.float64)

    def width(self) -> int:
        return len(self.alpha)

    def refuse_damaged(self) -> None:
        if len(self.norms) != len(self.alpha) + 1 or min(self.norms) <= 0:
            raise ValueError(f"a polynomial of degree {len(self.alpha)} has {len(self.norms)} norms, or not positive")


Factor = Numeric | Levels | Contrast | Spline | Cubic | Polynomial


def _places(factor: Levels | Contrast, columns: Columns, n: int) -> tuple[Any, NDArray[np.int64]]:
    """What stands in each row, and its place among the levels; -1 for what is none of them."""
    pandas = import_module("pandas")
    name = factor.of.column
    values = np.asarray(columns[name], dtype=object) if name is not None else evaluate(factor.of, columns, n)
    return values, np.asarray(pandas.Index(factor.levels, dtype=object).get_indexer(values), dtype=np.int64)


def _codes(factor: Levels | Contrast, columns: Columns, n: int) -> NDArray[np.int64]:
    """Each row's level, as its place."""
    values, codes = _places(factor, columns, n)
    if np.any(codes < 0):
        found = sorted(
            {value.item() if isinstance(value, np.generic) else value for value in values[codes < 0]}, key=repr
        )
        shown = ", ".join(repr(value)[:100] for value in found[:5])
        name = factor.of.column
        where = "" if name is None else f" in column {name!r}"
        known = ", ".join(map(str, factor.levels[:5])) + (" ..." if len(factor.levels) > 5 else "")
        raise ValueError(
            f"the data have levels that were not there in the fit: {{{shown}}}{where} (the fit knows {known}): leave "
            "such rows out, or fit again with them"
        )
    return codes


def _refuse_repeated(levels: list[Any]) -> None:
    if len({(type(level) is str, level) for level in levels}) != len(levels):
        raise ValueError("a factor has the same level twice")


def _within(spline: Spline | Cubic, x: Array) -> tuple[Array, Any]:
    """Where to evaluate a spline, and which rows are outside its bounds."""
    outside = (x < spline.lower) | (x > spline.upper)
    if spline.extrapolation == "raise" and np.any(outside):
        raise ValueError(
            f"a spline of the formula is known between {spline.lower:g} and {spline.upper:g} (got "
            f"{x[outside][0]:g}): leave such rows out, or write extrapolation='clip' or 'extend' into the formula"
        )
    return np.clip(x, spline.lower, spline.upper) if spline.extrapolation in ("clip", "na", "zero") else x, outside


def _outside(spline: Spline | Cubic, found: Array, outside: Any) -> Array:
    if spline.extrapolation in ("na", "zero"):
        found[outside] = 0.0 if spline.extrapolation == "zero" else np.nan
    return found
