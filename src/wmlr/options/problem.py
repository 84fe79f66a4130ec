"""The rows of a fit, from the columns of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmlr.io.column_choice import ColumnChoice, gaps_sentence, refuse_no_rows
from wmlr.io.notes import note
from wmlr.io.table import Table, list_names, pandas
from wmlr.numerics.arrays import Array
from wmlr.options.collinearity import shared_variance_note
from wmlr.options.data import DataOptions

if TYPE_CHECKING:
    from wmlr.formulas.formula import ModelFormula
    from wmlr.selection import Selection

ERRORS = ("observed", "sandwich", "clustered")


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a fit.

    Attributes
    ----------
    X, y, groups, weight : the rows without gaps, as ``fit`` takes them; X is a DataFrame of numbers.
    formula : what made X of the file's columns; None where X is columns of the file.
    frame : with a formula, the same rows as the file has them.
    dropped : how many rows were left out for their gaps.
    notes : what a person should know of the choice of rows and columns.
    labels : what each row is called, where a column says; ids : that column.
    roles : what else is known of each row: offset, exposure and trials.
    by_frame : whether the estimator reads the formula itself, since it has more than X and y: then ``frame`` is fitted.
    """

    X: Any
    y: Any
    groups: NDArray[Any] | None = None
    weight: Array | None = None
    formula: ModelFormula | None = None
    frame: Any = None
    dropped: int = 0
    notes: tuple[str, ...] = ()
    labels: NDArray[Any] | None = None
    ids: str | None = None
    roles: dict[str, Any] = field(default_factory=dict)
    by_frame: bool = False

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> tuple[Any, Any, Any, Any]:
        """X, y, weights and groups, as the estimator's methods take them."""
        if self.by_frame:
            return self.frame, None, self.weight, self.groups
        return self.X, self.y, self.weight, self.groups

    def choose(self, estimator: Any, most: int, criterion: str = "bic") -> Selection:
        """Fits of 1, 2, 3 ... components, as far as the rows reach; the least of a criterion wins."""
        from wmlr import select_components

        X, y, weight, groups = self.rows
        found = select_components(
            X,
            y,
            most,
            criterion,
            estimator=self._prepare(estimator),
            groups=groups,
            sample_weight=weight,
            **self.roles,
        )
        self.complete(found.estimator)
        return found

    def fit(self, estimator: Any, count: int) -> Any:
        """The fit of so many components."""
        model = self._prepare(estimator).set_params(n_components=count)
        return self.complete(model.fit(*self.rows, **self.roles))

    def _prepare(self, estimator: Any) -> Any:
        if self.formula is None:
            return estimator
        if self.by_frame:
            return estimator.set_params(formula=self.formula.text)
        return estimator.set_params(fit_intercept=self.formula.intercept)

    def complete(self, fitted: Any) -> Any:
        """The fit, with the formula by which it reads other files, and with how many rows were left out of this one."""
        return with_record(fitted, self.dropped, None if self.by_frame else self.formula, self.ids)

    def summary(self, fitted: Any, errors: str = "observed") -> Any:
        """The table of a fit, with its standard errors where the columns are not too many for them."""
        from wmlr.estimator.summary import Summary
        from wmlr.numerics.coordinates import WIDE

        if fitted.mixture_.n_features > WIDE:
            note(f"no standard errors: {fitted.mixture_.n_features:,} columns are too many for a matrix of them")
            return Summary.of(fitted.fitted_)
        return fitted.summary(*self.rows, errors=errors, **self.roles)

    def criteria(self, fitted: Any) -> tuple[float, float]:
        """AIC and BIC."""
        return fitted.aic(*self.rows, **self.roles), fitted.bic(*self.rows, **self.roles)

    def report_rows(self, fitted: Any) -> dict[str, Any]:
        """The rows as :func:`wmlr.report.page` takes them."""
        X, y = (self.X, self.y) if self.frame is None else (self.frame, None)
        named = {"sample_weight": self.weight, "groups": self.groups, "labels": self.labels, "roles": self.roles}
        return {"X": X, "y": y, **named}

    def remark(self) -> None:
        """Say what a person should know of the choice of rows and columns."""
        dummies = set(self.X.columns) - set(() if self.frame is None else self.frame.columns)
        collinear = shared_variance_note(self.X, dummies if self.formula is not None else ())
        for text in (*self.notes, *([collinear] if collinear else [])):
            note(text)


