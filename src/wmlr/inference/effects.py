"""Average marginal effects: by how much the mean of y changes with a column, on average over rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from wmlr.inference.intervals import check_level, edges, number
from wmlr.inference.uncertainty import Constraints, propagate_covariance, standard_errors
from wmlr.io.table import import_extra
from wmlr.io.text_table import ShownAsTable
from wmlr.model.layout import Layout
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import NOTHING_BESIDE, Array, Beside

OVERALL = "overall"


@dataclass(frozen=True, eq=False)
class ColumnChange:
    """A change of one column, as the design sees it.

    Attributes
    ----------
    name : of the column; for a level, with the level that it is compared with.
    high, low : (n, d) the design after the change and before it.
    width : (n,) how large the change is, in the column's unit.
    gate_high, gate_low : (n, g) the same of the columns that weights depend on; None where they depend on none.
    """

    name: str
    high: Array
    low: Array
    width: Array
    gate_high: Array | None = None
    gate_low: Array | None = None

    @classmethod
    def unit(cls, name: str, column: int, d: int) -> ColumnChange:
        """A unit's change of a column of the design itself, which is the same at every row."""
        high = np.zeros((1, d))
        high[0, column] = 1.0
        return cls(name, high, np.zeros((1, d)), np.ones(1))

    def effect(self, mixture: Mixture, weight: Array | None, beside: Beside = NOTHING_BESIDE) -> AverageEffect:
        """On each component's mean and on E[y|x], on average over the rows, with what it depends on."""
        alike = len(self.width) == 1
        shares = np.ones(len(self.width)) if weight is None or alike else weight
        shares = shares / (shares.sum() * self.width)
        parts = []
        for sign, design, columns in ((1.0, self.high, self.gate_high), (-1.0, self.low, self.gate_low)):
            moved = NOTHING_BESIDE if alike else beside if columns is None else {**beside, "gate": columns}
            parts.append(AverageEffect.at(mixture, design, moved, sign * shares))
        return AverageEffect(*(high + low for high, low in zip(*parts)))


class AverageEffect(NamedTuple):
    """An effect on each component, and overall, with the derivatives of both.

    ``values`` is (k + 1,), the last overall. ``slopes`` (k, d + 1) are the derivatives of a component's value in its
    own coefficients, the intercept's last, ``overall`` (k, d + 1) those of the overall one, and ``logits`` (k - 1, g)
    its derivatives in the logits of the weights, the constant's last.
    """

    values: Array
    slopes: Array
    overall: Array
    logits: Array

    @classmethod
    def at(cls, mixture: Mixture, design: Array, beside: Beside, shares: Array) -> AverageEffect:
        """The part of it that one side of a change has, whose rows count by ``shares``."""
        predictors = mixture.predictors(design, beside)
        means = mixture.family.mean(predictors)
        weights = np.exp(np.broadcast_to(mixture.log_weights(beside), means.shape))
        both = (weights * means).sum(axis=1)
        rises = shares[:, None] * _mean_slope(mixture, predictors)
        columns = np.ones((len(design), 1))
        if mixture.gate is not None:
            columns = np.column_stack([beside["gate"], columns])
        turns = (shares[:, None] * weights * (means - both[:, None]))[:, :-1]
        lines = np.column_stack([design, np.ones(len(design))])
        return cls(
            np.append(shares @ means, shares @ both), rises.T @ lines, (weights * rises).T @ lines, turns.T @ columns
        )


def _mean_slope(mixture: Mixture, predictors: Array) -> Array:
    """The derivative of each component's mean in its linear predictor."""
    step = 1e-5 * (1.0 + np.abs(predictors))
    high, low = predictors + step, predictors - step
    return np.asarray((mixture.family.mean(high) - mixture.family.mean(low)) / (high - low))


@dataclass(frozen=True, eq=False, repr=False)
class Effects(ShownAsTable):
    """Average marginal effects of each column, by component and overall.

    The effect on a component is the average change of its mean; overall, that of E[y|x]. For a level of a category it
    is the change from the reference level. Errors are by the delta method, for the rows as they are.

    Attributes
    ----------
    names : (m,) of the columns.
    target : what is explained, on the scale on which it was fitted.
    values, errors : (k + 1, m), the last line overall; NaN where there is no error.
    level : of the intervals.
    """

    names: tuple[str, ...]
    target: str
    values: Array
    errors: Array
    level: float = 0.95

    @classmethod
    def of(
        cls,
        mixture: Mixture,
        constraints: Constraints,
        changes: Iterable[ColumnChange],
        weight: Array | None,
        free: Array | None,
        target: str,
        level: float = 0.95,
        beside: Beside = NOTHING_BESIDE,
    ) -> Effects:
        """Effects of some changes.

        Parameters
        ----------
        mixture, constraints : the fit.
        changes : the changes.
        weight : of the rows; None where each counts once.
        free : the covariance of the free parameters; None where it is not known.
        target : the name of what is explained.
        level : of the intervals.
        beside : what else is known of each row.
        """
        check_level(level)
        names, values, errors = [], [], []
        for change in changes:
            found = change.effect(mixture, weight, beside)
            names.append(change.name)
            values.append(found.values)
            unknown = np.full(len(found.values), np.nan)
            jacobian = _jacobian(mixture, constraints, found)
            errors.append(unknown if free is None else standard_errors(propagate_covariance(jacobian, free)))
        return cls(tuple(names), target, np.array(values).T, np.array(errors).T, level)

    @property
    def components(self) -> tuple[str, ...]:
        """The lines: components from 1, then all together."""
        return (*(str(j + 1) for j in range(len(self.values) - 1)), OVERALL)

    @property
    def lower(self) -> Array:
        """The lower ends of the intervals."""
        return self.values - float(ndtri((1 + self.level) / 2)) * self.errors

    @property
    def upper(self) -> Array:
        """The upper ends of the intervals."""
        return self.values + float(ndtri((1 + self.level) / 2)) * self.errors

    def table(self) -> list[dict[str, Any]]:
        """A dict per column and component: column, component, effect, error, lower, upper."""
        parts = (self.values, self.errors, self.lower, self.upper)
        return [
            {"column": name, "component": component}
            | {word: float(part[j, c]) for word, part in zip(("effect", "error", "lower", "upper"), parts)}
            for c, name in enumerate(self.names)
            for j, component in enumerate(self.components)
        ]

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, indexed by column and component."""
        pandas = import_extra("pandas", "to_frame() needs pandas: pip install 'wmlr[io]'")
        return pandas.DataFrame(self.table()).set_index(["column", "component"])

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        words = ("effect", "error", "lower", "upper")
        rows = [[line["column"], line["component"], *(number(line[word]) for word in words)] for line in self.table()]
        header = ["", "component", "effect", "std err", *edges(self.level)]
        return header, rows, f"average marginal effects on {self.target}"


def _jacobian(mixture: Mixture, constraints: Constraints, found: AverageEffect) -> Array:
    """(k + 1, free parameters): the derivatives of the effects of one change, by component and overall."""
    k, d = mixture.n_components, mixture.n_features
    layout = Layout(d + int(constraints.intercept), k, int(bool(constraints.own)), found.logits.shape[1])
    whole = np.zeros((k + 1, layout.size))
    for j in range(k):
        whole[j, layout.coefficients(j)] = found.slopes[j, : layout.p]
        whole[k, layout.coefficients(j)] = found.overall[j, : layout.p]
    whole[k, layout.logits] = found.logits.ravel()
    return np.asarray(whole @ constraints.embedding(k, d))
