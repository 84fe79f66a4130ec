"""Samples of rows that are asked about again and again, kept by what chooses them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

SAMPLES_KEPT = 4

Sample = TypeVar("Sample")


class SampleCache(Generic[Sample]):
    """The samples that were drawn last.

    Parameters
    ----------
    most : how many are kept.
    """

    def __init__(self, most: int = SAMPLES_KEPT) -> None:
        self.most = most
        self.kept: dict[Hashable, Sample] = {}

    def get(self, key: Hashable, draw: Callable[[], Sample]) -> Sample:
        """The sample that a key tells, drawn where it is not kept."""
        if key not in self.kept:
            sample = draw()
            drop_oldest(self.kept, self.most - 1)
            self.kept[key] = sample
        return self.kept[key]


def drop_oldest(kept: dict[Any, Any], most: int) -> None:
    """Leave no more entries than so many, those that were written last."""
    for oldest in list(kept)[: max(len(kept) - most, 0)]:
        del kept[oldest]
