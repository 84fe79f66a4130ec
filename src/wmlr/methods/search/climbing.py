"""Climbing: all candidates a few EM steps, the better ones further, the best to their maxima."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Steps
from wmlr.methods.search.effort import Plan
from wmlr.methods.search.landscape import LONGEST_LEAP, WIDEST, Landscape
from wmlr.methods.search.population import SAME_PLACE, Population, join
from wmlr.model.gates import LEAST_WEIGHT
from wmlr.numerics.arrays import Array
from wmlr.statistics.climbs import ClimbPlan

MOST_STEPS = 600  # of EM: what has not settled by then is taken as it stands
STILL_GAIN = 5e-4  # nats by which one EM step changes the likelihood; with a ridge it may fall
SETTLED_GAIN = 2e-3  # nats gained by three EM steps
CALM = 2  # times in succession: then a candidate is at its maximum
FEW_STEPS = 3  # where rounds are limited: the climb on all rows does the rest
TRIED_STEPS = 6  # of EM before a candidate can be hopeless
HOPELESS = 60.0  # times what three steps gain: a candidate that lies so far below the lowest known maximum is left


def run_em(landscape: Landscape, candidates: Population, iterations: int) -> Steps[Population]:
    """Take so many EM steps from every candidate, fewer where none gains any more."""
    climbed, candidates = yield from landscape.climb(landscape.with_gate(candidates), ClimbPlan(iterations, 0.0))
    for _ in range(iterations if len(candidates) else 0):
        before = candidates.value
        candidates = yield from landscape.step(candidates)
        if np.all(np.abs(candidates.value - before) < STILL_GAIN):
            break
    return join(climbed, candidates)


def halve(
    landscape: Landscape, candidates: Population, plan: Plan, known: Population | None = None
) -> Steps[Population]:
    """Successive halving: for each (share, iterations, part) of the plan that share of each lineage goes on so far.

    Shares above one are numbers of candidates; ``part`` is that of the rows. What stands at a known maximum of its
    lineage goes no further.
    """
    sizes = np.bincount(candidates.lineage)
    for share, iterations, part in plan:
        if np.isfinite(candidates.value).any():
            if known is not None:
                candidates = candidates.take(~candidates.near(known, landscape.task.exchange, landscape.spread))
            count = int(np.ceil(share * sizes.max())) if share <= 1 else int(share)
            candidates = candidates.distinct().best_of_each(count)
        if not len(candidates):
            break
        candidates = yield from run_em(landscape.part(part), candidates, iterations)
    return candidates


def converge(
    landscape: Landscape, candidates: Population, rounds: int | None = None, settled: float = SETTLED_GAIN
) -> Steps[Population]:
    """Climb from every candidate to its maximum by accelerated EM; only a few steps where rounds are limited."""
    most = MOST_STEPS if rounds is None else FEW_STEPS
    return (yield from settle(landscape, candidates, most=most, settled=settled))


def settle(
    landscape: Landscape,
    candidates: Population,
    known: Population | None = None,
    plain: int = 0,
    most: int = MOST_STEPS,
    settled: float = SETTLED_GAIN,
) -> Steps[Population]:
    """Climb from candidates to their maxima: by some ``plain`` steps of EM first, then by extrapolated ones.

    The extrapolation is SQUAREM's (Varadhan and Roland, 2008), judged for each candidate by its own likelihood. Where
    maxima are ``known``, candidates that come near one of their own lineage are left out, and so are those that would
    take too long to come as high as its lowest.
    """
    plan = ClimbPlan(plain, most, settled, CALM, SAME_PLACE**2, TRIED_STEPS, HOPELESS)
    climbed, candidates = yield from landscape.climb(landscape.with_gate(candidates), plan, known)
    candidates = yield from run_em(replace(landscape, by_rounds=True), candidates, plain)
    if known is not None and plain:
        candidates = candidates.take(~candidates.near(known, landscape.task.exchange, landscape.spread))
    return join(climbed, (yield from _settle_by_rounds(landscape, candidates, known, most, settled)))


def _settle_by_rounds(
    landscape: Landscape, first: Population, known: Population | None, most: int, settled: float
) -> Steps[Population]:
    ended = [first.take(np.zeros(0, dtype=np.int64))]
    steps, calm = 0, np.zeros(len(first), dtype=np.int64)
    while len(first):
        second = yield from landscape.step(first)
        third = yield from landscape.step(second)
        ahead = _extrapolate(landscape, first, second, third)
        leap = yield from landscape.step(ahead)
        before = landscape.em_objective(second.value, first, first)
        plain = landscape.em_objective(third.value, second, first)
        leapt = landscape.em_objective(leap.value, ahead, first)
        fell = ~(leapt >= plain)
        first = _choose(fell, third, leap)
        gain = np.where(fell, plain, leapt) - before
        steps += 3
        calm = np.where(gain < settled, calm + 1, 0)
        done = (calm >= CALM) | (steps >= most)
        left = np.zeros(len(first), dtype=bool)
        if known is not None:
            left = first.near(known, landscape.task.exchange, landscape.spread)
            left |= (steps >= TRIED_STEPS) & (known.lowest()[first.lineage] - first.value > HOPELESS * gain)
        if np.any(done | left):
            ended.append(first.take(done & ~left))
            first, calm = first.take(~(done | left)), calm[~(done | left)]
    return join(*ended)


def _extrapolate(landscape: Landscape, first: Population, second: Population, third: Population) -> Population:
    packed = [_pack(landscape, one) for one in (first, second, third)]
    step, bend = packed[1] - packed[0], packed[2] - 2.0 * packed[1] + packed[0]
    size = (step**2).sum(axis=1)
    least = np.maximum(size / (2.0 * LONGEST_LEAP) ** 2, 1e-300)  # below it the length is cut anyway
    length = np.sqrt(size / np.maximum((bend**2).sum(axis=1), least))
    length = np.clip(length, 1.0, LONGEST_LEAP)[:, None]
    return _unpack(landscape, packed[0] + 2.0 * length * step + length**2 * bend, first)


def _pack(landscape: Landscape, candidates: Population) -> Array:
    flat, gate = (values.reshape(len(candidates), -1) for values in (candidates.coef, candidates.gate))
    flat = flat / np.sqrt(landscape.spread)
    return np.concatenate([flat, np.log(candidates.weights), np.log(candidates.s2), gate], axis=1)


def _unpack(landscape: Landscape, packed: Array, like: Population) -> Population:
    s, k, q = like.coef.shape
    logs = packed[:, k * q : k * q + k]
    weights = np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), np.log(LEAST_WEIGHT)))
    largest = np.log(WIDEST * landscape.common)
    variances, gate = packed[:, k * q + k : k * (q + 2)], packed[:, k * (q + 2) :]
    s2 = np.exp(np.clip(variances, np.log(landscape.floor), max(largest, np.log(landscape.floor))))
    return replace(
        like,
        coef=np.sqrt(landscape.spread) * packed[:, : k * q].reshape(s, k, q),
        weights=weights / weights.sum(axis=1, keepdims=True),
        s2=like.s2 if landscape.task.sigma is not None else s2,
        gate=landscape.clip_gate(gate.reshape(like.gate.shape)),
    )


def _choose(first: NDArray[np.bool_], one: Population, other: Population) -> Population:
    def pick(a: Array, b: Array) -> Array:
        return np.where(first.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return replace(
        one,
        coef=pick(one.coef, other.coef),
        weights=pick(one.weights, other.weights),
        s2=pick(one.s2, other.s2),
        value=pick(one.value, other.value),
        gate=pick(one.gate, other.gate),
    )
