"""Formulas: ``tuned ~ stretchratio``, ``yn ~ x + I(x**2) | id2``, read through formulaic."""

from __future__ import annotations

import ast
import warnings
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wmlr.frames import as_frame, is_frame, refuse_gaps, text_as_objects
from wmlr.packing import packed, refuse_code, unpacked
from wmlr.round import Array

OPEN, CLOSED = "([{", ")]}"
DOT = "__formulaic_variables_available__"  # where formulaic looks for what a dot stands for


@dataclass(frozen=True)
class ModelFormula:
    """A formula and what it learned from the data it was first read with: plain data, so that it can be kept.

    Attributes
    ----------
    text : the formula as given.
    symmetric : whether the model is a symmetric pair, which has no intercept whatever the formula says.
    columns : the data's columns, for which a dot in the formula stands.
    intercept : whether the formula has one.
    names : of the columns of the design, without the intercept.
    levels : per factor, its kind and the levels of categorical ones.
    transforms : what center(), scale(), poly(), bs() ... keep of the data.
    """

    text: str
    symmetric: bool = False
    columns: tuple[str, ...] = ()
    intercept: bool = True
    names: tuple[str, ...] = ()
    levels: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    transforms: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, data: Any, symmetric: bool = False) -> ModelFormula:
        """Read a formula with the data it is to be fitted to."""
        frame = as_frame(data)
        formula = cls(text, symmetric, tuple(name for name in map(str, frame.columns) if name != split_bar(text)[1]))
        left, right = formula._sides()
        target, design = formula._matrix(frame, left).model_spec, formula._matrix(frame, right).model_spec
        names = tuple(str(name) for name in design.column_names if name != "Intercept")
        if not names:
            raise ValueError(f"the formula {text!r} names no column to explain {left} by")
        states = {**target.transform_state, **design.transform_state}
        return replace(
            formula,
            intercept="Intercept" in design.column_names,
            names=names,
            levels={
                str(name): (kind.value, list(state.get("categories", [])))
                for name, (kind, state) in design.encoder_state.items()
            },
            transforms={str(name): dict(state) for name, state in states.items()},
        )

    @property
    def group(self) -> str | None:
        """The column after the bar."""
        return split_bar(self.text)[1]

    @property
    def variables(self) -> list[str]:
        """The data's columns on the right-hand side."""
        return _mentioned(self._sides()[1])[0]

    @property
    def target_variables(self) -> list[str]:
        """The data's columns on the left-hand side."""
        return _mentioned(self._sides()[0])[0]

    def design(self, data: Any) -> Any:
        """The design for data: a pandas DataFrame with the columns ``names``."""
        matrix = self._matrix(as_frame(data), self._sides()[1])
        found = tuple(str(name) for name in matrix.columns if name != "Intercept")
        if found != self.names:
            raise ValueError(f"the data give columns {list(found)} for {self.text!r}, not {list(self.names)}")
        return matrix[list(self.names)].astype(np.float64)

    def target(self, data: Any) -> Array:
        """The left-hand side in data."""
        matrix = self._matrix(as_frame(data), self._sides()[0])
        if matrix.shape[1] != 1:
            raise ValueError(f"the target of {self.text!r} must be one column of numbers (got {list(matrix.columns)})")
        return np.asarray(matrix.iloc[:, 0], dtype=np.float64)

    def groups(self, data: Any) -> Any:
        """The labels in the column after the bar; None without a bar."""
        if self.group is None:
            return None
        frame = as_frame(data)
        self._require(frame, [self.group])
        return frame[self.group].to_numpy()

    def to_plain(self) -> dict[str, Any]:
        """As JSON; refused where the formula holds code, or a transform keeps something JSON cannot."""
        self._refuse_code()
        try:
            return {name: packed(value) for name, value in asdict(self).items()}
        except ValueError as error:
            raise ValueError(f"the formula {self.text!r} cannot be saved: {error}") from None

    @classmethod
    def from_plain(cls, content: dict[str, Any]) -> ModelFormula:
        """What :meth:`to_plain` wrote."""
        fields = {name: unpacked(value) for name, value in content.items()}
        fields |= {name: tuple(fields[name]) for name in ("columns", "names")}
        fields["levels"] = {name: (kind, list(known)) for name, (kind, known) in fields["levels"].items()}
        formula = cls(**fields)
        formula._refuse_code()
        return formula

    def _refuse_code(self) -> None:
        functions = import_module("formulaic.transforms").TRANSFORMS if _formulaic() else {}
        factors = [factor for side in self._sides() for term in side for factor in term.factors]
        refuse_code((factor.expr for factor in factors if factor.eval_method.value == "python"), functions)

    def _sides(self) -> tuple[Any, Any]:
        formulaic = _formulaic()
        body, _ = split_bar(self.text)
        try:
            parsed = formulaic.Formula.from_spec(body, context={DOT: list(self.columns)})
        except (formulaic.errors.FormulaicError, SyntaxError) as error:
            raise ValueError(f"the formula {self.text!r} cannot be read: {str(error).splitlines()[0]}") from None
        left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", None)
        if left is None or right is None or len(left) != 1:
            raise ValueError(f"a formula has one target and its columns, y ~ x1 + x2 (got {self.text!r})")
        if self.symmetric:
            right = formulaic.Formula([term for term in right if str(term) != "1"])
        return left, right

    def _matrix(self, frame: Any, formula: Any) -> Any:
        formulaic = _formulaic()
        variables, functions = _mentioned(formula)
        if functions:
            raise ValueError(f"the formula {self.text!r} calls {functions[0]}(), which formulaic does not know")
        self._require(frame, variables)
        kind = import_module("formulaic.parser.types").Factor.Kind
        spec = formulaic.ModelSpec(
            formula=formula,
            na_action="ignore",
            output="pandas",
            transform_state={name: dict(state) for name, state in self.transforms.items()},
            encoder_state={
                name: (kind(word), {"categories": list(known)} if known else {})
                for name, (word, known) in self.levels.items()
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", formulaic.errors.DataMismatchWarning)
            try:
                return spec.get_model_matrix(text_as_objects(frame, variables), context={})
            except formulaic.errors.DataMismatchWarning as error:
                found = str(error).partition("dataset): ")[2].partition(". They are")[0]
                raise ValueError(f"the data have levels that were not there in the fit: {found}") from None
            except formulaic.errors.FormulaicError as error:
                raise ValueError(f"the formula {self.text!r} cannot be evaluated: {error}") from None

    def _require(self, frame: Any, names: list[str]) -> None:
        there = [str(name) for name in frame.columns]
        for name in names:
            if name not in there:
                raise ValueError(
                    f"the data have no column {name!r} for the formula {self.text!r}; they have {', '.join(there)}"
                )
        refuse_gaps(frame, names)


class FormulaMixin:
    """Fits by a formula, which the model then reads new data frames with.

    Attributes
    ----------
    formula_ : the :class:`ModelFormula` of a fit by a formula.
    """

    formula_: ModelFormula

    if TYPE_CHECKING:

        def __init__(self, *settings: Any, **named: Any) -> None: ...

        def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self: ...

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, n_components: int = 2, *, sample_weight: Any = None, **settings: Any
    ) -> Self:
        """Fit a formula to a data frame.

        The fitted model takes data frames with the formula's columns wherever it takes X; y and groups are
        then the frame's own, unless they are given.

        Parameters
        ----------
        formula : such as ``"tuned ~ stretchratio"``, or ``"yn ~ x + I(x**2) | id2"`` with the column of the
            groups after the bar. ``- 1`` or ``+ 0`` leaves out the intercepts.
        data : a pandas or polars DataFrame, or a dictionary of columns.
        n_components : the number of regressions.
        sample_weight : one number per row, or the name of a column.
        **settings : as for the class; ``fit_intercept`` is the formula's to say.

        Examples
        --------
        >>> import pandas as pd
        >>> from wmlr import MixedLinearRegression
        >>> from wmlr.datasets import load_tone
        >>> tone = load_tone()
        >>> data = pd.DataFrame({"stretchratio": tone.data[:, 0], "tuned": tone.target})
        >>> fit = MixedLinearRegression.from_formula("tuned ~ stretchratio", data, shared_sigma=False)
        >>> fit.parameter_names_[:2]
        ('stretchratio[1]', '(intercept)[1]')
        """
        for name, instead in (("fit_intercept", "write - 1 for none"), ("features", "write the columns into it")):
            if name in settings:
                raise ValueError(f"{name} is the formula's to say: {instead} (got {name}={settings[name]!r})")
        read = ModelFormula.read(formula, data, bool(settings.get("symmetric", False)))
        model = cls(n_components, fit_intercept=read.intercept, **settings)
        if isinstance(sample_weight, str):
            sample_weight = as_frame(data)[sample_weight].to_numpy()
        model.fit(read.design(data), read.target(data), sample_weight, read.groups(data))
        model.formula_ = read
        return model

    def _framed(self, X: Any, y: Any, groups: Any, *, target: bool) -> tuple[Any, Any, Any]:
        """X, y and groups from a data frame where the model has a formula; else as they are."""
        formula = getattr(self, "formula_", None)
        if formula is None or not is_frame(X):
            return X, y, groups
        frame = as_frame(X)
        if tuple(frame.columns) == formula.names:
            return X, y, groups
        if target and y is None:
            y = formula.target(frame)
        if groups is None and formula.group in frame.columns:
            groups = formula.groups(frame)
        return formula.design(frame), y, groups


def split_bar(text: str) -> tuple[str, str | None]:
    """The formula before the bar, and the column after it; a bar inside brackets is no such bar."""
    depth, quoted, bars = 0, False, []
    for place, sign in enumerate(text):
        quoted ^= sign == "`"
        depth += 0 if quoted else (sign in OPEN) - (sign in CLOSED)
        if sign == "|" and depth == 0 and not quoted:
            bars.append(place)
    if not bars:
        return text, None
    group = text[bars[0] + 1 :].strip().strip("`")
    if len(bars) > 1 or not group:
        raise ValueError(f"a formula has one column after one bar, y ~ x | group (got {text!r})")
    return text[: bars[0]], group


def _mentioned(formula: Any) -> tuple[list[str], list[str]]:
    """The columns a parsed formula needs, and the functions it calls that nobody knows."""
    names, called = {str(name) for name in formula.required_variables}, set()
    for factor in (factor for term in formula for factor in term.factors):
        if factor.eval_method.value == "python" and "`" not in factor.expr:
            nodes = list(ast.walk(ast.parse(factor.expr)))
            names |= {node.id for node in nodes if isinstance(node, ast.Name)}
            called |= {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    known = set(import_module("formulaic.transforms").TRANSFORMS)
    return sorted(names - known - called), sorted(called - known)


def _formulaic() -> Any:
    try:
        return import_module("formulaic")
    except ImportError:
        raise ImportError("formulas need formulaic: pip install 'wmlr[formula]'") from None
