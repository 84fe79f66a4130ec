"""The bootstrap: how much the estimates move when the data are drawn again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.base import clone

from wmlr.engines.arrays import ArrayRows
from wmlr.inference.information import Information
from wmlr.inference.intervals import ConfidenceIntervals, check_level
from wmlr.inference.uncertainty import Constraints, Estimates, aliased_columns
from wmlr.io.users_line import warn_user, without_warnings
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Beside, Integers
from wmlr.numerics.coordinates import WIDE
from wmlr.numerics.matching import cheapest_matching

KINDS = ("parametric", "rows")
INTERVALS = ("percentile", "bca")


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from data drawn again and again.

    Attributes
    ----------
    names, estimates : of the fit the draws were made from.
    draws : (n_boot, number of estimates).
    failed : refits left out because a component emptied, or a column no longer had an estimate.
    elsewhere : (n_boot,), whether a refit ended elsewhere than near the fit: one of its components is farther from the
        fit's than half way to another, or two have become one. What is drawn then belongs to another maximum; ``near``
        leaves such refits out.
    acceleration : for "bca" intervals, how the estimates' errors change with what is estimated; from the skewness of
        each row's (or group's) influence.
    """

    names: tuple[str, ...]
    estimates: Array
    draws: Array
    failed: int = 0
    elsewhere: NDArray[np.bool_] | None = None
    acceleration: Array | None = None

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

    @property
    def near(self) -> Bootstrap:
        """The refits that ended near the fit."""
        if self.elsewhere is None:
            return self
        kept = ~self.elsewhere
        return replace(self, draws=self.draws[kept], elsewhere=self.elsewhere[kept])

    def confidence_intervals(self, level: float = 0.95, kind: str = "percentile") -> ConfidenceIntervals:
        """Intervals between quantiles of the draws.

        Parameters
        ----------
        level : the coverage wanted.
        kind : "percentile" takes as much from either end; "bca" (bias-corrected and accelerated, Efron 1987) shifts
            the ends by the draws' median bias and by the change of the error with the estimate.
        """
        half = (1 - check_level(level)) / 2
        if kind not in INTERVALS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, INTERVALS))} (got {kind!r})")
        ends = np.broadcast_to([[half], [1 - half]], (2, self.draws.shape[1]))
        if kind == "bca":
            ends = self._accelerate(ends)
        bounds = np.array(
            [[np.quantile(column, end) if np.isfinite(end) else np.nan for column, end in zip(self.draws.T, row)]
             for row in ends]
        )  # fmt: skip
        return ConfidenceIntervals(self.names, self.estimates, self.errors, bounds[0], bounds[1], level)

    def _accelerate(self, ends: Array) -> Array:
        """Shares of the draws below an interval's ends, for the shares that a normal law without bias would have."""
        if self.acceleration is None:
            raise ValueError("there are too many parameters for 'bca' intervals: use kind='percentile'")
        below = np.mean(self.draws < self.estimates, axis=0) + np.mean(self.draws == self.estimates, axis=0) / 2
        rest = 1 / (len(self) + 1)
        shift = ndtri(np.clip(below, rest, 1 - rest))
        along = shift + ndtri(ends)
        return np.asarray(ndtr(shift + along / (1 - self.acceleration * along)))

    def to_frame(self, level: float = 0.95, kind: str = "percentile") -> Any:
        """The intervals as a pandas DataFrame."""
        return self.confidence_intervals(level, kind).to_frame()

    def __str__(self) -> str:
        astray = 0 if self.elsewhere is None else int(self.elsewhere.sum())
        note = f", {astray} of them elsewhere than near the fit" if astray else ""
        return f"bootstrap, {len(self)} draws{note}\n{self.confidence_intervals()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.confidence_intervals()._repr_html_()


