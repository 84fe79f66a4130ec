"""Factors of a formula, from text to plain data, by a grammar that knows nothing but a closed list.

What a stateful transform (``center``, ``poly``, ``bs`` ...) learned from the rows of the fit is looked up by its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from wmlr.formulas.expressions import (
    BINARY,
    DEEPEST,
    STATEFUL,
    UNARY,
    Applied,
    AppliedToTwo,
    Binary,
    Column,
    Negative,
    Number,
    Scaled,
    Token,
    numpy_function,
    refusal,
    tokens,
)

BASES = ("bs", "cc", "cr", "cs", "poly")
CONTRASTS = ("treatment", "sum", "helmert", "poly", "diff", "sas", "backward", "forward")
PATSY = ("Treatment", "Sum", "Helmert", "Poly", "Diff")
OWN = ("cbind", "offset")  # what formulas call that are no factors
CALLED = (*STATEFUL, *BASES, *PATSY, "I", "C", "Q")
INFIX = ("*", "/", "**", "^", ":", "=", "<", "<=", ">", ">=", "==", "!=", "|", ",")
COMPARED = ("<", "<=", ">", ">=", "==", "!=")
WORDS = {"True": True, "False": False, "None": None}


class Call:
    """A call of something other than a function of numbers: its name, arguments and source text."""

    def __init__(self, name: str, arguments: list[Any], named: dict[str, Any], text: str) -> None:
        self.name, self.arguments, self.named, self.text = name, arguments, named, text

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """An argument, by its place or its name."""
        return self.arguments[place] if len(self.arguments) > place else self.named.get(name, default)


class Parser:
    """A factor's text, read from left to right.

    Parameters
    ----------
    text : the factor.
    states : what each stateful transform learned, by its text.
    """

    def __init__(self, text: str, states: Mapping[str, Mapping[str, Any]]) -> None:
        self.text, self.tokens, self.place, self.depth = text, tokens(text), 0, 0
        self.states = {strip_blanks(name): state for name, state in states.items()}

    def factor(self) -> Any:
        """The factor: an expression, or a :class:`Call` of a basis or of C()."""
        found = self.comparison()
        if self.place < len(self.tokens):
            raise refusal(self.text, self.tokens[self.place].text)
        return found

    def state(self, call: Call) -> Mapping[str, Any]:
        """What a stateful transform learned."""
        found = self.states.get(strip_blanks(call.text))
        if not isinstance(found, Mapping):
            raise ValueError(f"the model file does not say what {call.text} learned from the rows of the fit")
        return found

    def comparison(self) -> Any:
        left = self.sum()
        if self.peek() in COMPARED:
            sign = self.take().text
            return Binary(sign, self.number(left), self.number(self.sum()))  # type: ignore[arg-type]
        return left

    def sum(self) -> Any:
        return self.chain(("+", "-"), self.product)

    def product(self) -> Any:
        return self.chain(("*", "/"), self.unary)

    def chain(self, signs: tuple[str, ...], part: Any) -> Any:
        left = part()
        while self.peek() in signs:
            sign = self.take().text
            left = Binary(sign, self.number(left), self.number(part()))  # type: ignore[arg-type]
            self.deepen(1)
        return left

    def unary(self) -> Any:
        if self.peek() == "-":
            self.take()
            self.deepen(1)
            return Negative(self.number(self.unary()))
        if self.peek() == "+":
            self.take()
            return self.number(self.unary())
        return self.power()

    def power(self) -> Any:
        base = self.atom()
        if self.peek() != "**":
            return base
        self.take()
        self.deepen(1)
        return Binary("**", self.number(base), self.number(self.unary()))

    def atom(self) -> Any:
        token = self.take()
        if token.kind == "number":
            if not np.isfinite(float(token.text)):
                raise refusal(self.text, token.text)
            return Number(float(token.text))
        if token.kind == "quoted":
            return Column(token.text[1:-1])
        if token.kind == "name" and self.peek() == "(":
            return self.call(token)
        if token.kind == "name" and "." not in token.text and token.text not in (*WORDS, "in"):
            return Column(token.text)
        if token.text == "(":
            self.deepen(1)
            inside = self.comparison()
            self.expect(")")
            return inside
        raise refusal(self.text, token.text)

    def call(self, token: Token) -> Any:
        function = numpy_function(token.text)
        if function is None and token.text not in CALLED:
            raise refusal(self.text, token.text)
        self.deepen(1)
        self.expect("(")
        arguments, named = self.arguments(")")
        call = Call(token.text, arguments, named, self.text[token.start : self.tokens[self.place - 1].end])
        if function is not None:
            return self.application(function, call)
        if call.name in ("I", "Q"):
            return self.only_argument(call)
        if call.name in STATEFUL:
            state = self.state(call)
            return Scaled(
                self.number(call.argument(0, "data")),
                optional_float(state.get("center")),
                optional_float(state.get("scale")),
            )
        return call

    def application(self, function: str, call: Call) -> Any:
        inside = [self.number(item) for item in call.arguments]
        if function in UNARY and len(inside) == 1 and not call.named:
            return Applied(function, inside[0])  # type: ignore[arg-type]
        if function in BINARY and len(inside) == 2 and not call.named:
            return AppliedToTwo(function, *inside)  # type: ignore[arg-type]
        raise refusal(self.text, call.text)

    def only_argument(self, call: Call) -> Any:
        """The one argument of I() or Q()."""
        if len(call.arguments) != 1 or call.named:
            raise refusal(self.text, call.text)
        (inside,) = call.arguments
        if call.name == "Q" and isinstance(inside, str):
            return Column(inside)
        return self.number(inside)

    def arguments(self, end: str) -> tuple[list[Any], dict[str, Any]]:
        places: list[Any] = []
        named: dict[str, Any] = {}
        while self.peek() != end:
            ahead = self.tokens[self.place + 1].text if self.place + 1 < len(self.tokens) else ""
            if self.tokens[self.place].kind == "name" and ahead == "=":
                name = self.take().text
                self.take()
                named[name] = self.argument()
            else:
                places.append(self.argument())
            if self.peek() != end:
                self.expect(",")
        self.expect(end)
        return places, named

    def argument(self) -> Any:
        """A text, a word, a list, a contrast, or an expression."""
        token = self.tokens[self.place]
        if token.kind == "text":
            return self.take().text[1:-1]
        if token.text in WORDS:
            return WORDS[self.take().text]
        if token.text == "[":
            self.take()
            self.deepen(1)
            return self.arguments("]")[0]
        if token.kind == "name" and (token.text.startswith("contr.") or token.text in PATSY):
            return self.contrast()
        return self.comparison()

    def contrast(self) -> Call:
        token = self.take()
        kind = token.text.removeprefix("contr.")
        if kind not in CONTRASTS and kind not in PATSY:
            raise refusal(self.text, token.text)
        if self.peek() != "(":
            return Call(kind.lower(), [], {}, token.text)
        self.take()
        return Call(kind.lower(), *self.arguments(")"), token.text)

    def number(self, found: Any) -> Any:
        """Something that arithmetic can be done with."""
        if isinstance(found, (Call, str, list)) or found is None or isinstance(found, bool):
            raise refusal(self.text, found.text if isinstance(found, Call) else str(found))
        return found

    def deepen(self, by: int) -> None:
        self.depth += by
        if self.depth > DEEPEST:
            raise ValueError(f"the formula {self.text[:80]!r} has more than {DEEPEST} operations in one factor")

    def peek(self) -> str:
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    def take(self) -> Token:
        if self.place >= len(self.tokens):
            raise refusal(self.text, "its end")
        self.place += 1
        return self.tokens[self.place - 1]

    def expect(self, sign: str) -> None:
        if self.take().text != sign:
            raise refusal(self.text, self.tokens[self.place - 1].text)


def refuse_other_text(text: str) -> None:
    """Raise unless a whole formula is made of columns, numbers, operators and the formula's own functions.

    The text is looked at, and never evaluated: it is what a report shows above the design, which is plain data.
    """
    depth, before = 0, Token("sign", "", 0, 0)
    for token in (found := tokens(text)):
        operand = token.kind in ("name", "number", "quoted", "text") and not (token.text == "in" and depth == 0)
        ended = before.kind in ("name", "number", "quoted", "text") or before.text in (")", "]", ".")
        ended = ended and not (before.text == "in" and depth == 0)
        fine = not (operand and ended)
        if token.text == "(" and ended:
            fine = before.kind == "name" and _callable(before.text)
        if token.kind == "text":
            fine = fine and depth > 0 and before.text in ("(", ",", "=", "[")
        if before.kind == "text":
            fine = fine and token.text in (")", ",", "]")
        if token.text in INFIX:
            fine = fine and ended
        if token.text in ("%", "^", "~", "|"):
            fine = fine and depth == 0
        if token.text in ("[", "="):
            fine = fine and depth > 0 and (before.text in ("(", ",", "=") if token.text == "[" else ended)
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if not fine or depth < 0 or depth > DEEPEST:
            raise refusal(text, before.text if token.text == "(" else token.text)
        before = token
    if depth or not found:
        raise refusal(text, "its end")


def _callable(word: str) -> bool:
    contrast = word.startswith("contr.") and word.removeprefix("contr.") in CONTRASTS
    return contrast or word in (*CALLED, *OWN) or numpy_function(word) is not None


def optional_float(value: Any) -> float | None:
    """A number that a transform learned, or None."""
    return None if value is None else float(value)


def strip_blanks(text: str) -> str:
    """A text without blanks, with one kind of quotes."""
    return re.sub(r"\s", "", text).replace('"', "'")
