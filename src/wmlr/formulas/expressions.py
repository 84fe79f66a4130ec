"""Arithmetic on the columns of a table, as plain data: what a formula's factors are made of.

An expression is a tree of columns, numbers, operators and functions out of a closed list. It is read from text by a
grammar of its own, kept as JSON, and evaluated by NumPy in floating point; no text is ever evaluated as Python.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from wmlr.numerics.arrays import Array

Operator = Literal["+", "-", "*", "/", "**", "<", "<=", ">", ">=", "==", "!="]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
OneArgument = Literal[
    "abs", "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos", "cosh",
    "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor", "log", "log10", "log1p", "log2", "negative",
    "positive", "rad2deg", "radians", "reciprocal", "rint", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc",
]  # fmt: skip
TwoArguments = Literal["arctan2", "fmax", "fmin", "hypot", "logaddexp", "maximum", "minimum", "mod", "power"]
UNARY: tuple[str, ...] = get_args(OneArgument)
BINARY: tuple[str, ...] = get_args(TwoArguments)
BARE = ("log", "log10", "log2", "exp", "exp2")  # those that a formula knows without np.
STATEFUL = ("center", "scale", "standardize")
DEEPEST = 100
LONGEST_TEXT = 10_000
LONGEST_NUMBER = 40
TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"|(?P<quoted>`[^`]+`)"
    r"|(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^:%(),=~|\[\].<>]))"
)

Columns = Mapping[str, Any]


class Node(msgspec.Struct, frozen=True):
    """A part of an expression."""

    def value(self, columns: Columns) -> Any:
        """What it comes to in a table: an array of floats, or a number."""
        raise NotImplementedError

    def parts(self) -> tuple[Node, ...]:
        """The expressions inside."""
        return tuple(part for part in msgspec.structs.astuple(self) if isinstance(part, Node))

    @property
    def column(self) -> str | None:
        """The name of the column that it is; None for what is computed."""
        return None


class Column(Node, frozen=True, tag="column"):
    """A column of the table, as numbers."""

    name: str

    @property
    def column(self) -> str:
        return self.name

    def value(self, columns: Columns) -> Any:
        try:
            return np.asarray(columns[self.name], dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {self.name!r} holds no numbers: the formula needs numbers there, or C({self.name})"
            ) from None


class Number(Node, frozen=True, tag="number"):
    """A number."""

    number: float

    def value(self, columns: Columns) -> Any:
        return np.float64(self.number)


class Negative(Node, frozen=True, tag="negative"):
    """The negative of something."""

    of: Expression

    def value(self, columns: Columns) -> Any:
        return -self.of.value(columns)


class Binary(Node, frozen=True, tag="operator"):
    """Two expressions and an operator between them."""

    operator: Operator
    left: Expression
    right: Expression

    def value(self, columns: Columns) -> Any:
        found = OPERATORS[self.operator](self.left.value(columns), self.right.value(columns))
        return np.asarray(found, dtype=np.float64)


class Applied(Node, frozen=True, tag="function"):
    """A function of one expression."""

    function: OneArgument
    of: Expression

    def value(self, columns: Columns) -> Any:
        return getattr(np, self.function)(self.of.value(columns))


class AppliedToTwo(Node, frozen=True, tag="function of two"):
    """A function of two expressions."""

    function: TwoArguments
    first: Expression
    second: Expression

    def value(self, columns: Columns) -> Any:
        return getattr(np, self.function)(self.first.value(columns), self.second.value(columns))


class Scaled(Node, frozen=True, tag="scaled"):
    """An expression less a number, over a number: center(), scale() and standardize() of the rows of the fit."""

    of: Expression
    centre: float | None = None
    scale: float | None = None

    def value(self, columns: Columns) -> Any:
        found = self.of.value(columns)
        if self.centre is not None:
            found = found - self.centre
        return found if self.scale is None else found / self.scale


Expression = Column | Number | Negative | Binary | Applied | AppliedToTwo | Scaled


def evaluate(expression: Node, columns: Columns, n: int) -> Array:
    """An expression's value in each of n rows; what is no number is left for the reader to refuse."""
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(expression.value(columns), (n,)), dtype=np.float64)


def column_names(expression: Node) -> Iterator[str]:
    """The columns an expression needs."""
    if expression.column is not None:
        yield expression.column
    for part in expression.parts():
        yield from column_names(part)


def refuse_deep(expression: Node, depth: int = 0) -> None:
    """Raise where expressions are nested too deep."""
    if depth > DEEPEST:
        raise ValueError(f"an expression is nested more than {DEEPEST} deep")
    for part in expression.parts():
        refuse_deep(part, depth + 1)


class Token(msgspec.Struct, frozen=True):
    """A word or sign of a formula, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words and signs of a formula.

    Raises
    ------
    ValueError
        At anything that is no name, number, quoted text or sign of a formula.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a formula of {len(text):,} characters is too long (at most {LONGEST_TEXT:,})")
    found, place = [], 0
    while text[place:].strip():
        match = TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise refusal(text, text[place:].strip()[:1])
        word = match[match.lastgroup]
        if match.lastgroup == "name" and not _plain_name(word):
            raise refusal(text, word)
        if match.lastgroup == "number" and len(word) > LONGEST_NUMBER:
            raise refusal(text, f"{word[:LONGEST_NUMBER]}...")
        place = match.end()
        found.append(Token(match.lastgroup, word, place - len(word), place))
    return found


def refusal(text: str, word: str) -> ValueError:
    """What to say of a formula with something outside the closed list."""
    shown = text if len(text) <= 200 else f"{text[:197]}..."
    return ValueError(
        f"a model file may not hold {shown!r} ({word!r}): only columns, numbers, arithmetic and the formula's own "
        "functions"
    )


def _plain_name(word: str) -> bool:
    parts = word.split(".")
    return not any(part.startswith("__") or (keyword.iskeyword(part) and part not in ("True", "False", "None", "in"))
                   for part in parts)  # fmt: skip


def numpy_function(word: str) -> str | None:
    """The function of numbers that a word calls, as numpy names it; None where it calls none of the closed list."""
    name = word.removeprefix("np.")
    known = name in UNARY or name in BINARY
    return name if known and (word != name or name in BARE) else None
