"""Rows that come in batches and are not kept: refreshed WMLR and EM one step at a time.

Each batch is asked once, for the score at the parameters that stand. The step is that of the full fit, S^-1 times
the score, with S the second moments of all rows that came so far, and shortened by (t + 2)^-0.65 at the t-th batch. The
iterates wander with their batches; their average, in which later ones count for more, is the estimate. Scores are in
residual form, so that a batch whose own second moments differ from S does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from wmlr.core.round import Steps, add, iteration_record
from wmlr.methods.general import constrain
from wmlr.methods.m_step import LEAST_MASS
from wmlr.methods.symmetric import LONGEST_STEP, information
from wmlr.methods.task import Task, mixture
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import ScaledFrame, scale_frame
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricResiduals

DECAY = 0.65  # of gains: between 1/2 and 1, as averages of stochastic steps need (Polyak and Juditsky)
LATER = 3.0  # weight of late iterates in the average, so that the start is forgotten
JITTER = 1e-9  # on the diagonal of a scaled Gram, whose first batches may lack directions
MOST_LINES = 1000  # lines of the history: a stream has no end


@dataclass(frozen=True)
class Iterate:
    """Coefficients (p, k) on the data's own scale ((p, 1) when symmetric), weights and variances (k,)."""

    coef: Array
    weights: Array
    s2: Array

    def towards(self, other: Iterate, gain: float) -> Iterate:
        """A part of the way to another."""
        return Iterate(
            self.coef + gain * (other.coef - self.coef),
            self.weights + gain * (other.weights - self.weights),
            self.s2 + gain * (other.s2 - self.s2),
        )


@dataclass(frozen=True)
class Stream:
    """Where a stream stands.

    Attributes
    ----------
    moments : the sums of :class:`Moments` over all rows that came, exactly.
    here : the iterate that steps.
    mean : the average of the iterates: the estimate.
    squares, mass, units : (k,), running means of r_i e_i^2, of r_i over rows and over units.
    across, along : running means of the information that the data hold on beta, when symmetric.
    log_likelihood : of all rows that came, each at the iterate that its batch met.
    history : a record for each of the last batches.
    batches : how many there were.
    moved : the gain in mean log-likelihood that the last move of the average promised.
    """

    moments: Sums
    here: Iterate
    mean: Iterate
    squares: Array
    mass: Array
    units: Array
    across: float
    along: float
    log_likelihood: float
    history: tuple[dict[str, float], ...] = ()
    batches: int = 0
    moved: float = 0.0

    def mixture(self, task: Task) -> Mixture:
        """The estimate."""
        if task.symmetric:
            return Mixture.symmetric_pair(self.mean.coef[:, 0], float(np.sqrt(self.mean.s2[0])))
        return mixture(self.mean.coef, self.mean.weights, self.mean.s2, task.intercept)


def begin_stream(task: Task, found: Mixture, moments: Sums, log_likelihood: float) -> Stream:
    """A stream that goes on from a mixture fitted to its first rows, whose moments are given."""
    coef = found.coef[:1].T if task.symmetric else found.coef.T
    if task.intercept:
        coef = np.vstack([coef, found.intercept])
    here = Iterate(coef, found.weights, found.sigma**2)
    squares = here.s2 if task.symmetric else found.weights * here.s2
    return Stream(moments, here, here, squares, found.weights, found.weights, 1.0, 1.0, log_likelihood)


def advance_stream(task: Task, stream: Stream, newton: bool) -> Steps[Stream]:
    """One batch: its moments are added, its score is asked for, and a step taken.

    ``newton`` takes the symmetric mixture's steps by the information that its rows hold; without it they are
    EM's. For k components both are S^-1 m_i / pi_i.
    """
    own = yield Moments(intercept=task.intercept)
    moments = add([stream.moments, own])
    geometry = Geometry.of(moments, task)
    seen, weight = float(moments["weight"]), float(own["weight"])
    gain = min(1.0, (seen / weight + 2.0) ** -DECAY)
    if task.symmetric:
        ahead, log_likelihood, slope = yield from _symmetric(task, stream, geometry, weight, gain, newton)
    else:
        ahead, log_likelihood, slope = yield from _general(task, stream, geometry, weight, gain)
    share = min(1.0, (LATER + 1.0) * weight / (seen + LATER * weight))
    mean = stream.mean.towards(ahead.here, share)
    record = iteration_record(stream.batches + 1, log_likelihood / weight, log_likelihood, slope, gain)
    return replace(
        ahead,
        moments=moments,
        mean=mean,
        log_likelihood=stream.log_likelihood + log_likelihood,
        history=(*stream.history, record)[-MOST_LINES:],
        batches=stream.batches + 1,
        moved=geometry.gain(mean.coef - stream.mean.coef, mean),
    )


