"""The same data seen otherwise: other units, directions, origins, order; and parameters taken back from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from audit.likelihood import Array, Model, moved
from audit.problems import Problem


@dataclass(frozen=True)
class Transform:
    """X becomes (X + shift) M and y becomes scale (y + origin), the rows in another order."""

    order: Array
    shift: Array
    M: Array
    origin: float
    scale: float

    @classmethod
    def drawn(cls, problem: Problem) -> Transform:
        """What leaves the fit the same: no other origin without intercepts, no other units of penalised columns."""
        generator = np.random.default_rng(problem.seed + 1)
        n, d = problem.data.X.shape
        settings = problem.settings
        centred = settings["fit_intercept"] and not settings["symmetric"]
        units = 10 ** generator.uniform(-2, 2, d) if not settings["alpha"] else np.ones(d)
        alone = {*(settings["shared"] or ()), *(settings["fixed"] or {})}
        own = [column for column in range(d) if column not in alone]
        M = np.eye(d)
        M[np.ix_(own, own)] = np.linalg.qr(generator.standard_normal((len(own), len(own))))[0]
        return cls(
            order=generator.permutation(n),
            shift=generator.uniform(-3, 3, d) * problem.data.X.std(axis=0) * centred,
            M=M * units,
            origin=float(generator.uniform(-3, 3)) * float(problem.data.y.std()) * centred,
            scale=float(10 ** generator.uniform(-2, 2)),
        )

    def start(self, lines: Array) -> Array:
        """Coefficients (k, d + 1), the intercept last, for the transformed data."""
        coef = np.linalg.solve(self.M, lines[:, :-1].T).T
        constants = lines[:, -1] + self.origin - lines[:, :-1] @ self.shift
        return self.scale * np.column_stack([coef, constants])

    def problem(self, problem: Problem) -> Problem:
        data = problem.data
        there = moved(
            replace(data, X=(data.X + self.shift) @ self.M, y=self.scale * (data.y + self.origin)), self.order
        )
        sigma = problem.settings["sigma"]
        held = problem.settings["fixed"] and {
            column: {j: value * self.scale / self.M[column, column] for j, value in known.items()}
            for column, known in problem.settings["fixed"].items()
        }
        settings = problem.settings | {"sigma": None if sigma is None else sigma * self.scale, "fixed": held}
        return replace(problem, settings=settings, data=there)

    def back(self, fit: Any) -> tuple[Array, Array, Array, Array]:
        """Coefficients, intercepts, weights and sigmas of a fit to the transformed data, for the data as they were."""
        coef = fit.coef_ @ self.M.T / self.scale
        return (
            coef,
            fit.intercept_ / self.scale - self.origin + coef @ self.shift,
            fit.weights_,
            fit.sigma_ / self.scale,
        )


def nearest(model: Model, theta: Array, parts: tuple[Array, ...], share: float) -> Array:
    """The parameters with their components in the order that brings them nearest to theta."""
    orders = [list(order) for order in permutations(range(model.k))]
    found = [model.pack(*(part[order] for part in parts), share) for order in orders]
    return min(found, key=lambda other: float(np.sum((other - theta) ** 2)))
