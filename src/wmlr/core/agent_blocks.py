"""Rows of several agents side by side, so that they answer together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import kept_agents
from wmlr.core.round import Rows, Sampled, join
from wmlr.numerics.arrays import Integers


@dataclass(frozen=True)
class AgentBlock:
    """Rows of some whole agents: where each agent's begin, whose they are, and what their answers count."""

    rows: Rows
    firsts: Integers
    agents: Integers
    scale: float = 1.0

    def keep(self, present: NDArray[np.bool_]) -> AgentBlock:
        """What is left when only some agents are present."""
        kept = present[self.agents]
        if kept.all():
            return self
        sizes = np.diff(np.append(self.firsts, len(self.rows)))
        left = sizes[kept]
        return AgentBlock(self.rows.take(np.repeat(kept, sizes)), np.cumsum(left) - left, self.agents[kept], self.scale)


def sample_block(piece: AgentBlock, query: Sampled) -> AgentBlock:
    """The rows of a piece that a sampled query looks at."""
    kept = query.keeps(piece.rows)
    if kept is None:
        return piece
    firsts, present = kept_agents(kept, piece.firsts)
    return AgentBlock(piece.rows.take(kept), firsts, piece.agents[present], piece.scale)


def join_blocks(pieces: list[AgentBlock]) -> AgentBlock:
    """Pieces whose answers count alike, as one."""
    offsets = np.cumsum([0, *(len(piece.rows) for piece in pieces)])
    return AgentBlock(
        join([piece.rows for piece in pieces]),
        np.concatenate([piece.firsts + offset for piece, offset in zip(pieces, offsets)]),
        np.concatenate([piece.agents for piece in pieces]),
        pieces[0].scale,
    )
