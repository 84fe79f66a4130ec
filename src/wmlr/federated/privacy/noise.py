"""Differential privacy of agents: every answer is clipped, and noise is added to it before it leaves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wmlr.core.query import PublicScales, Query
from wmlr.federated.privacy.accountant import calibrate_noise, epsilon
from wmlr.federated.privacy.layout import AnswerLayout
from wmlr.numerics.arrays import Array, Sums

SMALLEST, GREATEST = 1e-30, 1e30  # of public scales and clips: beyond, products of them would leave floating point
FINER = 2.0**-24  # a step of the grid of noisy answers, over the deviation of their noise
FINEST = 2.0**-52  # the same over the longest answer: steps are whole numbers that floating point counts


class Normals(Protocol):
    """Where noise comes from."""

    def standard_normal(self, size: int, /) -> Array:
        """So many draws."""


class SystemNormals:
    """Normal numbers from the operating system's random bytes, of which no number of draws tells another."""

    def standard_normal(self, size: int, /) -> Array:
        """So many draws (Box and Muller, 1958)."""
        words = np.frombuffer(os.urandom(16 * size), dtype=np.uint64).reshape(2, size)
        radius, turn = (words >> np.uint64(11)) * 2.0**-53
        return np.asarray(np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * turn))


@dataclass(frozen=True)
class Spent:
    """What has been given away of the agents' privacy.

    Attributes
    ----------
    epsilon, delta : of all rounds together, for an agent with all its rows.
    rounds : the noisy rounds.
    noise_multiplier : the noise's deviation over the bound on an agent's answer.
    """

    epsilon: float
    delta: float
    rounds: int
    noise_multiplier: float

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.4g} at delta {self.delta:.3g} for each agent with all its rows: "
            f"{self.rounds} rounds with noise {self.noise_multiplier:.4g} times the clip"
        )


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of agents, settled before the first round.

    Attributes
    ----------
    epsilon : what all rounds together may cost; or
    noise_multiplier : the noise's deviation over the bound on an agent's answer. One of the two is given.
    delta : the chance that goes with epsilon; well below one over the number of agents.
    rounds : the most rounds that may be held, the start's among them.
    clip : the root mean square that an agent's answer may have, each number in its unit; a longer answer is
        shortened. 1 is a usual agent's, where the scales are right.
    x_scale, y_scale, rows : public: what a column of X, y and an agent's number of rows usually are (root mean
        squares). They must not be computed from the data.
    seed : draws the same noise again, which is for tests alone; None takes the noise from the operating system.

    Examples
    --------
    >>> round(Privacy(epsilon=2.0, rounds=4).multiplier, 2)
    3.99
    """

    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float = 1e-5
    rounds: int = 8
    clip: float = 2.0
    x_scale: float = 1.0
    y_scale: float = 1.0
    rows: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError(
                f"give epsilon or noise_multiplier, one of the two (got {self.epsilon!r} and {self.noise_multiplier!r})"
            )
        for name in ("epsilon", "noise_multiplier", "clip", "x_scale", "y_scale", "rows"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive (got {value!r})")
        for name in ("clip", "x_scale", "y_scale", "rows"):
            if not SMALLEST <= getattr(self, name) <= GREATEST:
                raise ValueError(f"{name} must be from {SMALLEST:g} to {GREATEST:g} (got {getattr(self, name)!r})")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be above 0 and below 1 (got {self.delta!r})")
        if not self.rounds >= 1:
            raise ValueError(f"rounds must be at least 1 (got {self.rounds!r})")

    @property
    def multiplier(self) -> float:
        """The noise multiplier of every round."""
        if self.noise_multiplier is not None:
            return float(self.noise_multiplier)
        assert self.epsilon is not None
        return calibrate_noise(float(self.epsilon), self.rounds, self.delta)

    @property
    def scales(self) -> PublicScales:
        return PublicScales(self.x_scale, self.y_scale, self.rows)

    def spent(self, rounds: int) -> Spent:
        """What so many rounds have cost."""
        return Spent(epsilon(self.multiplier, rounds, self.delta), self.delta, rounds, self.multiplier)

    def generator(self, turn: int) -> Normals:
        """Where a round's noise comes from."""
        return SystemNormals() if self.seed is None else np.random.default_rng([self.seed, turn])


@dataclass(frozen=True)
class NoiseEnvelope:
    """How an answer leaves an agent, and how the sum of answers is read; both sides make it from the query.

    Attributes
    ----------
    layout : the answer as a vector.
    units : what each number is measured in.
    longest : no answer is longer, in these units; None where answers are not clipped.
    deviation : of the noise that each agent adds to each number, in its unit.
    least : the fewest agents whose noise is in a sum.
    """

    layout: AnswerLayout
    units: Array
    longest: float | None
    deviation: float
    least: int

    @classmethod
    def of(cls, query: Query, n_features: int, grouped: bool, privacy: Privacy | None, least: int) -> NoiseEnvelope:
        """The envelope of a query, for a sum that needs at least ``least`` agents.

        The noise of any ``least`` agents is enough: each adds its share of the variance.
        """
        layout = AnswerLayout.of(query, n_features, grouped)
        if privacy is None:
            return cls(layout, np.ones(len(layout)), None, 0.0, least)
        longest = privacy.clip * float(np.sqrt(max(len(layout), 1)))
        deviation = privacy.multiplier * longest / float(np.sqrt(least))
        return cls(layout, layout.units(privacy.scales), longest, deviation, least)

    @property
    def grid(self) -> float:
        """What noisy numbers are whole multiples of, in their units.

        Floating-point noise has last bits that tell what it was added to (Mironov, 2012). Rounded to a grid before
        they are added, the sum is that of the exact mechanism, rounded.
        """
        assert self.longest is not None
        least = float(np.finfo(np.float64).tiny)
        return float(2.0 ** np.floor(np.log2(max(self.deviation * FINER, self.longest * FINEST, least))))

    def privatise(self, sums: Sums, generator: Normals) -> Array:
        """An agent's answer as it leaves: clipped, and with the agent's share of the noise."""
        vector = self.layout.flatten(sums)
        if self.longest is None:
            return vector
        measured = vector / self.units
        if not np.all(np.isfinite(measured)):
            measured = np.zeros_like(measured)
        largest = max(float(np.abs(measured).max(initial=0.0)), 1e-300)
        length = largest * float(np.linalg.norm(measured / largest))  # squares of small numbers would be nothing
        measured *= min(1.0, self.longest / max(length, 1e-300))
        noise = self.deviation / self.grid * generator.standard_normal(len(measured))
        steps = np.trunc(measured / self.grid) + np.rint(noise)  # towards zero, so that no answer becomes longer
        return np.asarray(steps * self.grid * self.units)

    def errors(self, agents: int) -> Sums:
        """The deviation of the noise in each number of a sum over so many agents."""
        return self.layout.restore(self.units * self.deviation * float(np.sqrt(agents)))
