"""Sums of different rows made to fit together, for methods that compare one round with another.

A symmetric method knows the Gram S and E[y^2] from its first round and asks for h = sum t y x later. When
other rows answer later, h - S beta is off by their differing Grams; so the residual form is asked for, and
h is put together again with the S the method knows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Method, Outcome, Report, Together, relayed
from wmlr.numerics.arrays import Sums
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import SymmetricMinimax
from wmlr.statistics.moments import Moments
from wmlr.statistics.residual_form import SecondMoments, SymmetricResiduals
from wmlr.statistics.score import SymmetricScore


def with_residual_queries(method: Method[Outcome]) -> Generator[Query | Report, Any, Outcome]:
    """The same method, asking its questions in a form that bears being answered by changing rows."""
    moments: Sums = {}

    def relay(yielded: Query | Report) -> Generator[Query | Report, Any, Any]:
        if isinstance(yielded, Report):
            return (yield yielded)
        sums = _restore(yielded, (yield _residual_form(yielded)), moments)
        if isinstance(yielded, Moments):
            moments.update(sums)
        return sums

    return relayed(method, relay)


def _residual_form(query: Query) -> Query:
    if isinstance(query, Together):
        return Together(tuple(_residual_form(part) for part in query.queries))
    if isinstance(query, SymmetricScore):
        return SymmetricResiduals(query.beta, query.s2, query.mean)
    minimax = query.query if isinstance(query, LocalSteps) else query
    if isinstance(minimax, SymmetricMinimax):
        return Together((query, SecondMoments(minimax.beta, minimax.mean)))
    return query


def _restore(query: Query, sums: Sums, moments: Sums) -> Sums:
    if isinstance(query, Together):
        parts = [_restore(part, own, moments) for part, own in zip(query.queries, query.apart(sums))]
        return {f"{number}/{name}": value for number, part in enumerate(parts) for name, value in part.items()}
    if isinstance(query, SymmetricScore):
        return sums | {"h": sums["m"] + moments["gram"] @ query.beta}
    minimax = query.query if isinstance(query, LocalSteps) else query
    if isinstance(minimax, SymmetricMinimax):
        return _minimax(minimax, sums, moments)
    return sums


def _minimax(query: SymmetricMinimax, sums: Sums, moments: Sums) -> Sums:
    """The two scalars from which sigma^2 and the likelihood follow, as if the first round's rows had answered."""
    own, second = Together((query, SecondMoments(query.beta))).apart(sums)
    known = float(moments["yy"]) / query.unit**2 + float(query.beta @ moments["gram"] @ query.beta)
    found = float(second["yy"]) / query.unit**2 + float(second["uu"])
    apart = 0.5 * (known - found)
    return own | {
        "tyu": np.asarray(own["tyu"] + apart),
        "log_cosh": np.asarray(own["log_cosh"] + apart / query.s2),
    }
