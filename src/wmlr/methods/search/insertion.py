"""Moves by trial: of several components in a dropped one's place, each climbed a little alone, the better ones."""

from __future__ import annotations

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search import seeding
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.moves import (
    CAPS,
    FIRST_MOVE,
    INSERT,
    KINDS,
    NEARBY,
    Use,
    components_to_drop,
    usual_variances,
)
from wmlr.methods.search.population import SAME_PLACE, SAME_VALUE, Population, join
from wmlr.methods.search.sources import SIZES
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.statistics.insertions import CROWD, MISSES, WINDOW, Trials

TRIALS = 6
KEPT_TRIALS = 2
CROWD_TRIALS = 1  # of each component that is dropped
STEPS = 10  # of EM with the other components as they are
SHAKEN_TRIALS, SPLIT_TRIALS = 0.25, 0.2  # shares that begin at rows of the dropped component, and of another
NARROW = 0.5  # of those that draw rows move a regression in a few columns alone: components seldom differ in all
FEW_COLUMNS = 3  # at most
AROUND = 0.2  # begin at rows next to each other: components often are stretches of one curve
SHAKEN_ROWS = (0.4, 0.7, 0.9)  # of the dropped component's rows, where it is shaken


def insert(
    landscape: Landscape, parents: Population, use: Use, chosen: Integers, generator: np.random.Generator
) -> Steps[Population]:
    """From each parent in ``chosen``, without one component, the best few of several trials of another in its place.

    Some trials keep most rows of the dropped component: neighbouring maxima often differ in a few rows of one. The
    first looks for a narrow one, which crosses the others, so that no row shows that it is missing, where each has a
    deviation of its own.
    What comes back to the dropped component itself is left out. Nothing comes of it where no compiled loop is at hand.
    """
    dropped = components_to_drop(use.loss[chosen], generator)
    mixtures = parents.take(chosen)
    trials = _trials(landscape, mixtures, dropped, use.own[chosen, dropped], generator)
    found = yield from landscape.insert(mixtures, dropped, trials, STEPS)
    every = np.arange(len(chosen))
    back = found["coef"] - mixtures.coef[every, dropped][:, None]
    gaps = np.einsum("ctq,ctq->ct", back, back) / mixtures.s2[every, dropped][:, None]
    values = np.where(gaps < SAME_PLACE**2, -np.inf, found["values"])
    parts = []
    for _ in range(KEPT_TRIALS):
        best = values.argmax(axis=1)
        reached = values[every, best]
        kept = np.flatnonzero(np.isfinite(reached))
        parts.append(_with_component(mixtures.take(kept), dropped[kept], found, kept, best[kept]))
        values = np.where(values >= reached[:, None] - SAME_VALUE, -np.inf, values)
    return join(*parts)


def _trials(
    landscape: Landscape, mixtures: Population, dropped: Integers, own: Array, generator: np.random.Generator
) -> Trials:
    count, k, q = mixtures.coef.shape
    s2 = mixtures.s2
    size, directions = (count, TRIALS), _directions(landscape)
    kind = generator.random(size)
    shaken, split = kind < SHAKEN_TRIALS, (kind >= SHAKEN_TRIALS) & (kind < SHAKEN_TRIALS + SPLIT_TRIALS)
    around = kind >= 1.0 - AROUND
    other = (dropped[:, None] + 1 + generator.integers(k - 1, size=size)) % k
    few = np.ceil(generator.choice(SIZES, size=size) * q) + 1.0
    most = np.maximum(generator.choice(SHAKEN_ROWS, size=size) * own[:, None], q + 1.0)
    if landscape.separate:
        usual = usual_variances(s2, dropped)
        usual = usual[generator.integers(len(usual), size=size), np.arange(count)[:, None]]
        variances = np.where(generator.random(size) < NEARBY, 0.0, usual)
    else:
        variances = np.repeat(s2[:, :1], TRIALS, axis=1)
    narrow = ~shaken & ~around & (generator.random(size) < NARROW)
    centres, spans = _few_columns(landscape, mixtures, generator)
    centres = np.where(narrow[..., None], centres, landscape.centre)
    few = np.where(narrow, spans.any(axis=3).sum(axis=2) + generator.integers(2, size=size), few)
    spans = np.where(narrow[..., None, None], spans, 0.0)
    rules = np.where(shaken, dropped[:, None], np.where(split, other, np.where(around, WINDOW, MISSES)))
    if landscape.separate:  # as wide as the others, a component shows by the rows that it alone explains
        rules[:, :CROWD_TRIALS] = CROWD
        variances[:, :CROWD_TRIALS] = 0.0
    shares = np.repeat(mixtures.weights[np.arange(count), dropped][:, None], TRIALS, axis=1)
    if landscape.estimates_weights:
        shares = seeding.draw_shares(landscape, count * TRIALS, generator).reshape(size)
    return Trials(
        salts=generator.integers(2**62, size=size).astype(np.uint64),
        rules=rules,
        caps=generator.choice([*CAPS, 0.0, 0.0], size=size),
        wanted=np.where(shaken, most, few),
        shares=shares,
        variances=variances,
        along=directions[generator.integers(len(directions), size=size)],
        centres=centres,
        spans=spans,
    )


def _few_columns(landscape: Landscape, mixtures: Population, generator: np.random.Generator) -> tuple[Array, Array]:
    """Regressions (c, t, q) to be moved, half of them components and half nil, and the columns (c, t, m, q) for that.

    A regression that is nil has a constant at least.
    """
    count, k, _ = mixtures.coef.shape
    size = count, TRIALS
    begin = generator.integers(2 * k, size=size)
    known = mixtures.coef[np.arange(count)[:, None], begin % k]
    columns = landscape.column_directions
    order = generator.random((*size, len(columns)))
    if landscape.constant is not None:
        first = (begin >= k) | (generator.random(size) < 0.5)
        order[..., -1] = np.where(first, -1.0, order[..., -1])
    chosen = order.argsort(axis=2)[..., :FEW_COLUMNS]
    moved = np.arange(chosen.shape[2]) < generator.integers(1, FEW_COLUMNS + 1, size=size)[..., None]
    return np.where((begin < k)[..., None], known, 0.0), np.where(moved[..., None], columns[chosen], 0.0)


def _directions(landscape: Landscape) -> Array:
    """(., q + 1): along which rows may be next to each other: each feature, the single regression, the response."""
    features = landscape.column_directions
    features = features[: len(features) - (landscape.constant is not None)]
    lines = np.vstack([features, landscape.centre, np.zeros_like(landscape.centre)])
    return np.column_stack([lines, np.arange(len(lines)) == len(lines) - 1])


def _with_component(
    mixtures: Population, dropped: Integers, found: Sums, line: Integers, trial: Integers
) -> Population:
    at = np.arange(len(mixtures))
    coef, weights, s2 = mixtures.coef.copy(), mixtures.weights.copy(), mixtures.s2.copy()
    coef[at, dropped], s2[at, dropped] = found["coef"][line, trial], found["s2"][line, trial]
    new = found["weights"][line, trial]
    weights[at, dropped] = 0.0
    weights *= ((1.0 - new) / weights.sum(axis=1))[:, None]
    weights[at, dropped] = new
    return Population.of(coef, weights, s2, mixtures.lineage, FIRST_MOVE + KINDS.index(INSERT))
