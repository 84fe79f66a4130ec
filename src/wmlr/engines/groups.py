"""Groups in a stream: the rows of each follow each other, and no block splits one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.numerics.arrays import Integers


def changes(labels: NDArray[Any]) -> Integers:
    """Where a run of equal labels begins, the first row included."""
    return np.flatnonzero(np.append(True, labels[1:] != labels[:-1])).astype(np.int64)


class Runs:
    """The groups seen in one pass, of which each must be one run of rows.

    Parameters
    ----------
    source : the file, for messages.
    memory : bytes that the rows of one group may take.
    counted_from : the number of the first row, in messages.
    """

    def __init__(self, source: Any, memory: int, counted_from: int = 1) -> None:
        self.source = source
        self.memory = memory
        self.counted_from = counted_from
        self._codes: list[Integers] = []
        self._firsts: list[Integers] = []

    def note(self, labels: NDArray[Any], firsts: Integers) -> None:
        """Groups that begin, each with its first row."""
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            row = int(firsts[np.isnan(labels)][0])
            raise ValueError(f"{self.source} has no label in row {row + self.counted_from:,}: every row needs a group")
        self._codes.append(_codes(labels))
        self._firsts.append(firsts)

    def check_size(self, nbytes: int, first: int) -> None:
        """Refuse a group that would not stay in memory."""
        if nbytes > self.memory:
            raise ValueError(
                f"the group that begins in row {first + self.counted_from:,} of {self.source} takes more than "
                f"memory={self.memory:,} bytes, and a group is never split: raise memory"
            )

    def finish(self) -> int:
        """The number of groups; raise where the rows of one are apart."""
        codes, firsts = np.concatenate(self._codes), np.concatenate(self._firsts)
        order = np.argsort(codes, kind="stable")
        again = np.flatnonzero(np.diff(codes[order]) == 0)
        if again.size:
            place = again[np.argmin(firsts[order[again + 1]])]
            before, after = (firsts[order[place : place + 2]] + self.counted_from).tolist()
            raise ValueError(
                f"the rows of a group are apart in {self.source} (one begins in row {before:,} and goes on in row "
                f"{after:,}): sort the file by its groups"
            )
        return len(codes)


def _codes(labels: NDArray[Any]) -> Integers:
    """A 64-bit code per label: a number's own bits, a text's hash."""
    if labels.dtype.kind == "f":
        return (labels.astype(np.float64) + 0.0).view(np.int64)
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64)
    return np.fromiter((hash(label) for label in labels.tolist()), dtype=np.int64, count=len(labels))
