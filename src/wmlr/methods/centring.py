"""Columns that lie far from zero, such as times in seconds since 1970: methods see them about their means.

Of a column whose mean is a million times its deviation the second moment keeps four digits of the variance, and
one of ten million none. Where a method's first round shows such columns, it begins again with their means taken
off before anything is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Fit, Method, Report, Steps, advance, heard
from wmlr.methods.task import Task
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.moments import Moments
from wmlr.statistics.whitened import Whitened

FAR = 1e3
CONSTANT = 64 * float(np.finfo(np.float64).eps)


def centred(build: Callable[[Task], Method[Fit]], task: Task) -> Method[Fit]:
    """A method, with columns that lie far from zero centred; its mixtures are those of the data's own columns."""
    method = build(task)
    said = next(method)
    if isinstance(said, Moments) and said.intercept:
        sums = yield said
        centre = yield from far_means(sums)
        if centre is None:
            return (yield from _passed(method, method.send(sums)))
        method = build(replace(task, start=_start(task.start, centre), smaller=None))
        return (yield from _passed(method, next(method), centre))
    return (yield from _passed(method, said))


def far_means(sums: Sums) -> Steps[Array | None]:
    """The means of the columns that lie far from zero and vary, else 0; None where there are none.

    From the sums of :class:`Moments` with an intercept, and one more round where these show such a column.
    """
    means, variances = _spread(sums)
    far = np.square(means) > FAR**2 * variances
    if not far.any():
        return None
    centre = np.where(far, means, 0.0)
    _, variances = _spread((yield Whitened(Moments(intercept=True), centre)))
    centre = np.where(variances > np.square(CONSTANT * means), centre, 0.0)
    return centre if centre.any() else None


def _spread(sums: Sums) -> tuple[Array, Array]:
    second = sums["gram"] / float(sums["weight"])
    means = second[:-1, -1]
    return means, np.maximum(np.diag(second)[:-1] - np.square(means), 0.0)


def _start(start: str | Array, centre: Array) -> str | Array:
    if isinstance(start, str):
        return start
    moved = np.array(start, dtype=np.float64)
    moved[:, -1] += moved[:, :-1] @ centre
    return moved


def _passed(method: Method[Fit], said: Query | Report, centre: Array | None = None) -> Method[Fit]:
    """A method that has said its first word, to the end."""
    while True:
        asked = said
        if centre is not None and isinstance(said, Report):
            asked = replace(said, mixture=_shifted(said.mixture, centre))
        elif centre is not None and not isinstance(said, Report):
            asked = said.wrap(lambda query: Whitened(query, centre))
        reply = yield from heard(asked)
        try:
            said = advance(method, reply)
        except StopIteration as stop:
            fit: Fit = stop.value
            return fit if centre is None else replace(fit, mixture=_shifted(fit.mixture, centre))


def _shifted(mixture: Mixture, centre: Array) -> Mixture:
    return replace(mixture, intercept=mixture.intercept - mixture.coef @ centre)
