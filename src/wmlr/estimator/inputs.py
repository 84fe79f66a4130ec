"""How X, y, weights and groups, as a user gives them, become the rows that a mixture is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from wmlr.engines.arrays import ArrayRows
from wmlr.engines.validation import (
    check_features,
    check_groups,
    check_labels,
    check_rows,
    check_weight,
    refuse_sizes,
    without_label,
)
from wmlr.estimator.gaps import Gaps, missing_in
from wmlr.estimator.gate_columns import ROLE, GateColumns
from wmlr.estimator.row_roles import RowRoles, read_beside, refuse_forgotten, split_response, with_offset
from wmlr.families import Family
from wmlr.features.maps import phi_names
from wmlr.features.transformers import as_named_frame, read_only, transform
from wmlr.formulas.formula import ModelFormula
from wmlr.io.frames import as_frame, is_frame
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.sparse import block_rows, dense, unwrap


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Rows without gaps, as numbers.

    Attributes
    ----------
    X, y : the columns that the coefficients belong to (before features: the columns as given), and the target.
    weight : how often each row counts; None where each counts once.
    labels_of_rows : each row's group; None without groups.
    gaps : which of the rows that were given are not here.
    beside : what else is known of each row, by its role.
    """

    X: Any
    y: Array
    weight: Array | None = None
    labels_of_rows: NDArray[Any] | None = None
    gaps: Gaps = field(default_factory=lambda: Gaps(0))
    beside: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Integers | None:
        """Codes 0 ... G-1 in the order of ``labels``."""
        return check_groups(self.labels_of_rows, len(self.y))

    @property
    def labels(self) -> NDArray[Any]:
        """The groups' labels, sorted."""
        return np.unique(np.asarray(self.labels_of_rows))

    def engine(self, family: Family, n_jobs: int | None = None) -> ArrayRows:
        """The rows as an engine, for components of a family."""
        y, beside = family.sums_response(self.y, self.beside)
        return ArrayRows(
            self.X, y, self.weight, self.groups, beside=beside, n_jobs=n_jobs, block_rows=block_rows(self.X)
        )