def refuse_errors(errors: str, groups: str | None, formula: str | None) -> None:
    """Raise where ``--errors`` says nothing that there is, or asks for groups that are not there."""
    if errors not in ERRORS:
        raise ValueError(f"--errors must be {', '.join(ERRORS)} (got {errors!r})")
    if errors == "clustered" and groups is None and (formula is None or "|" not in formula):
        raise ValueError("--errors clustered counts groups in place of rows: name their column by --groups")


def with_record(
    fitted: Any,
    dropped: int,
    formula: ModelFormula | None = None,
    ids: str | None = None,
    target: str | None = None,
) -> Any:
    """A fit that knows what is not in its numbers.

    Parameters
    ----------
    fitted : the fit.
    dropped : how many rows were left out for their gaps.
    formula : what made its columns; None where it has its own or none.
    ids : the column that names the rows.
    target : the column it explains; None where y told.
    """
    found = fitted.fitted_
    if found.aliased:
        note(f"no estimate: {list_names(found.aliased, 6)}: what follows from other columns has no effect of its own")
    inputs = replace(found.inputs, ids=ids, target=target or found.inputs.target)
    inputs = inputs if formula is None else replace(inputs, formula=formula)
    fitted.fitted_ = replace(found, inputs=inputs, record=replace(found.record, dropped=dropped))
    return fitted


def load(
    file: str,
    options: DataOptions,
    *,
    intercept: bool = True,
    symmetric: bool = False,
) -> Problem:
    """Read a file and take its columns apart, by name or by formula.

    Parameters
    ----------
    file : its name.
    options : which rows and columns.
    intercept, symmetric : of the model; without an intercept, the first column of levels keeps them all.
    """
    options.require_one_target(intercept)
    table = options.read(file)
    if options.formula is not None:
        return _by_typed_formula(table, options, symmetric)
    choice = _choose_columns(table, options)
    assert options.target is not None
    formula = None
    if choice.levels:
        from wmlr.formulas.columns import formula_of_columns

        group = options.groups if options.group_option == "--groups" else None
        formula = formula_of_columns(
            options.target, choice.names, choice.levels, group=group, intercept=intercept, symmetric=symmetric
        )
    return _problem(table, options, choice.kept, choice.notes(), choice.names, options.target, formula)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Rows of numbers alone, as an agent answers for them.

    Attributes
    ----------
    X, y : the rows without gaps.
    names, target : what their columns are called.
    notes : what a person should know of the choice of rows and columns.
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    target: str
    notes: tuple[str, ...] = ()


def load_numbers(file: str, options: DataOptions) -> Numbers:
    """Read a file's columns of numbers; those that are the same in every row too, which may vary at other agents."""
    options.require_one_target()
    table = options.read(file)
    choice = _choose_columns(table, options, text=False, constants=True)
    assert options.target is not None
    y = table.values(options.target)[choice.kept]
    _refuse_constant(y, f"column {options.target!r}", table)
    X = np.column_stack([table.values(name)[choice.kept] for name in choice.names])
    return Numbers(X, y, choice.names, options.target, tuple(choice.notes()))


def _choose_columns(table: Table, options: DataOptions, text: bool = True, constants: bool = False) -> ColumnChoice:
    assert options.target is not None
    table.require(options.target, "--target")
    table.values(options.target)
    choice = options.choose(table, text=text, constants=constants)
    if options.missing == "fail":
        table.refuse_gaps((*choice.names, *options.parts()))
    return choice


def _refuse_constant(y: Array, what: str, table: Table) -> None:
    if np.ptp(y) == 0:
        raise ValueError(f"{what} of {table.source} is {y.flat[0]:g} in every row: --target must be one that varies")


def _by_typed_formula(table: Table, options: DataOptions, symmetric: bool) -> Problem:
    from wmlr.estimator.gate_columns import columns_of_gate, is_gate_formula
    from wmlr.formulas.formula import ModelFormula
    from wmlr.formulas.split import with_terms
    from wmlr.options.model import gate_of

    text = with_terms(options.grouped_formula(table), options.shared)
    used = [*ModelFormula.columns_of(text, table.to_frame(), symmetric), *options.parts()]
    gate = gate_of(options.gate, by_formula=True)
    if is_gate_formula(gate):
        used += columns_of_gate(gate, table.to_frame())
    kept, counts = _without_gaps(table, options, list(dict.fromkeys(used)))
    with np.errstate(all="ignore"):  # what has no value is said by its row
        formula = ModelFormula.read(text, table.to_frame()[kept], symmetric)
    options = replace(options, groups=formula.group)
    found = _problem(table, options, kept, _gap_notes(kept, counts), formula.names, formula.target_name, formula)
    more = formula.failures is not None or bool(formula.offsets)
    return replace(found, by_frame=more or is_gate_formula(gate) or is_gate_formula(options.shared))


