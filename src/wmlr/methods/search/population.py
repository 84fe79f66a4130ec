"""Candidate mixtures side by side, so that all of them share each pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wmlr.methods.starts import rank_candidates
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.matching import cheapest_matching

SAME_VALUE = 0.02  # nats: maxima nearer than this are one maximum
SAME_PLACE = 0.3  # of a standard deviation of the noise, in the mean over the rows: what comes so near ends there


@dataclass(frozen=True)
class Population:
    """s candidates in a frame's coordinates.

    Attributes
    ----------
    coef, weights, s2 : (s, k, q), (s, k), (s, k).
    value : (s,), the penalised log-likelihood where each was last evaluated; -inf before that.
    lineage : (s,), the independent search that each belongs to.
    origin : (s,), the number of the source or move that made it.
    found : (s,), how many candidates ended here.
    gate : (s, r, k), the state of weights that differ from row to row (:mod:`wmlr.methods.gating`); r is 0 where they
        do not, and before the first step.
    """

    coef: Array
    weights: Array
    s2: Array
    value: Array
    lineage: Integers
    origin: Integers
    found: Integers
    gate: Array

    @classmethod
    def of(cls, coef: Array, weights: Array, s2: Array, lineage: Integers, origin: int) -> Self:
        """Candidates that have not been evaluated yet."""
        count, k = weights.shape
        ones, gate = np.ones(count, dtype=np.int64), np.zeros((count, 0, k))
        return cls(coef, weights, s2, np.full(count, -np.inf), lineage, np.full(count, origin), ones, gate)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        """All of its fields, each of which has an entry for every candidate."""
        return tuple(vars(self).values())

    def take(self, chosen: Integers | NDArray[np.bool_]) -> Self:
        """Some of the candidates."""
        return type(self)(*(values[chosen] for values in self._arrays))

    def ranking(self) -> Integers:
        """Places from the best value to the worst; a difference of rounding decides nothing, the earlier one wins."""
        return rank_candidates(self.value)

    def distinct(self) -> Self:
        """The best first, each lineage's maxima once, with the number of candidates that found them."""
        kept: list[int] = []
        last: dict[int, int] = {}
        found = self.found.copy()
        for place in self.ranking():
            if not np.isfinite(self.value[place]):
                continue
            lineage = int(self.lineage[place])
            if lineage in last and abs(self.value[place] - self.value[last[lineage]]) <= SAME_VALUE:
                found[last[lineage]] += found[place]
            else:
                kept.append(int(place))
                last[lineage] = int(place)
        return replace(self, found=found).take(np.array(kept, dtype=np.int64))

    def best_of_each(self, count: int) -> Self:
        """The ``count`` best of each lineage."""
        order = self.ranking()
        kept = [order[self.lineage[order] == number][:count] for number in np.unique(self.lineage)]
        return self.take(np.concatenate(kept) if kept else order)

    def as_one_search(self) -> Self:
        """The same, of one lineage."""
        return replace(self, lineage=np.zeros_like(self.lineage))

    def deal_to_islands(self, count: int) -> Self:
        """Split each lineage into ``count``, which take its maxima in turn; where there are too few, each has all."""
        order, kept, lineage = self.ranking(), [], []
        for number in np.unique(self.lineage):
            own = order[self.lineage[order] == number]
            for turn in range(count):
                kept.append(own[turn::count] if len(own) >= count else own)
                lineage.append(np.full(len(kept[-1]), count * number + turn))
        return replace(self.take(np.concatenate(kept)), lineage=np.concatenate(lineage))

    def relabel(self, generator: np.random.Generator) -> Self:
        """Put the components of every candidate in an order drawn at random."""
        order = generator.random(self.weights.shape).argsort(axis=1)
        at = np.arange(len(self))[:, None]
        return replace(self, coef=self.coef[at, order], weights=self.weights[at, order], s2=self.s2[at, order])

    def highest(self, count: int = 0) -> Array:
        """The highest value of each lineage, by its number; of ``count`` lineages at least."""
        values = np.full(max(int(self.lineage.max(initial=-1)) + 1, count), -np.inf)
        np.maximum.at(values, self.lineage, self.value)
        return values

    def crowd(self, reach: float, count: int = 0) -> Array:
        """How many maxima each lineage has near its highest, by its number: none counts that is ``reach`` lower."""
        nearness = 1.0 - (self.highest()[self.lineage] - self.value) / reach
        return np.asarray(np.bincount(self.lineage, np.maximum(nearness, 0.0), minlength=count), dtype=np.float64)

    def lowest(self) -> Array:
        """The lowest value of each lineage, by its number."""
        values = np.full(int(self.lineage.max()) + 1, np.inf)
        np.minimum.at(values, self.lineage, self.value)
        return values

    def near(self, known: Population, exchange: Array | float = 0.0, spread: float = 1.0) -> NDArray[np.bool_]:
        """Which candidates stand where a known maximum of their own lineage does, but for the labels.

        ``exchange`` (k, k) is infinite for components that may not change places; ``spread`` is the landscape's.
        """
        gaps = self.coef[:, None, :, None] - known.coef[None, :, None, :]
        squares = np.einsum("agkjq,agkjq->agkj", gaps, gaps) / (spread * known.s2[None, :, None, :]) + exchange
        far = squares.min(axis=3).max(axis=2)
        far = np.maximum(far, squares.min(axis=2).max(axis=2))
        same = (far < SAME_PLACE**2) & (self.lineage[:, None] == known.lineage[None, :])
        return np.asarray(same.any(axis=1))


def join(*populations: Population) -> Population:
    """Several populations as one."""
    return Population(*map(np.concatenate, zip(*(one._arrays for one in populations))))


def match(coef: Array, other: Array, exchange: Array | float = 0.0) -> Integers:
    """For each component of ``coef`` (k, q) the one of ``other`` that it is nearest to, one to one.

    ``exchange`` (k, k) is infinite for components that may not change places.
    """
    distances = np.sum((coef[:, None] - other[None]) ** 2, axis=2) + exchange
    return cheapest_matching(distances)
