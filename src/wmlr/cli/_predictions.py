"""What a saved model says about rows of a file, blank where it cannot say anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.io.table import Table, list_names

Mask = NDArray[np.bool_]
Roles = Mapping[str, NDArray[np.float64]]
NAMED = 6  # columns at most in a sentence


@dataclass(frozen=True)
class Request:
    """What to say of each row.

    Attributes
    ----------
    target : the column of y, where it is known: then also whose row it is.
    groups : the column of groups.
    interval : the probability of an interval for y.
    density : whether to give the density of y, where it is known.
    keep : columns of the file to carry along.
    fail : refuse rows with gaps in place of leaving them blank.
    roles : the columns of what else is known of each row, by their role.
    """

    target: str | None = None
    groups: str | None = None
    interval: float | None = None
    density: bool = False
    keep: tuple[str, ...] = ()
    fail: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Blanks:
    """How many rows have no prediction, and why; counted from block to block."""

    rows: int = 0
    blank: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    undefined: int = 0

    def sentence(self) -> str:
        """All that in a sentence; nothing where no row is blank."""
        if not self.blank:
            return ""
        gaps = [f"{name} ({count:,})" for name, count in self.gaps.items() if count]
        reasons = [f"gaps in {list_names(gaps, NAMED)}"] if gaps else []
        unseen = [f"{name} has {where}" for name, where in self.unseen.items()]
        reasons += [f"{list_names(unseen, NAMED)}, which the fit has not seen"] if unseen else []
        reasons += [f"the formula has no value ({self.undefined:,})"] if self.undefined else []
        return f"{self.blank:,} of {self.rows:,} rows have no prediction: {'; '.join(reasons)}"


def predictions(fitted: Any, table: Table, wanted: Request, blanks: Blanks) -> dict[str, NDArray[Any]]:
    """The columns to write; components are numbered from 1, as in the table of the fit."""
    groups = groups_column(fitted, table, wanted.groups)
    known_groups = groups is not None and fitted.fitted_.groups is not None
    if groups is not None and not known_groups and wanted.target is None:
        raise ValueError("the model was fitted without groups: give --target to share out rows of known y by them")
    X, kept = _rows(fitted, table, groups, wanted, blanks)
    roles = {role: table.values(name)[kept] for role, name in wanted.roles.items()}
    labels = None if groups is None else table.entries(groups)[kept]
    columns = {name: table.entries(name) for name in wanted.keep}
    if not kept.any():
        k = len(fitted.weights_)
        found = {name: np.full(0, np.nan) for name in _names(k, wanted)}
    else:
        found = _prediction_columns(fitted, X, labels if known_groups else None, wanted, roles)
        if wanted.target is not None:
            found |= _responsibility_columns(fitted, X, _target(fitted, table, wanted)[kept], labels, wanted, roles)
    columns |= {name: _among_all_rows(values, kept) for name, values in found.items()}
    return columns


def _names(k: int, wanted: Request) -> list[str]:
    numbers = [f"component_{j + 1}" for j in range(k)]
    interval = [] if wanted.interval is None else ["lower", "upper"]
    shares = [] if wanted.target is None else [*(f"responsibility_{j + 1}" for j in range(k)), "assigned"]
    density = ["density"] if wanted.density else []
    return ["mean", *numbers, *interval, *shares, *density]


def _prediction_columns(fitted: Any, X: Any, groups: Any, wanted: Request, roles: Roles) -> dict[str, NDArray[Any]]:
    means = fitted.predict_components(X, **roles)
    columns: dict[str, NDArray[Any]] = {"mean": fitted.predict(X, groups, **roles)}
    columns |= {f"component_{j + 1}": means[:, j] for j in range(means.shape[1])}
    if wanted.interval is not None:
        region = fitted.predict_interval(X, wanted.interval, "central", groups, **roles)
        columns |= dict(zip(("lower", "upper"), np.concatenate(region.intervals).T))
    return columns


def _responsibility_columns(
    fitted: Any, X: Any, y: NDArray[Any], labels: Any, wanted: Request, roles: Roles
) -> dict[str, NDArray[Any]]:
    """Each component's responsibility for the rows whose y is known, the likeliest, and the density of y."""
    there = np.isfinite(y) if y.ndim == 1 else np.isfinite(y).all(axis=1)
    shares = np.full((len(y), len(fitted.weights_)), np.nan)
    known = {role: values[there] for role, values in roles.items()}
    if there.any():
        groups = None if labels is None else labels[there]
        shares[there] = fitted.responsibilities(X[there], y[there], groups, **known)
    columns = {f"responsibility_{j + 1}": shares[:, j] for j in range(shares.shape[1])}
    assigned = np.where(there, np.nan_to_num(shares, nan=-1.0).argmax(axis=1) + 1, 0)
    columns["assigned"] = np.ma.masked_equal(assigned, 0)
    if wanted.density:
        density = np.full(len(y), np.nan)
        if there.any():
            density[there] = fitted.predict_density(X[there], y[there], **known)
        columns["density"] = density
    return columns


