"""Files without their rows that have gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.engines.arrow import Source
from wmlr.io.table import Table, arrow


class WithoutGaps:
    """A file as if the rows with a gap in some columns were not there.

    Parameters
    ----------
    source : the file.
    columns : those in which a gap counts.

    Attributes
    ----------
    dropped : how many rows the last whole pass left out.
    gaps : for each column, how many gaps that pass found.
    """

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self.source, self.columns = source, list(dict.fromkeys(columns))
        self.name, self.stamps = source.name, source.stamps
        self.n_rows: int | None = None
        self.expected_rows = source.expected_rows
        kept = arrow().array(self._find_complete(source.head, dict.fromkeys(self.columns, 0)))
        self.head = replace(source.head, content=source.head.content.filter(kept))
        self.dropped = 0
        self.gaps: dict[str, int] = {}

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        dropped, gaps = 0, dict.fromkeys(self.columns, 0)
        first = 0
        for batch in self.source.batches(list(dict.fromkeys([*columns, *self.columns])), rows):
            kept = self._find_complete(Table(self.name, arrow().Table.from_batches([batch]), first), gaps)
            first += len(batch)
            dropped += int((~kept).sum())
            whole = batch if kept.all() else batch.filter(arrow().array(kept))
            yield whole.select(list(columns))
        self.dropped, self.gaps = dropped, gaps

    def _find_complete(self, table: Table, gaps: dict[str, int]) -> NDArray[np.bool_]:
        kept = np.ones(len(table), dtype=bool)
        for name in self.columns:
            found = table.gaps(name)
            gaps[name] += int(found.sum())
            kept &= ~found
        return kept
