"""Files of named columns in pieces: some rows after others, and no group apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.engines.arrow import Source
from wmlr.engines.groups import Runs, changes
from wmlr.io.table import Table, arrow
from wmlr.numerics.arrays import Integers


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a table, and where its groups begin."""

    table: Table
    starts: Integers | None = None


def pieces(source: Source, columns: Sequence[str], rows: int) -> Iterator[Piece]:
    """A file in tables of at most so many rows."""
    first = 0
    for batch in source.batches(columns, rows):
        if len(batch):
            yield Piece(Table(source.name, arrow().Table.from_batches([batch]), first))
            first += len(batch)


def whole_groups(found: Iterator[Piece], groups: str, runs: Runs) -> Iterator[Piece]:
    """The same rows in tables that end where a group ends.

    What is held back is always the last group seen, of which more may come.
    """
    held: list[Any] = []
    first, length, label = 0, 0, None
    for piece in found:
        content = piece.table.content
        starts, labels = _runs(piece.table, groups)
        goes_on = bool(held) and labels[0] == label
        begun = starts[1:] if goes_on else starts
        runs.note(labels[1:] if goes_on else labels, piece.table.first + begun)
        places = np.append(np.zeros(len(held[:1]), dtype=np.int64), length + begun)
        label = labels[-1]
        cut = int(places[-1])
        if cut:
            table = arrow().concat_tables([*held, content])
            yield Piece(Table(piece.table.source, table.slice(0, cut), first), places[:-1])
            first, held, length = first + cut, [table.slice(cut)], len(table) - cut
        else:
            held, length = [*held, content], length + len(content)
        runs.check_size(length * content.num_columns * 8, first)
    if held:
        yield Piece(Table(piece.table.source, arrow().concat_tables(held), first), np.zeros(1, dtype=np.int64))


def _runs(table: Table, groups: str) -> tuple[Integers, NDArray[Any]]:
    """Where groups begin, and their labels."""
    table.refuse_unlabelled(groups)
    coded = table.content[groups].combine_chunks().dictionary_encode()
    codes = np.asarray(coded.indices)
    starts = changes(codes)
    return starts, np.asarray(coded.dictionary.to_numpy(zero_copy_only=False))[codes[starts]]
