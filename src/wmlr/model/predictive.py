"""The law of y given x: its density, distribution, quantiles and regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.families import NORMAL, Noise
from wmlr.io.table import import_extra
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.roots import roots

GRID = np.linspace(-5.0, 5.0, 41)


@dataclass(frozen=True, eq=False)
class Region:
    """Where y is expected: one or several intervals for each row.

    Attributes
    ----------
    intervals : an array (m, 2) per row, of m intervals from left to right.
    level : the probability of the region under the model.
    kind : "hdr" or "central".
    """

    intervals: tuple[Array, ...]
    level: float
    kind: str

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, row: int) -> Array:
        return self.intervals[row]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.intervals)

    @property
    def counts(self) -> Integers:
        """How many intervals each row has."""
        return np.array([len(pieces) for pieces in self.intervals], dtype=np.int64)

    @property
    def lengths(self) -> Array:
        """The total length of each row's intervals."""
        return np.array([float((pieces[:, 1] - pieces[:, 0]).sum()) for pieces in self.intervals])

    def contains(self, y: Any) -> NDArray[np.bool_]:
        """Whether each row's y is in its region."""
        values = np.broadcast_to(np.asarray(y, dtype=np.float64), (len(self),))
        inside = [np.any((pieces[:, 0] <= v) & (v <= pieces[:, 1])) for pieces, v in zip(self.intervals, values)]
        return np.array(inside, dtype=bool)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a line per interval: row, lower, upper."""
        pandas = import_extra("pandas", "to_frame() needs pandas: pip install 'wmlr[io]'")
        edges = np.concatenate(self.intervals) if self.intervals else np.empty((0, 2))
        rows = np.repeat(np.arange(len(self)), self.counts)
        return pandas.DataFrame({"row": rows, "lower": edges[:, 0], "upper": edges[:, 1]})


@dataclass(frozen=True, eq=False)
class Predictive:
    """Mixtures of k laws, one mixture per row.

    Attributes
    ----------
    means, weights : (n, k); sigma : (k,).
    noise : the law around each mean.
    """

    means: Array
    weights: Array
    sigma: Array
    noise: Noise = NORMAL

    def take(self, rows: Any) -> Predictive:
        """Some of the rows."""
        return replace(self, means=self.means[rows], weights=self.weights[rows])

    def log_density(self, y: Array) -> Array:
        """At y (n, m)."""
        joint = self._joint(self._standard(y))
        top = joint.max(axis=-1)
        near = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            return np.asarray(near + np.log(np.exp(joint - near[..., None]).sum(axis=-1)))

    def slope(self, y: Array) -> Array:
        """The derivative of the log-density at y (n, m)."""
        z = self._standard(y)
        joint = self._joint(z)
        shares = np.exp(joint - joint.max(axis=-1, keepdims=True))
        return np.asarray((shares * self.noise.slope(z) / self.sigma).sum(axis=-1) / shares.sum(axis=-1))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y) at y (n, m)."""
        return np.asarray((self.noise.cdf(self._standard(y)) * self.weights[:, None, :]).sum(axis=-1))

    def quantile(self, q: Array) -> Array:
        """Quantiles (n, m) for probabilities q (m,), each between the least and greatest of the components'."""
        z = self.noise.quantile(q)
        each = self.means[:, None, :] + z[:, None] * self.sigma
        live = np.broadcast_to(self.weights[:, None, :] > 0, each.shape)
        low = np.where(live, each, np.inf).min(axis=-1)
        high = np.where(live, each, -np.inf).max(axis=-1)
        return roots(lambda y, rows: self.take(rows).cdf(y) - q, low, high, 1e-12 * float(self.sigma.min()))

    def central(self, level: float) -> Region:
        """The interval that leaves the same probability on either side."""
        ends = self.quantile(np.array([(1 - level) / 2, (1 + level) / 2]))
        return Region(tuple(pair[None] for pair in ends), level, "central")

    def highest_density(self, level: float) -> Region:
        """The smallest region of that probability: where the density is above a threshold."""
        turns = self._turning_points()
        least = np.log(np.where(self.weights > 0, self.weights, 1.0)) - np.log(self.sigma)
        floor = least.min(axis=1) + self.noise.log_density(self.noise.quantile(np.array((1 + level) / 2)))
        reach = self.sigma.max() * self.noise.reach(floor + np.log(self.sigma.min()))
        points = np.column_stack([self.means.min(axis=1) - reach, turns, self.means.max(axis=1) + reach])
        rising = np.arange(points.shape[1] - 1) % 2 == 0
        top = self.log_density(points).max(axis=1)
        mass = self.cdf(points)

        def borders(threshold: Array, rows: Integers) -> Array:
            def above(y: Array, some: Integers) -> Array:
                return self.take(rows[some]).log_density(y) - threshold[some]

            return roots(above, points[rows, :-1], points[rows, 1:], 1e-11 * float(self.sigma.min()))

        def missing_mass(threshold: Array, rows: Integers) -> Array:
            at = self.take(rows).cdf(borders(threshold, rows))
            pieces = np.where(rising, mass[rows, 1:] - at, at - mass[rows, :-1])
            return np.asarray(level - pieces.sum(axis=1, keepdims=True))

        threshold = roots(missing_mass, floor[:, None], top[:, None], 1e-12)
        return Region(tuple(map(_pieces, borders(threshold, np.arange(len(points))))), level, "hdr")

    def _turning_points(self) -> Array:
        """Modes and the dips between them, from left to right; the last mode repeated to fill up."""
        low, high = self.means.min(axis=1, keepdims=True), self.means.max(axis=1, keepdims=True)
        grid = (self.means[:, :, None] + self.sigma[:, None] * GRID).reshape(len(self.means), -1)
        edge = 1e-3 * self.sigma.min()
        grid = np.hstack([low - edge, np.sort(np.clip(grid, low, high), axis=1), high + edge])
        rises = self.slope(grid) > 0
        row, place = np.nonzero(rises[:, :-1] != rises[:, 1:])
        counts = np.bincount(row, minlength=len(grid))
        rank = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        last = np.cumsum(counts) - 1
        chosen = np.repeat(place[last][:, None], int(counts.max(initial=1)), axis=1)
        chosen[row, rank] = place
        left = np.take_along_axis(grid, chosen, axis=1)
        right = np.take_along_axis(grid, chosen + 1, axis=1)
        return roots(lambda y, rows: self.take(rows).slope(y), left, right, 1e-12 * float(self.sigma.min()))

    def _standard(self, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray((y[..., None] - self.means[:, None, :]) / self.sigma)

    def _joint(self, z: Array) -> Array:
        with np.errstate(divide="ignore"):
            return self.noise.log_density(z) + np.log(self.weights)[:, None, :] - np.log(self.sigma)


def _pieces(borders: Array) -> Array:
    """Intervals from the borders of alternately rising and falling stretches, joined where they touch."""
    pairs = borders.reshape(-1, 2)
    pairs = pairs[pairs[:, 1] > pairs[:, 0]]
    apart = pairs[1:, 0] > pairs[:-1, 1]
    return np.column_stack([pairs[np.append(True, apart), 0], pairs[np.append(apart, True), 1]])
