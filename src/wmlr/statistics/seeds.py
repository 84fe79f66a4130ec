"""Where new components may begin: least squares at rows that are chosen where they are.

A mixture that explains some rows badly lacks a component there. Who holds the rows can tell which these are, draw some
of them by a hash of their content, or weigh all of them; only the sums of the least squares leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from wmlr.core.query import Field, Kind, Part, Parts, Query, all_alike, join_pieces, unit
from wmlr.core.repeats import repeats
from wmlr.core.round import Rows, content_codes
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Array, Integers, Sums, mix, one_hot
from wmlr.statistics.candidates import project, weighted_grams
from wmlr.statistics.score import products_of_two

UNIFORM, UNEXPLAINED, OWN, SOFT, SHARP, LABELLED = range(6)
"""How much a row counts, given the mixture and the component that a seed looks at.

UNIFORM: every row alike. UNEXPLAINED: by its squared distance from the nearest *other* component, up to the seed's cap.
OWN: by the responsibility of the component. SOFT: 1 - exp(-d/2) of that distance d. SHARP: a logistic step at 3.5
standard deviations from every component. LABELLED: rows that are known to be of the component, and no others.
"""

SHARP_CUT, SHARPNESS = 3.5, 8.0
LEAST_RESIDUAL = 1e-12
SURE = 1.0 - 1e-12  # the largest posterior that a loss grows up to
AT_ONCE = 8  # mixtures, whose components' use is worked out: what is known of each row stays in the processor's cache
PER_OCTAVE, LARGEST_OCTAVE = 4, 4  # a histogram of sizes ends at 16 units; a class is a fourth of an octave wide


@dataclass(frozen=True)
class SeedFits(Query):
    """Weighted least squares of c seeds, around ``centre`` (c, q), on z = transform'x.

    Attributes
    ----------
    coef, weights, s2 : (g, k, q), (g, k), (g, k): the mixtures that the seeds look at.
    mixture, component, rule : (c,) each: which of them a seed looks at, which component of it, and how rows count.
    cap : (c,), the largest squared distance that counts in full, for UNEXPLAINED.
    rate : (c,), rows are drawn with this probability per unit of their count; 0 takes all rows, so weighted.
    tail : (c,), each count is multiplied by an exponential draw to this power; 0 for none.
    limit : (c,), rows at a distance r from the centre count 1 / (1 + (r / limit)^2); 0 for no such limit.
    seed : decides the draws.
    bins, unit : how many classes a histogram of log2 |residual| / unit from ``centre`` has, by the count without the
        limit; 0 for none.

    The answer holds upper triangles of Grams, moments of the residuals, the weight, and the histogram.
    """

    transform: Annotated[Array, Field("p q")]
    centre: Annotated[Array, Field("c q")]
    coef: Annotated[Array, Field("g k q")]
    weights: Annotated[Array, Field("g k", least=0.0)]
    s2: Annotated[Array, Field("g k", above=0.0)]
    mixture: Annotated[Integers, Field("c")]
    component: Annotated[Integers, Field("c")]
    rule: Annotated[Integers, Field("c")]
    cap: Annotated[Array, Field("c", least=0.0)]
    rate: Annotated[Array, Field("c", least=0.0)]
    tail: Annotated[Array, Field("c", least=0.0)]
    limit: Annotated[Array, Field("c", least=0.0)]
    seed: int = 0
    bins: int = 0
    unit: Annotated[float, Field(above=0.0)] = 1.0

    def parts(self, columns: int, grouped: bool) -> Parts:
        c, q = self.centre.shape
        parts = {
            "grams": Part((c, q * (q + 1) // 2), unit(x=2), Kind.TRIANGLE),
            "moments": Part((c, q), unit(x=1, y=1)),
            "amount": Part((c,), unit(), Kind.AMOUNT),
        }
        return parts | {"histogram": Part((c, self.bins), unit(), Kind.AMOUNT)} if self.bins else parts

    @property
    def numbers_per_row(self) -> int:
        return len(self.centre) + self.s2.size

    def shares(self, rows: Rows) -> Array:
        Z, _ = project(rows, self.transform)
        weights = self._draw(rows, self._counts(rows, Z))
        sizes = np.sqrt(_unit_means((rows.y - self.centre @ Z.T) ** 2, rows))
        each = []
        if self.bins:
            each = [one_hot(row, self.bins) * w[:, None] for row, w in zip(self._bins(sizes), weights)]
        return np.hstack([*each, self._limit_weights(weights, sizes).T])

    def answer(self, rows: Rows) -> Sums:
        Z, products = project(rows, self.transform)
        residuals = rows.y - self.centre @ Z.T
        weights = self._row_weights(rows, Z)
        if rows.weight is not None:
            weights = weights * rows.weight
        sizes = np.sqrt(_unit_means(residuals**2, rows)) if self.bins or self.limit.any() else np.abs(residuals)
        sums: Sums = {}
        if self.bins:
            sums["histogram"] = self._histogram(weights, sizes)
        weights = self._limit_weights(weights, sizes)
        q = Z.shape[1]
        edge = q * (q + 1) // 2
        if products is None:
            sums["grams"] = weighted_grams(weights, Z)
        else:
            sums["grams"] = weights @ products[:, :edge]
        sums["moments"] = (weights * residuals) @ Z
        sums["amount"] = weights.sum(axis=1)
        return sums

    def _row_weights(self, rows: Rows, Z: Array) -> Array:
        """(c, n): how much each row counts; kept with the rows, since only the centres and limits change in a fit."""
        looked_at = self.coef, self.weights, self.s2, self.mixture, self.component, self.rule
        drawn = self.cap, self.rate, self.tail
        key = self.seed, self.transform.tobytes(), *(one.tobytes() for one in (*looked_at, *drawn))
        if rows.memo.get(SeedFits, (None,))[0] != key:
            rows.memo[SeedFits] = key, self._draw(rows, self._counts(rows, Z))
        kept: Array = rows.memo[SeedFits][1]
        return kept.copy()

    def _limit_weights(self, weights: Array, sizes: Array) -> Array:
        """The weights (c, n), in their place, less those of rows beyond the limits."""
        limited = self.limit > 0
        weights[limited] /= 1.0 + (sizes[limited] / self.limit[limited, None]) ** 2
        return weights

    def _counts(self, rows: Rows, Z: Array) -> Array:
        """(c, n): how much each row counts for each seed, before any draw."""
        counts = np.ones((len(self.rule), len(rows)))
        for place in np.flatnonzero(self.rule == LABELLED):
            counts[place] = rows.beside[KNOWN] == self.component[place] if KNOWN in rows.beside else 0.0
        looking = np.flatnonzero((self.rule != UNIFORM) & (self.rule != LABELLED))
        if not len(looking):
            return counts
        distances = mixture_distances(self.coef, self.s2, Z, rows)
        shares: Array | None = None
        for place in looking:
            own, j, rule = distances[self.mixture[place]], int(self.component[place]), int(self.rule[place])
            if rule == OWN:
                if shares is None:
                    shares = mixture_shares(distances, self.weights, self.s2, rows)
                counts[place] = shares[self.mixture[place], j]
                continue
            others = own if j < 0 else np.delete(own, j, axis=0)
            nearest = others.min(axis=0) if len(others) else np.full(len(rows), self.cap[place])
            if rule == UNEXPLAINED:
                counts[place] = np.minimum(nearest, self.cap[place])
            elif rule == SOFT:
                counts[place] = -np.expm1(-0.5 * nearest)
            else:
                beyond = np.clip((np.sqrt(nearest) / SHARP_CUT - 1.0) * SHARPNESS, -30.0, 30.0)
                counts[place] = 1.0 / (1.0 + np.exp(-beyond))
        return counts

    def _draw(self, rows: Rows, counts: Array) -> Array:
        drawn, tailed = self.rate > 0, self.tail > 0
        if not (drawn.any() or tailed.any()):
            return counts
        uniform = uniforms(rows, self.seed, np.flatnonzero(drawn | tailed))
        chance = np.zeros_like(counts)
        chance[drawn | tailed] = uniform
        copies = repeats(rows)  # any of which may be drawn, and is one row
        counts[drawn] = (chance[drawn] < counts[drawn] * copies * self.rate[drawn, None]) / copies
        exponential = -np.log1p(-chance[tailed])
        counts[tailed] *= exponential ** self.tail[tailed, None]
        return counts

    def _bins(self, sizes: Array) -> Integers:
        """The class of each size: (c, n)."""
        octaves = np.log2(np.maximum(sizes / self.unit, LEAST_RESIDUAL)) - LARGEST_OCTAVE
        return np.asarray(np.clip(PER_OCTAVE * octaves + self.bins, 0, self.bins - 1).astype(np.int64))

    def _histogram(self, weights: Array, sizes: Array) -> Array:
        place = self._bins(sizes) + self.bins * np.arange(len(sizes))[:, None]
        counts = np.bincount(place.ravel(), weights.ravel(), self.bins * len(sizes))
        return np.asarray(counts.reshape(len(sizes), self.bins), dtype=np.float64)


def residual_sizes(bins: int, unit: float) -> Array:
    """The upper edges of the classes in a histogram of :class:`SeedFits`."""
    return np.asarray(unit * 2.0 ** ((np.arange(1, bins + 1) - bins) / PER_OCTAVE + LARGEST_OCTAVE))


def residual_quantile(histogram: Array, share: Array, unit: float) -> Array:
    """The size below which a share of the weight lies, from a histogram of :class:`SeedFits` (c, bins)."""
    below = np.cumsum(histogram, axis=1)
    wanted = np.asarray(share) * below[:, -1]
    place = (below < wanted[:, None]).sum(axis=1).clip(0, histogram.shape[1] - 1)
    at = np.arange(len(histogram))
    inside = histogram[at, place]
    into = np.where(inside > 0, (wanted - below[at, place] + inside) / np.where(inside > 0, inside, 1.0), 0.5)
    return np.asarray(residual_sizes(histogram.shape[1], unit)[place] * 2.0 ** ((into - 1.0) / PER_OCTAVE))


@dataclass(frozen=True)
class NearestSquares(Query):
    """For each of s candidates, coef (s, k, q) on z = transform'x: the sum of squares from the nearest component."""

    transform: Annotated[Array, Field("p q")]
    coef: Annotated[Array, Field("s k q")]

    def parts(self, columns: int, grouped: bool) -> Parts:
        squares = Part((len(self.coef),), unit(y=2), Kind.AMOUNT)
        return {"squares": squares, "amount": Part((), unit(), Kind.AMOUNT)}

    @property
    def numbers_per_row(self) -> int:
        s, k, _ = self.coef.shape
        return int(s * k)

    shares = all_alike
    scalars_choose = True

    def scalar_shares(self, rows: Rows) -> Array:
        """By the component that is nearest."""
        s, k, _ = self.coef.shape
        nearest = one_hot(self._squares(rows).argmin(axis=0), k)
        return np.asarray(nearest.transpose(1, 0, 2).reshape(len(rows), s * k))

    def answer(self, rows: Rows) -> Sums:
        w = rows.counts
        return {"squares": self._squares(rows).min(axis=0) @ w, "amount": np.array(w.sum())}

    def _squares(self, rows: Rows) -> Array:
        """(k, s, n): squared residuals; within a group their mean."""
        Z, _ = project(rows, self.transform)
        s, k, q = self.coef.shape
        squares = (self.coef.transpose(1, 0, 2).reshape(k * s, q) @ Z.T).reshape(k, s, len(rows))
        np.subtract(rows.y, squares, out=squares)
        np.square(squares, out=squares)
        return _unit_means(squares, rows)


