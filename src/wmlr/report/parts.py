"""What a page shows, as plain data: numbers of few digits, and names that cannot do harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv

from wmlr.drawn_lines import (
    along_feature,
    along_variable,
    column_names,
    separating_column,
    separating_variable,
    weighted_quantiles,
)
from wmlr.estimator.summary import UNTESTED, Line, Summary, feature_names
from wmlr.families import Family
from wmlr.federated.ledger import Ledger
from wmlr.inference.uncertainty import INTERCEPT
from wmlr.io.printable import shown_text
from wmlr.numerics.arrays import Array, Integers, uniform_of
from wmlr.numerics.sparse import dense
from wmlr.report.row_sample import RowSample

if TYPE_CHECKING:
    from wmlr.selection import Selection

POINTS = 2000
AXES = 24
GRID = 60
BINS = 20
LEAST = 1e-4  # smaller probabilities are left out of a rootogram, as they would hide all else
RECORDS = 1000
PLOTTED = 40
LISTED = 600
AGENTS = 200
BAND = 0.95

Plain = dict[str, Any]


def coefficients(summary: Summary, deviations: Mapping[str, float]) -> Plain:
    """The estimates of each component, with their intervals; of many features those that matter most.

    Parameters
    ----------
    summary : the table of the fit.
    deviations : each feature's standard deviation, where the rows are known.
    """
    blocks = [lines for _, lines in summary.components]
    names = [line.name for line in blocks[0] if line.name not in (*UNTESTED, INTERCEPT)]
    kept = _weightiest(blocks, names, deviations, PLOTTED)
    rows = [line for lines in blocks for line in lines if line.name in (*kept, *UNTESTED, INTERCEPT)]
    return {
        "names": [shown_text(name) for name in kept],
        "deviations": [deviations.get(name) for name in kept],
        "left_out": len(names) - len(kept),
        "level": summary.level,
        "lines": [
            {
                "component": line.component,
                "name": shown_text(line.name),
                "estimate": line.estimate,
                "error": line.error,
                "low": line.lower,
                "high": line.upper,
            }
            for line in rows
        ],
    }


def component_lines(summary: Summary, deviations: Mapping[str, float]) -> tuple[list[tuple[str, list[Line]]], int]:
    """The lines of each component's table, and how many features had no room in it."""
    blocks = [lines for _, lines in summary.components]
    names = [line.name for line in blocks[0] if line.name not in (*UNTESTED, INTERCEPT)]
    kept = {*_weightiest(blocks, names, deviations, max(LISTED // len(blocks), 1)), *UNTESTED, INTERCEPT}
    found = [(header, [line for line in lines if line.name in kept]) for header, lines in summary.components]
    return found, len(names) - sum(name in kept for name in names)


def _weightiest(blocks: Sequence[Sequence[Line]], names: list[str], deviations: Mapping[str, float], most: int) -> Any:
    """The names whose coefficient moves y most, in their own order."""
    if len(names) <= most:
        return names
    weight = dict.fromkeys(names, 0.0)
    for line in (line for lines in blocks for line in lines if line.name in weight):
        weight[line.name] = max(weight[line.name], abs(line.estimate) * deviations.get(line.name, 1.0))
    kept = set(sorted(names, key=lambda name: -weight[name])[:most])
    return [name for name in names if name in kept]


def deviations(fitted: Any, sample: RowSample) -> dict[str, float]:
    """The standard deviation of each column that a coefficient belongs to."""
    values = np.asarray(dense(fitted.map_features(sample.X)), dtype=np.float64)
    return dict(zip(feature_names(fitted), values.std(axis=0).tolist()))


def points(sample: RowSample, target: str) -> Plain:
    """The rows that are drawn as points."""
    chosen = sample.take(POINTS)
    names = sample.labels if sample.called is None else sample.called
    labels = None if names is None else [shown_text(str(label), 40) for label in names[chosen]]
    return {
        "rows": (sample.index[chosen] + 1).tolist(),
        "looked": len(sample),
        "total": sample.total,
        "y": sample.y[chosen],
        "target": shown_text(target),
        "shares": np.round(sample.shares[chosen], 3),
        "labels": labels,
    }


def lines(fitted: Any, sample: RowSample) -> Plain:
    """The fitted lines along one feature after the other, the rest held at their means."""
    chosen = sample.take(POINTS)
    axes: list[Plain] = []
    for name in _axes_to_draw(fitted, sample):
        along = along_variable if fitted.fitted_.inputs.by_formula(sample.X) else along_feature
        line = along(fitted, sample.X, name, sample.beside)
        every = np.linspace(0, len(line.reach) - 1, GRID).astype(np.int64)
        label, grid, means = shown_text(line.label), line.reach[every], line.means[every].T
        axes.append({"name": label, "x": line.places[chosen], "grid": grid, "means": means})
    first = _separating_axis(fitted, sample, axes)
    return {"axes": axes, "first": first, "left_out": _width(fitted, sample) - len(axes)}


def _separating_axis(fitted: Any, sample: RowSample, axes: list[Plain]) -> int:
    """The axis along which the components' lines differ most."""
    if not axes:
        return 0
    if fitted.fitted_.inputs.by_formula(sample.X):
        name = separating_variable(fitted, sample.X, sample.beside)
    else:
        name = column_names(fitted, sample.X)[separating_column(fitted, sample.X)]
    names = [axis["name"] for axis in axes]
    return names.index(shown_text(name)) if shown_text(name) in names else 0


def _width(fitted: Any, sample: RowSample) -> int:
    return len(fitted.formula_.variables) if fitted.fitted_.inputs.by_formula(sample.X) else int(sample.X.shape[1])


def _axes_to_draw(fitted: Any, sample: RowSample) -> list[Any]:
    """What the horizontal axis may be: numeric variables, at most AXES of them."""
    if fitted.fitted_.inputs.by_formula(sample.X):
        return list(fitted.formula_.numeric(sample.X))[:AXES]
    names = column_names(fitted, sample.X)
    places = np.arange(len(names))
    if len(names) > AXES and fitted.features is None:
        effect = np.abs(fitted.mixture_.coef).max(axis=0) * np.asarray(sample.X, dtype=np.float64).std(axis=0)
        places = np.sort(np.argsort(-effect, kind="stable")[:AXES])
    return [int(place) for place in places[:AXES]]


def certainty(sample: RowSample) -> Plain:
    """How sure the model is of whose rows, or groups, these are."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    most = np.sort(sample.units.max(axis=1))[::-1]
    every = np.unique(np.linspace(0, len(most) - 1, 400).astype(np.int64))
    assigned = sample.units.argmax(axis=1)
    parts = range(sample.units.shape[1])
    return {
        "unit": "row" if sample.labels is None and len(sample.units) == len(sample) else "group",
        "units": len(sample.units),
        "edges": edges,
        "counts": [np.histogram(sample.units[:, j], edges)[0].tolist() for j in parts],
        "place": (every + 1) / len(most),
        "sorted": most[every],
        "assigned": [int((assigned == j).sum()) for j in parts],
        "sure": [int(((assigned == j) & (sample.units.max(axis=1) >= 0.9)).sum()) for j in parts],
    }


def rootogram(sample: RowSample) -> Plain:
    """How many rows, or groups, have which probability of each component; next to none is left out."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    return {"edges": edges, "counts": [np.histogram(own[own > LEAST], edges)[0].tolist() for own in sample.units.T]}


def residuals(fitted: Any, sample: RowSample) -> list[Plain]:
    """The residuals of each component: of its likeliest rows, and the quantiles of all rows by responsibility."""
    chosen = sample.take(POINTS)
    assigned = sample.shares[chosen].argmax(axis=1)
    found, place = [], uniform_of(sample.index)
    y = sample.y * np.maximum(sample.beside["trials"], 1.0) if "trials" in sample.beside else sample.y
    for j, sigma in enumerate(fitted.mixture_.sigma):
        family = fitted.mixture_.family.of_component(j).of_rows(sample.beside)
        rows = chosen[assigned == j]
        shares = sample.shares[:, j] if sample.weight is None else sample.shares[:, j] * sample.weight
        of_rows = family.residuals(
            np.round(y) if family.discrete else y, family.predictor_of(sample.means[:, j]), sigma, place
        )
        levels, seen = weighted_quantiles(of_rows, shares)
        found.append(
            {
                "rows": (sample.index[rows] + 1).tolist(),
                "fitted": sample.means[rows, j],
                "residual": sample.y[rows] - sample.means[rows, j],
                "count": float(shares.sum()),
                "seen": seen,
                **_expected_quantiles(family, levels, float(shares.sum())),
            }
        )
    return found


def _expected_quantiles(family: Family, levels: Array, count: float) -> dict[str, Array]:
    """The noise's quantiles, and where BAND of a sample's would be, level by level."""
    tail = (1 - BAND) / 2
    sides = [np.asarray(betaincinv(count * levels, count * (1 - levels), side), float) for side in (tail, 1 - tail)]
    low, high = (family.residual_quantile(side) for side in sides)
    return {"expected": family.residual_quantile(levels), "low": low, "high": high}


def convergence(history: Sequence[Mapping[str, float]]) -> Plain:
    """The history, a list per quantity."""
    every = evenly_spaced(len(history), RECORDS)
    records = [history[place] for place in every]
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: [record.get(name) for record in records] for name in names}
    return {"columns": columns, "left_out": len(history) - len(records)}


def choice(selection: Selection) -> Plain:
    """The criteria for each number of components."""
    return {
        "criterion": selection.criterion,
        "best": selection.best,
        "k": list(selection.n_components),
        "columns": {name: [line[name] for line in selection.lines] for name in selection.lines[0]},
    }


def rounds(ledger: Ledger, seconds: Sequence[float] = ()) -> Plain:
    """What each round asked and sent; of very many rounds, some."""
    records = ledger.records()
    every = evenly_spaced(len(records), RECORDS)
    timed = len(seconds) == len(records)
    return {
        "round": [place + 1 for place in every],
        "query": [shown_text(records[place]["query"]) for place in every],
        **{name: [records[place][name] for place in every] for name in ("asked", "answered", "late", "bytes")},
        "cumulative": np.cumsum([record["bytes"] for record in records])[every],
        "seconds": [seconds[place] for place in every] if timed else None,
        "left_out": len(records) - len(every),
    }


def agents(shares: Array, sizes: Integers, ids: Sequence[Any]) -> Plain:
    """Which component each agent seems to belong to."""
    most, assigned = shares.max(axis=1), shares.argmax(axis=1)
    first = slice(0, AGENTS)
    return {
        "counts": np.bincount(assigned, minlength=shares.shape[1]).tolist(),
        "edges": np.linspace(0.0, 1.0, BINS + 1),
        "histogram": [
            np.histogram(most[assigned == j], np.linspace(0.0, 1.0, BINS + 1))[0].tolist()
            for j in range(shares.shape[1])
        ],
        "lines": [
            [shown_text(str(name), 60), f"{part + 1}", f"{share:.3f}", f"{size:,}"]
            for name, part, share, size in zip(ids[first], assigned[first], most[first], sizes[first])
        ],
        "left_out": max(0, len(ids) - AGENTS),
    }


def evenly_spaced(n: int, most: int) -> Integers:
    """At most so many of the numbers below n, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, most)).astype(np.int64))
