"""How a fit moves weights that differ from row to row, by sums alone.

A gate's state is an array (..., r, k): r numbers for each component, of one point or of many candidates. Where weights
depend on columns these are coefficients in white coordinates of the columns over the units, the constant's last, and
nil for the last component: a multinomial logit whose responses are the posteriors. Newton's step is taken first. Where
it goes too far, the step from Boehning's bound on the curvature (1992), half of that of equal weights, cannot; in white
coordinates it needs no sums but the score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from wmlr.core.round import Steps
from wmlr.model.gates import Gate
from wmlr.model.mixture import Mixture
from wmlr.model.own_weights import LEAST, MOST, likeliest_prior
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import white_frame
from wmlr.statistics.mixing import GateMoments, LogitGate, UnitGate
from wmlr.statistics.own_weights import GroupGate

LONGEST = 2.0  # of a step: logits of columns one deviation from their means change by no more
LARGEST = 60.0  # coefficient: where columns tell components apart without a doubt, the likeliest is infinite
LONGEST_PRIOR = 2.0  # by so much a step may change the logarithm of the law of groups' weights
FIRST_AMOUNT = 5.0  # rows that the groups' law is worth in the beginning: weights differ, and hold each other
HOLD = 1e-9  # of the units, in place of curvature where weights are so certain that there is none


class GateFrame(Protocol):
    """What a fit must know of a gate whose weights differ from row to row.

    Where it is not ``is_searched``, the search for the likeliest maximum takes all rows to have the same weights.
    """

    @property
    def is_searched(self) -> bool: ...

    def start(self, weights: Array) -> Array:
        """The state that gives all units the weights (..., k)."""

    def query(self, state: Array) -> UnitGate:
        """The gate as queries have it."""

    def step(self, state: Array, sums: Sums, safe: bool = False) -> Array:
        """The state after a step; a safe one never lowers the likelihood."""

    def move(self, state: Array, step: Array) -> Array:
        """The state after a given step in all that is free of it, component after component."""

    def clip(self, state: Array) -> Array:
        """A state within bounds."""

    def impose(self, mixture: Mixture, state: Array) -> Mixture:
        """A mixture with the weights of a state (r, k)."""


@dataclass(frozen=True)
class LogitFrame:
    """Weights that depend on columns; ``basis`` as in :class:`LogitGate`."""

    basis: Array
    is_searched: ClassVar[bool] = True

    def start(self, weights: Array) -> Array:
        logs = np.log(np.maximum(weights, 1e-300))
        state = np.zeros((*weights.shape[:-1], self.basis.shape[1], weights.shape[-1]))
        state[..., -1, :] = logs - logs[..., -1:]
        return self.clip(state)

    def query(self, state: Array) -> LogitGate:
        return LogitGate(self.basis, state)

    def step(self, state: Array, sums: Sums, safe: bool = False) -> Array:
        score, units = sums["gate_score"], np.maximum(sums["units"].sum(axis=-1), 1.0)
        if safe:
            slopes = _by_component(score, state) * (2.0 / units)
            return _limit_step(state, slopes + slopes.sum(axis=-1, keepdims=True))
        matrix = sums["gate_information"] + (HOLD * units)[..., None, None] * np.eye(score.shape[-1])
        return self.move(state, np.linalg.solve(matrix, score[..., None])[..., 0])

    def move(self, state: Array, step: Array) -> Array:
        return self.clip(_limit_step(state, _by_component(step, state)))

    def clip(self, state: Array) -> Array:
        return np.clip(state, -LARGEST, LARGEST)

    def impose(self, mixture: Mixture, state: Array) -> Mixture:
        return replace(mixture, gate=np.ascontiguousarray((self.basis @ state).T))


@dataclass(frozen=True)
class GatePoint:
    """A gate's state (r, k) with the sums found there."""

    frame: GateFrame
    state: Array
    sums: Sums

    @property
    def query(self) -> UnitGate:
        return self.frame.query(self.state)

    def step(self, safe: bool) -> Array:
        return self.frame.step(self.state, self.sums, safe)

    @property
    def complete(self) -> Array:
        """What the curvature would be, were the components known."""
        information = self.sums["gate_information"]
        return np.asarray(information + HOLD * float(self.sums["units"].sum()) * np.eye(len(information)))

    def between(self, other: Array, share: float) -> Array:
        """The state a share of the way to another."""
        return self.state + share * (other - self.state)


