"""phi(x; w): a network whose weights are one flat array, so that they travel and add like any statistic."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from wmlr.numerics.arrays import Array

_own = threading.local()


class ResidualMLP(nn.Module):
    """``inputs`` numbers to ``outputs`` features: a linear layer, ``depth`` residual blocks, a bounded last layer.

    The features are tanh of something, so |phi(x)| is at most sqrt(outputs): the bounded x of the theorems.
    """

    def __init__(self, inputs: int, width: int = 64, depth: int = 2, outputs: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        with torch.no_grad():
            self.enter.weight *= 2.0
            self.enter.bias.uniform_(-2.0, 2.0)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.leave = nn.Linear(width, outputs)

    @staticmethod
    def count_parameters(inputs: int, width: int, depth: int, outputs: int) -> int:
        """How many weights such a network has, without making it."""
        return (inputs + 1) * width + 2 * depth * (width + 1) * width + (width + 1) * outputs

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.silu(self.enter(x))
        for block in self.blocks:
            h = nn.functional.silu(h + block(h))
        return torch.tanh(self.leave(h))


@dataclass(frozen=True)
class Network:
    """What phi is made of: the sizes of a :class:`ResidualMLP`, or a module of the user's own.

    A module of one's own stays in this process: it is no message, and a file holds only its weights.
    """

    inputs: int
    width: int = 64
    depth: int = 2
    outputs: int = 32
    module: nn.Module | None = field(default=None, compare=False)
    dtype: str = "float64"
    device: str = "cpu"

    def fresh(self, seed: int) -> nn.Module:
        """A module with new weights by the seed; the global generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.module is None:
                return self._on_device(ResidualMLP(self.inputs, self.width, self.depth, self.outputs))
            made = copy.deepcopy(self.module)
            for part in made.modules():
                reset: Any = getattr(part, "reset_parameters", None)
                if callable(reset):
                    reset()
        return self._on_device(made)

    def thread_module(self) -> nn.Module:
        """This thread's own copy, into which weights are put for the length of a call."""
        if getattr(_own, "network", None) != self or getattr(_own, "source", None) is not self.module:
            made = self.fresh(0) if self.module is None else self._on_device(copy.deepcopy(self.module))
            _own.network, _own.source, _own.module = self, self.module, made
        module: nn.Module = _own.module
        return module

    def apply(self, weights: Tensor, X: Tensor) -> Tensor:
        """phi(X; w) for flat weights."""
        arrays = torch.split(weights, [shape.numel() for shape in self.shapes.values()])
        pieces = {name: piece.view(shape) for piece, (name, shape) in zip(arrays, self.shapes.items())}
        phi: Tensor = functional_call(self.thread_module(), pieces, (X,))
        return phi

    def tensor(self, values: Any) -> Tensor:
        """An array as a tensor of this network's kind."""
        return torch.as_tensor(np.asarray(values, dtype=self.dtype), device=self.device)

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        """Of each array of weights, in the order in which they are laid flat."""
        return {name: parameter.shape for name, parameter in self.thread_module().named_parameters()}

    @property
    def size(self) -> int:
        """How many weights."""
        return sum(shape.numel() for shape in self.shapes.values())

    def _on_device(self, module: nn.Module) -> nn.Module:
        return module.to(device=self.device, dtype=getattr(torch, self.dtype)).eval()


def flat(module: nn.Module) -> Array:
    """A module's weights as one array."""
    parts = [parameter.detach().cpu().numpy().astype(np.float64).ravel() for parameter in module.parameters()]
    return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True)
class NetworkPhi:
    """phi(x; w) of standardised x, as a map that goes around a query."""

    network: Network
    weights: Array
    centre: Array
    scale: Array

    def transform(self, X: Any) -> Array:
        network = self.network
        with torch.no_grad():
            inside = network.tensor((X - self.centre) / self.scale)
            phi = network.apply(network.tensor(self.weights), inside)
        return np.ascontiguousarray(phi.cpu().numpy(), dtype=np.float64)

    def width(self, d: int) -> int:
        return self.network.outputs


def measure_module(module: nn.Module, inputs: int, dtype: str, device: str) -> Network:
    """A module of the user's own as a network, once it has shown how many features it makes."""
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        raise ValueError("phi keeps running statistics of its batches (BatchNorm): use LayerNorm")
    network = Network(inputs, 0, 0, 0, module, dtype, device)
    try:
        with torch.no_grad():
            shape = tuple(network.thread_module()(network.tensor(np.zeros((2, inputs)))).shape)
    except RuntimeError as error:
        raise ValueError(f"phi does not take {inputs} columns: {str(error).splitlines()[0]}") from None
    if len(shape) != 2 or shape[0] != 2:
        raise ValueError(f"phi must give one row of features per row (got shape {shape} for 2 rows)")
    return Network(inputs, 0, 0, int(shape[1]), module, dtype, device)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """PyTorch on so many threads, and as it was afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