@dataclass(frozen=True, eq=False)
class Inputs:
    """The columns that a fit saw, and how new rows are made of the same kind.

    Attributes
    ----------
    checker : an estimator that knows the number and names of the columns of X, by which scikit-learn checks new rows.
    width : the number of columns that the coefficients belong to.
    features : the fitted transformer phi; None where the columns are taken as they are.
    formula : what makes the columns from a data frame; None where there is no formula.
    missing : "raise" at a gap, or "drop" the row.
    target : the name of y, where it has one; ids : the column that names the rows, where one does.
    gate : the columns that mixing weights depend on; None where they depend on none.
    needed : what the fit's rows had besides, and others must have ("offset", "trials"); a formula has its own offset.
    """

    checker: Any
    width: int
    features: Any = None
    formula: ModelFormula | None = None
    missing: str = "raise"
    target: str | None = None
    gate: GateColumns | None = None
    ids: str | None = None
    needed: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, estimator: Any, width: int | None = None, features: Any = None, formula: ModelFormula | None = None
    ) -> Self:
        """Those of an estimator that has just seen its columns."""
        checker = type(estimator)()
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(estimator):
                setattr(checker, name, getattr(estimator, name))
        width = estimator.n_features_in_ if width is None else width
        return cls(checker, width, features, formula, getattr(estimator, "missing", "raise"))

    @property
    def names(self) -> NDArray[Any] | None:
        """The names of the columns of X; None where they have none."""
        return getattr(self.checker, "feature_names_in_", None)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that the coefficients belong to."""
        if self.features is not None:
            return phi_names(self.features, None if self.names is None else list(self.names), self.width)
        if self.names is not None and len(self.names) == self.width:
            return [str(name) for name in self.names]
        return [f"x{place}" for place in range(self.width)]

    @property
    def gate_names(self) -> tuple[str, ...]:
        """Names of the columns that mixing weights depend on."""
        return () if self.gate is None else self.gate.names

    @property
    def gate_formula(self) -> ModelFormula | None:
        """What makes those columns from a data frame."""
        return None if self.gate is None else self.gate.formula

    def features_of(self, X: Any) -> tuple[Any, Gaps]:
        """The columns that the coefficients belong to, at the complete rows of X, and which rows are not."""
        X, gaps = self._complete(X)
        return (np.empty((0, self.width)) if gaps.dropped == gaps.n_rows else self.map_features(X)), gaps

    def _complete(self, X: Any) -> tuple[Any, Gaps]:
        """The complete rows of X, before ``features``, and which rows are not."""
        X, gaps = self._design(X)
        if gaps.dropped < gaps.n_rows or not gaps.n_rows:
            X = check_features(self.checker, X, reset=False, gaps=self.missing == "drop")
            later = Gaps.of(missing_in(X, self.names) if self.missing == "drop" else {}, X.shape[0])
            X, gaps = later.complete(X), gaps.compose(later)
        return X, gaps

    def with_gate(self, X: Any, given: Any, gaps: Gaps) -> dict[str, Array]:
        """The columns that mixing weights depend on, at the complete rows X of what was given."""
        if self.gate is None:
            return {}
        if self.gate.formula is None or not self.by_formula(given):
            return {ROLE: self.gate.of_rows(X)}
        return {ROLE: self.gate.of_frame(gaps.complete(as_frame(given)))}

    def predictor_rows(self, X: Any, **roles: Unpack[RowRoles]) -> tuple[Any, dict[str, Array], Gaps]:
        """What :meth:`features_of` has of rows without y, with what is known of them besides."""
        given = X
        refuse_forgotten([role for role in self.needed if role != "trials"], roles)  # without them, means are of one
        roles = self._with_offset(roles, given)
        X, gaps = self._complete(X)
        lost_all = gaps.dropped == gaps.n_rows and bool(gaps.n_rows)
        gate = {} if lost_all else self.with_gate(X, given, gaps)
        phi = np.empty((0, self.width)) if lost_all else self.map_features(X)
        n = gaps.n_rows or phi.shape[0]
        found = read_beside(roles, n, self.missing == "drop")
        lost = {role: np.isnan(values) for role, values in found.items()}
        later = Gaps.of({role: gaps.complete(where) for role, where in lost.items()}, phi.shape[0])
        beside = {role: later.complete(gaps.complete(values)) for role, values in found.items()}
        beside |= {role: later.complete(values) for role, values in gate.items()}
        return later.complete(phi), beside, gaps.compose(later)

    def rows(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> ModelRows:
        """The complete rows, with the columns that the coefficients belong to."""
        rows = self.unmapped_rows(X, y, sample_weight, groups, **roles)
        return replace(rows, X=self.map_features(rows.X))

    def unmapped_rows(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> ModelRows:
        """The complete rows, with their columns as they are before ``features``."""
        X, y, groups = self.with_target(X, y, groups)
        whole = X
        y, roles = split_response(y, roles)
        refuse_forgotten(self.needed, roles)
        roles = self._with_offset(roles, whole)
        X, gaps = self._design(X, y)
        given = (gaps.complete(values) for values in (y, sample_weight, groups))
        of_rows = complete_roles(roles, gaps)
        read = read_rows(self.checker, X, *given, missing=self.missing, reset=False, roles=of_rows)
        gaps = gaps.compose(read.gaps)
        return replace(read, gaps=gaps, beside={**read.beside, **self.with_gate(read.X, whole, gaps)})

    def map_features(self, X: Any) -> Any:
        """phi(X), for rows that have been checked."""
        if self.features is None:
            return X
        return transform(self.features, as_named_frame(self.features, read_only(unwrap(X)), self.names))

    def with_target(self, X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
        """X with y and groups, which are the data frame's own where the model has a formula."""
        X, groups = self.with_groups(X, groups)
        if not self.by_formula(X):
            return X, y, groups
        assert self.formula is not None
        return X, self.formula.resolve_target(X, y, self.missing == "drop"), groups

    def with_groups(self, X: Any, groups: Any) -> tuple[Any, Any]:
        """X with groups, which are the data frame's own where the model has a formula."""
        if not self.by_formula(X):
            return X, groups
        assert self.formula is not None
        frame = as_frame(X)
        if groups is None and self.formula.group in frame.columns:
            groups = self.formula.groups(frame, self.missing == "drop")
        return frame, groups

    @property
    def target_name(self) -> str:
        """What is explained, in words."""
        return self.target or "y" if self.formula is None else self.formula.target_name

    def by_formula(self, X: Any) -> bool:
        """Whether X is a data frame that the formula makes columns of, and not already made of them."""
        return self.formula is not None and is_frame(X) and tuple(as_frame(X).columns) != self.formula.names

    def describe(self, X: Any, y: Any) -> tuple[Any, Any]:
        """All columns of X as a pandas frame, the target among them, and the target."""
        pandas = import_module("pandas")
        if is_frame(X):
            frame = as_frame(X)
        else:
            values = np.asarray(dense(X))
            names = [f"x{place}" for place in range(values.shape[1])] if self.names is None else list(self.names)
            frame = pandas.DataFrame(values, columns=names)
        if self.formula is not None:
            return frame, y
        if y is None:
            if self.target not in frame.columns:
                raise ValueError(f"y is missing: give it, or a data frame with the column {self.target_name!r}")
            return frame, frame[self.target].to_numpy()
        return (frame if self.target_name in frame.columns else frame.assign(**{self.target_name: np.asarray(y)})), y

    def own_columns(self, X: Any, frame: Any) -> Any:
        """Those of a frame's columns that the model was fitted to; X itself where they have no names."""
        if self.names is None or not set(self.names) <= set(frame.columns):
            return X
        return frame[list(self.names)]

    def _with_offset(self, roles: RowRoles, X: Any) -> RowRoles:
        """The roles with the formula's own offset, where X is a data frame that has it."""
        if self.formula is None or not self.formula.offsets:
            return roles
        if not self.by_formula(X):
            raise ValueError(f"the formula {self.formula.text!r} has an offset: give the data frame, not its design")
        return with_offset(roles, self.formula.offset(X))

    def _design(self, X: Any, y: Any = None) -> tuple[Any, Gaps]:
        """The formula's columns at complete rows of a data frame; without a formula, X as it is."""
        if not self.by_formula(X):
            return X, Gaps(0)
        assert self.formula is not None
        frame = as_frame(X)
        gaps = Gaps(len(frame))
        if self.missing == "drop":
            missing = self.formula.gaps_by_column(frame, self.formula.variables)
            if self.gate_formula is not None:
                missing |= self.gate_formula.gaps_by_column(frame, self.gate_formula.variables)
            if y is not None:
                missing |= {self.formula.target_name: np.isnan(np.asarray(y, dtype=np.float64))}
            gaps = Gaps.of(missing, len(frame))
            if y is not None:
                gaps.refuse_nothing_left()
        return self.formula.design(gaps.complete(frame)), gaps


