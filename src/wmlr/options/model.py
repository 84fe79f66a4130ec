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
    only: str | None = None,
    fixed: str | None = None,
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
        only=None if only is None else {name: _components(said) for name, said in _by_column("only", only)},
        fixed=None if fixed is None else {name: _values(said) for name, said in _by_column("fixed", fixed)},
        search=_effort(search),
        n_init=n_init,
    )


def _by_column(option: str, text: str) -> list[tuple[str, list[str]]]:
    """``income=1,3; age=2`` as names, each with what is said of it."""
    found = []
    for part in filter(str.strip, text.split(";")):
        name, equal, said = part.partition("=")
        if not equal:
            raise ValueError(f"--{option} is written as COLUMN=COMPONENTS; ... (got {part.strip()!r})")
        found.append((name.strip(), [word.strip() for word in said.split(",") if word.strip()]))
    return found


def _components(words: list[str]) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError:
        raise ValueError(f"--only names components by their numbers, as income=1,3 (got {', '.join(words)})") from None


def _values(words: list[str]) -> dict[int, float]:
    try:
        return {int(number): float(value) for number, value in (word.split(":") for word in words)}
    except ValueError:
        raise ValueError(f"--fixed is written as income=1:0.5,2:0 (got {', '.join(words)})") from None


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
