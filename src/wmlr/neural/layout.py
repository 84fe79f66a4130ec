"""Where the parameters are in the one flat vector theta = (w, beta, log sigma, logits of the weights)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from wmlr.neural.network import Network
from wmlr.numerics.arrays import Array


@dataclass(frozen=True)
class ParameterLayout:
    """The model theta stands for, in units in which x and y have mean 0 and deviation 1.

    Attributes
    ----------
    network : phi(x; w).
    n_components : the number k of heads.
    shared_sigma : one noise deviation for all heads.
    sigma_known, equal_weights : what is held where it is.
    """

    network: Network
    n_components: int
    shared_sigma: bool = True
    sigma_known: bool = False
    equal_weights: bool = False

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Of w, beta, log sigma and the logits."""
        k = self.n_components
        return self.network.size, k * (self.network.outputs + 1), 1 if self.shared_sigma else k, k

    @cached_property
    def edges(self) -> tuple[int, ...]:
        return tuple(int(edge) for edge in np.cumsum((0, *self.sizes)))

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def free(self) -> Array:
        """1 where theta may move, 0 where it is held."""
        mask = np.ones(self.size)
        edges = self.edges
        if self.sigma_known:
            mask[edges[2] : edges[3]] = 0.0
        if self.equal_weights or self.n_components == 1:
            mask[edges[3] :] = 0.0
        return mask

    def heads(self) -> Array:
        """1 on beta, 0 elsewhere: what the paper's discriminator vectors stand beside."""
        mask = np.zeros(self.size)
        mask[self.edges[1] : self.edges[2]] = 1.0
        return mask

    def pack(self, w: Array, beta: Array, sigma: Array, weights: Array) -> Array:
        """theta from its parts; ``beta`` is (k, p + 1), the intercept last."""
        log_sigma = np.log(np.atleast_1d(sigma))[: self.sizes[2]]
        logits = np.log(np.maximum(weights, 1e-12))
        return np.concatenate([w, beta.ravel(), log_sigma, logits - logits.mean()])

    def parts(self, theta: Array) -> tuple[Array, Array, Array, Array]:
        """w, beta (k, p + 1), sigma (k,) and weights (k,)."""
        w, beta, log_sigma, logits = np.split(theta, self.edges[1:-1])
        k = self.n_components
        weights = np.exp(logits - logits.max())
        sigma = np.broadcast_to(np.exp(log_sigma), (k,)).copy()
        return w, beta.reshape(k, -1), sigma, weights / weights.sum()

    def unpack(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means (n, k), log sigma (k,) and log weights (k,) as tensors that theta's gradient flows through."""
        w, heads, log_sigma, logits = torch.split(theta, list(self.sizes))
        phi, beta = self.network.apply(w, X), heads.view(self.n_components, -1)
        means = phi @ beta[:, :-1].T + beta[:, -1]
        return means, log_sigma.expand(self.n_components), torch.log_softmax(logits, dim=0)
