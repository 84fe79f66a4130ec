"""The design of a formula as plain data: factors with their numbers, and columns that are products of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wmlr.formulas.bases import MOST_CODED, Contrast, Cubic, Factor, Levels, Numeric, Polynomial, Spline
from wmlr.formulas.expressions import Binary, Column, Number, column_names, refuse_deep
from wmlr.formulas.parsing import Call, Parser, optional_float
from wmlr.numerics.arrays import Array

MOST_COLUMNS = 100_000
MOST_FACTORS, MOST_SIGNS = 20, 200  # in a column's name: factors, and colons, which levels may have as well
CODINGS = {
    "treatment": "TreatmentContrasts", "sas": "SASContrasts", "sum": "SumContrasts", "helmert": "HelmertContrasts",
    "diff": "DiffContrasts", "poly": "PolyContrasts",
}  # fmt: skip

Part = tuple[Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]]
Product = Annotated[list[Part], Meta(min_length=1, max_length=MOST_FACTORS)]


class Design(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes columns of numbers from a table.

    Attributes
    ----------
    factors : each a matrix.
    products : for each column of the design, the columns of factors that are multiplied, as (factor, column).
    """

    factors: Annotated[list[Factor], Meta(min_length=1, max_length=MOST_COLUMNS)]
    products: Annotated[list[Product], Meta(min_length=1, max_length=MOST_COLUMNS)]

    @property
    def variables(self) -> list[str]:
        """The table's columns that are needed."""
        return sorted({name for factor in self.factors for name in column_names(factor.of)})

    @property
    def categorical(self) -> list[str]:
        """Those of the table's columns that are taken for levels."""
        return [name for factor in self.factors if factor.has_levels for name in column_names(factor.of)]

    def matrix(self, frame: Any) -> Array:
        """The design for a data frame."""
        n = len(frame)
        columns = {name: frame[name] for name in self.variables}
        made = [factor.matrix(columns, n) for factor in self.factors]
        found = np.empty((n, len(self.products)), order="F")
        with np.errstate(all="ignore"):
            for place, parts in enumerate(self.products):
                (factor, column), *others = parts
                found[:, place] = made[factor][:, column]
                for factor, column in others:
                    found[:, place] *= made[factor][:, column]
        return np.ascontiguousarray(found)

    def known(self, frame: Any) -> NDArray[np.bool_]:
        """The rows whose levels are all those of the fit."""
        n = len(frame)
        columns = {name: frame[name] for name in self.variables}
        found = np.ones(n, dtype=bool)
        for factor in self.factors:
            found &= factor.known(columns, n)
        return found

    def refuse_damaged(self) -> None:
        """Raise where the parts do not fit each other."""
        for factor in self.factors:
            refuse_deep(factor.of)
            factor.refuse_damaged()
        widths = [factor.width() for factor in self.factors]
        for parts in self.products:
            for place, column in parts:
                if place >= len(widths) or column >= widths[place]:
                    raise ValueError(f"the design names column {column} of factor {place}, which is not there")


class Translation:
    """Names of columns, as ``x:kind[T.mid]``, read as products of factors.

    Parameters
    ----------
    known : for each factor its kind, "numerical" or "categorical", and its levels.
    states : what stateful transforms learned.
    columns : the table's columns, which a factor may be the name of.
    """

    def __init__(
        self,
        known: Mapping[str, tuple[str, Sequence[Any]]],
        states: Mapping[str, Mapping[str, Any]],
        columns: Sequence[str],
    ) -> None:
        self.states, self.columns = states, frozenset(columns)
        self.factors: list[Factor] = []
        self.labels: dict[str, tuple[int, int]] = {}
        for name, (kind, levels) in known.items():
            for factor, fields in self._read(name, kind, levels):
                self.factors.append(factor)
                for place, label in enumerate(fields):
                    self.labels.setdefault(label, (len(self.factors) - 1, place))

    def design(self, names: Sequence[str]) -> Design:
        """The design whose columns have these names."""
        products = [self._product(name) for name in names]
        used = sorted({factor for parts in products for factor, _ in parts})
        places = {factor: place for place, factor in enumerate(used)}
        return Design(
            [self.factors[factor] for factor in used],
            [[(places[factor], column) for factor, column in parts] for parts in products],
        )

    def _product(self, name: str) -> list[tuple[int, int]]:
        if name.count(":") > MOST_SIGNS:
            raise ValueError(f"the column {name[:200]!r} has more than {MOST_SIGNS} colons")
        found = self._match(name, 0, set())
        if found is None:
            raise ValueError(f"the column {name[:200]!r} is no product of the formula's factors")
        return found

    def _match(self, name: str, depth: int, dead: set[tuple[str, int]]) -> list[tuple[int, int]] | None:
        """The factors whose product a name is; ``dead`` keeps what was found to be none, so as to look once only."""
        if name in self.labels:
            return [self.labels[name]]
        if (name, depth) in dead or depth == MOST_FACTORS:
            return None
        for place, sign in enumerate(name):
            if sign == ":" and name[:place] in self.labels:
                rest = self._match(name[place + 1 :], depth + 1, dead)
                if rest is not None:
                    return [self.labels[name[:place]], *rest]
        dead.add((name, depth))
        return None

    def _read(self, name: str, kind: str, levels: Sequence[Any]) -> Iterator[tuple[Factor, list[str]]]:
        """The factors that a factor of the formula may stand for, each with its columns' names."""
        if name in self.columns:
            found: Any = Column(name)
        else:
            parser = Parser(name, self.states)
            found = parser.factor()
        if kind == "categorical":
            yield from _levels(name, found, list(levels))
        elif isinstance(found, Call):
            yield from _basis(name, found, parser.state(found) if not _raw(found) else {})
        else:
            yield Numeric(found), [name]


