"""A mixture density network (Bishop, 1994), for comparison: means, deviations and weights all depend on x."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from wmlr.neural.network import ResidualMLP
from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI

LEAST_LOG_SIGMA = -7.0


@dataclass(frozen=True)
class Recipe:
    """How to train it: as the mixtures it stands beside are."""

    k: int
    width: int
    depth: int
    outputs: int
    rate: float = 3e-3
    batch: int = 256
    epochs: int = 60
    trial: int = 15
    n_init: int = 4
    held: float = 0.1
    patience: int = 20
    decay: float = 0.05
    averaging: float = 3.0


class DensityNetwork(nn.Module):
    """The same phi, with three linear heads per component."""

    def __init__(self, inputs: int, recipe: Recipe) -> None:
        super().__init__()
        self.phi = ResidualMLP(inputs, recipe.width, recipe.depth, recipe.outputs)
        self.heads = nn.Linear(recipe.outputs, 3 * recipe.k)
        nn.init.uniform_(self.heads.bias[: recipe.k], -1.0, 1.0)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(y | x), one per row."""
        means, log_sigma, logits = self.heads(self.phi(x)).chunk(3, dim=1)
        log_sigma = log_sigma.clamp(LEAST_LOG_SIGMA, 2.0)
        gaps = (y[:, None] - means) * torch.exp(-log_sigma)
        joint = -0.5 * (gaps**2 + LOG_2PI) - log_sigma + torch.log_softmax(logits, dim=1)
        return torch.logsumexp(joint, dim=1)


def held_out_score(recipe: Recipe, X: Array, y: Array, X_test: Array, y_test: Array, seed: int) -> float:
    """Mean log-likelihood per test row of the network that held-out rows like most."""
    centre, scale, mean, deviation = X.mean(axis=0), X.std(axis=0), y.mean(), y.std()
    inside = torch.as_tensor((X - centre) / scale), torch.as_tensor((y - mean) / deviation)
    generator = np.random.default_rng(seed)
    places = generator.permutation(len(y))
    cut = round(recipe.held * len(y))
    held, train = (tuple(part[places[chosen]] for part in inside) for chosen in (slice(cut), slice(cut, None)))
    starts = []
    for number in range(recipe.n_init):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + number)
            network = DensityNetwork(X.shape[1], recipe).double()
        starts.append(_train(network, recipe, train, held, recipe.trial, False, generator))
    _, best = max(starts, key=lambda start: start[0])
    _, network = _train(best, recipe, train, held, recipe.epochs, True, generator)
    with torch.no_grad():
        rows = torch.as_tensor((X_test - centre) / scale), torch.as_tensor((y_test - mean) / deviation)
        return float(network(*rows).mean()) - float(np.log(deviation))


def _train(
    network: DensityNetwork,
    recipe: Recipe,
    train: tuple[Tensor, ...],
    held: tuple[Tensor, ...],
    epochs: int,
    fade: bool,
    generator: np.random.Generator,
) -> tuple[float, DensityNetwork]:
    """The averaged network after epochs of Adam, at its best on held-out rows, and its score there."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, betas=(0.9, 0.99), weight_decay=recipe.decay)
    steps = max(1, round(len(train[1]) / recipe.batch))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    average, best, since = copy.deepcopy(network), (-np.inf, copy.deepcopy(network)), 0
    turn = 0
    for _ in range(epochs):
        for chosen in np.array_split(generator.permutation(len(train[1])), steps):
            optimizer.zero_grad()
            (-network(*(part[chosen] for part in train)).mean()).backward()
            optimizer.step()
            if fade:
                schedule.step()
            memory = max(1 / (turn + 1), 1 / (1 + recipe.averaging * steps))
            turn += 1
            with torch.no_grad():
                for kept, now in zip(average.parameters(), network.parameters()):
                    kept.add_(now - kept, alpha=memory)
        with torch.no_grad():
            score = float(average(*held).mean())
        since += 1
        if score > best[0]:
            best, since = (score, copy.deepcopy(average)), 0
        if fade and since >= recipe.patience:
            break
    return best
