"""Climbing: all candidates a few EM steps, the better ones further, the best to their maxima."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Steps
from wmlr.methods.search.effort import Plan
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population
from wmlr.model.gates import LEAST_WEIGHT
from wmlr.numerics.arrays import Array, Integers

MOST_STEPS = 600  # of EM: what has not settled by then is taken as it stands
STILL = 5e-4  # nats by which one EM step changes the likelihood; with a ridge it may fall
SETTLED = 2e-3  # nats gained by three EM steps, twice in succession
FEW_STEPS = 3  # where rounds are limited: the climb on all rows does the rest
TRIED_STEPS = 15  # of EM before a candidate can be hopeless
HOPELESS = 60.0  # times what three steps gain: a candidate that lies so far below the lowest known maximum is left
LONGEST = 64.0  # an extrapolation goes at most this many EM steps ahead


def run(landscape: Landscape, candidates: Population, iterations: int) -> Steps[Population]:
    """So many EM steps of every candidate, fewer where none gains any more."""
    for _ in range(iterations):
        before = candidates.value
        candidates = yield from landscape.step(candidates)
        if np.all(np.abs(candidates.value - before) < STILL):
            break
    return candidates


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
                candidates = candidates.take(~candidates.near(known))
            count = int(np.ceil(share * sizes.max())) if share <= 1 else int(share)
            candidates = candidates.distinct().best_of_each(count)
        if not len(candidates):
            break
        candidates = yield from run(landscape.part(part), candidates, iterations)
    return candidates


def converge(
    landscape: Landscape,
    candidates: Population,
    rounds: int | None = None,
    settled: float = SETTLED,
    known: Population | None = None,
) -> Steps[Population]:
    """Every candidate to its maximum, by EM with steps extrapolated where that gains; less far where rounds are few.

    The extrapolation is SQUAREM's (Varadhan and Roland, 2008), judged for each candidate by its own likelihood. Where
    maxima are ``known``, candidates that come near one of their own lineage are left out, and so are those that would
    take too long to come as high as its lowest.
    """
    done = np.zeros(len(candidates), dtype=bool)
    left = np.zeros(len(candidates), dtype=bool)
    calm = np.zeros(len(candidates), dtype=np.int64)
    steps = 0
    most = MOST_STEPS if rounds is None else FEW_STEPS
    while steps < most and not done.all():
        going = np.flatnonzero(~done)
        first = candidates.take(going)
        second = yield from landscape.step(first)
        third = yield from landscape.step(second)
        ahead = _extrapolate(landscape, first, second, third)
        leap = yield from landscape.step(ahead)
        steps += 3
        before = landscape.climbed(second.value, first, first)
        plain = landscape.climbed(third.value, second, first)
        leapt = landscape.climbed(leap.value, ahead, first)
        fell = ~(leapt >= plain)
        reached = _choose(fell, third, leap)
        gain = np.where(fell, plain, leapt) - before
        candidates = _place(candidates, going, reached)
        calm[going] = np.where(gain < settled, calm[going] + 1, 0)
        done[going[calm[going] >= 2]] = True
        if known is not None:
            left[going] = reached.near(known)
            if steps >= TRIED_STEPS:
                left[going] |= known.lowest()[reached.lineage] - reached.value > HOPELESS * gain
            done |= left
    return candidates.take(~left)


def _extrapolate(landscape: Landscape, first: Population, second: Population, third: Population) -> Population:
    packed = [_pack(one) for one in (first, second, third)]
    step, bend = packed[1] - packed[0], packed[2] - 2.0 * packed[1] + packed[0]
    length = np.sqrt((step**2).sum(axis=1) / np.maximum((bend**2).sum(axis=1), 1e-300))
    length = np.clip(length, 1.0, LONGEST)[:, None]
    return _unpack(landscape, packed[0] + 2.0 * length * step + length**2 * bend, first)


def _pack(candidates: Population) -> Array:
    flat = candidates.coef.reshape(len(candidates), -1)
    return np.concatenate([flat, np.log(candidates.weights), np.log(candidates.s2)], axis=1)


def _unpack(landscape: Landscape, packed: Array, like: Population) -> Population:
    s, k, q = like.coef.shape
    logs = packed[:, k * q : k * q + k]
    weights = np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), np.log(LEAST_WEIGHT)))
    largest = np.log(1e3 * landscape.common)
    s2 = np.exp(np.clip(packed[:, k * q + k :], np.log(landscape.floor), max(largest, np.log(landscape.floor))))
    return replace(
        like,
        coef=packed[:, : k * q].reshape(s, k, q),
        weights=weights / weights.sum(axis=1, keepdims=True),
        s2=like.s2 if landscape.task.sigma is not None else s2,
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
    )


def _place(all_of: Population, places: Integers, some: Population) -> Population:
    coef, weights, s2, value = all_of.coef.copy(), all_of.weights.copy(), all_of.s2.copy(), all_of.value.copy()
    coef[places], weights[places], s2[places] = some.coef, some.weights, some.s2
    value[places] = some.value
    return replace(all_of, coef=coef, weights=weights, s2=s2, value=value)