def weight_slopes(weights: Array, information: Array | None = None, units: float = 1.0) -> Array:
    """(k, (k - 1) r): derivatives of the components' mean weights in the numbers of the first k-1 logits.

    Parameters
    ----------
    weights : (k,), of all units alike, or their means.
    information : where they depend on columns, what the logits' information would be, were the components known, for
        all ``units``; the last number of a logit is its constant, so that its rows hold the derivatives.
    """
    k = len(weights)
    if information is None or k == 1:
        return np.asarray(weights[:, None] * (np.eye(k) - weights)[:, :-1])
    size = len(information) // (k - 1)
    first = information[size - 1 :: size] / units
    return np.vstack([first, -first.sum(axis=0)])


def gate_basis(gate: Gate) -> Steps[Array | None]:
    """The basis of white coordinates of the columns that weights depend on; None where they depend on none."""
    columns = len(gate.columns)
    if not columns:
        return None
    sums = yield GateMoments(columns)
    nothing = {"xy": np.zeros(columns + 1), "yy": np.array(0.0), "y": np.array(0.0)}
    counts = {"units": sums["weight"], "groups": np.array(0.0)}
    return white_frame({**sums, **nothing, **counts}, True).basis


def gate_frame(gate: Gate) -> Steps[GateFrame | None]:
    """What a fit must know of a gate; None where all rows have the same weights."""
    if gate.own:
        return GroupFrame()
    basis = yield from gate_basis(gate)
    return None if basis is None else LogitFrame(basis)


@dataclass(frozen=True)
class GroupFrame:
    """Weights of each group's own; the state (1, k) are logarithms of the Dirichlet law that all groups share."""

    is_searched: ClassVar[bool] = False

    def start(self, weights: Array) -> Array:
        return self.clip(np.log(FIRST_AMOUNT * np.maximum(weights, 1e-300))[..., None, :])

    def query(self, state: Array) -> GroupGate:
        return GroupGate(np.exp(state[0]))

    def step(self, state: Array, sums: Sums, safe: bool = False) -> Array:
        """EM's step, or one as many times as long as the law says more of a group than its own rows do.

        Groups that hardly differ have a law that grows without bound, and EM's steps there become ever shorter.
        """
        groups = max(float(sums["groups"]), 1.0)
        before = np.exp(state[0])
        step = np.log(likeliest_prior(before, sums["group_log_weights"] / groups)) - state[0]
        if not safe:
            longest = LONGEST_PRIOR / max(float(np.abs(step).max()), 1e-300)
            step = step * max(1.0, min(1.0 + before.sum() * groups / max(float(sums["units"].sum()), 1.0), longest))
        return self.clip(state + step)

    def move(self, state: Array, step: Array) -> Array:
        return state

    def clip(self, state: Array) -> Array:
        return np.clip(state, np.log(LEAST), np.log(MOST))

    def impose(self, mixture: Mixture, state: Array) -> Mixture:
        prior = np.exp(state[0])
        return replace(mixture, prior=prior, weights=prior / prior.sum())


def _by_component(values: Array, state: Array) -> Array:
    """(..., r, k - 1) from what stands component after component."""
    r, k = state.shape[-2:]
    return np.swapaxes(values.reshape(*values.shape[:-1], k - 1, r), -1, -2)


def _limit_step(state: Array, step: Array) -> Array:
    length = np.sqrt((step**2).sum(axis=(-2, -1), keepdims=True))
    moved = state.copy()
    moved[..., :-1] += step * np.minimum(1.0, LONGEST / np.maximum(length, 1e-300))
    return moved
