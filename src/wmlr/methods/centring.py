"""Columns and responses far from zero, such as times in seconds since 1970: methods see them about their means.

Of a column whose mean is a million times its deviation the second moment keeps four digits of the variance, and
one of ten million none. Where a method's first round shows such columns, or such a response, it begins again with
their means taken off before anything is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wmlr.core.round import Fit, Method, Steps, pass_on, with_relay
from wmlr.methods.task import Task
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.moments import Moments
from wmlr.statistics.whitened import Whitened

FAR = 1e3  # deviations from zero: squares then lose six digits
CONSTANT = 64 * float(np.finfo(np.float64).eps)  # deviation over mean that rounding alone makes


def with_centred_columns(build: Callable[[Task], Method[Fit]], task: Task) -> Method[Fit]:
    """A method, with columns and a response that lie far from zero centred; its mixtures are those of the data."""
    method = build(task)
    yielded = next(method)
    if not (isinstance(yielded, Moments) and yielded.intercept):
        try:
            reply = yield yielded
        except KeyboardInterrupt as interrupt:
            return (yield from with_relay(method, reply=interrupt))
        return (yield from with_relay(method, reply=reply))
    sums = yield yielded
    far = yield from far_means(sums)
    centre = np.zeros(len(sums["xy"]) - 1) if far is None else far
    held = {component for component, column, _ in task.held if column == len(centre)}
    movable = task.family.linear and not task.family.without_predictor and not held
    level = (yield from far_level(sums)) if movable else 0.0
    if far is None and not level:
        return (yield from with_relay(method, reply=sums))
    if held - set(task.family.without_predictor):
        raise ValueError(
            f"column {int(np.flatnonzero(centre)[0])} (counted from 0) lies far from zero beside its deviation, where "
            "an intercept that is held says nothing: take the column's mean off"
        )
    method = build(replace(task, start=_start(task.start, centre, level), smaller=None))
    fit = yield from with_relay(
        method,
        lambda query: pass_on(query.wrap(lambda inner: Whitened(inner, centre, level=level))),
        lambda report: replace(report, mixture=_shift(report.mixture, centre, level)),
    )
    return replace(fit, mixture=_shift(fit.mixture, centre, level))


def far_means(sums: Sums) -> Steps[Array | None]:
    """The means of the columns that lie far from zero and vary, else 0; None where there are none.

    From the sums of :class:`Moments` with an intercept, and one more round where these show such a column.
    """
    means, variances = _column_spread(sums)
    far = np.square(means) > FAR**2 * variances
    if not far.any():
        return None
    centre = np.where(far, means, 0.0)
    _, variances = _column_spread((yield Whitened(Moments(intercept=True), centre)))
    centre = np.where(variances > np.square(CONSTANT * means), centre, 0.0)
    return centre if centre.any() else None


def far_level(sums: Sums) -> Steps[float]:
    """Where the response lies, if that is far from zero beside its deviation; else 0.

    A round number beside the deviation, so that responses which are multiples of something still are.
    """
    weight = float(sums["weight"])
    mean = float(sums["y"]) / weight
    if mean**2 <= FAR**2 * max(float(sums["yy"]) / weight - mean**2, 0.0):
        return 0.0
    about = yield Whitened(Moments(intercept=True), np.zeros(len(sums["xy"]) - 1), level=mean)
    off = float(about["y"]) / weight
    deviation = np.sqrt(max(float(about["yy"]) / weight - off**2, 0.0))
    if deviation <= CONSTANT * abs(mean):
        return 0.0
    step = 10.0 ** np.floor(np.log10(deviation))
    return float(np.round(mean / step) * step)


def _column_spread(sums: Sums) -> tuple[Array, Array]:
    second = sums["gram"] / float(sums["weight"])
    means = second[:-1, -1]
    return means, np.maximum(np.diag(second)[:-1] - np.square(means), 0.0)


def _start(start: str | Array | Mixture, centre: Array, level: float) -> str | Array | Mixture:
    if isinstance(start, str):
        return start
    if isinstance(start, Mixture):
        return _shift(start, -centre, -level)
    moved = np.array(start, dtype=np.float64)
    moved[:, -1] += moved[:, :-1] @ centre - level
    return moved


def _shift(mixture: Mixture, centre: Array, level: float) -> Mixture:
    intercept = mixture.intercept - mixture.coef @ centre + level
    return replace(mixture, intercept=intercept, family=mixture.family.shift(level))
