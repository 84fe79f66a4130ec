"""The minimax objective with a network inside, and the likelihood, as torch functions of flat parameters.

A discriminator psi is the log-ratio of two mixtures of the model's own kind (eq. psi_nonlinear): the paper's
gamma are heads on the model's phi, or each half has a network of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wmlr.neural.layout import ParameterLayout
from wmlr.numerics.kernels import LOG_2PI

Model = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Batch:
    """Rows as tensors, x and y standardised.

    Attributes
    ----------
    X, y : (n, d), (n,).
    weight : (n,), or None.
    unit : (n,) the number of the row's group, or None when each row stands alone.
    count : (units,) how often each unit counts.
    offsets, shares : standard-normal points at which E over p_theta is taken, (1 or n, Q), and what they weigh.
    """

    X: Tensor
    y: Tensor
    weight: Tensor | None
    unit: Tensor | None
    count: Tensor
    offsets: Tensor
    shares: Tensor


def log_mixture(y: Tensor, model: Model, batch: Batch) -> Tensor:
    """log sum_i weight_i N(y; mean_i, sigma_i^2) at y (n, ...): one value per unit."""
    means, log_sigma, log_weights = model
    shape = (means.shape[0],) + (1,) * (y.ndim - 1) + (means.shape[1],)
    gaps = (y.unsqueeze(-1) - means.view(shape)) * torch.exp(-log_sigma)
    densities = -0.5 * (gaps * gaps + LOG_2PI) - log_sigma
    if batch.unit is not None:
        if batch.weight is not None:
            densities = densities * batch.weight.view((-1,) + (1,) * (densities.ndim - 1))
        summed = densities.new_zeros((len(batch.count), *densities.shape[1:]))
        densities = torch.index_add(summed, 0, batch.unit, densities)
    return torch.logsumexp(densities + log_weights, dim=-1)


def log_likelihood(layout: ParameterLayout, theta: Tensor, batch: Batch) -> Tensor:
    """The sum over units of the log-likelihood."""
    return batch.count @ log_mixture(batch.y, layout.unpack(theta, batch.X), batch)


def gap(layout: ParameterLayout, theta: Tensor, gamma: Tensor, batch: Batch, discriminator: str) -> Tensor:
    """Sum of psi over the data less its expectation under p_theta; ``gamma`` is (2, size), its two halves.

    With discriminator "heads", gamma's halves differ from theta by their heads alone: they stand on the phi
    that theta's own w gives, and w is theta's to move. With "network" each half is a whole mixture.
    """
    means, log_sigma, log_weights = layout.unpack(theta, batch.X)
    if discriminator == "heads":
        log_sigma, log_weights = log_sigma.detach(), log_weights.detach()
        first, last = layout.edges[1:3]
        phi = layout.network.apply(theta[:first], batch.X)
        betas = gamma[:, first:last].view(2, layout.n_components, -1)
        halves = [(phi @ beta[:, :-1].T + beta[:, -1], log_sigma, log_weights) for beta in betas]
    else:
        halves = [layout.unpack(half, batch.X) for half in gamma]
    Y = means.unsqueeze(-1) + torch.exp(log_sigma)[:, None] * batch.offsets[:, None, :]
    shares = torch.exp(log_weights)[:, None] * batch.shares
    data = [log_mixture(batch.y, half, batch) for half in halves]
    expected = [torch.tensordot(log_mixture(Y, half, batch), shares, dims=2) for half in halves]
    value: Tensor = batch.count @ ((data[0] - expected[0]) - (data[1] - expected[1]))
    return value


def noise_likelihood(layout: ParameterLayout, theta: Tensor, batch: Batch) -> Tensor:
    """The log-likelihood as a function of sigma and the weights alone, for a game that leaves them out."""
    means, log_sigma, log_weights = layout.unpack(theta, batch.X)
    return batch.count @ log_mixture(batch.y, (means.detach(), log_sigma, log_weights), batch)