@dataclass(frozen=True)
class ComponentUse(Query):
    """Of each of g mixtures and k components: what is lost without it, and how far all rows then are.

    ``loss`` is the fall of the log-likelihood when the component's posterior is taken away, ``unexplained`` the sum
    over the rows of the squared distance from the nearest other component, up to each of the ``caps``, ``own`` the
    number of rows that are its own.
    """

    transform: Annotated[Array, Field("p q")]
    coef: Annotated[Array, Field("g k q")]
    weights: Annotated[Array, Field("g k", least=0.0)]
    s2: Annotated[Array, Field("g k", above=0.0)]
    caps: Annotated[Array, Field("b", least=0.0)]

    def pieces(self, rows: float) -> tuple[ComponentUse, ...]:
        cuts = (slice(first, first + AT_ONCE) for first in range(0, len(self.coef), AT_ONCE))
        return tuple(replace(self, coef=self.coef[cut], weights=self.weights[cut], s2=self.s2[cut]) for cut in cuts)

    def parts(self, columns: int, grouped: bool) -> Parts:
        each = Part(self.s2.shape, unit(), Kind.AMOUNT)
        return {"loss": each, "unexplained": replace(each, shape=(*self.s2.shape, len(self.caps))), "own": each}

    @property
    def numbers_per_row(self) -> int:
        return 2 * self.s2.size

    def shares(self, rows: Rows) -> Array:
        return np.hstack([shares.T for shares in self._posteriors(rows)])

    def share_slopes(self, rows: Rows) -> Array:
        return np.hstack([products_of_two(shares.T) for shares in self._posteriors(rows)])

    def _posteriors(self, rows: Rows) -> Array:
        """(g, k, n)."""
        Z, _ = project(rows, self.transform)
        return mixture_shares(mixture_distances(self.coef, self.s2, Z, rows), self.weights, self.s2, rows)

    scalars_choose = True

    def scalar_shares(self, rows: Rows) -> Array:
        """By the nearest other component, by whether that is nearer than each cap, and by whether a loss is bounded."""
        Z, _ = project(rows, self.transform)
        distances = mixture_distances(self.coef, self.s2, Z, rows)
        found = [*(self._posteriors(rows) < SURE).transpose(1, 0, 2)]
        for j, others in enumerate(self._nearest_others(distances)):
            far = np.where((np.arange(distances.shape[1]) == j)[:, None], np.inf, distances)
            found += [far[:, other] == others for other in range(distances.shape[1]) if other != j]
            found += [others < cap for cap in self.caps]
        return np.vstack(found).T.astype(np.float64)

    def _nearest_others(self, distances: Array) -> Iterator[Array]:
        """(g, n) for each component: how far the nearest of the others is; the largest cap, where there is none."""
        first = second = np.full_like(distances[:, 0], self.caps.max() if distances.shape[1] == 1 else np.inf)
        for own in distances.swapaxes(0, 1):
            first, second = np.minimum(first, own), np.minimum(second, np.maximum(first, own))
        for own in distances.swapaxes(0, 1):
            yield np.where(own <= first, second, first)

    def answer(self, rows: Rows) -> Sums:
        Z, _ = project(rows, self.transform)
        return join_pieces([piece._answer(rows, Z) for piece in self.pieces(len(rows)) or (self,)])

    def _answer(self, rows: Rows, Z: Array) -> Sums:
        distances = mixture_distances(self.coef, self.s2, Z, rows)
        shares = mixture_shares(distances, self.weights, self.s2, rows)
        w = rows.counts
        g, k, _ = self.coef.shape
        unexplained = np.empty((g, k, len(self.caps)))
        for j, others in enumerate(self._nearest_others(distances)):
            unexplained[:, j] = np.stack([np.minimum(others, cap) @ w for cap in self.caps], axis=1)
        return {
            "loss": -np.log1p(-np.minimum(shares, SURE)) @ w,
            "unexplained": unexplained,
            "own": shares @ w,
        }


