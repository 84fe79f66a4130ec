"""Expectations over the learned mixture p_beta, given x.

Under p_beta the response is Gaussian around each component, so E over p_beta is a one-dimensional
integral: :class:`GaussHermite` computes it; :class:`Drawn` samples it, as the paper's authors did.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtri

from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Integers, mix

Model = tuple[Array, Array, Array]
MOST_NODES = 512  # no mixture needs as many
MOST_SAMPLES = 4096  # of each row


@cache
def nodes_and_shares(nodes: int) -> tuple[Array, Array]:
    """Gauss-Hermite nodes and weights for the standard normal."""
    points, weights = hermegauss(nodes)
    return points, weights / weights.sum()


def automatic_nodes(snr: float) -> int:
    """Enough nodes for the fitted mixture not to notice: more where noise blurs the components."""
    return 8 if snr >= 5.0 else 16 if snr >= 2.0 else 32 if snr >= 0.8 else 48


@dataclass(frozen=True)
class GaussHermite:
    """Exact expectation by quadrature on a fixed number of nodes."""

    nodes: int
    is_drawn: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """How many values of the noise it looks at."""
        return self.nodes

    def check(self) -> None:
        """Raise ValueError where it would take too long, or no value at all."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise ValueError(f"expectation must have from 1 to {MOST_NODES} nodes (got {self.nodes})")

    def offsets(self, index: Integers | None, n: int) -> tuple[Array, Array]:
        """Standard-normal offsets (1, Q) and their shares (Q,)."""
        points, shares = nodes_and_shares(self.nodes)
        return points[None, :], shares

    def log_cosh(
        self, u: Array, v: Array, sigma: float, weight: Array | None, starts: Integers | None, index: Integers | None
    ) -> Model:
        """E over y = u + sigma e of log cosh(sum y v), of tanh, and of y tanh.

        The sum over a unit is Gaussian with mean p = sum u v and deviation s = sigma |v|, so with
        T = E tanh and D = E[e tanh] / s, E[y tanh] = u T + sigma^2 v D (Stein's identity).
        """
        points, shares = nodes_and_shares(self.nodes)
        p = kernels.unit_sums(u * v, weight, starts)
        s = sigma * np.sqrt(kernels.unit_sums(v * v, weight, starts))
        tanh, values = kernels.tanh_log_cosh(p[:, None] + s[:, None] * points)
        T = tanh @ shares
        D = tanh @ (points * shares) / np.where(s > 0, s, 1.0)
        n = len(u)
        T_rows = kernels.to_rows(T, None, starts, n)
        D_rows = kernels.to_rows(D, None, starts, n)
        return values @ shares, T_rows, u * T_rows + sigma**2 * v * D_rows


@dataclass(frozen=True)
class Drawn:
    """Expectation over noise drawn once per row (``turn=None``: frozen), or anew at each turn.

    A row's noise depends on its number, the seed and the turn alone, so that blocks, threads and agents
    draw the same. psi is even in y in the symmetric case, so no component label needs drawing; with k
    components all k of them are taken at the drawn offset.
    """

    seed: int
    samples: int = 1
    turn: int | None = None
    is_drawn: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """How many values of the noise it looks at."""
        return self.samples

    def check(self) -> None:
        """Raise ValueError where it would take too long, or no value at all."""
        if not (1 <= self.samples <= MOST_SAMPLES and self.seed >= 0):
            raise ValueError(
                f"expectation must draw from 1 to {MOST_SAMPLES} samples with a seed of at least 0 (got {self})"
            )

    def offsets(self, index: Integers | None, n: int) -> tuple[Array, Array]:
        """Standard-normal offsets (n, S) and their shares (S,)."""
        shares = np.full(self.samples, 1.0 / self.samples)
        first = 0 if index is None or not len(index) else int(index[0])
        in_order = index is None or bool(np.array_equal(index, np.arange(first, first + n)))
        if self.turn is None and in_order:
            return _frozen_draws(self.seed, self.samples, first, n), shares
        numbers = np.arange(n) if index is None else index
        return _draws(self.seed, self.samples, 0 if self.turn is None else self.turn + 1, numbers), shares

    def log_cosh(
        self, u: Array, v: Array, sigma: float, weight: Array | None, starts: Integers | None, index: Integers | None
    ) -> Model:
        """Sample means of log cosh(sum y v), of tanh, and of y tanh at y = u + sigma e."""
        draws, shares = self.offsets(index, len(u))
        Y = u[:, None] + sigma * draws
        tanh, values = kernels.tanh_log_cosh(kernels.unit_sums(Y * v[:, None], weight, starts))
        tanh_rows = kernels.to_rows(tanh, None, starts, len(u))
        return values @ shares, tanh_rows @ shares, (Y * tanh_rows) @ shares


def _draws(seed: int, samples: int, turn: int, numbers: Integers) -> Array:
    """A row's standard-normal draws, from its number, the seed and the turn alone."""
    key = mix(np.array([seed, turn], dtype=np.uint64))
    draws = np.empty((len(numbers), samples))
    for sample in range(samples):
        bits = mix(mix(numbers.astype(np.uint64) ^ key[0]) ^ (key[1] + np.uint64(sample)))
        draws[:, sample] = ndtri(((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    return draws


@lru_cache(maxsize=256)
def _frozen_draws(seed: int, samples: int, first: int, n: int) -> Array:
    """The draws of a block of consecutive rows, kept because frozen noise is asked for at every iteration."""
    draws = _draws(seed, samples, 0, np.arange(first, first + n))
    draws.setflags(write=False)
    return draws


Expectation = GaussHermite | Drawn
