"""Short runs inside the directions in which the residuals' moments show components: cheap, and often enough."""

from __future__ import annotations

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search import climbing, sources
from wmlr.methods.search.effort import Plan
from wmlr.methods.search.landscape import Landscape, guard_weight
from wmlr.methods.starts import Within, sample_share, subspace
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame

CANDIDATES = 50
CANDIDATE_ROWS = 4_000
ROWS_PER_NUMBER = 150
PLAN: Plan = ((1.0, 6, 0.25), (16, 8, 0.5), (6, 16, 1.0))
FINALISTS = 5

Place = tuple[Array, Array, Array]


def spectral_places(frame: Frame, task: Task, within: Within) -> Steps[list[Place]]:
    """The best few ends of short runs inside the spectral directions: (coef (r, k), weights, s2 (k,)) each."""
    Q = yield from subspace(frame, task, within)
    fit = frame.least_squares
    left = frame.yy - float(frame.xy @ fit)
    found = yield from short_runs(frame, task, frame.to_data(Q), Q.T @ fit, left, within)
    return [(Q @ coef.T, weights, s2) for coef, weights, s2 in found]


def short_runs(
    frame: Frame | ScaledFrame, task: Task, transform: Array, centre: Array, left: float, within: Within
) -> Steps[list[Place]]:
    """Short EM runs on the white features transform'x from draws around ``centre``: the best few.

    All runs share each pass, on a sample of the rows chosen by content; as the runs go on the worse ones are left
    behind and the sample grows. ``left`` is the mean square that the single regression leaves of y.
    """
    k, q = task.n_components, transform.shape[1]
    landscape = Landscape(
        task=task,
        transform=transform,
        ridge=np.zeros((q, q)),
        shared_ridge=np.zeros((q, q)),
        ties=None,
        centre=centre,
        common=max(left / frame.spread, frame.floor),
        guard=guard_weight(task),
        floors=frame.floors,
        spread=frame.spread,
        rows=frame.rows,
        weight=frame.weight,
        distinct=frame.rows,
        share=sample_share(frame, max(CANDIDATE_ROWS, ROWS_PER_NUMBER * k * q)),
        within=within,
    )
    candidates = sources.draws(landscape, np.zeros(CANDIDATES, dtype=np.int64), task.generator())
    candidates = yield from climbing.halve(landscape, candidates, PLAN)
    best = candidates.distinct().best_of_each(FINALISTS)
    return [(best.coef[place], best.weights[place], best.s2[place]) for place in range(len(best))]
