"""Files that are read block by block, as they are too large to bring into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from wmlr.cli import _data
from wmlr.cli._console import terminal
from wmlr.io.notes import note

if TYPE_CHECKING:
    from wmlr.engines.arrow import Source
    from wmlr.engines.gaps import WithoutGaps
    from wmlr.engines.streamed import Progress
    from wmlr.formulas.formula import ModelFormula
    from wmlr.io.table import Table
    from wmlr.options.data import DataOptions
    from wmlr.selection import Selection

LARGE = 2**30
SHARE = 0.25

Stream = Annotated[
    bool | None,
    _data.option("Read the file block by block; by default where it is large.", "--stream/--no-stream"),
]


def streamed_source(file: str, stream: bool | None, options: DataOptions, text: tuple[str, ...] = ()) -> Source | None:
    """The file to be read block by block; None where it is to be read whole.

    Unless ``stream`` decides, that is a folder, or a file that would take more than a quarter of the memory
    left or 1 GB.
    """
    from wmlr.io import tables

    path = Path(file)
    if stream is False or (not path.exists() and file in tables.BUILT_IN):
        return None
    if not stream and not path.is_dir() and _size(path) <= min(LARGE, SHARE * available_memory()):
        return None
    from wmlr.engines.arrow import open_source

    return open_source(path, options.csv_format, text)


def _size(path: Path) -> int:
    """About how many bytes a file takes in memory."""
    if not path.is_file():
        return 0
    from wmlr.io import tables

    size = path.stat().st_size
    if not tables.is_parquet(path) or size == 0:
        return size
    from pyarrow import parquet

    with tables.one_line_refusals(str(path), path):
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
    """What :class:`wmlr.options.problem.Problem` is, for rows that stay in their file, or on a cluster."""

    rows: Any
    source: WithoutGaps | None = None
    notes: tuple[str, ...] = ()
    target: str | None = None
    ids: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.rows.n_rows or 0)

    @property
    def dropped(self) -> int:
        """How many rows were left out for their gaps."""
        return 0 if self.source is None else self.source.dropped

    def remark(self) -> None:
        """Say how the file was read, and what a person should know of the choice of rows and columns."""
        from wmlr.io.column_choice import gaps_sentence

        note(f"{self.rows.source.name} was read block by block, {self.rows.passes} times (--no-stream reads it whole)")
        if self.source is not None and self.dropped:
            note(gaps_sentence(self.dropped, len(self) + self.dropped, self.source.gaps))
        for text in self.notes:
            note(text)

    def report_rows(self, fitted: Any) -> dict[str, Any]:
        """A look at the rows, in one pass, as :func:`wmlr.report.page` takes it."""
        from wmlr.report import RowSample

        blocks = (self.rows.rows(piece) for piece in self.rows.pieces())
        return {"sample": RowSample.from_blocks(fitted, blocks, self.rows.feature_names, self.rows.n_rows)}

    def choose(self, estimator: Any, most: int) -> Selection:
        """Fits of 1 up to so many components; the least BIC wins."""
        from wmlr.estimator.repeated_warnings import WarningsOfFits
        from wmlr.selection import bic_price, choice, fit_each

        tried = tuple(range(1, most + 1))
        heard = WarningsOfFits(self._fit)
        fits = fit_each(estimator, tried, heard, self.__len__, lambda: bic_price(self.rows.n_units))
        found = choice("bic", tried[: len(fits)], fits, [self._line(fit) for fit in fits], len(self))
        heard.repeat(found.estimator)
        return found

    def fit(self, estimator: Any, count: int) -> Any:
        """The fit of so many components."""
        return self._fit(estimator.set_params(n_components=count))

    def _fit(self, model: Any) -> Any:
        from wmlr.options.problem import with_record

        return with_record(model.fit_on(self.rows, **self.roles), self.dropped, ids=self.ids, target=self.target)

    def criteria(self, fitted: Any) -> tuple[float, float]:
        """AIC and BIC; weighted rows count by their weight."""
        import numpy as np

        twice = -2 * float(fitted.log_likelihood_)
        units = float(np.log(self.rows.n_units))
        return twice + 2 * fitted.n_parameters_, twice + units * fitted.n_parameters_

    def _line(self, fitted: Any) -> dict[str, float]:
        found = {"log_likelihood": float(fitted.log_likelihood_), "n_parameters": float(fitted.n_parameters_)}
        return found | dict(zip(("aic", "bic"), self.criteria(fitted)))

    def summary(self, fitted: Any, errors: str = "observed") -> Any:
        """The table of a fit, its standard errors from one more pass."""
        from wmlr.estimator.summary import Summary
        from wmlr.inference.information import ERRORS

        intervals = fitted.fitted_.confidence_intervals_on(self.rows, errors=errors, **self.roles)
        facts = [("rows", str(self.rows.n_rows))]
        if self.rows.n_groups is not None:
            facts.append(("groups", str(self.rows.n_groups)))
        facts += [(name, f"{value:.4f}") for name, value in zip(("AIC", "BIC"), self.criteria(fitted))]
        return Summary.of(fitted.fitted_, intervals, (*facts, ("errors", ERRORS[errors])))


def load(
    source: Source, options: DataOptions, intercept: bool, symmetric: bool, progress: Progress | None
) -> StreamedProblem:
    """The rows of a file, by the names of columns or by a formula."""
    options.require_one_target(intercept)
    if options.formula is not None:
        return by_formula(source, options, options.grouped_formula(source.head), symmetric, progress)
    from wmlr.engines.formulas import column_levels
    from wmlr.formulas.columns import formula_of_columns

    assert options.target is not None
    choice = options.choose(source.head, levels=lambda name: [])
    if not choice.levels:
        return by_columns(source, options, choice.names, progress, tuple(choice.notes(gaps=False)))
    whole = _without_gaps(source, options, (*choice.names, *options.parts()))
    levels = {name: column_levels(whole or source, name) for name in choice.levels}
    constant = [name for name, known in levels.items() if len(known) == 1]
    names = [name for name in choice.names if name not in constant]
    constants = dict.fromkeys(constant, "the same in every row")
    varying = {name: known for name, known in levels.items() if name not in constant}
    notes = tuple(replace(choice, levels=varying, left_out={**choice.left_out, **constants}).notes(gaps=False))
    formula = formula_of_columns(
        options.target, names, levels, group=options.groups, intercept=intercept, symmetric=symmetric
    )
    return by_formula(source, options, formula, symmetric, progress, notes)


def by_columns(
    source: Source,
    options: DataOptions,
    names: Sequence[str],
    progress: Progress | None,
    notes: tuple[str, ...] = (),
) -> StreamedProblem:
    """The rows of a file in which columns are the features."""
    from wmlr.engines.files import ColumnRows
    from wmlr.engines.streamed import MEMORY

    assert options.target is not None
    whole = _without_gaps(source, options, (*names, *options.parts()))
    read = [*names, *options.roles().values()]
    rows = ColumnRows(
        whole or source, options.target, read, options.weights, options.groups, None, None, MEMORY, progress
    )
    return StreamedProblem(rows, whole, notes, options.target, options.ids, options.roles())


def by_formula(
    source: Source,
    options: DataOptions,
    formula: str | ModelFormula,
    symmetric: bool,
    progress: Progress | None,
    notes: tuple[str, ...] = (),
) -> StreamedProblem:
    """The rows of a file as a formula sees them."""
    from wmlr.engines.formulas import FormulaRows
    from wmlr.formulas.formula import ModelFormula

    options.refuse_roles(f"{source.name} is read block by block by a formula")
    if isinstance(formula, str):
        used = ModelFormula.columns_of(formula, source.head.to_frame(), symmetric)
    else:
        used = [*formula.variables, *formula.explained, *(() if formula.group is None else (formula.group,))]
    for name in used:
        source.head.require(name, "the formula")
    whole = _without_gaps(source, options, (*used, *(() if options.weights is None else (options.weights,))))
    rows = FormulaRows(whole or source, formula, symmetric, options.weights, progress=progress)
    return StreamedProblem(rows, whole, notes, options.target, options.ids)


def _without_gaps(source: Source, options: DataOptions, columns: Sequence[str]) -> WithoutGaps | None:
    """The file without its rows that have gaps; None where those are to be refused."""
    if options.missing == "fail":
        return None
    from wmlr.engines.gaps import WithoutGaps

    return WithoutGaps(source, columns)


def blocks(source: Source, columns: Sequence[str], groups: str | None) -> Iterator[Table]:
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
    console = terminal()
    if console is None:
        yield None
        return
    from wmlr.cli._bars import bar_on

    with bar_on(console) as bar:
        task = bar.add_task(text, total=None)

        def show(done: int, rows: int | None, number: int) -> None:
            whole = "" if rows is None else f" of {rows:,}"
            bar.update(task, completed=done, total=rows, description=f"{text}: pass {number}, {done:,}{whole} rows")

        yield show
