"""The estimator that options describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def estimator(
    n_components: int,
    *,
    symmetric: bool = False,
    method: str = "wmlr",
    solver: str = "auto",
    no_intercept: bool = False,
    equal_weights: bool = False,
    separate_sigma: bool = False,
    sigma: float | None = None,
    start: str = "auto",
    seed: int = 0,
    max_iter: int = 300,
    robust: bool = False,
    outliers: bool = False,
    alpha: float = 0.0,
    shared: str | None = None,
    search: str = "auto",
    n_init: int = 1,
) -> Any:
    """An estimator with these settings, not yet fitted."""
    from wmlr import MixedLinearRegression

    return MixedLinearRegression(
        n_components,
        method=method,
        solver=solver,
        symmetric=symmetric,
        fit_intercept=not no_intercept,
        equal_weights=equal_weights,
        shared_sigma=not separate_sigma,
        sigma=sigma,
        start=start_from(start),
        random_state=seed,
        max_iter=max_iter,
        robust=robust,
        outliers=outliers,
        alpha=alpha,
        shared=None if shared is None else [name.strip() for name in shared.split(",")],
        search=_effort(search),
        n_init=n_init,
    )


def _effort(search: str) -> str | float:
    """``--search`` as the estimator wants it."""
    try:
        return float(search)
    except ValueError:
        return search


def start_from(start: str) -> Any:
    """``--start`` as the estimator wants it: a word, or the coefficients of a saved model."""
    if not start.endswith(".json"):
        return start
    fitted = load_model(Path(start))
    return np.column_stack([fitted.coef_, fitted.intercept_])


def load_model(path: Path) -> Any:
    """Read a model file, or say why not."""
    from wmlr import MixedLinearRegression

    if not path.is_file():
        raise ValueError(f"there is no model file {path}: wmlr fit ... --out {path} writes one")
    return MixedLinearRegression.load(path)
