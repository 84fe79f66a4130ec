"""Several steps of gradient descent ascent on each agent's own rows, averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from wmlr.core.query import Field, Part, Parts, Query, unit
from wmlr.core.round import Rows, Together
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.statistics.minimax import Minimax, SymmetricMinimax

MOST_LOOKED_AT = 2**24  # numbers of the shares of all steps
MOST_STEPS = 1_000  # more would hold an agent up; averages of so many steps are no better


@dataclass(frozen=True)
class LocalSteps(Query):
    """Each agent takes ``steps`` steps from the broadcast state on its own objective.

    The answer has the sums of ``query`` at the broadcast state, without its gradients, and ``change``: how
    far [beta gamma] went on the agent, times its weight, so that the sums average.

    Attributes
    ----------
    query : the minimax objective at the state that is sent out.
    steps : how many steps.
    descent, ascent : the step sizes of beta and of gamma.
    pull : gamma is drawn to ``reference`` (p, columns of gamma) with this strength.
    metric : (p, p), what the gradient of a mean over rows is multiplied by; None is the identity.
    """

    query: SymmetricMinimax | Minimax
    steps: Annotated[int, Field(least=1, most=MOST_STEPS)]
    descent: Annotated[float, Field(least=0.0)]
    ascent: Annotated[float, Field(least=0.0)]
    pull: Annotated[float, Field(least=0.0)]
    reference: Annotated[Array, Field("p g")]
    metric: Annotated[Array | None, Field("p p")] = None

    of_each_agent = True

    @property
    def repeats(self) -> float:
        return self.steps * self.query.repeats

    def children(self) -> tuple[Query, ...]:
        return (self.query,)

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = {name: part for name, part in self.query.parts(columns, grouped).items() if name != "gradients"}
        p, g = self.query.gamma.shape
        return parts | {"change": Part((p, 3 * g // 2), unit(x=-1, y=1, times=1.0 / self.query.unit))}

    def residual_form(self) -> Query:
        _, *beside = self.query.residual_form().members
        return Together((self, *beside)) if beside else self

    def from_residual_form(self, sums: Sums, moments: Sums) -> Sums:
        return self.query.from_residual_form(sums, moments)

    def check(self) -> None:
        if self.reference.shape != self.query.gamma.shape:
            raise ValueError(f"LocalSteps.reference has shape {self.reference.shape}, gamma {self.query.gamma.shape}")

    def shares(self, rows: Rows) -> Array:
        """Those of the objective at every state on the way, all rows being of one agent."""
        k = self.query.gamma.shape[1] // 2
        if len(rows) * self.steps * 3 * k > MOST_LOOKED_AT:
            raise ValueError(f"{self.steps} local steps on {len(rows)} rows are too many to be looked at one by one")
        found = []
        for own in [*self._states(rows, np.zeros(1, dtype=np.int64))][:-1]:
            gamma = own[0, -2 * k :].T
            beta = own[0, : -2 * k].T.reshape(self.query.beta.shape)
            found.append(replace(self.query, beta=beta, gamma=gamma).shares(rows))
        return np.hstack(found)

    def answer(self, rows: Rows) -> Sums:
        """All rows as those of one agent."""
        return self.answer_each(rows, np.zeros(1, dtype=np.int64))

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        """The rows of several agents, each beginning where ``firsts`` says."""
        sums = {name: value for name, value in self.query.answer(rows).items() if name != "gradients"}
        weights = _agent_weights(rows, firsts)
        begun, *_, own = self._states(rows, firsts)
        return sums | {"change": np.tensordot(weights, own - begun, axes=1).T}

    def _states(self, rows: Rows, firsts: Integers) -> Iterator[Array]:
        """Each agent's own [beta gamma] (agents, columns, p), as it was sent out and after each step."""
        begun = np.column_stack([self.query.beta, self.query.gamma]).T
        columns = len(begun) // 3
        factor = np.repeat([self.descent, self.ascent], [columns, 2 * columns])[:, None]
        weights = _agent_weights(rows, firsts)
        own = np.tile(begun, (len(firsts), 1, 1))
        yield own
        for _ in range(self.steps):
            W, _ = self.query.gradient_factors(rows, _forward(rows, own, firsts))
            slopes = _backward(rows, W, firsts, begun.shape[1]) / weights[:, None, None]
            if self.metric is not None:
                slopes = slopes @ self.metric
            slopes[:, columns:] -= self.pull * (own[:, columns:] - self.reference.T)
            own = own + factor * slopes
            yield own


def _agent_weights(rows: Rows, firsts: Integers) -> Array:
    return np.add.reduceat(rows.counts, firsts)


def _forward(rows: Rows, own: Array, firsts: Integers) -> Array:
    """x'[beta gamma] with each agent's own vectors (agents, columns, p): (n, columns)."""
    n, d = rows.X.shape
    sizes = np.diff(np.append(firsts, n))
    if isinstance(rows.X, np.ndarray) and np.all(sizes == sizes[0]):
        U = np.matmul(rows.X.reshape(len(firsts), -1, d), own[:, :, :d].transpose(0, 2, 1)).reshape(n, -1)
    else:
        U = np.concatenate([X @ vectors[:, :d].T for X, vectors in zip(_each(rows.X, firsts), own)])
    if own.shape[2] > d:
        U += np.repeat(own[:, :, d], sizes, axis=0)
    return np.asarray(U)


def _backward(rows: Rows, W: Array, firsts: Integers, p: int) -> Array:
    """sum of w x over each agent's rows: (agents, columns, p)."""
    n, d = rows.X.shape
    sizes = np.diff(np.append(firsts, n))
    slopes = np.empty((len(firsts), W.shape[1], p))
    if isinstance(rows.X, np.ndarray) and np.all(sizes == sizes[0]):
        shape = (len(firsts), int(sizes[0]), -1)
        slopes[:, :, :d] = np.matmul(W.reshape(shape).transpose(0, 2, 1), rows.X.reshape(shape))
    else:
        for agent, (X, pulls) in enumerate(zip(_each(rows.X, firsts), np.split(W, firsts[1:]))):
            slopes[agent, :, :d] = (X.T @ pulls).T
    if p > d:
        slopes[:, :, d] = np.add.reduceat(W, firsts, axis=0)
    return slopes


def _each(X: Any, firsts: Integers) -> list[Any]:
    """The features of each agent."""
    return [X[first:last] for first, last in zip(firsts, np.append(firsts[1:], X.shape[0]))]
