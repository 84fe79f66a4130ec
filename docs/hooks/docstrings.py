"""Docstrings as this library writes them, made into what the reference's parser expects.

A parameter's meaning stands behind the colon here, and its type in the signature. The parser takes what is
behind the colon for the type, unless it moves to a line of its own; and it gives names that share a line the
type and default of the first.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : ([^\n]+)((?:\n[ ]+[^\n]+)*)", re.MULTILINE)
TYPES = re.compile(
    r"(int|float|bool|str|number|array|ndarray|sequence|mapping|callable|list|tuple|dict|path|generator|estimator"
    r"|numpy|sklearn|matplotlib|pandas|mixture|selection)\b[^.;]*$",
    re.IGNORECASE,
)
ROLE = re.compile(r":(?:class|meth|func|mod|data|attr):`~?([^`]+)`")


def rewritten(text: str) -> str:
    """A docstring with its parameters' meanings on lines of their own, and roles as code."""
    return SECTION.sub(_section, ROLE.sub(r"`\1`", text))


def _section(found: re.Match[str]) -> str:
    return f"{found[1]}\n{'-' * len(found[1])}\n" + ENTRY.sub(_entry, found[2])


def _entry(found: re.Match[str]) -> str:
    names, meaning, more = found.groups()
    if TYPES.match(meaning):
        return found[0]
    return "\n".join(f"{name}\n    {meaning}{more}" for name in names.split(", "))


class Plain(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)
