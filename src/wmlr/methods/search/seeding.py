"""Seeds: coefficients of one component, from least squares at rows chosen where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search.landscape import Landscape, solve_each
from wmlr.methods.search.population import Population
from wmlr.numerics.arrays import Array, Integers
from wmlr.statistics.candidates import unfold
from wmlr.statistics.seeds import PER_OCTAVE, SHARP_CUT, UNIFORM, SeedFits, residual_quantile, residual_sizes

PULL = 1e-3  # towards the centre, of the drawn rows' mean square: as many rows as coefficients leave room for it
BINS = 128
LEAST_AMOUNT = 1e-12
LARGEST_SHARE = 0.8  # of the rows that a new component may begin with
NORMAL_QUARTILE = 0.6745  # deviations within which half of a normal component's rows lie


@dataclass(frozen=True)
class Seeds:
    """What :class:`SeedFits` is asked for, a line for each seed; see there.

    ``along`` (c, q), where not nil, is the only direction in which a seed may leave its centre.
    """

    centre: Array
    mixture: Integers
    component: Integers
    rule: Integers
    cap: Array
    rate: Array
    tail: Array
    along: Array | None = None

    @classmethod
    def uniform(cls, centre: Array, rate: Array, tail: Array) -> Self:
        """Seeds that look at no mixture."""
        count = len(centre)
        none = np.zeros(count, dtype=np.int64)
        return cls(centre, none, none - 1, none + UNIFORM, np.ones(count), rate, tail)

    def __len__(self) -> int:
        return len(self.centre)


def fit(
    landscape: Landscape, seeds: Seeds, mixtures: Population | None, seed: int, scale: Array | None = None
) -> Steps[tuple[Array, Array]]:
    """The seeds' coefficients (c, q), and histograms of the residuals from their centres."""
    c, q = seeds.centre.shape
    k = landscape.task.n_components
    empty = np.zeros((0, k, q)), np.zeros((0, k)), np.zeros((0, k))
    coef, weights, s2 = empty if mixtures is None else (mixtures.coef, mixtures.weights, mixtures.s2)
    query = SeedFits(
        landscape.transform,
        seeds.centre,
        coef,
        weights,
        landscape.spread * s2,
        seeds.mixture,
        seeds.component,
        seeds.rule,
        seeds.cap,
        seeds.rate,
        seeds.tail,
        np.zeros(c) if scale is None else scale,
        seed,
        0 if scale is None else BINS,
        landscape.deviation,
    )
    sums = yield landscape.on_start_scale(query)
    grams = unfold(sums["grams"], q)
    level = np.trace(grams, axis1=1, axis2=2) / max(q, 1)
    pull = (PULL if scale is None else 1e-9) * level + LEAST_AMOUNT
    moved = solve_each(grams + pull[:, None, None] * np.eye(q), sums["moments"])
    if seeds.along is not None:
        tied = seeds.along.any(axis=1)
        line, moments = seeds.along[tied], sums["moments"][tied]
        length = np.einsum("cq,cqp,cp->c", line, grams[tied], line) + LEAST_AMOUNT
        moved[tied] = line * ((line * moments).sum(axis=1) / length)[:, None]
    return np.asarray(seeds.centre + moved), sums.get("histogram", np.zeros((c, 0)))


def fit_robustly(
    landscape: Landscape,
    seeds: Seeds,
    mixtures: Population | None,
    seed: int,
    shares: Array,
    reach: float | Array = 1.0,
) -> Steps[Array]:
    """Iteratively reweighted least squares with Cauchy's weights, from where :func:`fit` puts the seeds.

    ``shares`` (rounds, c) say which quantile of the residuals, of what the rule leaves, times ``reach``, is the scale
    of each round: falling shares close in on the component that most rows nearby agree on.
    """
    unit, least = landscape.deviation, np.sqrt(landscape.floor * landscape.spread)
    coef, _ = yield from fit(landscape, seeds, mixtures, seed)
    still = replace(seeds, rate=np.zeros(len(seeds)), tail=np.zeros(len(seeds)))
    histogram = yield from residuals_around(landscape, seeds, coef, mixtures)
    for share in shares:
        scale = np.maximum(reach * residual_quantile(histogram, share, unit), least)
        coef, histogram = yield from fit(landscape, replace(still, centre=coef), mixtures, seed, scale)
    return coef


def residuals_around(landscape: Landscape, seeds: Seeds, coef: Array, mixtures: Population | None) -> Steps[Array]:
    """Histograms of the residuals from regressions (c, q), of the rows as the seeds' rules count them."""
    none = np.zeros(len(seeds))
    _, histogram = yield from fit(landscape, replace(seeds, centre=coef, rate=none, tail=none), mixtures, 0, none)
    return histogram


def levels(landscape: Landscape, count: int) -> tuple[Array, Array]:
    """Centres and directions (c, q) of seeds that are one value of the response, whatever the features."""
    assert landscape.constant is not None
    along = np.tile(landscape.constant, (count, 1))
    return along * (landscape.constant @ landscape.centre), along


def draw_shares(landscape: Landscape, count: int, generator: np.random.Generator) -> Array:
    """Shares of the rows that new components may hold, from hardly more rows than coefficients to most of them."""
    least = min(2.0 * (landscape.dimension + 1) / landscape.rows_looked_at, 0.5)
    return np.asarray(np.exp(generator.uniform(np.log(least), np.log(LARGEST_SHARE), count)))


def variance_around(landscape: Landscape, coef: Array, share: Array) -> Steps[Array]:
    """The residual variance of regressions (c, q) that hold these shares of the rows, from the nearer half of those."""
    none = np.zeros(len(coef))
    histogram = yield from residuals_around(landscape, Seeds.uniform(coef, none, none), coef, None)
    near = residual_quantile(histogram, 0.5 * share, landscape.deviation)
    return np.maximum((near / NORMAL_QUARTILE) ** 2 / landscape.spread, landscape.floor)


def noise_around(histogram: Array, share: Array, unit: float) -> tuple[Array, Array]:
    """The standard deviation of the rows near a robust fit, and how many they are.

    Near are those within 3.5 deviations, of which the ``share`` nearest give a first idea.
    """
    rough = residual_quantile(histogram, share, unit) / NORMAL_QUARTILE
    edges = residual_sizes(histogram.shape[1], unit)
    near = histogram * (edges[None, :] < SHARP_CUT * rough[:, None])
    amount = np.maximum(near.sum(axis=1), LEAST_AMOUNT)
    middle = edges * 2.0 ** (-0.5 / PER_OCTAVE)
    return np.sqrt((near @ middle**2) / amount), amount
