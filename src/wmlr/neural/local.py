"""Several training steps on each agent's own rows, averaged: what federated averaging asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from wmlr.core.query import Part, Parts, Query, unit
from wmlr.core.round import Rows
from wmlr.neural.objective import Batch
from wmlr.neural.queries import NetworkMinimax, Own, Score, plain
from wmlr.numerics.arrays import Array, Integers, Sums


@dataclass(frozen=True)
class LocalTraining(Query):
    """Each agent takes ``steps`` steps from the broadcast state on its own rows.

    The answer has the sums of ``query`` at that state, and ``change``: how far theta went on the agent, times
    its units, so that the sums average; with a game also ``gamma_change``.

    Attributes
    ----------
    query : the likelihood or the game at the state that is sent out.
    steps : how many steps.
    rate : (size,) the step of each entry of theta along its gradient, zero where theta is held.
    ascent : the step of gamma; pull : how strongly it is drawn to ``reference`` (2, size).
    mask : (size,) 1 where gamma may move.
    mean, gamma_mean : the mean slopes of all agents at that state. They replace each agent's own there, so that agents
        differ by how slopes change along their way and not by the slopes themselves, as control variates do.
    """

    query: Score | NetworkMinimax
    steps: int
    rate: Array
    ascent: float = 0.0
    pull: float = 0.0
    reference: Array | None = None
    mask: Array | None = None
    mean: Array | None = None
    gamma_mean: Array | None = None

    of_each_agent = True

    def children(self) -> tuple[Query, ...]:
        return (self.query,)

    def parts(self, columns: int, grouped: bool) -> Parts:
        changes = {name: Part(value.shape, unit()) for name, value in self.query.state.items()}
        return {**self.query.parts(columns, grouped), **changes}

    def answer(self, rows: Rows) -> Sums:
        """All rows as those of one agent."""
        return self.answer_each(rows, np.zeros(1, dtype=np.int64))

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        """The rows of several agents, each beginning where ``firsts`` says; all agents step side by side."""
        sums = self.query.answer(rows)
        if not len(rows):
            return sums | {name: np.zeros_like(value) for name, value in self.query.state.items()}
        network = self.query.layout.network
        own = self._pad(rows, firsts)
        state = self.query.state.items()
        first = {name: network.tensor(value).expand(len(firsts), *value.shape) for name, value in state}
        at = dict(first)
        slopes = torch.func.vmap(self._slopes)
        slope = slopes(at, own)
        shift: Own = {}
        if self.mean is not None:
            means = {"change": self.mean, "gamma_change": self.gamma_mean}
            shift = {name: network.tensor(means[name]) - value for name, value in slope.items()}
        for left in reversed(range(self.steps)):
            at = self._step(at, {name: value + shift.get(name, 0.0) for name, value in slope.items()})
            slope = slopes(at, own) if left else slope
        units = own["units"]
        return sums | {name: plain(torch.tensordot(units, at[name] - first[name], dims=1)) for name in at}

    def _step(self, at: Own, slopes: Own) -> Own:
        tensor = self.query.layout.network.tensor
        after = {"change": at["change"] + tensor(self.rate) * slopes["change"]}
        if "gamma_change" in at:
            gamma = at["gamma_change"]
            drawn = slopes["gamma_change"] - self.pull * (gamma - tensor(self.reference))
            after["gamma_change"] = gamma + self.ascent * tensor(self.mask) * drawn
        return after

    def _slopes(self, at: Own, own: Own) -> Own:
        """One agent's mean gradients, up for theta and up for gamma."""
        parts = {name: own[name] for name in ("X", "y", "weight", "count", "offsets", "shares")}
        return self.query.ascent(at, Batch(unit=own.get("unit"), **parts), own["units"])

    def _pad(self, rows: Rows, firsts: Integers) -> Own:
        """Each agent's rows as a line of one array; what is missing at its end weighs nothing."""
        network, whole = self.query.layout.network, self.query.batch(rows)
        sizes = np.diff(np.append(firsts, len(rows)))
        within = np.arange(sizes.max())
        at = torch.as_tensor(np.minimum(firsts[:, None] + within, len(rows) - 1), device=network.device)
        weight = network.tensor(within < sizes[:, None])
        if whole.weight is not None:
            weight = weight * whole.weight[at]
        offsets = whole.offsets[at] if len(whole.offsets) > 1 else whole.offsets.expand(len(firsts), 1, -1)
        own = {"X": whole.X[at], "y": whole.y[at], "weight": weight, "offsets": offsets}
        own["shares"] = whole.shares.expand(len(firsts), -1)
        if rows.starts is None:
            return own | {"count": weight, "units": weight.sum(dim=1)}
        once = torch.ones_like(weight[:, :1])
        return own | {"unit": torch.zeros_like(at), "count": once, "units": once[:, 0]}
