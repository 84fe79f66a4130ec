"""Sources of first candidates, each blind where another sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search import seeding
from wmlr.methods.search.effort import MANY_COLUMNS
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population
from wmlr.methods.search.seeding import Seeds
from wmlr.numerics.arrays import Array, Integers
from wmlr.statistics.seeds import LABELLED, SHARP, UNEXPLAINED, NearestSquares

DRAWS, ELEMENTAL, WEIGHTED, SPECTRAL, SEQUENTIAL, GROWN, LEVEL, LABELS = range(8)
"""The sources, by the number that a candidate's ``origin`` holds."""

LOG_DISTANCES = (-0.7, 0.9)  # logarithms: draws lie from half to two and a half times the residual deviation off
SIZES = (1.0, 2.0, 4.0)  # rows of an elemental fit, per coefficient
LEAST_UNITS = 1.5  # groups that an elemental fit may expect
HEAVIEST = 3  # power of exponential weights: heavier ones would let a row or two of an agent decide its answer
SEQUENTIAL_STEPS, MANY_COLUMNS_STEPS = 24, 48  # with many columns each step brings less
ROWS_PER_COEFFICIENT = 1.2  # that a component found alone must at least rest on
REACH = 0.74  # of a quantile of the residuals: half of the normal deviation it stands for
MANY_COLUMNS_REACH = (0.0, 1.1)  # logarithms, from one to three: closer in, as many rows as coefficients fit too well
FAR_MISS = 20.0  # squared deviations beyond which rows count alike for a component to be added
UNSEEN_VARIANCE = 1e-20  # of the variance: a component not found yet explains no row


def draws(landscape: Landscape, lineage: Integers, generator: np.random.Generator) -> Population:
    """Coefficients around the single regression, at several distances."""
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    lengths = landscape.deviation / np.sqrt(max(q, 1)) * np.exp(generator.uniform(*LOG_DISTANCES, (count, 1, 1)))
    coef = landscape.centre + lengths * generator.standard_normal((count, k, q))
    variance = landscape.allowed_variance(np.full((count, k), 0.5 * landscape.common))
    return Population.of(coef, np.full((count, k), 1.0 / k), variance, lineage, DRAWS)


def elemental_fits(
    landscape: Landscape, lineage: Integers, generator: np.random.Generator, units_per_row: float
) -> Steps[Population]:
    """Each component from least squares on a few rows drawn at random, or whole groups."""
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    sizes = np.resize(np.array(SIZES), count)
    wanted = np.maximum(np.ceil(sizes * q) + (sizes == 1.0), LEAST_UNITS / units_per_row)
    rows = landscape.rows_looked_at
    rate = np.repeat(np.minimum(wanted / rows, 1.0), k)
    return (yield from _seed_fits(landscape, lineage, generator, rate, np.zeros(count * k), ELEMENTAL))


def weighted_fits(landscape: Landscape, lineage: Integers, generator: np.random.Generator) -> Steps[Population]:
    """Each component from least squares on all rows, at random weights with heavy tails: no few rows decide alone."""
    count, k = len(lineage), landscape.task.n_components
    tail = np.repeat(generator.integers(1, HEAVIEST + 1, count), k).astype(np.float64)
    return (yield from _seed_fits(landscape, lineage, generator, np.zeros(count * k), tail, WEIGHTED))


def sequential_fits(landscape: Landscape, lineage: Integers, generator: np.random.Generator) -> Steps[Population]:
    """One component at a time by redescending weights, each on the rows that those before leave unexplained.

    The idea of Mix-IRLS (Zilber and Nadler, 2023): where weights are unequal the largest component is found first.
    """
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    rows = landscape.rows_looked_at
    unit = landscape.deviation
    coef = np.tile(landscape.centre, (count, k, 1))
    s2 = np.full((count, k), UNSEEN_VARIANCE * landscape.common)
    left, mass = np.full(count, rows), np.zeros((count, k))
    every, ones = np.arange(count), np.ones(count)
    steps, reach = SEQUENTIAL_STEPS, REACH * ones
    if q > MANY_COLUMNS:
        steps, reach = MANY_COLUMNS_STEPS, np.exp(generator.uniform(*MANY_COLUMNS_REACH, count))
    for j in range(k):
        found = Population.of(coef, ones[:, None] + np.zeros(k), s2, lineage, SEQUENTIAL)
        off = generator.standard_normal((count, q)) * (unit / np.sqrt(q)) * generator.uniform(0, 1, (count, 1))
        seeds = Seeds(landscape.centre + off, every, every * 0 - 1, every * 0 + SHARP, ones, 0 * ones, ones)
        least = np.maximum(np.minimum(ROWS_PER_COEFFICIENT * q / np.maximum(left, 1.0), 0.5), 0.5 / (k - j))
        falling = np.minimum(1.0, np.arange(steps) / (0.6 * steps))[:, None]
        shares = 0.5 * (least / 0.5) ** falling if j < k - 1 else np.full((steps, count), 0.5)
        draw = int(generator.integers(2**62))
        fitted = yield from seeding.fit_robustly(landscape, seeds, found, draw, shares, reach)
        histogram = yield from seeding.residuals_around(landscape, seeds, fitted, found)
        noise, mass[:, j] = seeding.noise_around(histogram, least, unit)
        coef, s2 = coef.copy(), s2.copy()
        coef[:, j], s2[:, j] = fitted, np.maximum(noise**2 / landscape.spread, landscape.floor)
        left = left - mass[:, j]
    shares = np.maximum(mass, 0.02 * rows)
    variance = yield from _nearest_variance(landscape, coef)
    return Population.of(coef, shares / shares.sum(axis=1, keepdims=True), variance, lineage, SEQUENTIAL)


