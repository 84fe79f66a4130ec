"""Choosing the number of components."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from wmlr.estimator import MixedLinearRegression
from wmlr.round import Array

CRITERIA = ("bic", "aic", "icl", "cv")


@dataclass(frozen=True)
class Selection:
    """The criterion for each number of components; the smallest wins.

    Attributes
    ----------
    n_components : the numbers tried; values : the criterion for each (minus the held-out mean
        log-likelihood for "cv").
    best : the winning number; estimator : its fit on all rows.
    """

    criterion: str
    n_components: tuple[int, ...]
    values: Array
    best: int
    estimator: MixedLinearRegression


def select_components(
    X: Any,
    y: Any,
    n_components: Iterable[int] = range(1, 6),
    criterion: str = "bic",
    *,
    estimator: MixedLinearRegression | None = None,
    groups: Any = None,
    folds: int = 5,
) -> Selection:
    """Fit each number of components and keep the best by a criterion.

    Parameters
    ----------
    X, y : the rows.
    n_components : the numbers to try.
    criterion : "bic", "aic", "icl" or "cv" (cross-validated log-likelihood).
    estimator : the estimator to take all other settings from.
    groups : labels; rows of one group share their component.
    folds : for "cv".
    """
    if criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(map(repr, CRITERIA))} (got {criterion!r})")
    tried = tuple(int(k) for k in n_components)
    if not tried or min(tried) < 1:
        raise ValueError(f"n_components must be whole numbers of at least 1 (got {list(tried)})")
    base = MixedLinearRegression(random_state=0) if estimator is None else estimator
    fits = [clone(base).set_params(n_components=k).fit(X, y, groups=groups) for k in tried]
    if criterion == "cv":
        values = np.array([-_held_out(fit, X, y, groups, folds) for fit in fits])
    else:
        values = np.array([getattr(fit, criterion)(X, y, groups) for fit in fits])
    best = int(np.argmin(values))
    return Selection(criterion, tried, values, tried[best], fits[best])


def _held_out(fit: MixedLinearRegression, X: Any, y: Any, groups: Any, folds: int) -> float:
    X, y = np.asarray(X), np.asarray(y)
    labels = None if groups is None else np.asarray(groups)
    splitter = KFold(folds, shuffle=True, random_state=0) if labels is None else GroupKFold(folds)
    total = 0.0
    for train, test in splitter.split(X, y, labels):
        part = None if labels is None else labels[train]
        model = clone(fit).fit(X[train], y[train], groups=part)
        held = None if labels is None else np.unique(labels[test], return_inverse=True)[1]
        total += float(model.mixture_.log_likelihood(X[test], y[test], held).sum())
    return total / len(y)
