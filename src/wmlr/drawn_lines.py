"""The components' lines along one column or variable, the others held: what pictures and pages draw."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmlr.io.frames import is_frame
from wmlr.numerics.arrays import Array

if TYPE_CHECKING:
    from wmlr.formulas.formula import ModelFormula

NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Along:
    """The components' lines along one feature or variable, the others held.

    Attributes
    ----------
    label : what it is called; places : where the rows are on it.
    reach, means : a grid on it, and the components' means there, (grid, k).
    """

    label: str
    places: Array
    reach: Array
    means: Array

    def at_rows(self) -> Array:
        """The components' lines at the rows' places, (n, k)."""
        return np.column_stack([np.interp(self.places, self.reach, line) for line in self.means.T])


def separating_column(estimator: Any, X: Any) -> int:
    """The column of X along which the components' lines differ most, in deviations of the column."""
    names = column_names(estimator, X)
    if len(names) == 1 or estimator.features is not None:
        return 0
    deviations = np.asarray(X, dtype=np.float64).std(axis=0)
    return int(_differences(estimator.mixture_.coef * deviations).argmax())


def variables_to_draw_along(formula: ModelFormula, frame: Any) -> list[str]:
    """The numeric variables of a formula; raises where it has none."""
    numeric = formula.numeric(frame)
    if not numeric:
        raise ValueError(
            f"the formula {formula.text!r} has no numeric variable to draw along: leave out the picture, or add a "
            "column of numbers"
        )
    return numeric


def separating_variable(estimator: Any, frame: Any, roles: Mapping[str, Any] = NONE) -> str:
    """The numeric variable of a formula along which the components' lines differ most."""
    numeric = variables_to_draw_along(estimator.formula_, frame)
    sizes = []
    for name in numeric:
        line = along_variable(estimator, frame, name, roles)
        at = np.quantile(line.places, [0.16, 0.84])
        ends = np.column_stack([np.interp(at, line.reach, means) for means in line.means.T])
        sizes.append(float(_differences((ends[1] - ends[0])[:, None])[0]))
    return str(numeric[int(np.argmax(sizes))])


def _differences(slopes: Array) -> Array:
    """For each column of slopes (k, m), how far the components' are apart; of one component, how steep it is."""
    return np.asarray(np.ptp(slopes, axis=0) if len(slopes) > 1 else np.abs(slopes[0]))


def _mean_offset(roles: Mapping[str, Any]) -> dict[str, float]:
    """The mean of what is added to the predictor, as a role of all points of a line."""
    found = [np.asarray(roles["offset"], dtype=np.float64)] if roles.get("offset") is not None else []
    found += [np.log(np.asarray(roles["exposure"], dtype=np.float64))] if roles.get("exposure") is not None else []
    return {"offset": float(np.sum([values.mean() for values in found]))} if found else {}


def along_feature(estimator: Any, X: Any, feature: str | int, roles: Mapping[str, Any] = NONE) -> Along:
    """The lines along a column of X, the others at their means."""
    values, names = np.asarray(X, dtype=np.float64), column_names(estimator, X)
    place = _place(feature, names)
    along = values[:, place]
    reach = np.linspace(along.min(), along.max(), 200)
    points = np.repeat(values.mean(axis=0)[None], len(reach), axis=0)
    points[:, place] = reach
    return Along(names[place], along, reach, _means(estimator, points, roles))


def along_variable(estimator: Any, frame: Any, feature: str | int, roles: Mapping[str, Any] = NONE) -> Along:
    """The lines along a variable of a formula, the others held at their mean or commonest value."""
    variables, beside = estimator.formula_.variables, estimator.formula_.offset_columns
    gate = estimator.fitted_.inputs.gate_formula
    of_gate = [] if gate is None else gate.variables
    numeric = {*estimator.formula_.numeric(frame), *beside}
    label = variables[_place(feature, variables)]
    along = np.asarray(frame[label], dtype=np.float64)
    reach = np.linspace(along.min(), along.max(), 200)
    everything = list(dict.fromkeys([*variables, *beside, *of_gate]))
    held = frame[everything].iloc[[0] * len(reach)].reset_index(drop=True)
    for name in (*variables, *beside):
        held[name] = frame[name].mean() if name in numeric else frame[name].mode()[0]
    held[label] = reach
    return Along(label, along, reach, np.asarray(estimator.predict_components(held, **_mean_offset(roles))))


def column_names(estimator: Any, X: Any) -> list[str]:
    names = X.columns if is_frame(X) else estimator.fitted_.inputs.names
    return [f"x{i}" for i in range(np.shape(X)[1])] if names is None else [str(name) for name in names]


def _place(feature: str | int, names: list[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"feature must be one of {', '.join(names)} (got {feature!r})")
        return names.index(feature)
    if not -len(names) <= feature < len(names):
        raise ValueError(f"feature must be below {len(names)}, the number of features (got {feature})")
    return feature % len(names)


def _means(estimator: Any, points: Array, roles: Mapping[str, Any] = NONE) -> Array:
    """The lines at bare numbers, which scikit-learn would remark upon after a fit with names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(estimator.predict_components(points, **_mean_offset(roles)))


def weighted_quantiles(values: Array, shares: Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """Up to 400 levels within a weighted sample's own reach, and its quantiles there."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(shares[order])
    count = float(mass[-1])
    if count < 2:
        return np.empty(0), np.empty(0)
    levels = (np.arange(min(400, int(count))) + 0.5) / min(400, int(count))
    middle = (mass - 0.5 * shares[order]) / count
    return levels, np.interp(levels, middle, values[order])