@dataclass(frozen=True, eq=False)
class Resample:
    """The rows a bootstrap draws from, and the model it refits."""

    model: Any
    mixture: Mixture
    constraints: Constraints
    columns: Sequence[str]
    X: Any
    y: Array
    groups: Integers | None
    weight: Array | None
    kind: str
    alpha: float = 0.0
    beside: Beside = field(default_factory=dict)

    def refit(self, seed: np.random.SeedSequence) -> tuple[Array, bool] | None:
        """One draw: the estimates from data drawn again, components matched to the fit's, and whether these are far."""
        generator = np.random.default_rng(seed)
        X, y, groups, weight, beside = self.X, self.y, self.groups, self.weight, self.beside
        if self.kind == "parametric":
            y, _ = self.mixture.sample(X, generator, groups, beside)
        else:
            chosen, groups = self._resample(generator)
            X, y, weight = X[chosen], y[chosen], None if weight is None else weight[chosen]
            beside = {role: values[chosen] for role, values in beside.items()}
        with without_warnings():
            given = {role: values for role, values in beside.items() if role != "gate"}
            found = clone(self.model).fit(X, y, sample_weight=weight, groups=groups, **given).mixture_
        if found.n_components < self.mixture.n_components:
            return None
        if aliased_columns(found, self.constraints) != aliased_columns(self.mixture, self.constraints):
            return None
        found = match_components(found, self.mixture, self.X, self.constraints.classes(found.n_components))
        values = Estimates.of(found, self.constraints, self.columns).values
        return values, is_elsewhere(found, self.mixture, self.X)

    def acceleration(self, jacobian: Array) -> Array:
        """A sixth of the skewness of what each row or group moves the estimates by."""
        y, beside = self.mixture.family.sums_response(self.y, self.beside)
        rows = ArrayRows(self.X, y, self.weight, self.groups, beside=beside)
        information = Information.of(self.mixture, rows, self.constraints, self.alpha)
        moves = np.vstack([information.influence(block) for block in rows])
        known = ~np.isnan(moves).any(axis=0)
        lost = np.any(jacobian[:, ~known] != 0, axis=1)
        moves = moves[:, known] @ jacobian[:, known].T
        squares = np.sum(moves**2, axis=0)
        found = np.sum(moves**3, axis=0) / (6 * np.where(squares > 0, squares, 1.0) ** 1.5)
        return np.asarray(np.where(lost, np.nan, found))

    def _resample(self, generator: np.random.Generator) -> tuple[Integers, Integers | None]:
        if self.groups is None:
            return generator.integers(len(self.y), size=len(self.y)), None
        count = int(self.groups.max()) + 1
        members = np.split(np.argsort(self.groups, kind="stable"), np.cumsum(np.bincount(self.groups))[:-1])
        taken = [members[place] for place in generator.integers(count, size=count)]
        return np.concatenate(taken), np.repeat(np.arange(count), [len(rows) for rows in taken])


def distances(one: Mixture, other: Mixture, X: Any) -> Array:
    """Squared Wasserstein distances between the components of two mixtures, on average over X."""
    lines = ((one.means(X)[:, :, None] - other.means(X)[:, None, :]) ** 2).mean(axis=0)
    return np.asarray(lines + (one.sigma[:, None] - other.sigma) ** 2)


def is_elsewhere(found: Mixture, wanted: Mixture, X: Any) -> bool:
    """Whether a component of ``found`` is farther from its own in ``wanted`` than half way to another.

    Or whether two have come to within a quarter of the distance that those in ``wanted`` have.
    """
    moved = np.diag(distances(wanted, found, X))
    between = distances(wanted, wanted, X)
    others = ~np.eye(len(between), dtype=bool)
    merged = distances(found, found, X)[others] < between[others] / 16
    nearest = np.where(others, between, np.inf).min(axis=1)
    return bool(np.any(4.0 * moved > nearest) or np.any(merged))


def match_components(found: Mixture, wanted: Mixture, X: Any, classes: Integers | None = None) -> Mixture:
    """The components of ``found`` in the order in which they are nearest to those of ``wanted``.

    Near in squared Wasserstein distance: of the lines, on average over X, and of the deviations. Components change
    places only within their class, where ``classes`` are given.
    """
    gaps = distances(wanted, found, X)
    if classes is not None:
        gaps = np.where(classes[:, None] == classes, gaps, np.inf)
    order = cheapest_matching(gaps)
    return found.permuted(order)


def bootstrap(sample: Resample, estimates: Estimates, n_boot: int, random_state: Any, n_jobs: int | None) -> Bootstrap:
    """Draw and refit ``n_boot`` times; the seed alone decides the draws, whatever ``n_jobs``."""
    seeds = np.random.SeedSequence(entropy_of(random_state)).spawn(n_boot)
    work = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(sample.refit)(seed) for seed in seeds)
    refits = [one for one in with_progress(work, n_boot) if one is not None]
    failed = n_boot - len(refits)
    if len(refits) < 2:
        raise ValueError(f"a component or a column was lost in {failed} of {n_boot} refits: fit fewer components")
    draws, elsewhere = np.array([values for values, _ in refits]), np.array([astray for _, astray in refits])
    if elsewhere.any():
        warn_user(
            f"{int(elsewhere.sum())} of {len(refits)} refits ended elsewhere than near the fit (components changed "
            "places or became one), and errors and intervals include them: see elsewhere and near",
            UserWarning,
        )
    few = estimates.jacobian.shape[1] <= WIDE
    acceleration = sample.acceleration(estimates.jacobian) if few else None
    return Bootstrap(estimates.names, estimates.values, draws, failed, elsewhere, acceleration)


def entropy_of(random_state: Any) -> int | None:
    """A seed from whatever scikit-learn takes for a random state; None for any."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**62))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return None if random_state is None else int(random_state)


def with_progress(work: Iterable[Any], total: int) -> Iterator[Any]:
    """Pass results on, with a progress bar where there is a terminal to show it."""
    if not sys.stderr.isatty():
        yield from work
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(work, "bootstrap", total=total, console=Console(stderr=True), transient=True)
