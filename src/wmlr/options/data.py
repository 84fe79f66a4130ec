"""From the columns of a file to the arguments of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from wmlr.io import tables
from wmlr.io.printable import note
from wmlr.numerics.arrays import Array

if TYPE_CHECKING:
    from wmlr.selection import Selection

MOST_COMPONENTS = 5


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a fit.

    ``X`` is a DataFrame, so that names travel with the numbers; ``left_out`` are columns that hold no
    numbers, each with what it holds instead. With a formula ``X`` is the whole table, and y and the groups
    are what the formula takes from it.
    """

    X: Any
    y: Any
    groups: NDArray[Any] | None
    weight: Array | None
    left_out: tuple[str, ...] = ()
    formula: str | None = None

    def __len__(self) -> int:
        return len(self.X)

    def chosen(self, estimator: Any, most: int | None = None, criterion: str = "bic") -> Selection:
        """Fits of 1, 2, 3 ... components; the least of a criterion wins."""
        from wmlr import select_components

        return select_components(
            self.X,
            self.y,
            range(1, (most or min(MOST_COMPONENTS, len(self))) + 1),
            criterion,
            estimator=estimator,
            groups=self.groups,
            formula=self.formula,
            sample_weight=self.weight,
        )

    def fitted(self, estimator: Any, count: int) -> Any:
        """The fit of so many components."""
        if self.formula is None:
            return estimator.fit(self.X, self.y, sample_weight=self.weight, groups=self.groups)
        estimator.set_params(n_components=count, formula=self.formula)
        return estimator.fit(self.X, sample_weight=self.weight)

    def summary(self, fitted: Any) -> Any:
        """The table of a fit, with its standard errors where the columns are not too many for them."""
        from wmlr.estimator.summary import Summary
        from wmlr.numerics.coordinates import WIDE

        if fitted.mixture_.n_features > WIDE:
            note(f"no standard errors: {fitted.mixture_.n_features:,} columns are too many for a matrix of them")
            return Summary.of(fitted.fitted_)
        return fitted.summary(self.X, self.y, self.weight, self.groups)

    def criteria(self, fitted: Any) -> tuple[float, float]:
        """AIC and BIC."""
        rows = (self.X, self.y, self.weight, self.groups)
        return fitted.aic(*rows), fitted.bic(*rows)

    def remark(self) -> None:
        """Say on stderr which columns were not used."""
        remark(self.left_out)


def remark(left_out: Sequence[str]) -> None:
    """Say on stderr which columns were not used."""
    if left_out:
        note(f"left out, as not numeric: {', '.join(left_out)}")


def load(
    file: str,
    target: str | None,
    features: str | None = None,
    groups: str | None = None,
    weights: str | None = None,
    formula: str | None = None,
    delimiter: str | None = None,
) -> Problem:
    """Read a file and take its columns apart, by name or by formula."""
    refuse_unsaid(target, formula)
    table = tables.read(file, delimiter)
    if formula is not None:
        return _by_formula(table, formula, features, groups, weights)
    assert target is not None
    names, left_out = table.explaining(listed(features), parts(target, groups, weights), "--features")
    y = table.numbers([target])[target]
    if (y == y.iloc[0]).all():
        raise ValueError(f"column {target!r} of {file} is {y.iloc[0]:g} in every row: --target must be one that varies")
    return Problem(
        table.numbers(names),
        y,
        None if groups is None else table.labels(groups),
        None if weights is None else table.weights(weights),
        tuple(left_out),
    )


def refuse_unsaid(target: str | None, formula: str | None) -> None:
    """Raise unless one thing says what to explain."""
    if (target is None) == (formula is None):
        raise ValueError("say what to explain, by --target COLUMN or by --formula 'y ~ x' (one of the two)")


def parts(target: str | None, groups: str | None, weights: str | None) -> dict[str, str]:
    """The columns that are no features, each with the option that names it."""
    named = ((target, "--target"), (groups, "--groups"), (weights, "--weights"))
    return {name: role for name, role in named if name is not None}


def listed(features: str | None) -> list[str] | None:
    """The columns of ``--features a,b,c``."""
    if features is None:
        return None
    names = [name.strip() for name in features.split(",") if name.strip()]
    if not names:
        raise ValueError(f"--features names no column (got {features!r}): write them as a,b,c")
    return names


def _by_formula(
    table: tables.Table, formula: str, features: str | None, groups: str | None, weights: str | None
) -> Problem:
    formula = grouped(table, formula, features, groups, weights)
    weight = None if weights is None else table.weights(weights)
    return Problem(table.content.to_pandas(), None, None, weight, formula=formula)


def grouped(table: tables.Table, formula: str, features: str | None, groups: str | None, weights: str | None) -> str:
    """The formula, with the groups of ``--groups`` after a bar."""
    if features is not None:
        raise ValueError("--formula names the features itself: leave out --features")
    for name, role in ((groups, "--groups"), (weights, "--weights")):
        if name is not None:
            table.require(name, role)
    return formula if groups is None else f"{formula} | {groups}"
