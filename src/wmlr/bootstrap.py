"""The bootstrap: how much the estimates move when the data are drawn again."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from wmlr.intervals import ConfidenceIntervals, checked_level
from wmlr.model import Array, Mixture
from wmlr.round import Integers
from wmlr.uncertainty import Constraints, Estimates

KINDS = ("parametric", "rows")


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from data drawn again and again.

    Attributes
    ----------
    names, estimates : of the fit the draws were made from.
    draws : (n_boot, number of estimates).
    failed : refits left out because a component emptied.
    """

    names: tuple[str, ...]
    estimates: Array
    draws: Array
    failed: int = 0

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def errors(self) -> Array:
        """Standard errors: the spread of the draws."""
        return np.asarray(self.draws.std(axis=0, ddof=1))

    @property
    def bias(self) -> Array:
        """The mean of the draws less the estimates."""
        return np.asarray(self.draws.mean(axis=0) - self.estimates)

    @property
    def covariance(self) -> Array:
        """Of the estimates, from the draws."""
        return np.atleast_2d(np.cov(self.draws, rowvar=False))

    def confidence_intervals(self, level: float = 0.95) -> ConfidenceIntervals:
        """Percentile intervals."""
        half = (1 - checked_level(level)) / 2
        lower, upper = np.quantile(self.draws, [half, 1 - half], axis=0)
        return ConfidenceIntervals(self.names, self.estimates, self.errors, lower, upper, level)

    def to_frame(self, level: float = 0.95) -> Any:
        """The intervals as a pandas DataFrame."""
        return self.confidence_intervals(level).to_frame()

    def __str__(self) -> str:
        return f"bootstrap, {len(self)} draws\n{self.confidence_intervals()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.confidence_intervals()._repr_html_()


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows a bootstrap draws from, and the model it refits."""

    model: Any
    mixture: Mixture
    constraints: Constraints
    columns: Sequence[str]
    X: Any
    y: Array
    groups: Integers | None
    kind: str

    def refit(self, seed: np.random.SeedSequence) -> Array | None:
        """One draw: the estimates from data drawn again, components matched to the fit's."""
        generator = np.random.default_rng(seed)
        X, y, groups = self.X, self.y, self.groups
        if self.kind == "parametric":
            y, _ = self.mixture.sample(X, generator, groups)
        else:
            chosen, groups = self._resampled(generator)
            X, y = X[chosen], y[chosen]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = clone(self.model).fit(X, y, groups=groups).mixture_
        if found.n_components < self.mixture.n_components:
            return None
        return Estimates.of(matched(found, self.mixture, self.X), self.constraints, self.columns).values

    def _resampled(self, generator: np.random.Generator) -> tuple[Integers, Integers | None]:
        if self.groups is None:
            return generator.integers(len(self.y), size=len(self.y)), None
        count = int(self.groups.max()) + 1
        members = np.split(np.argsort(self.groups, kind="stable"), np.cumsum(np.bincount(self.groups))[:-1])
        taken = [members[place] for place in generator.integers(count, size=count)]
        return np.concatenate(taken), np.repeat(np.arange(count), [len(rows) for rows in taken])


def matched(found: Mixture, wanted: Mixture, X: Any) -> Mixture:
    """The components of ``found`` in the order in which they are nearest to those of ``wanted``.

    Near in squared Wasserstein distance: of the lines, on average over X, and of the deviations.
    """
    lines = ((wanted.means(X)[:, :, None] - found.means(X)[:, None, :]) ** 2).mean(axis=0)
    order = linear_sum_assignment(lines + (wanted.sigma[:, None] - found.sigma) ** 2)[1]
    return replace(
        found,
        coef=found.coef[order],
        intercept=found.intercept[order],
        weights=found.weights[order],
        sigma=found.sigma[order],
    )


def bootstrap(sample: Sample, estimates: Estimates, n_boot: int, random_state: Any, n_jobs: int | None) -> Bootstrap:
    """Draw and refit ``n_boot`` times; the seed alone decides the draws, whatever ``n_jobs``."""
    seeds = np.random.SeedSequence(_entropy(random_state)).spawn(n_boot)
    work = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(sample.refit)(seed) for seed in seeds)
    draws = [values for values in shown(work, n_boot) if values is not None]
    if len(draws) < 2:
        raise ValueError(f"a component emptied in {n_boot - len(draws)} of {n_boot} refits: fit fewer components")
    return Bootstrap(estimates.names, estimates.values, np.array(draws), n_boot - len(draws))


def _entropy(random_state: Any) -> int | None:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**62))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return None if random_state is None else int(random_state)


def shown(work: Iterable[Any], total: int) -> Iterator[Any]:
    """Pass results on, with a progress bar where there is a terminal to show it."""
    if not sys.stderr.isatty():
        yield from work
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(work, "bootstrap", total=total, console=Console(stderr=True), transient=True)
