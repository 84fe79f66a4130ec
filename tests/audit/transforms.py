"""The same data seen otherwise: other units, directions, origins, order; and parameters taken back from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from audit.checks import Fitted
from audit.families import NOISES
from audit.likelihood import Array, Model, moved
from audit.problems import Problem


@dataclass(frozen=True)
class Transform:
    """X becomes (X + shift) M and y becomes scale (y + origin), the rows in another order.

    Where y is no noise around a line, it stays, but for the scale of a gamma law, whose logarithm is in the intercepts.
    """

    order: Array
    shift: Array
    M: Array
    origin: float
    scale: float
    noise: bool

    @classmethod
    def drawn(cls, problem: Problem) -> Transform:
        """What leaves the fit the same: no other origin without intercepts, no other units of penalised columns."""
        generator = np.random.default_rng(problem.seed + 1)
        n, d = problem.data.X.shape
        settings = problem.settings
        centred = settings["fit_intercept"] and not settings["symmetric"]
        units = 10 ** generator.uniform(-2, 2, d) if not settings["alpha"] else np.ones(d)
        alone = {*(settings["shared"] or ()), *(settings["fixed"] or {}), *(settings["only"] or {})}
        alone |= {*problem.gate_columns}
        noise = settings["family"] in NOISES
        scaled = noise or (settings["family"] == "gamma" and centred)
        own = [column for column in range(d) if column not in alone]
        M = np.eye(d)
        M[np.ix_(own, own)] = np.linalg.qr(generator.standard_normal((len(own), len(own))))[0]
        return cls(
            order=generator.permutation(n),
            shift=generator.uniform(-3, 3, d) * problem.data.X.std(axis=0) * centred,
            M=M * units,
            origin=float(generator.uniform(-3, 3)) * float(problem.data.y.std()) * centred * noise,
            scale=float(10 ** generator.uniform(-2, 2)) if scaled else 1.0,
            noise=noise,
        )

    def start(self, lines: Array) -> Array:
        """Coefficients (k, d + 1), the intercept last, for the transformed data."""
        coef = np.linalg.solve(self.M, lines[:, :-1].T).T
        constants = lines[:, -1] - lines[:, :-1] @ self.shift + self.origin
        return self.factor * np.column_stack([coef, constants]) + np.append(np.zeros(coef.shape[1]), self.logarithm)

    @property
    def factor(self) -> float:
        """By which predictors and sigma grow with y."""
        return self.scale if self.noise else 1.0

    @property
    def logarithm(self) -> float:
        """By which predictors are moved with the scale of y."""
        return 0.0 if self.noise else float(np.log(self.scale))

    def problem(self, problem: Problem) -> Problem:
        data = problem.data
        X, y = (data.X + self.shift) @ self.M, self.scale * (data.y + self.origin)
        offset = None if data.offset is None else self.factor * data.offset
        there = moved(replace(data, X=X, y=y, offset=offset), self.order)
        sigma = problem.settings["sigma"]
        held = problem.settings["fixed"] and {
            column: {j: value * self.factor / self.M[column, column] for j, value in known.items()}
            for column, known in problem.settings["fixed"].items()
        }
        settings = problem.settings | {"sigma": None if sigma is None else sigma * self.factor, "fixed": held}
        return replace(problem, settings=settings, data=there)

    def back(self, found: Fitted) -> tuple[Array, Array, Array, Array]:
        """Coefficients, intercepts, logits and sigmas of a fit to the transformed data, for the data as they were."""
        fit, gate = found.fit, list(found.model.gate)
        coef = fit.coef_ @ self.M.T / self.factor
        constants = (fit.intercept_ - self.logarithm) / self.factor - self.origin + coef @ self.shift
        logits = found.logits.copy()
        logits[:, :-1] *= np.diag(self.M)[gate]
        logits[:, -1] += logits[:, :-1] @ self.shift[gate]
        return coef, constants, logits, fit.sigma_ / self.factor


def nearest(model: Model, theta: Array, parts: tuple[Array, ...], share: float, labelled: bool) -> Array:
    """The parameters with their components in the order that brings them nearest to theta; labels leave only one."""
    orders = [list(range(model.k))] if labelled else [list(order) for order in permutations(range(model.k))]
    found = [model.pack(*(part[order] for part in parts), share) for order in orders]
    return min(found, key=lambda other: float(np.sum((other - theta) ** 2)))
