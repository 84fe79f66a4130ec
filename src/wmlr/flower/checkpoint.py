"""The minutes of a run: with each round's sums a checkpoint keeps who answered, so that a run taken up again goes on
with the same agents in mind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.federated.checkpoint import Recorded
from wmlr.flower.engine import FlowerRows
from wmlr.numerics.arrays import Sums

MINUTES = "minutes"


class Minuted:
    """A FlowerRows that writes down every round, and on a second run gives the same sums without asking again.

    What the engine declares of itself this one declares as well.
    """

    def __init__(self, engine: FlowerRows, path: Path, settings: dict[str, Any], resume: bool) -> None:
        self.engine = engine
        self._recorded = Recorded(_WithMinutes(engine), path, settings, resume)

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
        minutes = sums.pop(MINUTES)
        if self.engine.live == live:
            self.engine.recall(json.loads(minutes.astype(np.uint8).tobytes()), sums)
        return sums


class _WithMinutes:
    """The engine as a checkpoint sees it: the minutes are among the sums."""

    def __init__(self, engine: FlowerRows) -> None:
        self.engine, self.capabilities = engine, engine.capabilities

    @property
    def n_features(self) -> int:
        return self.engine.n_features

    def total(self, query: Query) -> Sums:
        sums = self.engine.total(query)
        text = json.dumps(self.engine.minutes()).encode()
        return sums | {MINUTES: np.frombuffer(text, dtype=np.uint8).astype(np.float64)}
