"""What a Spark executor does: checked partitions as arrays in binary columns, and sums of queries over them.

These functions run in the executors' Python processes. Arrays travel as raw bytes in Arrow columns, sums and samples
as ``.npz`` without pickled objects.
"""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from wmlr.core.repeats import REPEATS
from wmlr.core.round import Rows, Together, add, join
from wmlr.engines.partitions import Partition, PartitionColumns, from_frame, one_blas_thread
from wmlr.engines.samples import SamplesWanted, add_piece, gather, put_together
from wmlr.engines.streamed import answer_block
from wmlr.io.table import arrow
from wmlr.numerics.arrays import Sums
from wmlr.numerics.kernels import unit_counts

CHUNK_BYTES = 2**25  # an Arrow column of binaries holds at most 2 GB, and one chunk is in memory at a time
PACKED = (
    "number int, piece int, n bigint, units double, n_groups bigint, single boolean, "
    "X binary, y binary, weight binary, codes binary"
)
ANSWERED = "number int, answer binary"

Batches = Iterator[Any]


def by_names(task: Callable[[Batches], Batches], names: Sequence[str]) -> Callable[[Batches], Batches]:
    """A task whose batches have these names for their columns."""
    return lambda batches: task(batch.rename_columns(names) for batch in batches)


def packer(columns: PartitionColumns) -> Callable[[Batches], Batches]:
    """From batches of a partition's columns to chunks of its arrays, whole groups in each."""
    return lambda batches: _pack(batches, columns)  # Spark pickles what is in here; _pack is found by its name


def _pack(batches: Batches, columns: PartitionColumns) -> Batches:
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    held = list(batches)
    if held and sum(map(len, held)):
        frame = arrow().Table.from_batches(held).to_pandas()
        yield from _chunks(from_frame(frame, columns, number), number)


