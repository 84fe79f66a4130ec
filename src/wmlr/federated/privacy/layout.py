"""An answer as one vector, in an order that follows from the query, so that agents and server agree on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.core.round import Query
from wmlr.federated.messages import MessageError
from wmlr.federated.parts import GRAMS, SYMMETRIC, answer_shapes, parts_of
from wmlr.numerics.arrays import Array, Sums


@dataclass(frozen=True)
class Layout:
    """Where each part of an answer is in the vector; of a symmetric matrix only the upper triangle is there.

    Attributes
    ----------
    shapes : each part's shape, by name.
    folded : the parts that are symmetric matrices.
    """

    shapes: dict[str, tuple[int, ...]]
    folded: frozenset[str]

    @classmethod
    def of(cls, query: Query, n_features: int, grouped: bool) -> Layout:
        """The layout of an answer to the query from rows of ``n_features`` columns."""
        shapes = answer_shapes(query, n_features, grouped)
        matrices = parts_of(query, GRAMS) | parts_of(query, SYMMETRIC)
        return cls(shapes, frozenset(matrices & shapes.keys()))

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers of the vector each part takes."""
        return {name: int(np.prod(shape[:-2])) * _triangle(shape[-1]) if name in self.folded else int(np.prod(shape))
                for name, shape in self.shapes.items()}  # fmt: skip

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def flatten(self, sums: Sums) -> Array:
        """The answer as a vector."""
        found = {name: np.shape(value) for name, value in sums.items()}
        if found != self.shapes:
            raise MessageError(f"an answer of shapes {found} where {self.shapes} are wanted")
        parts = [_folded(sums[name]) if name in self.folded else np.ravel(sums[name]) for name in self.shapes]
        return np.concatenate([np.zeros(0), *parts])

    def restore(self, vector: Array) -> Sums:
        """The sums that a vector holds."""
        sums, place = {}, 0
        for name, size in self.sizes.items():
            part, shape = vector[place : place + size], self.shapes[name]
            sums[name] = _unfolded(part, shape) if name in self.folded else part.reshape(shape).copy()
            place += size
        return sums


def _triangle(order: int) -> int:
    return order * (order + 1) // 2


def _folded(matrices: Array) -> Array:
    upper = np.triu_indices(matrices.shape[-1])
    return np.ravel(matrices[..., upper[0], upper[1]])


def _unfolded(triangles: Array, shape: tuple[int, ...]) -> Array:
    upper = np.triu_indices(shape[-1])
    matrices = np.empty(shape)
    entries = triangles.reshape(*shape[:-2], len(upper[0]))
    matrices[..., upper[0], upper[1]] = entries
    matrices[..., upper[1], upper[0]] = entries
    return matrices
