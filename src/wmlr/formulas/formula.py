"""Formulas: ``tuned ~ stretchratio``, ``yn ~ x + I(x**2) | id2``.

A formula that is typed is read through formulaic and translated into a
:class:`wmlr.formulas.design.Design`, which is what makes the columns from then on and what a model file holds.
The text in a file is shown, and never evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wmlr.formulas.bases import LONGEST_LABEL, Contrast, Levels, Numeric
from wmlr.formulas.design import Design, Translation, numeric
from wmlr.formulas.expressions import LONGEST_TEXT, Column, column_names, refuse_deep
from wmlr.formulas.parsing import refuse_other_text
from wmlr.formulas.split import FormulaParts, split_bar
from wmlr.formulas.typed_formula import TypedFormula
from wmlr.io.frames import as_frame, is_frame, missing_in_columns, require_columns
from wmlr.io.packing import unpack
from wmlr.numerics.arrays import Array

MOST_NAMES = 100_000
MOST_OFFSETS = 100
DIFFERENCE = 1e-8
DAMAGED = (KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class ModelFormula:
    """A formula, and the design that it became with the data it was first read with.

    Attributes
    ----------
    text : the formula as given.
    symmetric : whether the model is a symmetric pair, which has no intercept whatever the formula says.
    intercept : whether the formula has one.
    names : of the columns of the design, without the intercept.
    variables : the data's columns on the right-hand side.
    explained : the data's columns on the left-hand side.
    right, left : the design and the target (of a pair the successes) as plain data; None where the formula uses what
        they have no words for.
    failures : the second column of a target that is a pair, ``cbind(successes, failures)``; None where it is none.
    offsets : what is added to the linear predictor: each ``offset(...)`` of the right-hand side.
    typed : the formula as formulaic reads it, where it was typed in this process.
    """

    text: str
    symmetric: bool = False
    intercept: bool = True
    names: tuple[str, ...] = ()
    variables: list[str] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    right: Design | None = None
    left: Numeric | None = None
    failures: Numeric | None = None
    offsets: tuple[Numeric, ...] = ()
    typed: TypedFormula | None = field(default=None, compare=False, repr=False)

    @classmethod
    def read(cls, text: str, data: Any, symmetric: bool = False) -> ModelFormula:
        """Read a formula with the data it is to be fitted to."""
        parts, frame = FormulaParts.of(text), as_frame(data)
        columns = [str(name) for name in frame.columns if name != parts.group]
        typed = TypedFormula.read(text, parts.body, frame, columns, symmetric)
        failures = None if parts.failures is None else numeric(parts.failures, {}, columns)
        offsets = tuple(numeric(offset, {}, columns) for offset in parts.offsets)
        require_columns(frame, _columns_of([*offsets, *([] if failures is None else [failures])]), text)
        formula = cls(
            text,
            symmetric,
            typed.intercept,
            typed.names,
            list(typed.variables),
            _response_columns(typed.explained, failures),
            failures=failures,
            offsets=offsets,
            typed=typed,
        )
        return formula._translate(frame)

    @staticmethod
    def columns_of(text: str, data: Any, symmetric: bool = False) -> list[str]:
        """The columns of the data that a formula needs, those of groups included; they may have gaps."""
        parts, frame = FormulaParts.of(text), as_frame(data)
        names = [str(name) for name in frame.columns if name != parts.group]
        needed = TypedFormula.columns_of(text, parts.body, frame, names, symmetric)
        further = [*parts.offsets, *([] if parts.failures is None else [parts.failures])]
        beside = _columns_of([numeric(one, {}, names) for one in further])
        beside += [] if parts.group is None else [parts.group]
        require_columns(frame, beside, text, gaps=True)
        return list(dict.fromkeys([*needed, *beside]))

    def _translate(self, frame: Any) -> ModelFormula:
        """With a design of its own, where that gives formulaic's columns to rounding."""
        typed = self.typed
        assert typed is not None
        try:
            translation = Translation(typed.levels, typed.transforms, typed.columns)
            formula = replace(
                self,
                right=translation.design(self.names),
                left=numeric(
                    FormulaParts.of(self.text).successes or typed.target_name, typed.transforms, typed.columns
                ),
            )
            formula._refuse_damaged()
            msgspec.convert(msgspec.to_builtins((formula.right, formula.left)), tuple[Design, Numeric])
            mine, theirs = formula._design_and_target(frame), self._design_and_target(frame)
        except (ValueError, msgspec.ValidationError, *DAMAGED):
            return self
        for one, other in zip(mine, theirs):
            gap = np.abs(one - other)
            scale = np.maximum(np.abs(other).max(axis=0), np.finfo(np.float64).tiny)
            if not np.array_equal(np.isfinite(one), np.isfinite(other)) or np.any(
                gap[np.isfinite(gap)] > DIFFERENCE * np.max(scale)
            ):
                return self
        return formula

    def _design_and_target(self, frame: Any) -> tuple[Array, Array]:
        return self.design(frame).to_numpy(), np.column_stack([self.target(frame)])

    @property
    def group(self) -> str | None:
        """The column after the bar."""
        return split_bar(self.text)[1]

    @property
    def levels(self) -> dict[str, tuple[str, list[Any]]]:
        """Per factor of a formula typed in this process, its kind and the levels of categorical ones."""
        return {} if self.typed is None else self.typed.levels

    @property
    def transforms(self) -> dict[str, Any]:
        """What center(), scale(), poly(), bs() ... of a formula typed in this process keep of the data."""
        return {} if self.typed is None else self.typed.transforms

    def levels_of(self, variable: str) -> list[Any] | None:
        """The levels that the formula takes a variable for, the reference first; None where it is a number."""
        for factor in () if self.right is None else self.right.factors:
            if isinstance(factor, (Levels, Contrast)) and factor.of == Column(variable):
                kept = factor.kept if isinstance(factor, Levels) else ()
                reference = next((place for place in range(len(factor.levels)) if place not in kept), 0)
                return [factor.levels[reference], *factor.levels[:reference], *factor.levels[reference + 1 :]]
        for name, (kind, known) in self.levels.items() if self.right is None else ():
            if kind == "categorical" and name in (variable, f"C({variable})"):
                return list(known)
        return None

    def numeric(self, frame: Any) -> list[str]:
        """The variables that are numbers in a frame, and that the formula does not take for levels."""
        levels = set() if self.right is None else set(self.right.categorical)
        return [name for name in self.variables if frame[name].dtype.kind in "biuf" and name not in levels]

    def design(self, data: Any) -> Any:
        """The design for data: a pandas DataFrame with the columns ``names``."""
        frame = as_frame(data)
        require_columns(frame, self.variables, self.text)
        if self.right is None:
            return self._require_typed().design(frame)
        return _to_frame(self.right.matrix(frame), frame.index, self.names)

    def target(self, data: Any) -> Array:
        """The left-hand side in data: (n,), or (n, 2) of successes and failures."""
        frame = as_frame(data)
        require_columns(frame, self.explained, self.text)
        first = self._require_typed().target(frame) if self.left is None else _evaluate(self.left, frame)
        return first if self.failures is None else np.column_stack([first, _evaluate(self.failures, frame)])

    def offset(self, data: Any) -> Array | None:
        """What is added to the linear predictor of each row, NaN where a value is missing; None without an offset."""
        if not self.offsets:
            return None
        frame = as_frame(data)
        names = _columns_of(self.offsets)
        require_columns(frame, names, self.text, gaps=True)
        kept = np.asarray(~frame[names].isna().to_numpy().any(axis=1), dtype=bool)
        found = np.full(len(frame), np.nan)
        found[kept] = np.sum([_evaluate(one, frame[kept]) for one in self.offsets], axis=0)
        return found

    @property
    def offset_columns(self) -> list[str]:
        """The data's columns in the offsets."""
        return _columns_of(self.offsets)

    def refuse_pairs_and_offsets(self, where: str) -> ModelFormula:
        """The formula, where its target is one column and its predictor has no offset.

        Raises
        ------
        ValueError
            Where it has what only data frames in memory are fitted with.
        """
        if self.failures is not None or self.offsets:
            raise ValueError(
                f"cbind() and offset() are for rows in memory, and not yet for {where} (got {self.text!r})"
            )
        return self

    def resolve_target(self, data: Any, y: Any, gaps: bool = False) -> Any:
        """The left-hand side in data, or the y that was given for it; with ``gaps``, NaN where a value is missing.

        Where the left-hand side is more than a column, y may be that column of the data, which is then taken through
        the formula; any other y may be on another scale, and is refused. So is a grid of values left as it is.
        """
        frame = as_frame(data)
        if y is not None and (not self.is_transformed or np.ndim(y) != 1 or is_frame(y)):
            return y
        if y is not None and not self._is_own_column(frame, np.asarray(y)):
            raise ValueError(
                f"the model explains {self.target_name} and takes it from the data frame itself: leave out y, which "
                "may be on another scale"
            )
        if not gaps:
            return self.target(frame)
        require_columns(frame, self.explained, self.text, gaps=True)
        kept = ~np.any([*missing_in_columns(frame, self.explained).values()], axis=0)
        found = np.full(len(frame) if self.failures is None else (len(frame), 2), np.nan)
        if kept.any():
            found[kept] = self.target(frame[kept])
        return found

    def _is_own_column(self, frame: Any, y: Any) -> bool:
        name, *others = self.explained
        if others or name not in frame.columns or frame[name].dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
            return False
        return bool(np.array_equal(np.asarray(frame[name], np.float64), np.asarray(y, np.float64), equal_nan=True))

    def gaps_by_column(self, data: Any, names: Sequence[str]) -> dict[str, Any]:
        """Where some of the data's columns have no value."""
        frame = as_frame(data)
        require_columns(frame, names, self.text, gaps=True)
        return missing_in_columns(frame, names)

    def known(self, data: Any) -> NDArray[np.bool_]:
        """The rows that the design can be made for: no gap, and no level that the fit has not seen."""
        frame = as_frame(data)
        found = np.asarray(~frame[self.variables].isna().to_numpy().any(axis=1), dtype=bool)
        if self.right is not None:
            found[found] = self.right.known(frame[found])
        return found

    def unseen_levels(self, data: Any, rows: NDArray[np.bool_]) -> dict[str, Any]:
        """For each column of levels, one that stands in some rows and that the fit has not seen."""
        frame = as_frame(data)
        found: dict[str, Any] = {}
        for factor in () if self.right is None or not rows.any() else self.right.factors:
            unknown = rows & ~factor.known({name: frame[name] for name in self.variables}, len(frame))
            if unknown.any():
                name = factor.of.column or "a factor"
                found.setdefault(name, frame[name].to_numpy(dtype=object)[np.argmax(unknown)])
        return found

    def groups(self, data: Any, gaps: bool = False) -> Any:
        """The labels in the column after the bar; None without a bar."""
        if self.group is None:
            return None
        frame = as_frame(data)
        require_columns(frame, [self.group], self.text, gaps)
        return frame[self.group].to_numpy()

    @property
    def is_transformed(self) -> bool:
        """Whether the left-hand side is anything but a column as it is."""
        return self.target_name.strip("`") not in self.explained

    @property
    def target_name(self) -> str:
        """The left-hand side as text."""
        return self.text.partition("~")[0].strip()

    def to_plain(self) -> dict[str, Any]:
        """As JSON; refused where the formula uses what has no words in a model file."""
        try:
            refuse_other_text(self.text)
            if self.right is None or self.left is None:
                raise ValueError("it calls or holds what a model file has no words for")
        except ValueError as error:
            raise ValueError(
                f"the formula {self.text!r} can be fitted but cannot be saved: {error}; put what it computes into a "
                "column of the data, and name that"
            ) from None
        plain: dict[str, Any] = msgspec.to_builtins(
            StoredFormula(
                self.text,
                self.symmetric,
                self.intercept,
                list(self.names),
                self.right,
                self.left,
                self.failures,
                list(self.offsets),
            )
        )
        return plain

    @classmethod
    def from_plain(cls, content: Any) -> ModelFormula:
        """What :meth:`to_plain` wrote, or an earlier version of it; nothing in it is evaluated."""
        try:
            formula = cls._read_stored(content) if "right" in content else cls._read_text(content)
            formula._refuse_damaged()
        except msgspec.ValidationError as error:
            raise ValueError(f"the formula in the model file is damaged: {error}") from None
        except DAMAGED as error:
            raise ValueError(f"the formula in the model file is damaged: {type(error).__name__} {error}") from None
        return formula

    @classmethod
    def _read_stored(cls, content: Any) -> ModelFormula:
        stored = msgspec.convert(content, StoredFormula)
        refuse_other_text(stored.text)
        return cls._of(stored)

    @classmethod
    def _read_text(cls, content: Any) -> ModelFormula:
        """The format before designs were kept: the text, the columns' names, and what was learned."""
        given = msgspec.convert({name: unpack(value) for name, value in content.items()}, FormulaAsText)
        refuse_other_text(given.text)
        body, _ = split_bar(given.text)
        left, sign, _ = body.partition("~")
        if not sign:
            raise ValueError(f"the formula {given.text!r} has no target")
        translation = Translation(given.levels, given.transforms, given.columns)
        return cls._of(
            StoredFormula(
                given.text,
                given.symmetric,
                given.intercept,
                given.names,
                translation.design(given.names),
                numeric(left, given.transforms, given.columns),
            )
        )

    @classmethod
    def _of(cls, stored: StoredFormula) -> ModelFormula:
        return cls(
            stored.text,
            stored.symmetric,
            stored.intercept,
            tuple(stored.names),
            stored.right.variables,
            _response_columns(_columns_of([stored.left]), stored.failures),
            stored.right,
            stored.left,
            stored.failures,
            tuple(stored.offsets),
        )

    def _refuse_damaged(self) -> None:
        assert self.right is not None
        assert self.left is not None
        self.right.refuse_damaged()
        for expression in (self.left, *self.offsets, *([] if self.failures is None else [self.failures])):
            refuse_deep(expression.of)
        if len(self.right.products) != len(self.names):
            raise ValueError(f"the formula has {len(self.names)} names for {len(self.right.products)} columns")

    def _require_typed(self) -> TypedFormula:
        if self.typed is None:
            raise ValueError(f"the formula {self.text!r} has no design")
        return self.typed


