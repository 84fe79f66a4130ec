"""Rows that are read anew in every pass: the next block comes in while this one is answered.

Whatever the size of the data, a few blocks are in memory at once, and the samples that starts ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from joblib import effective_n_jobs
from numpy.typing import NDArray

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.core.round import Rows, SampleQuestion, Together, add
from wmlr.engines.arrays import answer_in_pieces, default_threads, single_blas
from wmlr.engines.samples import Samples, SamplesWanted, add_piece, gather
from wmlr.numerics.arrays import Sums
from wmlr.numerics.kernels import unit_counts

AHEAD = 2
MEMORY = 2**28

Progress = Callable[[int, int | None, int], None]
Piece = TypeVar("Piece")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Stamp:
    """A file's size and time of change, to tell whether it is still the same file."""

    path: Path
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Raise unless the file is as it was."""
        try:
            now = Stamp.of(self.path)
        except FileNotFoundError:
            raise ValueError(f"{self.path} is gone: it was there when the rows were first read") from None
        if now != self:
            what = f"from {self.size:,} to {now.size:,} bytes" if now.size != self.size else "in place"
            raise ValueError(f"{self.path} changed while it was in use ({what}): fit again once nobody writes to it")


class RowsInPasses(ABC):
    """Rows that a pass goes over as a whole, be they in files or on a cluster; samples of them are held here.

    Parameters
    ----------
    memory : bytes that kept samples may take.
    n_jobs : threads that answer for samples; None uses what the linear algebra library would.

    Attributes
    ----------
    passes : how often all rows have been gone over.
    """

    n_features: int

    feature_names: Sequence[str] | None = None
    formula: Any = None

    def __init__(self, memory: int, n_jobs: int | None = None) -> None:
        self.memory = memory
        self.threads = default_threads() if n_jobs is None else effective_n_jobs(n_jobs)
        self.passes = 0
        self._samples = Samples(memory)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About as many bytes as the features take in memory."""

    @abstractmethod
    def _pass(self, query: Together, wanted: SamplesWanted) -> Sums:
        """Go over all rows once: the sums of ``query``, and the samples ``wanted`` to hold."""

    def total(self, query: Query) -> Sums:
        """The sum of the answers of all blocks; samples that are held answer without a pass."""
        parts = query.members
        samples = {place: asked for place, part in enumerate(parts) if (asked := part.sample) is not None}
        wanted, held = self._samples.plan(list(samples.values()), self.nbytes)
        local = {place: asked for place, asked in samples.items() if asked.kind in held}
        rest = Together(tuple(part for place, part in enumerate(parts) if place not in local))
        sums = self._pass(rest, wanted) if rest.queries or wanted else {}
        others = iter(rest.split_sums(sums))
        answers = [
            self._answer_from_sample(local[place]) if place in local else next(others) for place in range(len(parts))
        ]
        return query.join_answers(answers)

    def _answer_from_sample(self, asked: SampleQuestion) -> Sums:
        return answer_in_pieces(asked.query.query, self._samples.of(asked), self.threads)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            in_one_place=True,
            totals={"passes": float(self.passes)},
            feature_names=self.feature_names,
            formula=self.formula,
        )