def numeric(text: str, states: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> Numeric:
    """A factor that is one column of numbers, such as a target."""
    name = text.strip()
    found = Column(name) if name in columns else Parser(name, states).factor()
    if isinstance(found, Call):
        raise ValueError(f"{name!r} is more than one column of numbers")
    return Numeric(found)


def _levels(name: str, found: Any, levels: list[Any]) -> Iterator[tuple[Factor, list[str]]]:
    """Dummies of all levels, and the contrast that leaves one out."""
    of, contrast = found, None
    if isinstance(found, Call):
        if found.name != "C" or not found.arguments:
            raise ValueError(f"{name!r} is no categorical factor")
        of, contrast = found.arguments[0], found.argument(1, "contrasts")
    if isinstance(of, (Call, str, list)) or of is None:
        raise ValueError(f"{name!r} is no categorical factor of a column")
    plain = [level.item() if isinstance(level, np.generic) else level for level in levels]
    width = len(plain)
    yield Levels(of, plain, list(range(width))), [f"{name}[{level}]" for level in plain]
    if contrast is None or (isinstance(contrast, Call) and contrast.name == "treatment"):
        base = contrast.argument(0, "base", contrast.named.get("reference")) if contrast is not None else None
        base = base.number if isinstance(base, Number) else base
        left_out = plain.index(base) if base is not None else 0
        kept = [place for place in range(width) if place != left_out]
        if kept:
            yield Levels(of, plain, kept), [f"{name}[T.{plain[place]}]" for place in kept]
        return
    yield from _contrast(name, of, plain, contrast)


def _contrast(name: str, of: Any, levels: list[Any], contrast: Any) -> Iterator[tuple[Factor, list[str]]]:
    if not isinstance(contrast, Call) or contrast.name not in CODINGS or contrast.arguments or contrast.named:
        raise ValueError(f"{name!r} has contrasts that are kept by no name")
    if len(levels) > MOST_CODED:
        raise ValueError(f"{name!r} has {len(levels):,} levels, too many for a contrast (at most {MOST_CODED:,})")
    contrasts = getattr(import_module("formulaic.transforms.contrasts"), CODINGS[contrast.name])()
    coding = contrasts.get_coding_matrix(levels, reduced_rank=True)
    form = contrasts.get_factor_format(levels, reduced_rank=True)
    labels = [form.format(name=name, field=field) for field in coding.columns]
    yield Contrast(of, levels, np.asarray(coding, dtype=np.float64).tolist()), labels


def _raw(call: Call) -> bool:
    return call.name == "poly" and call.argument(2, "raw", False) is True


def _basis(name: str, call: Call, state: Mapping[str, Any]) -> Iterator[tuple[Factor, list[str]]]:
    of = call.argument(0, "x")
    if isinstance(of, (Call, str, list)) or of is None:
        raise ValueError(f"{name!r} is no function of a column of numbers")
    if _raw(call):
        degree = _whole(call.argument(1, "degree", Number(1.0)))
        for power in range(1, min(degree, 30) + 1):
            yield Numeric(Binary("**", of, Number(float(power)))), [f"{name}[{power - 1}]"]
    elif call.name == "poly":
        alpha, norms = state["alpha"], state["norms2"]
        degree = len(alpha)
        factor = Polynomial(of, [float(alpha[i]) for i in range(degree)], [float(norms[i]) for i in range(degree + 1)])
        yield factor, [f"{name}[{i}]" for i in range(1, degree + 1)]
    elif call.name == "bs":
        degree = _whole(call.argument(3, "degree", Number(3.0)))
        form = call.argument(7, "extrapolation", "raise")
        spline = Spline(of, _to_list(state["knots"]), degree, *_bounds(state), form)
        yield spline, [f"{name}[{i}]" for i in range(spline.width())]
    elif call.name in ("cc", "cr", "cs"):
        form = call.argument(7, "extrapolation", "extend")
        mixing = (
            None
            if state["constraints"] is None
            else _constraint_null_space(np.asarray(state["constraints"], np.float64))
        )
        cubic = Cubic(of, _to_list(state["knots"]), *_bounds(state), call.name == "cc", form, mixing)
        yield cubic, [f"{name}[{i}]" for i in range(1, cubic.width() + 1)]
    else:
        raise ValueError(f"{name!r} is no factor of numbers")


def _bounds(state: Mapping[str, Any]) -> tuple[float, float]:
    lower, upper = optional_float(state["lower_bound"]), optional_float(state["upper_bound"])
    if lower is None or upper is None:
        raise ValueError("a spline has no bounds")
    return lower, upper


def _constraint_null_space(constraints: Array) -> list[list[float]]:
    """What is left of free columns under linear constraints."""
    rows = np.atleast_2d(constraints)
    if rows.ndim != 2 or rows.shape[1] > MOST_CODED:
        raise ValueError(f"a spline has constraints of shape {constraints.shape}")
    q, _ = np.linalg.qr(rows.T, mode="complete")
    left: list[list[float]] = q[:, len(rows) :].tolist()
    return left


def _whole(found: Any) -> int:
    if not isinstance(found, Number) or not found.number.is_integer() or not 0 <= found.number <= 30:
        raise ValueError("a degree is a whole number of at most 30")
    return int(found.number)


def _to_list(values: Any) -> list[float]:
    return [float(value) for value in values]