def mixture_distances(coef: Array, s2: Array, Z: Array, rows: Rows) -> Array:
    """(g, k, n): squared residuals in units of the variance; within a group their mean."""
    g, k, q = coef.shape
    squares = (coef.reshape(g * k, q) @ Z.T).reshape(g, k, len(rows))
    np.subtract(rows.y, squares, out=squares)
    np.square(squares, out=squares)
    squares /= s2[:, :, None]
    return squares if rows.starts is None else _unit_means(squares, rows)


def mixture_shares(distances: Array, weights: Array, s2: Array, rows: Rows) -> Array:
    """(g, k, n): responsibilities, from :func:`mixture_distances`; normal noise is near enough to choose rows by."""
    size: Array | float = 1.0
    if rows.starts is not None:
        size = np.repeat(rows.group_sizes, rows.group_sizes).astype(np.float64)
    joint = -0.5 * (distances + np.log(s2)[:, :, None]) * size + np.log(np.maximum(weights, 1e-300))[:, :, None]
    joint -= joint.max(axis=1, keepdims=True)
    np.exp(joint, out=joint)
    joint /= joint.sum(axis=1, keepdims=True)
    return np.asarray(joint)


def row_codes(rows: Rows) -> NDArray[np.uint64]:
    """A number of each row's content, kept with the rows."""
    if row_codes not in rows.memo:
        rows.memo[row_codes] = content_codes(rows, 0)
    codes: NDArray[np.uint64] = rows.memo[row_codes]
    return codes


def uniforms(rows: Rows, seed: int, numbers: NDArray[np.int64]) -> Array:
    """(c, n) uniform draws that belong to the rows' content, whoever holds them; a group has one draw."""
    codes = mix(row_codes(rows) ^ np.uint64(seed))
    salts = mix(np.asarray(numbers, dtype=np.uint64) + np.uint64(1))
    return np.asarray((mix(codes[None, :] ^ salts[:, None]) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _unit_means(values: Array, rows: Rows) -> Array:
    """Means over each group along the last axis, for each of its rows."""
    if rows.starts is None:
        return values
    sizes = rows.group_sizes
    means = np.add.reduceat(values, rows.starts, axis=-1) / sizes
    return np.asarray(np.repeat(means, sizes, axis=-1))
