"""An answer as one vector, in an order that follows from the query, so that agents and server agree on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.query import Kind, Parts, PublicScales, Query
from wmlr.federated.messages import MessageError
from wmlr.numerics.arrays import Array, Sums


@dataclass(frozen=True)
class AnswerLayout:
    """Where each part of an answer is in the vector; of a symmetric matrix only the upper triangle is there.

    ``parts`` is what the query declares of its answer.
    """

    parts: Parts

    @classmethod
    def of(cls, query: Query, n_features: int, grouped: bool) -> AnswerLayout:
        """The layout of an answer to the query from rows of ``n_features`` columns."""
        return cls(query.parts(n_features, grouped))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Each part's shape."""
        return {name: part.shape for name, part in self.parts.items()}

    @property
    def symmetric_parts(self) -> frozenset[str]:
        """The parts that are symmetric matrices."""
        return frozenset(name for name, part in self.parts.items() if part.kind in (Kind.SYMMETRIC, Kind.GRAM))

    def units(self, scales: PublicScales) -> Array:
        """The unit of each number of the vector, in which a usual agent's is about 1."""
        each = (np.full(size, self.parts[name].unit(scales)) for name, size in self.sizes.items())
        return np.concatenate([np.zeros(0), *each])

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers of the vector each part takes."""
        folded = self.symmetric_parts
        return {name: int(np.prod(shape[:-2])) * _triangle(shape[-1]) if name in folded else int(np.prod(shape))
                for name, shape in self.shapes.items()}  # fmt: skip

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def flatten(self, sums: Sums) -> Array:
        """The answer as a vector."""
        found = {name: np.shape(value) for name, value in sums.items()}
        if found != self.shapes:
            raise MessageError(f"an answer of shapes {found} where {self.shapes} are wanted")
        parts = [_fold(sums[name]) if name in self.symmetric_parts else np.ravel(sums[name]) for name in self.shapes]
        return np.concatenate([np.zeros(0), *parts])

    def restore(self, vector: Array) -> Sums:
        """The sums that a vector holds."""
        sums, place = {}, 0
        for name, size in self.sizes.items():
            part, shape = vector[place : place + size], self.shapes[name]
            sums[name] = _unfold(part, shape) if name in self.symmetric_parts else part.reshape(shape).copy()
            place += size
        return sums


def _triangle(order: int) -> int:
    return order * (order + 1) // 2


def _fold(matrices: Array) -> Array:
    upper = np.triu_indices(matrices.shape[-1])
    return np.ravel(matrices[..., upper[0], upper[1]])


def _unfold(triangles: Array, shape: tuple[int, ...]) -> Array:
    upper = np.triu_indices(shape[-1])
    matrices = np.empty(shape)
    entries = triangles.reshape(*shape[:-2], len(upper[0]))
    matrices[..., upper[0], upper[1]] = entries
    matrices[..., upper[1], upper[0]] = entries
    return matrices