def level_draws(landscape: Landscape, lineage: Integers, generator: np.random.Generator) -> Steps[Population]:
    """Draws around the single regression, and one component at a value of the response, as narrow as its share says.

    Responses that many rows have in common (a count of nil, a limit of what was measured) are a component of their own
    where each has a deviation of its own, and no few rows drawn at random show it.
    """
    count, k = len(lineage), landscape.task.n_components
    others = draws(landscape, lineage, generator)
    centre, along = seeding.levels(landscape, count)
    seeds = Seeds.uniform(centre, np.full(count, 1.0 / landscape.rows_looked_at), np.zeros(count))
    seeded, _ = yield from seeding.fit(landscape, replace(seeds, along=along), None, int(generator.integers(2**62)))
    share = seeding.draw_shares(landscape, count, generator)
    coef, s2 = others.coef.copy(), others.s2.copy()
    coef[:, 0] = seeded
    s2[:, 0] = yield from seeding.variance_around(landscape, seeded, share)
    weights = np.column_stack([share, np.repeat(((1.0 - share) / max(k - 1, 1))[:, None], k - 1, axis=1)])
    return Population.of(coef, landscape.task.gate.step(weights), s2, lineage, LEVEL)


def labelled_fits(landscape: Landscape, lineage: Integers, generator: np.random.Generator) -> Steps[Population]:
    """Each component from the rows that are known to be of it, at random weights; drawn where there are none."""
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    each = np.tile(np.arange(k), count)
    tail = np.repeat(generator.integers(0, HEAVIEST, count), k).astype(np.float64)
    seeds = Seeds.uniform(np.tile(landscape.centre, (count * k, 1)), np.zeros(count * k), tail)
    seeds = replace(seeds, component=each, rule=np.full(count * k, LABELLED))
    coef, _ = yield from seeding.fit(landscape, seeds, None, int(generator.integers(2**62)))
    coef = coef.reshape(count, k, q)
    found = np.any(coef != landscape.centre, axis=2, keepdims=True)
    coef = np.where(found, coef, draws(landscape, lineage, generator).coef)
    variance = yield from _nearest_variance(landscape, coef)
    return Population.of(coef, np.full((count, k), 1.0 / k), variance, lineage, LABELS)


def grow(
    landscape: Landscape, smaller: Population, lineage: Integers, generator: np.random.Generator, draws: bool
) -> Steps[Population]:
    """A fit of one component fewer (a population of one) with a component split, or one added at badly explained rows.

    A split by little has the smaller fit's likelihood, so that one component more never makes a search end lower.
    """
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    every = np.arange(count)
    parent = every % (k - 1)
    coef = np.concatenate([np.repeat(smaller.coef, count, axis=0), smaller.coef[0, parent][:, None]], axis=1)
    s2 = np.concatenate([np.repeat(smaller.s2, count, axis=0), smaller.s2[0, parent][:, None]], axis=1)
    weights = np.concatenate([np.repeat(smaller.weights, count, axis=0), np.zeros((count, 1))], axis=1)
    weights[every, parent] *= 0.5
    weights[:, -1] = weights[every, parent]
    split = every % 2 == 0
    size = np.sqrt(landscape.spread * s2[:, -1:] / q) * np.where(every % 4 == 0, 1e-2, 1.0)[:, None]
    apart = size * generator.standard_normal((count, q))
    coef[split, -1] += apart[split]
    coef[every[split], parent[split]] -= apart[split]
    added = np.flatnonzero(~split)
    if len(added):
        none = np.zeros(len(added), dtype=np.int64)
        wanted = (q + 1.0) / landscape.rows_looked_at
        rate, tail = np.full(len(added), wanted if draws else 0.0), np.full(len(added), 0.0 if draws else 1.0)
        centre = np.tile(landscape.centre, (len(added), 1))
        seeds = Seeds(centre, none, none - 1, none + UNEXPLAINED, np.full(len(added), FAR_MISS), rate, tail)
        coef[added, -1], _ = yield from seeding.fit(landscape, seeds, smaller, int(generator.integers(2**62)))
    weights = landscape.task.gate.step(weights)
    return Population.of(coef, weights, landscape.allowed_variance(s2), lineage, GROWN)


def _seed_fits(
    landscape: Landscape, lineage: Integers, generator: np.random.Generator, rate: Array, tail: Array, origin: int
) -> Steps[Population]:
    count, k, q = len(lineage), landscape.task.n_components, landscape.dimension
    seeds = Seeds.uniform(np.tile(landscape.centre, (count * k, 1)), rate, tail)
    coef, _ = yield from seeding.fit(landscape, seeds, None, int(generator.integers(2**62)))
    coef = coef.reshape(count, k, q)
    variance = yield from _nearest_variance(landscape, coef)
    return Population.of(coef, np.full((count, k), 1.0 / k), variance, lineage, origin)


def _nearest_variance(landscape: Landscape, coef: Array) -> Steps[Array]:
    """(s, k): the mean square from the nearest component, for every component the same."""
    query = NearestSquares(landscape.transform, coef)
    sums = yield landscape.on_start_scale(query)
    mean = sums["squares"] / (landscape.spread * max(float(sums["amount"]), 1e-300))
    mean = np.maximum(mean, landscape.floor)
    return landscape.allowed_variance(np.repeat(mean[:, None], coef.shape[1], axis=1))