def _target(fitted: Any, table: Table, wanted: Request) -> NDArray[Any]:
    """y in each row, NaN where it is not known."""
    for name in response_columns(fitted, wanted.target):
        table.require(name, "--target")
    formula = fitted.fitted_.inputs.formula
    if formula is None:
        assert wanted.target is not None
        return table.values(wanted.target)
    there = ~np.any([table.gaps(name) for name in formula.explained], axis=0)
    y = np.full(len(table) if formula.failures is None else (len(table), 2), np.nan)
    if there.any():
        y[there] = formula.target(table.to_frame(formula.explained)[there])
    return y


def _rows(fitted: Any, table: Table, groups: str | None, wanted: Request, blanks: Blanks) -> tuple[Any, Mask]:
    """The rows that can be predicted, and which those are.

    They are numbers with the model's names, or, where its formulas make more than X of a row, columns as they are.
    """
    names, fail = model_columns(fitted, table), wanted.fail
    for role, name in wanted.roles.items():
        table.require(name, f"--{role}")
    if fail:
        table.refuse_gaps([*names, *wanted.roles.values()])
    others = (*wanted.roles.values(), *(() if groups is None else (groups,)))
    gaps = {name: table.gaps(name) for name in (*names, *others)}
    kept = ~np.any(list(gaps.values()), axis=0)
    inputs = fitted.fitted_.inputs
    formula = inputs.formula
    if formula is None:
        X = table.numbers_where(names, kept)
    else:
        formulas = [one for one in (formula, inputs.gate_formula) if one is not None]
        levels = {name for one in formulas if one.right is not None for name in one.right.categorical}
        for name in names:
            if name not in levels:
                table.values(name)
        frame = table.to_frame(names)
        known = kept & np.all([one.known(frame) for one in formulas], axis=0)
        if fail and not known.all():
            formula.design(frame[kept])
        for name, level in formula.unseen_levels(frame, kept & ~known).items():
            blanks.unseen.setdefault(name, repr(level))
        kept = known
        X = formula.design(frame[kept])
        finite = np.isfinite(X.to_numpy()).all(axis=1)
        blanks.undefined += int((~finite).sum())
        kept[kept] = finite
        X = frame[kept] if reads_frames(fitted) else X[finite]
    blanks.rows += len(table)
    blanks.blank += int((~kept).sum())
    for name, where in gaps.items():
        blanks.gaps[name] = blanks.gaps.get(name, 0) + int(where.sum())
    return X, kept


def _among_all_rows(values: NDArray[Any], kept: Mask) -> NDArray[Any]:
    """Values of some rows among all rows, the others blank; what is no number is blank too."""
    found = np.ma.array(np.zeros(len(kept), dtype=np.ma.getdata(values).dtype), mask=True)
    found[kept] = values
    return np.ma.masked_invalid(found) if found.dtype.kind == "f" else found


def response_columns(fitted: Any, target: str | None) -> list[str]:
    """The columns that y is made of, where it was asked for."""
    if target is None:
        return []
    formula = fitted.fitted_.inputs.formula
    return [target] if formula is None else list(formula.explained)


def refuse_other_target(fitted: Any, target: str | None) -> None:
    """Raise where ``--target`` is not what the model's formula explains."""
    formula = fitted.fitted_.inputs.formula
    if formula is None:
        own = fitted.fitted_.inputs.target
        if None not in (own, target) and own != target:
            raise ValueError(
                f"the model explains {own}, and not --target {target}: write --target {quote(own)}, or rename the "
                "column"
            )
        return
    if target is None or target == formula.target_name or [target] == formula.explained:
        return
    raise ValueError(
        f"the model explains {formula.target_name} ({formula.text}), and not --target {target}: write "
        f"--target {quote(formula.target_name)}, which is then taken from the file by the formula"
    )


def groups_column(fitted: Any, table: Table, groups: str | None) -> str | None:
    """The groups' column, named or as the model's own formula has it."""
    if groups is not None:
        table.require(groups, "--groups")
        return groups
    formula = fitted.fitted_.inputs.formula
    return formula.group if formula is not None and formula.group in table.names else None


def model_columns(fitted: Any, table: Table) -> list[str]:
    """The columns of a file that the model reads."""
    inputs = fitted.fitted_.inputs
    formula = inputs.formula
    names = inputs.names if formula is None else [*formula.variables, *formula.offset_columns]
    if names is not None and inputs.gate_formula is not None:
        names = [*names, *inputs.gate_formula.variables]
    if names is None:
        raise ValueError(
            "the model was fitted to an array without column names: fit it with wmlr fit, or to a DataFrame"
        )
    for name in names:
        table.require(str(name), "the model")
    return list(dict.fromkeys(str(name) for name in names))


def reads_frames(fitted: Any) -> bool:
    """Whether the model's formulas make more than X of a row, so that it needs the columns as they are."""
    inputs = fitted.fitted_.inputs
    return bool(inputs.formula is not None and inputs.formula.offsets) or inputs.gate_formula is not None


def text_columns(fitted: Any) -> tuple[str, ...]:
    """The columns that the model knows levels of text of: they are text in every file, whatever they look like."""
    formula = fitted.fitted_.inputs.formula
    if formula is None or formula.right is None:
        return ()
    found = {factor.of.column: factor.levels for factor in formula.right.factors if factor.has_levels}
    return tuple(name for name, levels in found.items() if name and all(isinstance(level, str) for level in levels))
