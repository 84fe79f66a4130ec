"""Wald tests of linear hypotheses, given as a matrix or in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from wmlr.inference.uncertainty import Estimates, propagate_covariance
from wmlr.numerics.arrays import Array

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class WaldTest:
    """A chi-square test of linear hypotheses.

    Attributes
    ----------
    hypothesis : in words, one line per restriction.
    statistic, df, p_value : the quadratic form, its degrees of freedom, and the chance of a larger one.
    """

    hypothesis: tuple[str, ...]
    statistic: float
    df: int
    p_value: float

    def __str__(self) -> str:
        tested = "; ".join(self.hypothesis)
        return f"{tested}: chi2({self.df}) = {self.statistic:.4f}, p = {self.p_value:.4g}"


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """All quantities a hypothesis may name: the free parameters, then sigma and the weights.

    Attributes
    ----------
    names, values : of the quantities.
    jacobian : their derivatives in the free parameters.
    """

    names: tuple[str, ...]
    values: Array
    jacobian: Array

    @classmethod
    def of(cls, free: Sequence[str], theta: Array, estimates: Estimates) -> Vocabulary:
        """From the free parameters and what follows from them."""
        more = [place for place, scale in enumerate(estimates.scales) if scale != "linear"]
        return cls(
            (*free, *(estimates.names[place] for place in more)),
            np.concatenate([theta, estimates.values[more]]),
            np.vstack([np.eye(len(theta)), estimates.jacobian[more]]),
        )

    def parse(self, text: str) -> tuple[Array, Array]:
        """``a = b``, ``2*a - b = 1``, ``a = b = 0``, or ``a`` for ``a = 0``: rows R and numbers q."""
        words = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True))
        term = re.compile(rf"(?:(?:(?P<factor>{NUMBER})\s*\*\s*)?(?P<name>{words})|(?P<number>{NUMBER}))\s*")
        link = re.compile(r"(?P<equal>=)?\s*(?P<sign>[+-])?\s*")
        rest, linked = text.strip(), ""
        sides = [np.zeros(len(self.names) + 1)]
        while rest or not linked:
            linking = link.match(rest)
            found = term.match(rest, linking.end()) if linking else None
            if linking is None or found is None or (linked and not linking[0]):
                raise ValueError(
                    f"{rest!r} in the hypothesis {text!r} is not understood; the parameters are {', '.join(self.names)}"
                )
            if linking["equal"]:
                sides.append(np.zeros(len(self.names) + 1))
            sign = -1.0 if linking["sign"] == "-" else 1.0
            if found["name"]:
                sides[-1][self.names.index(found["name"])] += sign * float(found["factor"] or 1)
            else:
                sides[-1][-1] += sign * float(found["number"])
            rest, linked = rest[found.end() :], found[0]
        if len(sides) == 1:
            sides.append(np.zeros(len(self.names) + 1))
        rows = -np.diff(np.array(sides), axis=0)
        if not np.all(np.any(rows[:, :-1] != 0, axis=1)):
            raise ValueError(f"the hypothesis {text!r} restricts nothing: name a parameter on one side of each =")
        return rows[:, :-1], -rows[:, -1]


def wald_test(hypothesis: Any, vocabulary: Vocabulary, covariance: Array, q: Any = None) -> WaldTest:
    """Test ``R theta = q``.

    Parameters
    ----------
    hypothesis : R, with a column per free parameter; or words, one string or several.
    vocabulary : the quantities that words may name.
    covariance : of the free parameters.
    q : the right-hand sides where R is given; None for zeros.
    """
    named = isinstance(hypothesis, str) or (
        isinstance(hypothesis, Sequence) and bool(hypothesis) and all(isinstance(line, str) for line in hypothesis)
    )
    if named:
        if q is not None:
            raise ValueError("q belongs to a matrix: write the right-hand side into the hypothesis")
        hypotheses = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
        parts = [vocabulary.parse(line) for line in hypotheses]
        R, right = np.vstack([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        lines = [line.strip() for line, part in zip(hypotheses, parts) for _ in part[1]]
    else:
        lines, R, right = _matrix(hypothesis, vocabulary, covariance.shape[0], q)
    gap = R @ vocabulary.values - right
    slopes = R @ vocabulary.jacobian
    spread = propagate_covariance(slopes, covariance)
    scale = np.sqrt(np.maximum(np.diag(spread), 0.0))
    if not np.all(scale > 0):
        raise ValueError(f"{lines[int(np.argmin(scale > 0))]!r} has no standard error at this fit: it cannot be tested")
    correlation = spread / np.outer(scale, scale)
    df = int(np.linalg.matrix_rank(correlation, hermitian=True, tol=1e-9))
    statistic = float((gap / scale) @ np.linalg.pinv(correlation, hermitian=True, rcond=1e-9) @ (gap / scale))
    return WaldTest(tuple(dict.fromkeys(lines)), statistic, df, float(chdtrc(df, statistic)))


def _matrix(hypothesis: Any, vocabulary: Vocabulary, free: int, q: Any) -> tuple[list[str], Array, Array]:
    given = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
    if given.ndim != 2 or given.shape[1] != free:
        raise ValueError(f"R needs a column for each of the {free} free parameters (got shape {given.shape})")
    right = np.zeros(len(given)) if q is None else np.broadcast_to(np.asarray(q, dtype=np.float64), (len(given),))
    R = np.hstack([given, np.zeros((len(given), len(vocabulary.names) - free))])
    lines = []
    for row, value in zip(given, right):
        terms = [f"{weight:g}*{vocabulary.names[place]}" for place, weight in enumerate(row) if weight]
        lines.append(f"{' + '.join(terms) or '0'} = {value:g}")
    return lines, R, np.asarray(right)
