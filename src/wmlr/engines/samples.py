"""Samples of the rows, held in memory once they have been gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmlr.core.repeats import DifferentRows, with_repeats
from wmlr.core.round import Rows, Sampled, SampleKind, SampleQuestion, join

GROWTH = 4  # starts ask for a quarter of their sample, then half of it, then all: it is gathered at once
GROWN_PART = 16  # of the memory, unless the sample that is asked for is larger
MOST_PIECES = 32  # of a sample whose copies are one
NEARLY_ALL = 1.0 - 1e-9  # of a share below 1 the rows are copied, and so outlive their block


SamplesWanted = dict[SampleKind, float]
"""Samples to gather, and their shares of the rows."""


def gather(kind: SampleKind, share: float, rows: Rows) -> Rows:
    """A block's part of a sample; it outlives the block."""
    chosen = Sampled(DifferentRows(), min(share, NEARLY_ALL), kind.seed).rows(rows)
    return with_repeats(chosen) if kind.merged else chosen


def add_piece(kind: SampleKind, pieces: list[Rows], piece: Rows) -> None:
    """One more part of a sample; many with the same rows become one."""
    pieces.append(piece)
    if kind.merged and len(pieces) >= MOST_PIECES:
        pieces[:] = [put_together(kind, pieces)]


def put_together(kind: SampleKind, pieces: Sequence[Rows]) -> Rows:
    """Parts of a sample as one."""
    rows = join(pieces)
    return with_repeats(rows) if kind.merged else rows


@dataclass(frozen=True)
class Sample:
    """The rows that a seed chooses at a share; those of a smaller share are among them."""

    share: float
    rows: Rows

    @property
    def nbytes(self) -> int:
        return int(self.rows.X.nbytes)


class Samples:
    """The samples that are held, by their kinds, in no more than ``memory`` bytes."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._held: dict[SampleKind, Sample] = {}
        self._last: tuple[float, SampleKind, Rows] | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """What all of them take."""
        return sum(sample.nbytes for sample in self._held.values())

    def plan(self, asked: Sequence[SampleQuestion], whole: int) -> tuple[SamplesWanted, set[SampleKind]]:
        """The samples to gather, and the kinds that will then be held.

        What has no room is left to be asked of the rows in a pass, if that can be.

        Parameters
        ----------
        asked : queries of samples.
        whole : bytes that all rows would take.
        """
        shares: dict[SampleKind, float] = {}
        parts = {one.kind: one.part for one in asked}
        needed = {one.kind for one in asked if one.as_a_whole}
        for one in asked:
            shares[one.kind] = max(one.query.share, shares.get(one.kind, 0.0))
        wanted: SamplesWanted = {}
        held: set[SampleKind] = set()
        room = float(self.memory)
        for kind, share in shares.items():
            there = self._held.get(kind)
            known = there is not None and there.share >= share
            different = parts[kind] * whole
            size = there.nbytes if there is not None and known else share * different
            if kind not in needed and (size > room or not (known or kind.merged or share < 1.0)):
                continue
            held.add(kind)
            if not known:
                wanted[kind] = max(share, min(NEARLY_ALL, GROWTH * share, self.memory / GROWN_PART / different))
                size = wanted[kind] * different
            room -= size
        if wanted:
            self._make_room(room, held)
        return wanted, held

    def hold(self, kind: SampleKind, share: float, pieces: Sequence[Rows]) -> None:
        """Keep what was gathered of a sample."""
        self._held[kind] = Sample(share, put_together(kind, pieces))

    def of(self, asked: SampleQuestion) -> Rows:
        """The rows a query looks at, from the sample that is held, which may be larger."""
        held, share = self._held[asked.kind], asked.query.share
        if held.share == share:
            return held.rows
        if self._last is None or self._last[:2] != (share, asked.kind):
            self._last = share, asked.kind, asked.query.rows(held.rows)
        return self._last[2]

    def _make_room(self, room: float, needed: set[SampleKind]) -> None:
        """Let samples go that are not needed now, where they take more than the room that is left."""
        for kind in [kind for kind in self._held if kind not in needed]:
            if self._held[kind].nbytes > room:
                del self._held[kind]
            else:
                room -= self._held[kind].nbytes
