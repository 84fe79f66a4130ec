"""Which rows and columns of a file the options of a command ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wmlr.io import tables
from wmlr.io.column_choice import ColumnChoice, choose_columns
from wmlr.io.delimited import CsvFormat
from wmlr.io.table import Table
from wmlr.options.model import gate_columns

MISSING = ("drop", "fail")


@dataclass(frozen=True)
class DataOptions:
    """Which rows and columns of a file to fit.

    Attributes
    ----------
    target, groups, weights, ids : columns; ids are carried along and explain nothing.
    features, categorical, exclude : columns to explain by, to take for levels, and to leave out, as "a,b,c".
    formula : in place of target and features.
    missing : "drop" leaves out rows with gaps, "fail" refuses them.
    na : what else stands for a gap, as "?,-".
    delimiter, decimal, encoding : how a CSV is written, as in :class:`wmlr.io.delimited.CsvFormat`.
    group_option : what the option of the groups is called.
    offset, exposure, trials : columns of what else is known of each row.
    gate : what mixing weights depend on, as ``--gate`` has it.
    shared : the columns that all components share, as ``--shared`` has it.
    """

    target: str | None = None
    features: str | None = None
    groups: str | None = None
    weights: str | None = None
    formula: str | None = None
    categorical: str | None = None
    exclude: str | None = None
    ids: str | None = None
    missing: str = "drop"
    na: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    group_option: str = "--groups"
    offset: str | None = None
    exposure: str | None = None
    trials: str | None = None
    gate: str | None = None
    shared: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"--missing must be drop or fail (got {self.missing!r})")

    def read(self, file: str, text: tuple[str, ...] = ()) -> Table:
        """The file's table; the columns ``text`` as text, whatever they look like."""
        return tables.read(file, self.csv_format, text)

    @property
    def csv_format(self) -> CsvFormat:
        """How a CSV file is written."""
        gap_signs = () if self.na is None else tuple(self.na.split(","))
        return CsvFormat(self.delimiter, self.decimal, self.encoding, gap_signs)

    def require_one_target(self, intercept: bool = True) -> None:
        """Raise unless one thing says what to explain, and whether there is an intercept."""
        if self.target is None and self.formula is None:
            raise ValueError("say what to explain, by --target COLUMN or by --formula 'y ~ x'")
        if self.target is not None and self.formula is not None:
            raise ValueError("--target and --formula both say what to explain: leave one of them out")
        if self.formula is None:
            return
        if not intercept:
            raise ValueError("--formula says itself whether there is an intercept: write - 1 into it for none")
        for name in ("features", "categorical", "exclude"):
            if getattr(self, name) is not None:
                raise ValueError(f"--formula names the features itself: leave out --{name}")

    def parts(self) -> dict[str, str]:
        """The columns that are no features, each with the option that names it."""
        named = (("--target", self.target), (self.group_option, self.groups), ("--weights", self.weights))
        others = ((f"--{role}", name) for role, name in self.roles().items())
        return {name: role for role, name in (*named, *others) if name is not None}

    def roles(self) -> dict[str, str]:
        """The columns of what else is known of each row, by their role."""
        named = (("offset", self.offset), ("exposure", self.exposure), ("trials", self.trials))
        return {role: name for role, name in named if name is not None}

    def refuse_roles(self, where: str) -> None:
        """Raise where more is said of the rows than an engine that leaves them where they are can use."""
        for role in self.roles():
            raise ValueError(f"--{role} needs the rows in memory, and {where}: read them whole, or leave it out")

    def choose(self, table: Table, **more: Any) -> ColumnChoice:
        """The columns to explain by; ``more`` as for :func:`wmlr.io.column_choice.choose_columns`."""
        parts = self.parts()
        exclude = parse_names(self.exclude, table.names, "--exclude") or []
        if self.ids is not None:
            table.require(self.ids, "--id")
            if self.ids in parts:
                raise ValueError(f"column {self.ids!r} is the one of {parts[self.ids]}: it is no --id besides")
            exclude.append(self.ids)
        features = parse_names(self.features, table.names, "--features")
        if features is not None:
            features += [name for name in gate_columns(self.gate) if name not in features]
        return choose_columns(
            table,
            parts,
            features=features,
            categorical=parse_names(self.categorical, table.names, "--categorical") or [],
            exclude=exclude,
            **more,
        )

    def grouped_formula(self, table: Table) -> str:
        """The formula, with the groups of ``--groups`` after a bar."""
        from wmlr.formulas.columns import quote

        assert self.formula is not None
        for role, name in (("--groups", self.groups), ("--weights", self.weights), ("--id", self.ids)):
            if name is not None:
                table.require(name, role)
        return self.formula if self.groups is None else f"{self.formula} | {quote(self.groups)}"


def parse_names(names: str | None, known: Sequence[str], role: str) -> list[str] | None:
    """The columns of an option such as ``--features a,b,c``; a column may have commas in its own name."""
    if names is None:
        return None
    if names in known:
        return [names]
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"{role} names no column (got {names!r}): write them as a,b,c")
    return found