class StreamedRows(RowsInPasses, Generic[Piece]):
    """Rows that are read block by block in every pass.

    Threads answer for blocks while the next ones are read. Answers are added in the order of the blocks, so
    that the number of threads changes nothing at all and the block size only the last digits. Samples are kept
    in memory once they have been gathered.

    Parameters
    ----------
    stamps : the files; one that changes between or during passes is an error.
    n_jobs : threads; None uses what the linear algebra library would.
    memory : bytes that kept samples, or the rows of one group, may take.
    progress : called as ``progress(rows done, rows in all, pass)`` after every block; rows in all are None
        where they are not known yet.

    Attributes
    ----------
    passes : how often the files have been read.
    n_rows : the number of rows; None while it is not known.
    n_groups : the number of groups, known after the first pass; None without groups.
    n_units : how many rows or groups the likelihood counts, by weight, known after the first pass.
    """

    def __init__(
        self,
        stamps: Sequence[Stamp],
        *,
        n_jobs: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(memory, n_jobs)
        self.progress = progress
        self.n_rows: int | None = None
        self.n_groups: int | None = None
        self.n_units = 0.0
        self._stamps = tuple(stamps)
        self._sound = False

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """What is read in one pass, block by block, and not yet made into numbers; no group is split."""

    @abstractmethod
    def rows(self, piece: Piece) -> Rows:
        """A block of rows; until a whole pass was sound, every number is looked at."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, blocks=self.blocks)

    def columns(self, piece: Piece) -> Mapping[str, NDArray[Any]]:
        """The named columns that a piece was read from; none where they have no names."""
        return {}

    def blocks(self) -> Iterator[tuple[Mapping[str, NDArray[Any]], Rows]]:
        """All rows once, block by block, each with the columns it was read from; it is to be used before the next."""
        self._check_files()
        self.passes += 1
        done = 0
        for piece in self.pieces():
            rows = self.rows(piece)
            yield self.columns(piece), rows
            done += len(rows)
            if self.progress is not None:
                self.progress(done, self.n_rows, self.passes)
        self._check_files()

    def _pass(self, query: Together, wanted: SamplesWanted) -> Sums:
        """Read everything once."""
        gathered: list[list[Rows]] = [[] for _ in wanted]
        done, units = 0, 0.0
        total: Sums = {}

        def answer(piece: Piece) -> tuple[int, float, Sums, list[Rows]]:
            rows = self.rows(piece)
            count = float(unit_counts(len(rows), rows.weight, rows.starts).sum())
            return len(rows), count, answer_block(query, rows), [gather(*one, rows) for one in wanted.items()]

        self._check_files()
        self.passes += 1
        try:
            with single_blas(0):
                for rows, count, sums, samples in in_order(self.pieces(), answer, self.threads):
                    total = add((total, sums))
                    done, units = done + rows, units + count
                    for kind, kept, sample in zip(wanted, gathered, samples):
                        add_piece(kind, kept, sample)
                    if self.progress is not None:
                        self.progress(done, self.n_rows, self.passes)
        except ValueError:
            self._check_files()
            raise
        self._check_files()
        self._settle(done, units)
        for (kind, share), pieces in zip(wanted.items(), gathered):
            self._samples.hold(kind, share, pieces)
        return total

    def _settle(self, rows: int, units: float) -> None:
        """What the first whole pass has shown."""
        if self.n_rows is not None and rows != self.n_rows:
            raise ValueError(f"{self._name} had {self.n_rows:,} rows and now has {rows:,}: it changed while in use")
        if not units:
            raise ValueError(f"the weights in {self._name} are zero for every row: nothing is left to fit")
        self.n_rows, self.n_units = rows, units
        self._sound = True

    @property
    def _name(self) -> str:
        first = str(self._stamps[0].path)
        return first if len(self._stamps) == 1 else f"{first} and {len(self._stamps) - 1} more files"

    def _check_files(self) -> None:
        for stamp in self._stamps:
            stamp.check()


def answer_block(query: Together, rows: Rows) -> Sums:
    """The answers of one block; a sample that takes no row of it says nothing."""
    sums: Sums = {}
    for place, part in enumerate(query.queries):
        chosen = rows
        while part.sample is not None:
            chosen, (part,) = part.rows(chosen), part.children()
        if len(chosen):
            sums |= {f"{place}/{name}": value for name, value in part.answer(chosen).items()}
    return sums


def in_order(pieces: Iterable[Piece], answer: Callable[[Piece], Answer], threads: int) -> Iterator[Answer]:
    """The answer for each piece, by threads, in the order of the pieces; the next ones are read meanwhile.

    While a piece is read, at most ``threads + AHEAD - 1`` others are waiting or being answered.
    """
    pending: deque[Future[Answer]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for piece in pieces:
            pending.append(pool.submit(answer, piece))
            del piece
            if len(pending) == threads + AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
