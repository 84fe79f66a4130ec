"""Checkpoints of a deployed run: beside each round's sums stands who answered it, so that the same agents go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from wmlr.core.query import Query
from wmlr.core.round import EngineWrapper
from wmlr.federated.checkpoint import Recorded
from wmlr.flower.engine import FlowerRows
from wmlr.numerics.arrays import Array, Sums

ATTENDANCE = "minutes"  # its name in files


class RoundAttendance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who takes part in a run, with how many rows, who answered a round, and how long it took."""

    settled: dict[str, Annotated[int, Meta(ge=0)]]
    attendance: tuple[str, ...]
    seconds: Annotated[float, Meta(ge=0)]


class CheckpointedRows(EngineWrapper):
    """A FlowerRows that writes down every round, and on a second run gives the same sums without asking again.

    What the engine declares of itself this one declares as well.
    """

    engine: FlowerRows

    def __init__(self, engine: FlowerRows, path: Path, settings: dict[str, Any], resume: bool) -> None:
        super().__init__(engine)
        self._path = path
        self._recorded = Recorded(_WithAttendance(engine), path, settings, resume, beside=[ATTENDANCE])

    def total(self, query: Query) -> Sums:
        """The recorded sums while there are any, then the engine's."""
        live = self.engine.live
        sums = self._recorded.total(query)
        record = sums.pop(ATTENDANCE, np.empty(0))
        if self.engine.live == live:
            self.engine.recall(self._read(record), sums)
        return sums

    def _read(self, record: Array) -> RoundAttendance:
        try:
            return msgspec.json.decode(bytes(record.astype(np.int64).tolist()), type=RoundAttendance)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self._path} does not say who answered ({error}): restore it, or remove it and start anew"
            ) from None


class _WithAttendance(EngineWrapper):
    """The engine as a checkpoint sees it: who answered is among the sums."""

    engine: FlowerRows

    def total(self, query: Query) -> Sums:
        sums = self.engine.total(query)
        text = msgspec.json.encode(self.engine.attendance_record())
        return sums | {ATTENDANCE: np.frombuffer(text, dtype=np.uint8).astype(np.float64)}