def _chunks(part: Partition, number: int) -> Batches:
    rows = max(1, CHUNK_BYTES // max(1, part.X.shape[1] * part.X.itemsize))
    edges = [*range(0, len(part), rows), len(part)]
    if part.codes is not None:
        ends = np.append(np.flatnonzero(np.diff(part.codes)) + 1, len(part))
        edges = [0, *np.unique(ends[np.searchsorted(ends, edges[1:])]).tolist()]
    for piece, (low, high) in enumerate(pairwise(edges)):
        weight = None if part.weight is None else part.weight[low:high]
        codes = None if part.codes is None else part.codes[low:high]
        starts = None if codes is None else np.flatnonzero(np.append(True, np.diff(codes) != 0)).astype(np.int64)
        yield _batch(
            PACKED,
            number,
            piece,
            high - low,
            float(unit_counts(high - low, weight, starts).sum()),
            0 if starts is None else len(starts),
            part.X.dtype == np.float32,
            part.X[low:high].tobytes(),
            part.y[low:high].tobytes(),
            None if weight is None else weight.tobytes(),
            None if codes is None else codes.tobytes(),
        )


def answerer(
    query: Together, wanted: SamplesWanted, firsts: dict[tuple[int, int], int], d: int
) -> Callable[[Batches], Batches]:
    """From chunks of arrays to a partition's sums of a query, and its part of the samples that are wanted."""

    return lambda batches: _answer(batches, query, wanted, firsts, d)


def _answer(
    batches: Batches, query: Together, wanted: SamplesWanted, firsts: dict[tuple[int, int], int], d: int
) -> Batches:
    samples: list[list[Rows]] = [[] for _ in wanted]
    total: Sums = {}
    number = -1
    with one_blas_thread:
        for chunk in _unpack(batches):
            number = chunk["number"]
            for rows in _blocks(chunk, firsts[number, chunk["piece"]], d):
                total = add((total, answer_block(query, rows)))
                for kept, (kind, share) in zip(samples, wanted.items()):
                    add_piece(kind, kept, gather(kind, share, rows))
    if number >= 0:
        found = {f"sums/{name}": value for name, value in total.items()}
        for place, (kind, kept) in enumerate(zip(wanted, samples)):
            fields = _fields(put_together(kind, kept))
            found |= {f"sample{place}/{name}": value for name, value in fields.items()}
        _freeze_modules()
        yield _batch(ANSWERED, number, to_bytes(found))


@cache
def _freeze_modules() -> None:
    """Keep what this process has imported out of the collections of garbage that Spark makes after every task.

    To search it takes a tenth of a second, many times what the sums of a small partition take.
    """
    gc.collect()
    gc.freeze()


def scorer(
    columns: PartitionColumns, score: Callable[[Rows], dict[str, Any]], names: Sequence[str]
) -> Callable[[Batches], Batches]:
    """From batches of a partition's own columns to the same with the columns that a function makes of its rows."""
    return lambda batches: _score(batches, columns, score, names)


def _score(
    batches: Batches, columns: PartitionColumns, score: Callable[[Rows], dict[str, Any]], names: Sequence[str]
) -> Batches:
    held = list(batches) if columns.groups is not None else batches
    tables = [arrow().Table.from_batches(held)] if isinstance(held, list) and held else held
    for batch in tables:
        table = batch if isinstance(held, list) else arrow().Table.from_batches([batch])
        if not len(table):
            continue
        found = np.empty((len(table), len(names)))
        part = from_frame(table.select(columns.all).to_pandas(), columns, 0)
        for rows in part.blocks(0):
            made = score(rows)
            found[rows.index] = np.column_stack([made[name] for name in names])
        for place, name in enumerate(names):
            table = table.append_column(name, arrow().array(found[:, place]))
        yield from table.combine_chunks().to_batches()


def sum_answers(table: Any) -> Any:
    """The answers of some partitions as one, added in their order; samples are put one after the other."""
    rows = sorted(zip(table["number"].to_pylist(), table["answer"].to_pylist()))
    found = merge(from_bytes(answer) for _, answer in rows)
    return arrow().Table.from_batches([_batch(ANSWERED, rows[0][0], to_bytes(found))])


def merge(answers: Iterable[Sums]) -> Sums:
    """Sums added, and samples joined, in the order in which they come."""
    total: Sums = {}
    pieces: dict[str, list[Rows]] = {}
    for answer in answers:
        total = add((total, {name: value for name, value in answer.items() if name.startswith("sums/")}))
        for sample in sorted({name.split("/")[0] for name in answer if name.startswith("sample")}):
            pieces.setdefault(sample, []).append(sample_of(answer, sample))
    for sample, kept in pieces.items():
        total |= {f"{sample}/{name}": value for name, value in _fields(join(kept)).items()}
    return total


def sample_of(answer: Sums, name: str) -> Rows:
    """The rows of a sample in an answer."""
    fields: dict[str, Any] = {
        key.split("/", 1)[1]: value for key, value in answer.items() if key.startswith(f"{name}/")
    }
    beside = {role: fields.pop(role) for role in [REPEATS] if role in fields}
    return Rows(**fields, beside=beside)


def to_bytes(arrays: dict[str, Any]) -> bytes:
    """Arrays by name, as bytes."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def from_bytes(data: bytes) -> Sums:
    """The arrays in bytes; nothing in them is unpickled."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _fields(rows: Rows) -> dict[str, Any]:
    fields = {"X": rows.X, "y": rows.y, "weight": rows.weight, "starts": rows.starts, "index": rows.index}
    fields[REPEATS] = rows.beside.get(REPEATS)
    return {name: value for name, value in fields.items() if value is not None}


def _blocks(chunk: dict[str, Any], first: int, d: int) -> Iterator[Rows]:
    n = chunk["n"]
    X = np.frombuffer(chunk["X"], np.float32 if chunk["single"] else np.float64).reshape(n, d)
    y = np.frombuffer(chunk["y"])
    weight = None if chunk["weight"] is None else np.frombuffer(chunk["weight"])
    codes = None if chunk["codes"] is None else np.frombuffer(chunk["codes"], np.int64)
    part = Partition(X, y, weight, codes)
    yield from part.blocks(first)


def _unpack(batches: Batches) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for place in range(len(batch)):
            row = {name: batch.column(name)[place] for name in batch.schema.names}
            yield {
                name: (None if value.as_py() is None else value.as_buffer()) if name in BINARIES else value.as_py()
                for name, value in row.items()
            }


BINARIES = ("X", "y", "weight", "codes")
_TYPES = {"int": "int32", "bigint": "int64", "double": "float64", "boolean": "bool_", "binary": "binary"}


def _batch(schema: str, *values: Any) -> Any:
    """One row as a record batch, whose columns are those of a Spark schema."""
    fields = [field.split() for field in schema.split(", ")]
    arrays = [arrow().array([value], getattr(arrow(), _TYPES[kind])()) for value, (_, kind) in zip(values, fields)]
    return arrow().RecordBatch.from_arrays(arrays, [name for name, _ in fields])
