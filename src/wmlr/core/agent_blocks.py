"""Rows of several agents side by side, so that they answer together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Query, Rows, Sampled, Together, join
from wmlr.numerics.arrays import Integers, Sums


@dataclass(frozen=True)
class Piece:
    """Rows of some whole agents: where each agent's begin, whose they are, and what their answers count."""

    rows: Rows
    firsts: Integers
    agents: Integers
    scale: float = 1.0

    def of(self, there: NDArray[np.bool_]) -> Piece:
        """What is left when only some agents are there."""
        kept = there[self.agents]
        if kept.all():
            return self
        sizes = np.diff(np.append(self.firsts, len(self.rows)))
        left = sizes[kept]
        return Piece(self.rows.take(np.repeat(kept, sizes)), np.cumsum(left) - left, self.agents[kept], self.scale)


def ask(query: Query, piece: Piece) -> Sums:
    """The summed answers of a piece's agents; a query about each agent is told where each begins."""
    if isinstance(query, Together):
        parts = (ask(part, piece) for part in query.queries)
        return {f"{number}/{name}": value for number, part in enumerate(parts) for name, value in part.items()}
    each = getattr(query, "answer_each", None)
    sums: Sums = query.answer(piece.rows) if each is None else each(piece.rows, piece.firsts)
    return sums


def sampled(piece: Piece, query: Sampled) -> Piece:
    """The rows of a piece that a sampled query looks at."""
    numbered = replace(piece.rows, index=np.arange(len(piece.rows)))
    chosen = query.sample(numbered)
    inside = np.zeros(0, dtype=np.int64) if chosen.index is None else chosen.index
    owners = np.searchsorted(piece.firsts, inside, side="right") - 1
    present, firsts = np.unique(owners, return_index=True)
    rows = replace(chosen, index=None if piece.rows.index is None else piece.rows.index[inside])
    return Piece(rows, firsts.astype(np.int64), piece.agents[present], piece.scale)


def joined(pieces: list[Piece]) -> Piece:
    """Pieces whose answers count alike, as one."""
    offsets = np.cumsum([0, *(len(piece.rows) for piece in pieces)])
    return Piece(
        join([piece.rows for piece in pieces]),
        np.concatenate([piece.firsts + offset for piece, offset in zip(pieces, offsets)]),
        np.concatenate([piece.agents for piece in pieces]),
        pieces[0].scale,
    )
