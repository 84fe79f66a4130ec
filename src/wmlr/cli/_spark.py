"""Rows that Spark holds: a table of its catalogue, or a Parquet file or folder, for ``--spark``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from wmlr.cli import _data
from wmlr.cli._stream import StreamedProblem
from wmlr.io.notes import note

if TYPE_CHECKING:
    from wmlr.engines.spark import SparkRows
    from wmlr.options.data import DataOptions

Spark = Annotated[
    bool,
    _data.option("FILE is a table of Spark's catalogue, or a Parquet folder: its cluster keeps the rows.", "--spark"),
]

NEEDS_ROWS = ("formula", "categorical", "na", "delimiter")


@dataclass(frozen=True, eq=False)
class SparkProblem(StreamedProblem):
    """Rows on a Spark cluster."""

    rows: SparkRows

    @property
    def dropped(self) -> int:
        return int(self.rows.dropped)

    def remark(self) -> None:
        note(f"{self.rows.passes} jobs of Spark passed over {self.rows.n_partitions} partitions")
        if self.dropped:
            note(f"{self.dropped:,} of {len(self) + self.dropped:,} rows have gaps and were left out")
        if self.rows.left_out:
            note(f"these hold no numbers and were left out: {', '.join(self.rows.left_out)}")


@contextmanager
def load(file: str, options: DataOptions) -> Iterator[SparkProblem]:
    """The rows of a table or a folder, for as long as Spark is asked for them; a session begun here ends here."""
    for name in NEEDS_ROWS:
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} needs the rows here, and --spark leaves them on the cluster: leave one out")
    from wmlr.engines.spark import SparkRows, open_session, read_frame
    from wmlr.options.data import parse_names

    assert options.target is not None
    with open_session() as session:
        frame = read_frame(file, session)
        left = parse_names(options.exclude, frame.columns, "--exclude") or []
        left += [] if options.ids is None else [options.ids]
        unknown = [name for name in left if name not in frame.columns]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r} to leave out; there are {', '.join(frame.columns)}")
        features = parse_names(options.features, frame.columns, "--features")
        features = None if features is None else [*features, *options.roles().values()]
        missing = "drop" if options.missing == "drop" else "raise"
        given = (options.target, features, options.weights, options.groups)
        yield SparkProblem(SparkRows(frame.drop(*left), *given, missing=missing), roles=options.roles())