def complete_roles(roles: RowRoles, gaps: Gaps) -> RowRoles:
    """What is given of the complete rows."""
    found: Any = {role: gaps.complete(values) for role, values in roles.items()}
    given: RowRoles = found
    return given


def read_rows(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    *,
    missing: str,
    reset: bool,
    roles: RowRoles | None = None,
) -> ModelRows:
    """Arrays or frames of numbers, checked; rows with a gap are refused or left out.

    Parameters
    ----------
    estimator : whose columns are learned (``reset``) or compared.
    X, y, sample_weight, groups : the rows; a y of two columns has successes and failures.
    missing : "raise" or "drop".
    roles : what else is given of each row.
    """
    allowed = missing == "drop"
    target = str(getattr(y, "name", None) or "y")
    y, roles = split_response(y, {} if roles is None else roles)
    X, y = check_rows(estimator, X, y, reset, allowed)
    beside = read_beside(roles, len(y), allowed)
    names = getattr(estimator, "feature_names_in_", None)
    weight = check_weight(sample_weight, len(y), allowed)
    labels = None if groups is None else check_labels(groups, len(y))
    gaps = Gaps(len(y))
    if allowed:
        where = {**missing_in(X, names), target: np.isnan(y)}
        where |= {role: np.isnan(values) for role, values in beside.items()}
        if weight is not None:
            where["sample_weight"] = np.isnan(weight)
        if labels is not None:
            where["groups"] = without_label(labels)
        gaps = Gaps.of(where, len(y))
        gaps.refuse_nothing_left()
        X, y, weight, labels = (gaps.complete(values) for values in (X, y, weight, labels))
        beside = {role: gaps.complete(values) for role, values in beside.items()}
    if reset and allowed:
        refuse_sizes(X, y, names)
    rows = ModelRows(X, y, weight, labels, gaps, beside)
    _ = rows.groups
    return rows
