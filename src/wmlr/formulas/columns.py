"""The formula that a list of columns stands for: numbers as they are, text as levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

from wmlr.formulas.bases import Factor, Levels, Numeric
from wmlr.formulas.design import Design
from wmlr.formulas.expressions import Column
from wmlr.formulas.formula import ModelFormula

PLAIN = re.compile(r"[^\W\d]\w*")
FUNCTIONS = ("I", "C", "Q", "np")  # what formulas call by these names
LONGEST_SUM = 2000  # characters of the right-hand side that are written out


def formula_of_columns(
    target: str,
    columns: Sequence[str],
    levels: Mapping[str, Sequence[Any]],
    *,
    group: str | None = None,
    intercept: bool = True,
    symmetric: bool = False,
) -> ModelFormula:
    """The formula ``target ~ a + b + C(c) | group``, with the design that formulaic would give it.

    Parameters
    ----------
    target : the column to explain.
    columns : those to explain it by, in their order.
    levels : for each column that is taken for levels, what may stand in it; the first is the reference. Without an
        intercept the first such column keeps all its levels.
    group : the column whose rows share their component.
    intercept : whether the model has one; a symmetric pair has none.
    """
    if "`" in target:
        raise ValueError(f"the column {target!r} has a backquote in its name, which no formula can name: rename it")
    intercept = intercept and not symmetric
    factors: list[Factor] = []
    products: list[list[tuple[int, int]]] = []
    names: list[str] = []
    terms: list[str] = []
    whole = not intercept
    for place, name in enumerate(columns):
        known = levels.get(name)
        if known is None:
            term, labels = name, [name]
            factors.append(Numeric(Column(name)))
        else:
            term = f"C({name})" if not all(isinstance(level, str) for level in known) else name
            kept = list(range(0 if whole else 1, len(known)))
            mark = "" if whole else "T."
            labels = [f"{term}[{mark}{known[level]}]" for level in kept]
            factors.append(Levels(Column(name), list(known), kept))
            whole = False
        names += labels
        products += [[(place, column)] for column in range(len(labels))]
        terms.append(quote(name) if term == name else f"C({quote(name)})")
    bar = "" if group is None else f" | {quote(group)}"
    text = f"{quote(target)} ~ {_sum(terms)}{'' if intercept or symmetric else ' - 1'}{bar}"
    return ModelFormula(
        text,
        symmetric,
        intercept,
        tuple(names),
        sorted(columns),
        [target],
        Design(factors, products),
        Numeric(Column(target)),
    )


def quote(name: str) -> str:
    """A column's name as a formula has it: in backquotes, unless it is a word that means nothing else."""
    if PLAIN.fullmatch(name) and not iskeyword(name) and name not in FUNCTIONS:
        return name
    return "`" + name.replace("`", "'") + "`"


def _sum(terms: Sequence[str]) -> str:
    """The terms with signs between them; of very many the first, and how many more there are."""
    length = 0
    for place, term in enumerate(terms):
        length += len(term) + 3
        if length > LONGEST_SUM and place:
            return " + ".join([*terms[:place], f"`and {len(terms) - place:,} more`"])
    return " + ".join(terms)
