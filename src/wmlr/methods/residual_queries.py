"""Sums of different rows made to fit together, for methods that compare one round with another.

A symmetric method knows the Gram S and E[y^2] from its first round and asks for h = sum t y x later. When
other rows answer later, h - S beta is off by their differing Grams; so the residual form is asked for, and
h is put together again with the S the method knows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from wmlr.core.query import Query
from wmlr.core.round import Method, Outcome, Report, relayed
from wmlr.numerics.arrays import Sums
from wmlr.statistics.moments import Moments


def with_residual_queries(method: Method[Outcome]) -> Generator[Query | Report, Any, Outcome]:
    """The same method, asking its questions in a form that bears being answered by changing rows."""
    moments: Sums = {}

    def relay(yielded: Query | Report) -> Generator[Query | Report, Any, Any]:
        if isinstance(yielded, Report):
            return (yield yielded)
        sums = yielded.from_residual_form((yield yielded.residual_form()), moments)
        if isinstance(yielded, Moments):
            moments.update(sums)
        return sums

    return relayed(method, relay)
