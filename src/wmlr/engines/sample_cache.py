"""Samples of rows that are asked about again and again, kept by what chooses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from wmlr.core.round import Sampled

SAMPLES_KEPT = 4

Sample = TypeVar("Sample")


class SampleCache(Generic[Sample]):
    """The samples that were drawn last.

    Parameters
    ----------
    most : how many are kept; None keeps all.
    """

    def __init__(self, most: int | None = SAMPLES_KEPT) -> None:
        self.most = most
        self.kept: dict[tuple[float, int], Sample] = {}

    def get(self, query: Sampled, draw: Callable[[], Sample]) -> Sample:
        """The sample that a query is about, drawn where it is not kept."""
        key = (query.share, query.seed)
        if key not in self.kept:
            sample = draw()
            if self.most is not None:
                for oldest in list(self.kept)[: 1 - self.most]:
                    del self.kept[oldest]
            self.kept[key] = sample
        return self.kept[key]
