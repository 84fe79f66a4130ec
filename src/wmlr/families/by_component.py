"""A different family for each component, where they speak of the same kind of response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.numerics.arrays import Array, Beside


@dataclass(frozen=True)
class ComponentFamilies(Family):
    """The families of the components, in their order: along the last axis of every array.

    Noise goes with noise, counts with counts on the same scale of the predictor, and a point mass with counts.

    Attributes
    ----------
    members : one family per component.
    """

    members: tuple[Family, ...] = ()

    name = "by-component"
    one_law = False

    def __post_init__(self) -> None:
        lines = [one for one in self.members if one.has_predictor]
        if not lines:
            raise ValueError("at least one component must have a family with a predictor: not all are point masses")
        for one in self.members:
            if not one.one_law or one.outlying:
                raise ValueError(f"the family {one.name!r} cannot be one of several")
        if len({(one.linear, one.discrete, one.takes_trials, one.predictor_scale) for one in lines}) > 1:
            said = ", ".join(f"{one.name} ({one.predictor_scale})" for one in lines)
            raise ValueError(f"the components' families are not about the same kind of response: {said}")
        values = [one for one in self.members if not one.has_predictor]
        if values and not lines[0].discrete:
            raise ValueError(f"a point mass stands beside counts, and {lines[0].name!r} is no family of counts")
        if len(set(values)) < len(values):
            raise ValueError("two components are the same point mass: leave out one of them")
        flags = {
            "has_scale": any(one.has_scale for one in lines),
            "linear": lines[0].linear,
            "heavy_tails": any(one.heavy_tails for one in lines),
            "weights_alike": all(one.weights_alike for one in self.members),
            "smooth": all(one.smooth for one in lines),
            "discrete": lines[0].discrete,
            "dispersed": any(one.dispersed for one in lines),
            "takes_trials": lines[0].takes_trials,
        }
        for flag, value in flags.items():
            object.__setattr__(self, flag, value)

    @property
    def kinds(self) -> tuple[int, ...]:
        return tuple(self.members.index(one) for one in self.members)

    @property
    def scaleless(self) -> tuple[int, ...]:
        return tuple(j for j, one in enumerate(self.members) if not one.has_scale)

    @property
    def without_predictor(self) -> tuple[int, ...]:
        return tuple(j for j, one in enumerate(self.members) if not one.has_predictor)

    @property
    def _lead(self) -> Family:
        """The first family that has a predictor."""
        return next(one for one in self.members if one.has_predictor)

    @property
    def predictor_scale(self) -> str:
        return self._lead.predictor_scale

    def of_component(self, j: int) -> Family:
        return self.members[j]

    def permuted(self, order: NDArray[np.int64]) -> ComponentFamilies:
        return ComponentFamilies(tuple(self.members[j] for j in order.tolist()))

    def of_rows(self, beside: Beside) -> ComponentFamilies:
        return ComponentFamilies(tuple(one.of_rows(beside) for one in self.members))

    def _each(self, count: int) -> list[tuple[Family, list[int]]]:
        """The different families, each with its components."""
        if count != len(self.members):
            raise ValueError(f"there are {len(self.members)} families for {count} components")
        kinds = self.kinds
        return [(self.members[kind], [j for j, one in enumerate(kinds) if one == kind]) for kind in sorted(set(kinds))]

    def _assemble(self, predictor: Array, other: Array, of: Callable[[Family, Array, Array], Array]) -> Array:
        """Of each component what its family says: ``other`` is a number per component, or arrays of them."""
        found = []
        each = self._each(predictor.shape[-1])
        spread = np.broadcast_to(other, (*other.shape[:-1], len(self.members)))
        for family, components in each:
            found.append(of(family, predictor[..., components], spread[..., components]))
        return self._join(each, found)

    def _join(self, each: list[tuple[Family, list[int]]], parts: Sequence[Array]) -> Array:
        shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        joined = np.empty((*shape, len(self.members)))
        for (_, components), part in zip(each, parts):
            joined[..., components] = part
        return joined

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        each, spread = self._each(predictor.shape[-1]), np.broadcast_to(s2, (*s2.shape[:-1], len(self.members)))
        found = [family.terms(y, predictor[..., own], spread[..., own]) for family, own in each]
        weights = [np.ones_like(one.residual) if one.weight is None else one.weight for one in found]
        parts = [[one.log_density for one in found], [one.residual for one in found], weights]
        if self.dispersed:
            parts.append([one.residual * 0.0 if one.squares is None else one.squares for one in found])
            parts.append([one.residual * 0.0 if one.scale_weight is None else one.scale_weight for one in found])
        return Terms(*(self._join(each, part) for part in parts))

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        each, spread = self._each(predictor.shape[-1]), np.broadcast_to(s2, (*s2.shape[:-1], len(self.members)))
        found = [family.derivatives(y, predictor[..., own], spread[..., own]) for family, own in each]
        *parts, _ = zip(*found)  # none of them has a parameter of its own
        joined: list[Any] = [self._join(each, part) for part in parts]
        return Derivatives(*joined)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return self._assemble(predictor, sigma, lambda family, line, scale: family.log_likelihood(y, line, scale))

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return self._assemble(predictor, sigma, lambda family, line, scale: family.probability(y, line, scale))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return self._assemble(predictor, sigma, lambda family, line, scale: family.quantiles(q, line, scale))

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        raise ValueError("a draw needs the component that it is of: draw from the mixture")

    def sample_of(
        self, labels: NDArray[np.int64], generator: np.random.Generator, predictor: Array, sigma: Array
    ) -> Array:
        """Every family draws for all rows, as trials stay with their rows, and the row's own counts."""
        drawn = np.zeros(predictor.shape)
        for family, components in self._each(len(self.members)):
            own = np.isin(labels, components)
            drawn = np.where(own, family.sample(generator, np.where(own, predictor, 0.0), sigma), drawn)
        return drawn

    def mean(self, predictor: Array) -> Array:
        return self._assemble(predictor, np.ones(len(self.members)), lambda family, line, _: family.mean(line))

    def predictor_of(self, mean: Array) -> Array:
        return self._assemble(mean, np.ones(len(self.members)), lambda family, line, _: family.predictor_of(line))

    def log_deviation(self, y: Array) -> Array:
        return self._lead.log_deviation(y)

    def start_response(self, y: Array) -> Array:
        """On the first family's scale, which is that of all; each looks whether y is of its kind."""
        first, *_ = [one.start_response(y) for one in self.members if one.has_predictor]
        return first

    def start_spread(self, mean: float) -> float:
        return self._lead.start_spread(mean)
