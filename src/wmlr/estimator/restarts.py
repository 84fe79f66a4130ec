"""What to do when a component empties, and what to say of a fit that ended at an edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wmlr.core.round import EmptyComponentError, Fit
from wmlr.families import Family
from wmlr.io.users_line import warn_user
from wmlr.model.mixture import Mixture

TRIES = 5  # at a fit without an empty component


def fit_without_empty_components(
    attempt: Callable[[list[int], int, Mixture | None], Fit],
    seeds: list[int],
    k: int,
    on_empty: str,
    again: bool = True,
    dear: bool = False,
    fewer: bool = True,
) -> Fit:
    """The best fit of ``attempt(seeds, k, start)`` in which no component has emptied, by the rule ``on_empty``.

    Where rounds are ``dear`` and the fit came from a search, nothing is searched again: any k - 1 components are also
    k, one of them twice, so that the search passed them over for those it found, and what is left of these climbs on.
    Where there can be no second attempt (``again`` false), an empty component is said and left. Where different things
    are asked of components (``fewer`` false) none can be left out, and an empty one is an error.
    """
    fit = attempt(seeds, k, None)
    goes_on = dear and fewer and fit.search is not None and not fit.mixture.symmetric
    if on_empty == "reseed" and again and not goes_on:
        for turn in range(1, TRIES):
            if not _has_empty_component(fit):
                break
            fit = attempt([seed + turn for seed in seeds], k, None)
    if _has_empty_component(fit) and not fewer and not _smallest(fit).has_predictor:
        raise EmptyComponentError(
            f"the {_smallest(fit).label} was left with less than one row (weight {fit.mixture.weights.min():.2g}): the "
            "other components explain all such values, so fit without it"
        )
    if _has_empty_component(fit) and (on_empty == "raise" or not fewer):
        remedy = "or set on_empty='drop'" if fewer else "and ask less of components (family, only, fixed, labels, gate)"
        raise EmptyComponentError(
            f"one of {k} components {_cause(fit)} (smallest weight {fit.mixture.weights.min():.2g}): "
            f"lower n_components, {remedy}"
        )
    if _has_empty_component(fit) and not again:
        warn_user(
            f"one of {k} components was left with less than one row (smallest weight {fit.mixture.weights.min():.2g}), "
            "and another fit would spend private rounds that are not there: lower n_components, or give another start",
            UserWarning,
        )
    while _has_empty_component(fit) and k > 1 and again:
        k -= 1
        warn_user(f"a component {_cause(fit)}: {k} component{'s are' if k > 1 else ' is'} fitted instead", UserWarning)
        search = fit.search
        fit = attempt(seeds, k, _without_spare_component(fit) if goes_on else None)
        fit = replace(fit, search=search) if goes_on else fit
    if fit.widest:
        warn_user(
            "a component became as wide as outliers= lets it, sqrt(2) times the deviation of the usual y: it may hold "
            "outliers, or y be mostly noise; try fewer components, or leave out outliers=",
            UserWarning,
        )
    if fit.floored and fit.mixture.family.discrete:
        warn_user(
            "counts of a component vary no more than Poisson's, so that it is one: its sigma fell to its floor and has "
            "no interval; try family='poisson'",
            UserWarning,
        )
    elif fit.floored:
        one_sigma = bool(np.ptp(fit.mixture.sigma) == 0.0)
        warn_user(
            "the variance fell to its floor, a millionth of y's: y has next to no noise around the components, or "
            "there are too few rows for so many parameters; then try fewer components or columns"
            if one_sigma
            else "a component's variance fell to its floor, a millionth of y's or what rounding y leaves: it holds a "
            "handful of points exactly, or y has next to no noise; try fewer components, or shared_sigma=True",
            UserWarning,
        )
    elif fit.scarce:
        warn_user(
            f"a component with a sigma of its own (smallest weight {fit.mixture.weights.min():.2g}) has fewer than "
            "three rows for each coefficient: it may be chance; try fewer components or columns, or shared_sigma=True",
            UserWarning,
        )
    return fit


def _smallest(fit: Fit) -> Family:
    """The family of the component with the smallest weight."""
    return fit.mixture.family.of_component(int(fit.mixture.weights.argmin()))


def _without_spare_component(fit: Fit) -> Mixture:
    """The mixture with two components that are the same made one, or without its smallest."""
    mixture = fit.mixture
    weights = mixture.weights.copy()
    kept, spare = fit.collapsed or (int(weights.argmax()), int(weights.argmin()))
    weights[kept] += weights[spare]
    left = np.arange(mixture.n_components) != spare
    lines = mixture.coef[left], mixture.intercept[left]
    return Mixture(*lines, weights[left], mixture.sigma[left], family=mixture.family)


def _cause(fit: Fit) -> str:
    """Why a component is taken out, as the end of a sentence."""
    return "is the same regression as another" if fit.collapsed else "was left with less than one row"


def _has_empty_component(fit: Fit) -> bool:
    """Whether the data have no use for a component; one that steps lost, since they were too long, says nothing."""
    emptied = fit.units > 0 and bool(np.any(fit.mixture.weights * fit.units < 1.0))
    return fit.collapsed is not None or (emptied and not fit.diverged)
