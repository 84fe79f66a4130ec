"""Samples of rows that are asked about again and again, kept by what chooses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from wmlr.core.round import Sampled

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
        self.kept: dict[tuple[float, int], Sample] = {}

    def get(self, query: Sampled, draw: Callable[[], Sample]) -> Sample:
        """The sample that a query is about, drawn where it is not kept."""
        key = (query.share, query.seed)
        if key not in self.kept:
            sample = draw()
            drop_oldest(self.kept, self.most - 1)
            self.kept[key] = sample
        return self.kept[key]


def drop_oldest(kept: dict[Any, Any], most: int) -> None:
    """Leave no more entries than so many, those that were written last."""
    for oldest in list(kept)[: max(len(kept) - most, 0)]:
        del kept[oldest]
