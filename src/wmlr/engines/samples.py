"""Samples of the rows, held in memory once they have been gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmlr.core.round import Rows, Sampled, join

GROWTH = 4  # starts ask for a quarter of their sample, then half of it, then all: it is gathered at once
GROWN_PART = 16  # of the memory, unless the sample that is asked for is larger
NEARLY_ALL = 0.999  # of a share below 1 the rows are copied, and so outlive their block


@dataclass(frozen=True)
class Sample:
    """The rows that a seed chooses at a share; those of a smaller share are among them."""

    share: float
    rows: Rows

    @property
    def nbytes(self) -> int:
        return int(self.rows.X.nbytes)


class Samples:
    """The samples that are held, by their seeds, in no more than ``memory`` bytes."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._held: dict[int, Sample] = {}
        self._last: tuple[float, int, Rows] | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """What all of them take."""
        return sum(sample.nbytes for sample in self._held.values())

    def plan(self, asked: Sequence[Sampled], whole: int) -> tuple[dict[int, float], set[int]]:
        """The samples to gather (seed, share), and the seeds that will then be held.

        What has no room is left to be asked of the rows in a pass.

        Parameters
        ----------
        asked : queries of samples.
        whole : bytes that all rows would take.
        """
        shares: dict[int, float] = {}
        for query in asked:
            shares[query.seed] = max(query.share, shares.get(query.seed, 0.0))
        wanted: dict[int, float] = {}
        held: set[int] = set()
        room = float(self.memory)
        for seed, share in shares.items():
            there = self._held.get(seed)
            known = there is not None and there.share >= share
            size = there.nbytes if there is not None and known else share * whole
            if size > room:
                continue
            held.add(seed)
            if not known:
                wanted[seed] = max(share, min(NEARLY_ALL, GROWTH * share, self.memory / GROWN_PART / whole))
                size = wanted[seed] * whole
            room -= size
        if wanted:
            self._make_room(room, held)
        return wanted, held

    def hold(self, seed: int, share: float, pieces: Sequence[Rows]) -> None:
        """Keep what was gathered of a sample."""
        self._held[seed] = Sample(share, join(pieces))

    def of(self, query: Sampled) -> Rows:
        """The rows a query looks at, from the sample that is held, which may be larger."""
        held = self._held[query.seed]
        if held.share == query.share:
            return held.rows
        if self._last is None or self._last[:2] != (query.share, query.seed):
            self._last = query.share, query.seed, query.rows(held.rows)
        return self._last[2]

    def _make_room(self, room: float, needed: set[int]) -> None:
        """Let samples go that are not needed now, where they take more than the room that is left."""
        for seed in [seed for seed in self._held if seed not in needed]:
            if self._held[seed].nbytes > room:
                del self._held[seed]
            else:
                room -= self._held[seed].nbytes
