"""Fits of random data under random options: each ends right, or is refused in one line.

Run as a program with a number of fits and a seed: ``python tests/attacks/random_fits.py 10000``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from wmlr import MixedLinearRegression
from wmlr.federated import Federation

FINE = ("right", "refused")
SCALES = [1.0, 1.0, 1.0, 1e-8, 1e-4, 1e4, 1e8, 1e60, 1e-60, 1e160, 0.0]


def problem(generator: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Rows of some kind, and what goes with them."""
    n, d, k = int(generator.integers(1, 60)), int(generator.integers(1, 5)), int(generator.integers(1, 4))
    X = generator.standard_normal((n, d))
    slopes = generator.standard_normal((k, d)) * 3.0
    y = (X * slopes[generator.integers(k, size=n)]).sum(axis=1) + 0.3 * generator.standard_normal(n)
    kind = generator.integers(12)
    if kind == 0:
        X[:, -1] = X[:, 0] * 2.0
    elif kind == 1:
        X[:, 0] = 1.0
    elif kind == 2:
        y = np.round(y)
    elif kind == 3:
        y = np.full(n, 2.0)
    elif kind == 4:
        X = np.round(X)
    elif kind == 5:
        X[generator.integers(n)] *= 1e6
    elif kind == 6 and generator.random() < 0.5:
        X[generator.integers(n), generator.integers(d)] = generator.choice([np.nan, np.inf])
    elif kind == 7:
        X = X + 1e6
    with np.errstate(invalid="ignore", over="ignore"):
        X, y = X * generator.choice(SCALES), y * generator.choice(SCALES)
    more: dict[str, Any] = {}
    if generator.random() < 0.25:
        more["sample_weight"] = generator.choice([0.0, 1.0, 2.0, 0.5, 1e-9, 1e9], n, p=[0.1, 0.5, 0.2, 0.1, 0.05, 0.05])
    if generator.random() < 0.25:
        labels = generator.integers(max(1, n // 3), size=n)
        more["groups"] = [f"g{label}" for label in labels] if generator.random() < 0.5 else labels
    return _typed(X, generator), _typed_response(y, generator), more


def _typed(X: np.ndarray, generator: np.random.Generator) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        choice = generator.integers(8)
        if choice == 0:
            return X.astype(np.float32)
        if choice == 1 and np.all(np.abs(X) < 1e9):
            return X.astype(np.int64)
        if choice == 2:
            return X.tolist()
        if choice == 3:
            return pd.DataFrame(X, columns=[f"x{number}" for number in range(X.shape[1])])
        if choice == 4:
            return np.asfortranarray(X)
        if choice == 5:
            return sparse.csr_matrix(X) if np.all(np.isfinite(X)) else X
    return X


def _typed_response(y: np.ndarray, generator: np.random.Generator) -> Any:
    choice = generator.integers(6)
    with np.errstate(over="ignore", invalid="ignore"):
        return [y, y, y.tolist(), pd.Series(y), y.astype(np.float32), y[:, None]][choice]


def options(generator: np.random.Generator) -> dict[str, Any]:
    """Settings of an estimator."""
    symmetric = bool(generator.random() < 0.2)
    given = {
        "n_components": 2 if symmetric else int(generator.integers(1, 4)),
        "symmetric": symmetric,
        "method": str(generator.choice(["wmlr", "wmlr", "em", "gem"])),
        "solver": str(generator.choice(["auto", "auto", "auto", "gda"])),
        "fit_intercept": bool(generator.random() < 0.6),
        "equal_weights": bool(generator.random() < 0.2),
        "shared_sigma": bool(generator.random() < 0.6),
        "sigma": None if generator.random() < 0.9 else float(generator.choice([1.0, 0.1, 10.0])),
        "start": str(generator.choice(["auto", "spectral", "random"])),
        "alpha": float(generator.choice([0.0, 0.0, 0.0, 0.1, 10.0])),
        "robust": bool(generator.random() < 0.1),
        "on_empty": str(generator.choice(["reseed", "drop", "raise"])),
        "max_iter": int(generator.integers(1, 20)),
        "search": "quick",
        "random_state": 0,
    }
    return {name: value for name, value in given.items() if generator.random() < 0.7 or name in KEPT}


KEPT = ("max_iter", "search", "random_state", "n_components", "symmetric")


def outcome(generator: np.random.Generator) -> str:
    """What becomes of a random fit: "right" or "refused"; anything else is a defect."""
    X, y, more = problem(generator)
    settings, agents = options(generator), generator.random() < 0.1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = MixedLinearRegression(**settings)
            if agents and not more and not sparse.issparse(X):
                values = np.asarray(X, dtype=np.float64)
                owners = np.arange(len(values)) % 3
                model.fit_on(Federation.split(values, np.ravel(np.asarray(y, dtype=np.float64)), owners))
            else:
                model.fit(X, y, **more)
            return _looked_at(model, X, y, more)
    except ValueError as error:
        line = str(error)
        return "refused" if line and len(line) < 3000 else f"refused at length: {line[:300]}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _looked_at(model: Any, X: Any, y: Any, more: dict[str, Any]) -> str:
    numbers = [model.coef_, model.intercept_, model.weights_, model.sigma_, model.predict(X)]
    if not all(np.all(np.isfinite(one)) for one in numbers) or not np.isfinite(model.log_likelihood_):
        return "a fit that is not finite"
    if not np.isclose(model.weights_.sum(), 1.0) or np.any(model.weights_ < 0) or np.any(model.sigma_ < 0):
        return "weights or deviations that are none"
    shares = model.responsibilities(X, y, groups=more.get("groups"))
    if not np.allclose(shares.sum(axis=1), 1.0):
        return "responsibilities that do not sum to one"
    return "right"


def fits(count: int, seed: int) -> Counter[str]:
    """How many random fits came to each outcome; a fit follows from its number and the seed."""
    found: Counter[str] = Counter()
    for turn in range(count):
        result = outcome(np.random.default_rng([seed, turn]))
        found[result if result in FINE else f"{result} (fit {turn} of seed {seed})"] += 1
    return found


def main() -> None:
    """Fit, and say what came of it."""
    started, seed = time.monotonic(), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = fits(int(sys.argv[1]), seed)
    for said, times in found.most_common():
        print(f"{times:6d}  {said[:300]}")
    bad = sum(times for said, times in found.items() if said not in FINE)
    print(
        f"{bad} of {found.total()} random fits ended badly, {found['right']} right; {time.monotonic() - started:.0f} s"
    )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
