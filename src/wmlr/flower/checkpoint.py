"""The minutes of a run: with each round's sums a checkpoint keeps who answered, so that a run taken up again goes on
with the same agents in mind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.federated.checkpoint import Recorded
from wmlr.flower.engine import FlowerRows
from wmlr.numerics.arrays import Array, Sums

MINUTES = "minutes"


class Minutes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who takes part in a run, with how many rows, who answered a round, and how long it took."""

    settled: dict[str, Annotated[int, Meta(ge=0)]]
    attendance: tuple[str, ...]
    seconds: Annotated[float, Meta(ge=0)]


class Minuted:
    """A FlowerRows that writes down every round, and on a second run gives the same sums without asking again.

    What the engine declares of itself this one declares as well.
    """

    def __init__(self, engine: FlowerRows, path: Path, settings: dict[str, Any], resume: bool) -> None:
        self.engine, self._path = engine, path
        self._recorded = Recorded(_WithMinutes(engine), path, settings, resume, beside=[MINUTES])

    @property
    def n_features(self) -> int:
        return self.engine.n_features

    @property
    def capabilities(self) -> Capabilities:
        return self.engine.capabilities

    def total(self, query: Query) -> Sums:
        """The recorded sums while there are any, then the engine's."""
        live = self.engine.live
        sums = self._recorded.total(query)
        minutes = sums.pop(MINUTES, np.empty(0))
        if self.engine.live == live:
            self.engine.recall(self._read(minutes), sums)
        return sums

    def _read(self, minutes: Array) -> Minutes:
        try:
            return msgspec.json.decode(bytes(minutes.astype(np.int64).tolist()), type=Minutes)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self._path} does not say who answered ({error}): restore it, or remove it and start anew"
            ) from None


class _WithMinutes:
    """The engine as a checkpoint sees it: the minutes are among the sums."""

    def __init__(self, engine: FlowerRows) -> None:
        self.engine, self.capabilities = engine, engine.capabilities

    @property
    def n_features(self) -> int:
        return self.engine.n_features

    def total(self, query: Query) -> Sums:
        sums = self.engine.total(query)
        text = msgspec.json.encode(self.engine.minutes())
        return sums | {MINUTES: np.frombuffer(text, dtype=np.uint8).astype(np.float64)}