def predictable_rows(
    table: Table,
    options: DataOptions,
    names: Sequence[str],
    target: Sequence[str],
    groups: str | None,
    formula: ModelFormula | None,
    by_frame: bool = False,
) -> Problem:
    """The rows of a file that a fitted model can say something of.

    Parameters
    ----------
    table : the file.
    options : how to deal with gaps; weights, ids and what else is known of each row.
    names, target, groups : the columns the model reads, those that y is made of, and the groups'.
    formula : the model's, where it has one.
    by_frame : whether the model needs the columns as they are, and not its formula's.
    """
    for name in target:
        table.require(name, "--target")
    options = replace(options, groups=groups)
    others = [name for name in (groups, options.weights, *options.roles().values()) if name is not None]
    kept, counts = _without_gaps(table, options, [*names, *target, *others])
    notes = _gap_notes(kept, counts)
    if formula is not None:
        frame = table.to_frame()
        known = kept & formula.known(frame)
        unseen = formula.unseen_levels(frame, kept & ~known)
        why = f"{list_names([f'{name} has {level!r}' for name, level in unseen.items()])}, which the fit has not seen"
        if not known.any():
            raise ValueError(f"no row of {table.source} can be predicted: {why}; name the file that was fitted")
        notes += [f"{(kept & ~known).sum():,} of {len(kept):,} rows are left out: {why}"] if unseen else []
        kept = known
    found = _problem(table, options, kept, notes, names, target[0], formula)
    return replace(found, by_frame=by_frame)


def _without_gaps(table: Table, options: DataOptions, used: Sequence[str]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """The rows without a gap in the columns that are used, and how many gaps each column has."""
    for name in used:
        table.require(name, "--weights" if name == options.weights else "the formula")
    if options.missing == "fail":
        table.refuse_gaps(used)
    gaps = {name: table.gaps(name) for name in used}
    kept = ~np.any(list(gaps.values()), axis=0)
    counts = {name: int(found.sum()) for name, found in gaps.items()}
    refuse_no_rows(table, kept, counts)
    return kept, counts


def _gap_notes(kept: NDArray[np.bool_], counts: Mapping[str, int]) -> list[str]:
    dropped = int((~kept).sum())
    return [gaps_sentence(dropped, len(kept), counts)] if dropped else []


def _problem(
    table: Table,
    options: DataOptions,
    kept: NDArray[np.bool_],
    notes: Sequence[str],
    names: Sequence[str],
    target: str,
    formula: ModelFormula | None,
) -> Problem:
    """The rows that are kept, by columns or by a formula."""
    if formula is None:
        frame, X, y = None, table.numbers_where(names, kept), table.values(target)[kept]
    else:
        frame = table.to_frame()[kept]
        with np.errstate(all="ignore"):
            X, y = formula.design(frame), formula.target(frame)
        for name in X.columns[~np.isfinite(X.to_numpy()).all(axis=0)]:
            _refuse_undefined(table, name, X[name], kept)
        _refuse_undefined(table, target, y, kept)
    _refuse_constant(y, f"column {target!r}" if formula is None else target, table)
    return Problem(
        X=X,
        y=pandas().Series(y, name=target) if y.ndim == 1 else y,
        groups=None if options.groups is None else table.labels(options.groups, kept),
        weight=None if options.weights is None else table.weights(options.weights, kept),
        formula=formula,
        frame=frame,
        dropped=int((~kept).sum()),
        notes=tuple(notes),
        labels=None if options.ids is None else table.entries(options.ids)[kept],
        ids=options.ids,
        roles={role: table.values(name)[kept] for role, name in options.roles().items()},
    )


def _refuse_undefined(table: Table, name: str, values: Any, kept: NDArray[np.bool_]) -> None:
    """Raise with the first row of the file in which what a formula makes of it is no finite number."""
    bad = np.flatnonzero(kept)[~np.isfinite(np.asarray(values)).reshape(len(values), -1).all(axis=1)]
    if bad.size:
        rest = f" and {bad.size - 1:,} more" if bad.size > 1 else ""
        raise ValueError(
            f"{name} has no value in row {bad[0] + 1} of {table.source}{rest}: leave such rows out of the file, or "
            "write what has one, as np.log1p(x) where np.log(x) has none"
        )