class StoredFormula(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A formula in a model file."""

    text: Annotated[str, Meta(max_length=LONGEST_TEXT)]
    symmetric: bool
    intercept: bool
    names: Annotated[list[Annotated[str, Meta(max_length=LONGEST_LABEL)]], Meta(max_length=MOST_NAMES)]
    right: Design
    left: Numeric
    failures: Numeric | None = None
    offsets: Annotated[list[Numeric], Meta(max_length=MOST_OFFSETS)] = msgspec.field(default_factory=list)


class FormulaAsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A formula in a model file of the first format."""

    text: Annotated[str, Meta(max_length=LONGEST_TEXT)]
    symmetric: bool
    columns: list[str]
    intercept: bool
    names: Annotated[list[Annotated[str, Meta(max_length=LONGEST_LABEL)]], Meta(max_length=MOST_NAMES)]
    levels: dict[str, tuple[Literal["numerical", "categorical"], list[Any]]]
    transforms: dict[str, dict[str, Any]]


def _to_frame(matrix: Array, index: Any, names: Sequence[str]) -> Any:
    return import_module("pandas").DataFrame(matrix, index=index, columns=list(names))


def _evaluate(expression: Numeric, frame: Any) -> Array:
    columns = {name: frame[name] for name in _columns_of([expression])}
    return expression.matrix(columns, len(frame))[:, 0]


def _columns_of(expressions: Sequence[Numeric]) -> list[str]:
    return sorted({name for expression in expressions for name in column_names(expression.of)})


def _response_columns(successes: Sequence[str], failures: Numeric | None) -> list[str]:
    further = [] if failures is None else _columns_of([failures])
    return list(dict.fromkeys([*successes, *further]))
