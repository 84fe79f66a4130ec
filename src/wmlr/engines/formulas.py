"""Formulas over files that are not brought into memory: the design is made block by block."""

from __future__ import annotations

import re
from threading import Lock
from typing import Any

import numpy as np

from wmlr.core.round import Rows
from wmlr.engines.arrow import Source
from wmlr.engines.files import TableRows, refuse_infinite, span
from wmlr.engines.pieces import Piece
from wmlr.engines.streamed import MEMORY, Progress
from wmlr.formulas.formula import ModelFormula
from wmlr.io.table import Table, arrow, pandas

MOST_LEVELS = 1000
BATCH_ROWS = 2**16


class FormulaRows(TableRows):
    """Rows of a file as a formula sees them.

    Levels of categorical columns are gathered in a first look at those columns. What learns from all rows in
    another way, such as ``center(x)`` or ``poly(x, 2)``, is refused.

    Parameters
    ----------
    source : the file.
    formula : such as ``"y ~ x + C(month) | person"``; the rows of a group must follow each other. Or the formula of a
        fitted model, whose design is then the model's.
    symmetric : whether the model is a symmetric pair, which has no intercept.
    weight, n_jobs, block_rows, memory, progress : as for :class:`wmlr.engines.ParquetRows`.

    Attributes
    ----------
    formula : the :class:`wmlr.formulas.formula.ModelFormula` as the fitted model wants it.
    """

    def __init__(
        self,
        source: Source,
        formula: str | ModelFormula,
        symmetric: bool = False,
        weight: str | None = None,
        n_jobs: int | None = None,
        *,
        block_rows: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        head = source.head
        self.formula = _read_formula(source, formula, symmetric) if isinstance(formula, str) else formula
        self.formula.refuse_pairs_and_offsets("files that are read block by block")
        variables = [*self.formula.variables, *self.formula.explained]
        for name in variables:
            head.require(name, "the formula")
        self._numbers = [name for name in dict.fromkeys(variables) if head.is_numeric(name)]
        self._lock = Lock()
        names, groups = self.formula.names, self.formula.group
        super().__init__(source, variables, names, weight, groups, n_jobs, block_rows, memory, progress)

    def rows(self, piece: Piece) -> Rows:
        table = piece.table
        if not self._sound:
            for name in self._numbers:
                table.column(name)
        with self._lock:
            frame = table.to_frame()
            X, y = self.formula.design(frame).to_numpy(), self.formula.target(frame)
        if not self._sound:
            refuse_infinite(X, table, self.feature_names)
            refuse_infinite(y[:, None], table, [self.formula.target_name])
        weight = None if self.weight is None else table.weights(self.weight)
        return Rows(np.ascontiguousarray(X), y, weight, piece.starts, span(table))


def _read_formula(source: Source, text: str, symmetric: bool) -> ModelFormula:
    """A formula read with the first rows of a file, and with all levels of its categorical columns."""
    head = source.head
    first = ModelFormula.read(text, head.to_frame(), symmetric)
    if first.transforms:
        raise ValueError(
            f"{next(iter(first.transforms))} in {text!r} learns from all rows, which a stream has not: put the "
            "column into the file, or read the file whole"
        )
    levels = {name: column_levels(source, name) for name in first.variables if _categorical(head, first, name)}
    return ModelFormula.read(text, _with_levels(head.to_frame(), levels), symmetric)


def _categorical(head: Table, formula: ModelFormula, name: str) -> bool:
    """Whether a column's entries are levels: it is no number, or is in a factor that is categorical."""
    factors = [factor for factor, (kind, _) in formula.levels.items() if kind == "categorical"]
    return not head.is_numeric(name) or any(re.search(rf"\b{re.escape(name)}\b", factor) for factor in factors)


def column_levels(source: Source, name: str) -> list[Any]:
    """All levels of a column."""
    found: set[Any] = set()
    for batch in source.batches([name], BATCH_ROWS):
        found |= set(Table(source.name, arrow().Table.from_batches([batch])).levels(name))
        if len(found) > MOST_LEVELS:
            raise ValueError(
                f"column {name!r} of {source.name} has more than {MOST_LEVELS:,} levels: encode it as numbers, "
                "or leave it out"
            )
    return sorted(found)


def _with_levels(frame: Any, levels: dict[str, list[Any]]) -> Any:
    """The frame with rows added in which every level occurs."""
    for name, known in levels.items():
        more = frame.iloc[[0] * len(known)].assign(**{name: known})
        frame = pandas().concat([frame, more], ignore_index=True)
    return frame
