"""What is to be fitted: the part of the settings every method shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from wmlr.core.round import Fit, Method
from wmlr.families import NORMAL, Family
from wmlr.model.constraints import Constraints, Held
from wmlr.model.gates import FREE, Gate
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame


@dataclass(frozen=True)
class Task:
    """The model to fit and when to stop.

    ``start`` is "auto", "spectral", "random", coefficients (k, p) on the data's own scale, the intercept last, or,
    where the solver can search, a mixture. ``tol`` is the gain in mean log-likelihood per row that is not worth
    another step. ``ridge`` is the penalty on squared coefficients, ``shared`` the columns whose coefficients are common
    to all components, ``held`` the coefficients that are known (:class:`wmlr.model.constraints.Constraints`),
    ``labelled`` says that the components of some rows are; ``gate`` is the rule for the weights, ``family`` the law
    of y. ``wide`` says that the columns are too many for a matrix of them: methods then ask for products
    (:mod:`wmlr.methods.wide`).

    ``search`` is how hard to look for the likeliest maximum, by ``searches`` independent searches; ``draws`` says
    that queries may look at single rows, ``in_one_place`` that they may be about all rows of a sample as a whole,
    ``in_memory`` that a round costs what it computes; ``guard`` keeps components' variances from spikes; ``smaller`` is
    a fit of one component fewer, to which a component may be added.
    ``exact`` says that every round is answered by the same rows, without noise: what one round says of a place
    can then be compared with what another does.
    ``cautious`` adds the ridge's penalty to the squares that sigma follows: for starts on features so flexible that
    residuals alone would make the components too certain too early.
    """

    n_components: int = 2
    symmetric: bool = False
    intercept: bool = False
    gate: Gate = FREE
    shared_sigma: bool = True
    sigma: float | None = None
    start: str | Array | Mixture = "auto"
    max_iter: int = 300
    tol: float = 1e-6
    seed: int = 0
    ridge: float = 0.0
    shared: tuple[int, ...] = ()
    held: Held = ()
    labelled: bool = False
    family: Family = NORMAL
    wide: bool = False
    search: Any = "auto"
    searches: int = 1
    draws: bool = True
    in_one_place: bool = False
    in_memory: bool = False
    guard: bool = True
    smaller: Mixture | None = None
    exact: bool = True
    cautious: bool = False

    @cached_property
    def constraints(self) -> Constraints:
        """Which parameters are free."""
        own = self.family.own
        free = (self.intercept, self.symmetric, self.gate, self.shared_sigma, self.sigma, self.shared)
        return Constraints(
            *free,
            own="" if own is None else own.name,
            held=self.held,
            labelled=self.labelled,
            kinds=self.family.kinds,
            scaleless=self.family.scaleless,
        )

    @property
    def exchange(self) -> Array:
        """(k, k): nil for components that may change places, infinite for those of which different things are asked."""
        classes = self.constraints.classes(self.n_components)
        return np.where(classes[:, None] == classes, 0.0, np.inf)

    @property
    def components_differ(self) -> bool:
        """Whether different things are asked of components, so that it matters which is which."""
        return bool(self.exchange.any())

    @property
    def start_word(self) -> str:
        """The word that says where to begin; none where coefficients or a mixture do."""
        return self.start if isinstance(self.start, str) else ""

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


class Solver(Protocol):
    """A method's own settings; ``fit(task)`` is the method itself."""

    def fit(self, task: Task) -> Method[Fit]: ...


def offers(solver: Solver | type, ability: str) -> bool:
    """Whether a solver says that it can do something."""
    return ability in getattr(solver, "offers", frozenset())


def pair(frame: Frame | ScaledFrame, b: Array, s2: float, mean: Array | None = None) -> Mixture:
    """The mixture of ``beta`` and ``-beta`` at frame coordinates ``b``, around a common ``mean`` if given."""
    if mean is None:
        return Mixture.symmetric_pair(frame.to_data(b), float(np.sqrt(s2)))
    beta = frame.to_data(b)
    return mixture(
        np.stack([mean + beta, mean - beta], axis=1), np.full(2, 0.5), np.full(2, float(s2)), frame.intercept
    )


def mixture_at(task: Task, frame: Frame | ScaledFrame, B: Array, weights: Array, s2: Array) -> Mixture:
    """The mixture at frame coordinates B (r, k); a symmetric task's is that of the first column and its negative."""
    if task.symmetric:
        return pair(frame, B[:, 0], float(s2[0]))
    return mixture(frame.to_data(B), weights, s2, frame.intercept)


def mixture(coef: Array, weights: Array, s2: Array, intercept: bool, family: Family = NORMAL) -> Mixture:
    """A mixture from coefficient columns (p, k) on the data's own scale."""
    k = coef.shape[1]
    slopes, constants = (coef[:-1], coef[-1]) if intercept else (coef, np.zeros(k))
    return Mixture(slopes.T.copy(), constants.copy(), weights.copy(), np.sqrt(s2), family=family)
