"""A formula as it is typed, read through formulaic, with what it learned from the data.

Only what the user of this process wrote comes here: formulaic evaluates Python.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from wmlr.io.frames import require_columns, text_as_objects
from wmlr.numerics.arrays import Array

DOT = "__formulaic_variables_available__"  # where formulaic looks for what a dot stands for


@dataclass(frozen=True)
class TypedFormula:
    """A formula and what formulaic learned for it.

    Attributes
    ----------
    text : the formula as given; body : the same without the bar and what is after it.
    columns : the data's columns, for which a dot in the formula stands.
    symmetric : whether the model is a symmetric pair, which has no intercept whatever the formula says.
    intercept : whether the formula has one.
    names : of the columns of the design, without the intercept.
    target_name : the left-hand side as formulaic writes it.
    variables, explained : the data's columns on the right-hand side, and on the left.
    levels : per factor, its kind and the levels of categorical ones.
    transforms : what center(), scale(), poly(), bs() ... keep of the data.
    """

    text: str
    body: str
    columns: tuple[str, ...]
    symmetric: bool = False
    intercept: bool = True
    names: tuple[str, ...] = ()
    target_name: str = ""
    variables: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    levels: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    transforms: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, body: str, frame: Any, columns: list[str], symmetric: bool) -> TypedFormula:
        """Read a formula with the data it is to be fitted to."""
        formula = cls(text, body, tuple(columns), symmetric)
        left, right = formula._sides()
        explained, variables = (tuple(formula._required_columns(side, frame)) for side in (left, right))
        target, design = formula._matrix(frame, left).model_spec, formula._matrix(frame, right).model_spec
        names = tuple(str(name) for name in design.column_names if name != "Intercept")
        if not names:
            raise ValueError(f"the formula {text!r} names no column to explain {left} by")
        states = {**target.transform_state, **design.transform_state}
        return replace(
            formula,
            intercept="Intercept" in design.column_names,
            names=names,
            target_name=str(target.column_names[0]) if len(target.column_names) == 1 else "",
            variables=variables,
            explained=explained,
            levels={
                str(name): (kind.value, list(state.get("categories", [])))
                for name, (kind, state) in design.encoder_state.items()
            },
            transforms={str(name): dict(state) for name, state in states.items()},
        )

    @classmethod
    def columns_of(cls, text: str, body: str, frame: Any, columns: list[str], symmetric: bool) -> list[str]:
        """The data's columns that a formula needs, all of them there, with gaps or without."""
        formula = cls(text, body, tuple(columns), symmetric)
        return [name for side in formula._sides() for name in formula._required_columns(side, frame, gaps=True)]

    def design(self, frame: Any) -> Any:
        """The design for a data frame."""
        matrix = self._matrix(frame, self._sides()[1])
        found = tuple(str(name) for name in matrix.columns if name != "Intercept")
        if found != self.names:
            raise ValueError(f"the data give columns {list(found)} for {self.text!r}, not {list(self.names)}")
        return matrix[list(self.names)].astype(np.float64)

    def target(self, frame: Any) -> Array:
        """The left-hand side in a data frame."""
        matrix = self._matrix(frame, self._sides()[0])
        if matrix.shape[1] != 1:
            remedy = (
                "" if matrix.shape[1] != 2 else ": of a text with two values make 0 and 1, as by I(answer == 'yes')"
            )
            raise ValueError(
                f"the target of {self.text!r} must be one column of numbers (got {list(matrix.columns)}){remedy}"
            )
        return np.asarray(matrix.iloc[:, 0], dtype=np.float64)

    def _sides(self) -> tuple[Any, Any]:
        formulaic = _formulaic()
        try:
            parsed = formulaic.Formula.from_spec(self.body, context={DOT: list(self.columns)})
        except (formulaic.errors.FormulaicError, SyntaxError) as error:
            raise ValueError(f"the formula {self.text!r} cannot be read: {str(error).splitlines()[0]}") from None
        left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", None)
        if left is None or right is None or len(left) != 1:
            raise ValueError(f"a formula has one target and its columns, y ~ x1 + x2 (got {self.text!r})")
        if self.symmetric:
            right = formulaic.Formula([term for term in right if str(term) != "1"])
        return left, right

    def _required_columns(self, formula: Any, frame: Any, gaps: bool = False) -> list[str]:
        """The columns that a side needs, all of them there and, unless ``gaps`` are allowed, without any."""
        variables, functions = _columns_and_functions(formula)
        if functions:
            raise ValueError(f"the formula {self.text!r} calls {functions[0]}(), which formulaic does not know")
        require_columns(frame, variables, self.text, gaps)
        return variables

    def _matrix(self, frame: Any, formula: Any) -> Any:
        formulaic = _formulaic()
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
                return spec.get_model_matrix(text_as_objects(frame, _columns_and_functions(formula)[0]), context={})
            except formulaic.errors.DataMismatchWarning as error:
                found = str(error).partition("dataset): ")[2].partition(". They are")[0]
                raise ValueError(f"the data have levels that were not there in the fit: {found}") from None
            except (formulaic.errors.FormulaicError, TypeError) as error:
                raise ValueError(f"the formula {self.text!r} cannot be evaluated: {error}") from None


def _columns_and_functions(formula: Any) -> tuple[list[str], list[str]]:
    """The columns a parsed formula needs, and the functions it calls that nobody knows."""
    names, called, alone = {str(name) for name in formula.required_variables}, set(), set()
    for factor in (factor for term in formula for factor in term.factors):
        if factor.eval_method.value == "lookup":  # a column, even where a function of formulaic's has its name
            alone.add(str(factor.expr))
        elif "`" in factor.expr:
            alone |= {name for name in re.findall("`([^`]*)`", factor.expr) if "." in name}
        if factor.eval_method.value == "python" and "`" not in factor.expr:
            nodes = list(ast.walk(ast.parse(factor.expr)))
            names |= {node.id for node in nodes if isinstance(node, ast.Name)}
            called |= {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names -= {name.partition(".")[0] for name in alone if "." in name}  # formulaic reads a.b as what a has of b
    known = set(import_module("formulaic.transforms").TRANSFORMS)
    return sorted((names - known - called) | alone), sorted(called - known)


def _formulaic() -> Any:
    try:
        return import_module("formulaic")
    except ImportError:
        raise ImportError("formulas need formulaic: pip install 'wmlr[formula]'") from None
