"""What a training step asks of those who hold rows: gradients and likelihoods, as sums over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmlr.core.query import Kind, Part, Parts, Query, Wrapper, unit
from wmlr.core.round import Rows, Sampled
from wmlr.features.maps import Phi
from wmlr.neural import objective
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.objective import Batch
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.expectations import Drawn, GaussHermite

Expectation = GaussHermite | Drawn
NONE = GaussHermite(1)
Own = dict[str, Tensor]


@dataclass(frozen=True)
class Units:
    """What x and y are measured in: (x - centre) / scale, (y - mean) / deviation."""

    centre: Array
    scale: Array
    mean: float
    deviation: float

    def batch(self, layout: ParameterLayout, rows: Rows, expectation: Expectation = NONE) -> Batch:
        """Rows as tensors in these units."""
        network = layout.network
        unit = None
        if rows.starts is not None:
            sizes = np.diff(np.append(rows.starts, len(rows)))
            unit = torch.as_tensor(np.repeat(np.arange(len(sizes)), sizes), device=network.device)
        offsets, shares = expectation.offsets(rows.index, len(rows))
        return Batch(
            X=network.tensor((rows.X - self.centre) / self.scale),
            y=network.tensor((rows.y - self.mean) / self.deviation),
            weight=None if rows.weight is None else network.tensor(rows.weight),
            unit=unit,
            count=network.tensor(kernels.unit_counts(len(rows), rows.weight, rows.starts)),
            offsets=network.tensor(offsets),
            shares=network.tensor(shares),
        )


@dataclass(frozen=True)
class Score(Query):
    """The log-likelihood at theta, and its gradient: what gradient EM climbs (Fisher's identity).

    ``gram`` adds sum phi phi', the intercept last: the metric in which the heads take the refreshed step.
    """

    layout: ParameterLayout
    units: Units
    theta: Array
    gram: bool = False

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = {
            "score": Part(self.theta.shape, unit()),
            "log_likelihood": Part((), unit()),
            "units": Part((), unit(), Kind.UNITS),
        }
        if self.gram:
            order = self.layout.network.outputs + 1
            parts |= {"gram": Part((order, order), unit(), Kind.GRAM), "weight": Part((), unit(), Kind.COUNT)}
        return parts

    @property
    def state(self) -> dict[str, Array]:
        """What local steps change."""
        return {"change": self.theta}

    def batch(self, rows: Rows) -> Batch:
        """The rows as torch has them."""
        return self.units.batch(self.layout, rows)

    def ascent(self, at: Own, batch: Batch, units: Tensor) -> Own:
        """The directions of local steps at a state, per unit."""
        slope = torch.func.grad(lambda theta: objective.log_likelihood(self.layout, theta, batch) / units)
        return {"change": slope(at["change"])}

    def mean_slopes(self, sums: Sums) -> tuple[Array, Array | None]:
        """The same of all rows, from their sums."""
        return sums["score"] / float(sums["units"]), None

    def answer(self, rows: Rows) -> Sums:
        layout = self.layout
        batch = self.batch(rows)
        theta = layout.network.tensor(self.theta).requires_grad_()
        value = objective.log_likelihood(layout, theta, batch)
        (slope,) = torch.autograd.grad(value, theta)
        sums = {"score": plain(slope), "log_likelihood": plain(value), "units": plain(batch.count.sum())}
        if self.gram:
            with torch.no_grad():
                phi = layout.network.apply(theta[: layout.edges[1]], batch.X)
            weight = rows.weight if rows.weight is None else np.asarray(rows.weight)
            sums["gram"] = kernels.gram(plain(phi), weight, intercept=True)
            sums["weight"] = np.array(float(len(rows) if weight is None else weight.sum()))
        return sums


@dataclass(frozen=True)
class NetworkMinimax(Query):
    """Data part less model part of the minimax objective at (theta, gamma), and its gradients in both.

    With discriminator "heads", sigma and the weights are in neither player's hands: in their place the
    gradient in theta is that of minus the log-likelihood.
    """

    layout: ParameterLayout
    units: Units
    theta: Array
    gamma: Array
    expectation: Expectation
    discriminator: str = "network"

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "theta": Part(self.theta.shape, unit()),
            "gamma": Part(self.gamma.shape, unit()),
            "value": Part((), unit()),
            "log_likelihood": Part((), unit()),
            "units": Part((), unit(), Kind.UNITS),
        }

    @property
    def state(self) -> dict[str, Array]:
        return {"change": self.theta, "gamma_change": self.gamma}

    def batch(self, rows: Rows) -> Batch:
        return self.units.batch(self.layout, rows, self.expectation)

    def ascent(self, at: Own, batch: Batch, units: Tensor) -> Own:
        def game_value(theta: Tensor, gamma: Tensor) -> Tensor:
            value = objective.gap(self.layout, theta, gamma, batch, self.discriminator)
            if self.discriminator == "heads":
                value = value - objective.noise_likelihood(self.layout, theta, batch)
            return value / units

        down, up = torch.func.grad(game_value, argnums=(0, 1))(at["change"], at["gamma_change"])
        return {"change": -down, "gamma_change": up}

    def mean_slopes(self, sums: Sums) -> tuple[Array, Array | None]:
        units = float(sums["units"])
        return -sums["theta"] / units, sums["gamma"] / units

    def answer(self, rows: Rows) -> Sums:
        layout = self.layout
        batch = self.batch(rows)
        theta = layout.network.tensor(self.theta).requires_grad_()
        gamma = layout.network.tensor(self.gamma).requires_grad_()
        value = objective.gap(layout, theta, gamma, batch, self.discriminator)
        with torch.set_grad_enabled(self.discriminator == "heads"):
            likelihood = objective.noise_likelihood(layout, theta, batch)
        game_value = value - likelihood if self.discriminator == "heads" else value
        slopes = torch.autograd.grad(game_value, (theta, gamma))
        return {
            "theta": plain(slopes[0]),
            "gamma": plain(slopes[1]),
            "value": plain(value),
            "log_likelihood": plain(likelihood),
            "units": plain(batch.count.sum()),
        }


@dataclass(frozen=True)
class Distilled(Query):
    """How far the heads' curves are from those of a mixture on a fixed phi, squared, and the slope down.

    ``coef`` is (p + 1, k), the intercept last, in the units of the standardised y.
    """

    layout: ParameterLayout
    units: Units
    theta: Array
    phi: Phi
    coef: Array

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "score": Part(self.theta.shape, unit()),
            "value": Part((), unit()),
            "weight": Part((), unit(), Kind.COUNT),
        }

    def answer(self, rows: Rows) -> Sums:
        network = self.layout.network
        batch = self.units.batch(self.layout, rows)
        theta = network.tensor(self.theta).requires_grad_()
        targets = network.tensor(kernels.forward(self.phi.transform(rows.X), self.coef))
        error = (self.layout.unpack(theta, batch.X)[0] - targets) ** 2
        value = -0.5 * (error.sum() if batch.weight is None else (batch.weight @ error).sum())
        (slope,) = torch.autograd.grad(value, theta)
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        return {"score": plain(slope), "value": plain(value), "weight": np.array(weight)}


@dataclass(frozen=True)
class Likelihood(Query):
    """The log-likelihood at theta alone."""

    layout: ParameterLayout
    units: Units
    theta: Array

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"log_likelihood": Part((), unit()), "weight": Part((), unit(), Kind.COUNT)}

    def answer(self, rows: Rows) -> Sums:
        batch = self.units.batch(self.layout, rows)
        with torch.no_grad():
            value = objective.log_likelihood(self.layout, self.layout.network.tensor(self.theta), batch)
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        return {"log_likelihood": plain(value), "weight": np.array(weight)}


@dataclass(frozen=True)
class Responses(Query):
    """The number of rows, the sum of y, and of its square about ``centre``."""

    centre: float = 0.0

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "weight": Part((), unit(), Kind.COUNT),
            "sum": Part((), unit(y=1)),
            "squares": Part((), unit(y=2), Kind.AMOUNT),
        }

    def answer(self, rows: Rows) -> Sums:
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        gaps = rows.y - self.centre
        sums = {"weight": weight.sum(), "sum": weight @ gaps, "squares": weight @ gaps**2}
        return {name: np.array(float(value)) for name, value in sums.items()}


@dataclass(frozen=True)
class Rest(Wrapper):
    """A query asked of the rows that ``Sampled`` with this share and seed leaves out."""

    query: Query
    share: float
    seed: int = 0

    chooses_rows = True

    def keeps(self, rows: Rows) -> NDArray[np.bool_] | None:
        return ~sample_mask(rows, self.share, self.seed)


def sample_mask(rows: Rows, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows ``Sampled`` with this share and seed takes."""
    if share <= 0 or not len(rows):
        return np.zeros(len(rows), dtype=bool)
    kept = Sampled(Responses(), share, seed).keeps(rows)
    return np.ones(len(rows), dtype=bool) if kept is None else kept


def plain(value: Any) -> Array:
    """A tensor as an array of doubles."""
    return np.asarray(value.detach().cpu().numpy(), dtype=np.float64)
