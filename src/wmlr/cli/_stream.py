"""Files that are read block by block, as they are too large to bring into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlr.cli._console import bar_on
from wmlr.io import tables
from wmlr.io.printable import note
from wmlr.options import data

if TYPE_CHECKING:
    from wmlr.engines.arrow import Source
    from wmlr.engines.files import TableRows
    from wmlr.engines.streamed import Progress
    from wmlr.selection import Selection

LARGE = 2**30
SHARE = 0.25

Stream = Annotated[
    bool | None,
    typer.Option("--stream/--no-stream", help="Read the file block by block; by default where it is large."),
]


def wanted(file: str, stream: bool | None, delimiter: str | None = None) -> Source | None:
    """The file to be read block by block; None where it is to be read whole.

    Unless ``stream`` decides, that is a folder, or a file that would take more than a quarter of the memory
    left or 1 GB.
    """
    path = Path(file)
    if stream is False or (not path.exists() and file in tables.BUILT_IN):
        return None
    if not stream and not path.is_dir() and _size(path) <= min(LARGE, SHARE * available_memory()):
        return None
    from wmlr.engines.arrow import opened

    return opened(path, delimiter)


def _size(path: Path) -> int:
    """About how many bytes a file takes in memory."""
    if not path.is_file():
        return 0
    size = path.stat().st_size
    if not tables.is_parquet(path) or size == 0:
        return size
    from pyarrow import parquet

    with tables.refusing(str(path), path):
        shape = parquet.read_metadata(path)
    return max(size, 8 * int(shape.num_rows) * int(shape.num_columns))


def available_memory() -> int:
    """Bytes that a process may take without others being moved out."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """What :class:`wmlr.cli.data.Problem` is, for rows that stay in their file."""

    rows: TableRows
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.rows.n_rows or 0

    def remark(self) -> None:
        """Say on stderr how the file was read, and which columns were not used."""
        note(f"{self.rows.source.name} was read block by block, {self.rows.passes} times (--no-stream reads it whole)")
        data.remark(self.left_out)

    def chosen(self, estimator: Any) -> Selection:
        """Fits of 1 up to MOST_COMPONENTS components; the least BIC wins."""
        from wmlr.selection import choice

        tried = tuple(range(1, data.MOST_COMPONENTS + 1))
        fits = [self.fitted(estimator, count) for count in tried]
        return choice("bic", tried, fits, [self._line(fit) for fit in fits])

    def fitted(self, estimator: Any, count: int) -> Any:
        """The fit of so many components."""
        from sklearn.base import clone

        return clone(estimator).set_params(n_components=count).fit_on(self.rows)

    def criteria(self, fitted: Any) -> tuple[float, float]:
        """AIC and BIC; weighted rows count by their weight."""
        import numpy as np

        twice = -2 * float(fitted.log_likelihood_)
        units = float(np.log(self.rows.n_units))
        return twice + 2 * fitted.n_parameters_, twice + units * fitted.n_parameters_

    def _line(self, fitted: Any) -> dict[str, float]:
        found = {"log_likelihood": float(fitted.log_likelihood_), "n_parameters": float(fitted.n_parameters_)}
        return found | dict(zip(("aic", "bic"), self.criteria(fitted)))

    def summary(self, fitted: Any) -> Any:
        """The table of a fit, its standard errors from one more pass."""
        from wmlr.estimator.summary import Summary

        intervals = fitted.fitted_.confidence_intervals_on(self.rows)
        facts = [("rows", str(self.rows.n_rows))]
        if self.rows.n_groups is not None:
            facts.append(("groups", str(self.rows.n_groups)))
        facts += [(name, f"{value:.4f}") for name, value in zip(("AIC", "BIC"), self.criteria(fitted))]
        return Summary.of(fitted.fitted_, intervals, (*facts, ("errors", "observed information")))


def load(
    source: Source,
    target: str | None,
    features: str | None,
    groups: str | None,
    weights: str | None,
    formula: str | None,
    symmetric: bool,
    progress: Progress | None,
) -> StreamedProblem:
    """The rows of a file, by the names of columns or by a formula."""
    data.refuse_unsaid(target, formula)
    from wmlr.engines.streamed import MEMORY

    if formula is not None:
        from wmlr.engines.formulas import FormulaRows

        formula = data.grouped(source.head, formula, features, groups, weights)
        return StreamedProblem(FormulaRows(source, formula, symmetric, weights, progress=progress))
    from wmlr.engines.files import ColumnRows

    assert target is not None
    names, left_out = source.head.explaining(data.listed(features), data.parts(target, groups, weights), "--features")
    rows = ColumnRows(source, target, names, weights, groups, None, None, MEMORY, progress)
    return StreamedProblem(rows, tuple(left_out))


def blocks(source: Source, columns: Sequence[str], groups: str | None) -> Iterator[tables.Table]:
    """The columns of a file, some rows after others, and no group apart."""
    from wmlr.engines.arrays import rows_per_block
    from wmlr.engines.groups import Runs
    from wmlr.engines.pieces import pieces, whole_groups
    from wmlr.engines.streamed import MEMORY

    found = pieces(source, list(dict.fromkeys(columns)), rows_per_block(source.expected_rows, len(columns)))
    if groups is not None:
        runs = Runs(f"{source.name} by column {groups!r}", MEMORY)
        for piece in whole_groups(found, groups, runs):
            yield piece.table
        runs.finish()
        return
    for piece in found:
        yield piece.table


@contextmanager
def rows_bar(text: str) -> Iterator[Progress | None]:
    """A bar over the rows of each pass, on a terminal; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with bar_on(console) as bar:
        task = bar.add_task(text, total=None)

        def show(done: int, rows: int | None, number: int) -> None:
            whole = "" if rows is None else f" of {rows:,}"
            bar.update(task, completed=done, total=rows, description=f"{text}: pass {number}, {done:,}{whole} rows")

        yield show