@dataclass(frozen=True)
class Geometry:
    """The second moments S of all rows so far, as a scaled frame and what S + P is there."""

    frame: ScaledFrame
    gram: Array

    @classmethod
    def of(cls, moments: Sums, task: Task) -> Geometry:
        d = len(moments["xy"]) - int(task.intercept)
        second = moments["gram"]
        nothing = np.zeros(len(second))
        sums = moments | {
            "xx": np.diag(second)[:d],
            "x": second[:, -1],
            "xyy": nothing,
            "xxyy": nothing[:d],
            "groups": np.zeros(()),
        }
        frame = scale_frame(sums, task.intercept, task.ridge)
        centred = second[:d, :d] / frame.weight - np.outer(frame.means, frame.means)
        gram = np.eye(frame.dimension)
        gram[:d, :d] = centred * np.outer(frame.per, frame.per)
        gram[np.diag_indices(frame.dimension)] += frame.ridge
        return cls(frame, gram)

    def solve(self, right: Array) -> Array:
        """(S + P)^-1 times vectors; a trace of the identity is added where columns are collinear."""
        gram = self.gram.copy()
        gram[np.diag_indices(len(gram))] += JITTER
        return np.asarray(cho_solve(cho_factor(gram, lower=True), right))

    def score(self, sums: Array, weight: float, coef: Array) -> Array:
        """The penalised score in the frame, from its sum over a batch of so much weight."""
        return replace(self.frame, weight=weight).mean_of(sums) - self.frame.shrink(self.frame.inside(coef))

    def gain(self, step: Array, at: Iterate) -> float:
        """Half of step'S step / s2, over the components by their weights."""
        inner = self.frame.inside(step)
        squares = np.einsum("ri,rs,si->i", inner, self.gram, inner)
        return 0.5 * float(np.sum(squares / at.s2[: len(squares)] * at.weights[: len(squares)]))


def _symmetric(
    task: Task, stream: Stream, geometry: Geometry, weight: float, gain: float, newton: bool
) -> Steps[tuple[Stream, float, float]]:
    here, frame = stream.here, geometry.frame
    s2 = float(here.s2[0])
    sums = yield SymmetricResiduals(here.coef[:, 0], s2)
    b = frame.inside(here.coef[:, 0])
    m = geometry.score(sums["m"], weight, here.coef[:, 0])
    D = geometry.solve(m)
    q = float(sums["uu"]) / weight + float(b @ frame.shrink(b))
    found = information(sums, weight, q)
    part = gain if stream.batches else 1.0
    across = stream.across + part * (found[0] - stream.across)
    along = stream.along + part * (found[1] - stream.along)
    step = D
    if newton:
        step = D / across
        if q > 0:
            step = step + b * (float(b @ m) / q) * (1.0 / along - 1.0 / across)
    length = float(np.sqrt(step @ geometry.gram @ step))
    longest = LONGEST_STEP * frame.scale
    if length > longest:
        step = step * (longest / length)
    squares = stream.squares + gain * (float(sums["squares"]) / weight - stream.squares)
    variance = task.sigma**2 if task.sigma is not None else max(float(squares[0]), frame.floor)
    ahead = Iterate(here.coef + gain * frame.to_data(step)[:, None], here.weights, np.full(2, variance))
    slope = float(np.sqrt(max(float(m @ D), 0.0))) / s2
    return (
        replace(stream, here=ahead, squares=squares, across=across, along=along),
        float(sums["log_likelihood"]),
        slope,
    )


def _general(
    task: Task, stream: Stream, geometry: Geometry, weight: float, gain: float
) -> Steps[tuple[Stream, float, float]]:
    here, frame = stream.here, geometry.frame
    sums = yield MixtureScore(here.coef, np.log(np.maximum(here.weights, 1e-300)), here.s2)
    m = geometry.score(sums["score"], weight, here.coef)
    squares = stream.squares + gain * (sums["squares"] / weight - stream.squares)
    mass = stream.mass + gain * (sums["mass"] / weight - stream.mass)
    units = stream.units + gain * (sums["units"] / max(float(sums["units"].sum()), 1e-300) - stream.units)
    D = geometry.solve(m)
    slope = float(np.sqrt(max(float(np.sum(m * D / here.s2**2)), 0.0)))
    D = D / np.maximum(mass, LEAST_MASS) * (mass > LEAST_MASS)
    lengths = np.sqrt(np.einsum("ri,rs,si->i", D, geometry.gram, D))
    D = D * np.minimum(1.0, LONGEST_STEP * frame.scale / np.maximum(lengths, 1e-300))
    weights, s2 = constrain(task, frame, units, squares, mass)
    ahead = Iterate(here.coef + gain * frame.to_data(D), weights, s2)
    return (
        replace(stream, here=ahead, squares=squares, mass=mass, units=units),
        float(sums["log_likelihood"]),
        slope,
    )
