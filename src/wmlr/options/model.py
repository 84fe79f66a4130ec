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
    family: str = "normal",
    gate: str | None = None,
    features: str | None = None,
    formula: str | None = None,
) -> Any:
    """An estimator with these settings, not yet fitted.

    Columns of ``gate`` explain y only where ``features`` names them; beside a ``formula`` they are a formula too.
    """
    from wmlr import MixedLinearRegression

    held = {} if only is None else {name: _components(words) for name, words in _by_column("only", only)}
    if formula is None:
        held |= {name: [] for name in gate_columns(gate) if name not in names_of(features)}
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
        shared=shared if shared is None or shared.lstrip().startswith("~") else names_of(shared),
        only=held or None,
        fixed=None if fixed is None else {name: _values(words) for name, words in _by_column("fixed", fixed)},
        search=_effort(search),
        n_init=n_init,
        family=_family(family),
        gate=gate_of(gate, formula is not None),
    )


def names_of(text: str | None) -> list[str]:
    """``a, b`` as names."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _family(text: str) -> Any:
    """``poisson``, ``binomial:probit``, or one for each component, ``poisson,point-mass``."""
    found = [_one_family(word) for word in names_of(text)]
    return found[0] if len(found) == 1 else found


def _one_family(text: str) -> Any:
    from wmlr import families

    name, _, setting = text.partition(":")
    if not setting:
        return name
    kind = type(families.family(name))
    try:
        return kind(float(setting))  # type: ignore[call-arg]
    except (TypeError, ValueError):
        pass
    try:
        return kind(setting)  # type: ignore[call-arg]
    except TypeError:
        raise ValueError(f"the family {name!r} has no setting (got {text!r})") from None


def gate_columns(gate: str | None) -> list[str]:
    """The columns that ``--gate`` names; none for words and numbers."""
    if gate is None or gate in ("equal", "group"):
        return []
    if gate.lstrip().startswith("~"):
        return [name.strip().strip("`") for name in gate.partition("~")[2].split("+")]
    names = names_of(gate)
    return [] if all(_is_number(name) for name in names) else names


def gate_of(gate: str | None, by_formula: bool) -> Any:
    """``--gate`` as the estimator wants it: a word, numbers, columns, or a formula of them."""
    if gate is None or gate in ("equal", "group"):
        return gate
    if by_formula and gate.lstrip().startswith("~"):
        return gate
    columns = gate_columns(gate)
    if not columns:
        return [float(word) for word in names_of(gate)]
    from wmlr.formulas.columns import quote

    return f"~ {' + '.join(map(quote, columns))}" if by_formula else columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _by_column(option: str, text: str) -> list[tuple[str, list[str]]]:
    """``income=1,3; age=2`` as names, each with what is said of it."""
    found = []
    for part in filter(str.strip, text.split(";")):
        name, equal, words = part.partition("=")
        if not equal:
            raise ValueError(f"--{option} is written as COLUMN=COMPONENTS; ... (got {part.strip()!r})")
        found.append((name.strip(), [word.strip() for word in words.split(",") if word.strip()]))
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
