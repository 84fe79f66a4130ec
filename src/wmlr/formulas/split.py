"""The parts of a formula's text: what formulaic reads, and what this library reads by itself.

``cbind(successes, failures) ~ x + offset(log(hours)) | id`` has failures, an offset and a group beside its regressors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

OPEN, CLOSED = "([{", ")]}"
PAIR = re.compile(r"\s*cbind\s*\((.*)\)\s*", re.DOTALL)
OFFSET = re.compile(r"\s*offset\s*\((.*)\)\s*", re.DOTALL)
WORD = re.compile(r"\s*([^\W\d]\w*|`[^`]*`)\s*")


@dataclass(frozen=True)
class FormulaParts:
    """A formula, taken apart.

    Attributes
    ----------
    body : the target, or the successes, and the regressors: what formulaic reads.
    successes : the successes as they are written, where the target is a pair.
    failures : the failures as they are written; None where the target is no pair.
    offsets : what is added to the predictor, as it is written.
    group : the column after the bar; None without a bar.
    """

    body: str
    successes: str | None = None
    failures: str | None = None
    offsets: tuple[str, ...] = ()
    group: str | None = None

    @classmethod
    def of(cls, text: str) -> FormulaParts:
        """Take a formula apart.

        Raises
        ------
        ValueError
            At a second bar, a pair of another number of columns, or an offset that is not simply added.
        """
        body, group = split_bar(text)
        left, sign, right = body.partition("~")
        if not sign:
            return cls(body, group=group)
        successes, failures = _pair(left, text)
        kept, offsets = _without_offsets(right, text)
        target = left if failures is None else f"{_as_one_term(successes)} "
        return cls(f"{target}~{kept}", None if failures is None else successes, failures, offsets, group)


def with_terms(text: str, further: Any) -> str:
    """A formula with the terms of another, such as ``"~ a + b"``, that it has not already; as it is beside no other.

    So ``"y ~ 1"`` with columns that all components share needs not name these twice.
    """
    if not isinstance(further, str):
        return text
    body, group = split_bar(text)
    right = body.partition("~")[2]
    present = {_without_blanks(term) for _, term in _split(right, "+-")}
    added = [term.strip() for _, term in _split(further.partition("~")[2], "+") if _without_blanks(term) not in present]
    if not added or re.search(r"[*.]", right):
        return text
    return " + ".join([body.rstrip(), *added]) + ("" if group is None else f" |{text[len(body) + 1 :]}")


def _without_blanks(text: str) -> str:
    return re.sub(r"\s", "", text)


def split_bar(text: str) -> tuple[str, str | None]:
    """The formula before the bar, and the column after it; a bar inside brackets is no such bar."""
    before, *after = _split(text, "|")
    if not after:
        return text, None
    group = after[0][1].strip().strip("`")
    if len(after) > 1 or not group:
        raise ValueError(f"a formula has one column after one bar, y ~ x | group (got {text!r})")
    return before[1], group


def _pair(left: str, text: str) -> tuple[str, str | None]:
    found = PAIR.fullmatch(left)
    if found is None:
        return left.strip(), None
    columns = [part.strip() for _, part in _split(found[1], ",")]
    if len(columns) != 2 or not all(columns):
        raise ValueError(f"cbind() has two columns, cbind(successes, failures) (got {text!r})")
    return columns[0], columns[1]


def _without_offsets(right: str, text: str) -> tuple[str, tuple[str, ...]]:
    kept, offsets = "", []
    for sign, term in _split(right, "+-"):
        found = OFFSET.fullmatch(term)
        if found is None:
            kept += sign + term
        elif sign == "-" or not found[1].strip():
            raise ValueError(f"an offset is added, y ~ x + offset(log(hours)) (got {text!r})")
        else:
            offsets.append(found[1].strip())
    if re.search(r"\boffset\s*\(", kept):
        raise ValueError(f"an offset stands by itself, y ~ x + offset(log(hours)) (got {text!r})")
    return kept or " 1", tuple(offsets)


def _as_one_term(expression: str) -> str:
    return expression if WORD.fullmatch(expression) else f"I({expression})"


def _split(text: str, signs: str) -> list[tuple[str, str]]:
    """Pieces between signs that stand outside of brackets and backquotes, each with the sign before it."""
    depth, quoted, pieces, first = 0, False, [("", "")], 0
    for place, letter in enumerate(text):
        quoted ^= letter == "`"
        depth += 0 if quoted else (letter in OPEN) - (letter in CLOSED)
        if letter in signs and depth == 0 and not quoted:
            pieces[-1] = pieces[-1][0], text[first:place]
            pieces.append((letter, ""))
            first = place + 1
    pieces[-1] = pieces[-1][0], text[first:]
    return pieces
