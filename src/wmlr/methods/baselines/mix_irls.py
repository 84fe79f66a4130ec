"""Mix-IRLS (Zilber and Nadler, "Imbalanced Mixed Linear Regression", NeurIPS 2023): one component at a time.

Phase I fits one robust regression to the rows that are left, by iteratively reweighted least squares with weights
1/(1 + (e / (tuning * scale))^2), scale the median residual over .6745; fits it again to the rows of largest weight;
and removes the rows whose weight is above a threshold. If too few rows are left for the next component the threshold
is raised and phase I begins again behind the first component. Phase II fits all components together, each row shared
out by the inverse squares of its residuals, until the coefficients stand still.

The residuals are not divided by sqrt(1 - leverage), as MATLAB's robust regression does: leverages of the rows that
are left would need a matrix of them for each component that was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wmlr.core.round import Fit, Method, Steps
from wmlr.methods.baselines.common import alternate, deviation, least_squares_step, starting_columns, survey
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame
from wmlr.statistics.irls import InverseSquareScore, RedescendingScore, ResidualHistogram

BINS = 640  # of sizes, evenly by their logarithms: a quantile is within four hundredths of itself
FINEST, COARSEST = 1e-7, 1e3  # sizes, in deviations of y
LEAST_SCALE = 1e-6  # in deviations of y, where a component fits exactly
NORMAL_MEDIAN = 0.6745  # of |z| for a normal z
THRESHOLD_STEP = 0.1
STILL = 1e-7  # of the coefficients: a step that ends the iteration
SAME_SCALE = 1e-3  # times the iteration: changes of the scale that are passed over, for else it may alternate for ever


@dataclass(frozen=True)
class MixIRLS:
    """``method="mix-irls"``: sequential recovery by robust regressions, then all components together.

    It begins each component at random coefficients unless ``start`` is an array. With groups, a group's residual is
    the root mean square of its rows', and its rows have one weight.

    Attributes
    ----------
    unknown_k : whether ``n_components`` is the most there may be: the search for components then ends when too few
        rows are left for another one.
    outliers : the share of rows that belong to no component, from 0 to less than 1.
    oversampling : the rows that a component needs, per coefficient.
    tuning : the scale of the weights, in robust standard deviations. The authors take 1 for real data.
    threshold : rows of weight above this are removed with a component; where that leaves too few, it is raised.
    """

    unknown_k: bool = False
    outliers: float = 0.0
    oversampling: float = 1.0
    tuning: float = 0.5
    threshold: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.outliers < 1:
            raise ValueError(f"outliers must be a share from 0 to less than 1 (got {self.outliers!r})")
        if not self.oversampling >= 1:
            raise ValueError(f"oversampling must be at least 1 (got {self.oversampling!r})")
        if not self.tuning > 0:
            raise ValueError(f"tuning must be positive (got {self.tuning!r})")
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be between 0 and 1 (got {self.threshold!r})")

    def fit(self, task: Task) -> Method[Fit]:
        if task.symmetric:
            raise ValueError("method='mix-irls' finds one component after the other: set symmetric=False")
        return _fit(self, task)


class Component(NamedTuple):
    """What phase I found: the robust regression, the scale of its weights, and the fit to the rows it holds best."""

    robust: Array
    scale: float
    refitted: Array


class RemovedComponents(NamedTuple):
    """The components whose rows are no longer active: coefficients (p, j) and how far each reaches (j,)."""

    coef: Array
    reach: Array


def _fit(solver: MixIRLS, task: Task) -> Method[Fit]:
    frame = yield from survey(task, "mix-irls")
    components, taken = yield from _phase_one(solver, task, frame)
    B = np.stack([one.refitted for one in components], axis=1)
    return (yield from _phase_two(solver, task, frame, B, taken))


def _phase_one(solver: MixIRLS, task: Task, frame: Frame) -> Steps[tuple[list[Component], int]]:
    starts = starting_columns(task, frame)
    components: list[Component] = []
    threshold, taken = solver.threshold, 0
    while len(components) < task.n_components:
        removed = _remove(solver, frame, components, threshold)
        if components:
            counts = yield ResidualHistogram(removed.coef, *removed, _edges(frame))
            left = float(counts["counts"][:-1].sum()) - solver.outliers * frame.weight
            if left < solver.oversampling * frame.dimension and threshold < 1.0:
                if solver.unknown_k:
                    break
                threshold += THRESHOLD_STEP
                del components[1:]
                continue
        found, iterations = yield from _component(solver, task, frame, removed, starts[:, len(components)])
        components.append(found)
        taken += iterations
    return components, taken


def _remove(solver: MixIRLS, frame: Frame, components: list[Component], threshold: float) -> RemovedComponents:
    if not components:
        return RemovedComponents(np.zeros((len(frame.basis), 0)), np.zeros(0))
    factor = np.sqrt(max(1.0 / threshold - 1.0, 0.0))
    reach = np.array([solver.tuning * one.scale * factor for one in components])
    return RemovedComponents(frame.to_data(np.stack([one.robust for one in components], axis=1)), reach)


def _component(
    solver: MixIRLS, task: Task, frame: Frame, removed: RemovedComponents, start: Array
) -> Steps[tuple[Component, int]]:
    """One robust regression on the active rows, and least squares on those it holds best."""
    edges = _edges(frame)
    b, held, iteration = start, 0.0, 0
    while True:
        counts = (yield ResidualHistogram(frame.to_data(b)[:, None], *removed, edges))["counts"][:-1]
        skipped = frame.dimension - 1
        scale = _size_at(edges, counts, skipped + 0.5 * max(counts.sum() - skipped, 0.0)) / NORMAL_MEDIAN
        scale = max(scale, LEAST_SCALE * deviation(frame))
        scale = held = held if abs(scale - held) <= SAME_SCALE * iteration * scale else scale
        if iteration == task.max_iter:
            break
        step = yield from _reweight(frame, b, solver.tuning * scale, removed)
        b = b + step
        iteration += 1
        if float(np.linalg.norm(step)) <= STILL * float(np.linalg.norm(b)):
            break
    wanted = np.ceil(solver.oversampling * frame.dimension)
    near = float(edges[min(int(np.searchsorted(np.cumsum(counts), wanted)), len(edges) - 1)])
    step = yield from _reweight(frame, b, near, removed, trimmed=True)
    return Component(b, scale, b + step), iteration


def _reweight(frame: Frame, b: Array, scale: float, removed: RemovedComponents, trimmed: bool = False) -> Steps[Array]:
    sums = yield RedescendingScore(frame.to_data(b), scale, *removed, trimmed)
    return least_squares_step(frame.mean_matrix_of(sums["gram"]), frame.mean_of(sums["score"]))


def _edges(frame: Frame) -> Array:
    """Bins of equal width in the logarithm."""
    return np.asarray(deviation(frame) * np.geomspace(FINEST, COARSEST, BINS + 1))


def _size_at(edges: Array, counts: Array, rank: float) -> float:
    """The size that ``rank`` of the counted rows do not exceed, interpolated in the logarithm."""
    below = np.cumsum(counts)[:-1]
    return float(np.exp(np.interp(rank, below, np.log(edges))))


def _phase_two(solver: MixIRLS, task: Task, frame: Frame, B: Array, taken: int) -> Method[Fit]:
    edges = _edges(frame)
    nothing = _remove(solver, frame, [], solver.threshold)

    def ask(coef: Array, weights: Array, s2: Array) -> Steps[Sums]:
        reach = None
        if solver.outliers > 0:
            counts = (yield ResidualHistogram(coef, *nothing, edges))["counts"]
            reach = _size_at(edges, counts[:-1], (1.0 - solver.outliers) * float(counts.sum()))
        sums = yield InverseSquareScore(coef, np.log(weights), s2, reach)
        return sums | {"mass": sums["explained"]}

    return alternate(task, frame, B, ask, taken)
