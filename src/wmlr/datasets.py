"""Data to try things on: the paper's simulated model, and three published studies."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

Seed = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class MixedRegression:
    """Simulated rows, and the truth they were drawn from.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    coef : ndarray of shape (n_components, n_features)
        One regression vector per component.
    labels : ndarray of shape (n_samples,)
        The component each row was drawn from.
    groups : ndarray of shape (n_samples,) or None
        Group ids; rows of a group have one label.
    sigma : float
        Standard deviation of the noise.
    weights : ndarray of shape (n_components,)
        Probability of each component.
    symmetric : bool
        Whether the two components are ``beta`` and ``-beta``.
    """

    X: Array
    y: Array
    coef: Array
    labels: NDArray[np.int64]
    groups: NDArray[Any] | None
    sigma: float
    weights: Array
    symmetric: bool = False

    @property
    def mixture(self) -> Mixture:
        """The true model, to be compared with a fitted one."""
        if self.symmetric and self.weights[0] == self.weights[1]:
            return Mixture.symmetric_pair(self.coef[0], self.sigma)
        return Mixture.of(self.coef, self.sigma, self.weights)


def make_mixed_regression(
    n_samples: int,
    n_features: int,
    n_components: int = 2,
    *,
    snr: float,
    sigma: float = 1.0,
    symmetric: bool = False,
    weights: ArrayLike | None = None,
    groups: int | ArrayLike | None = None,
    random_state: Seed = None,
) -> MixedRegression:
    """Draw rows from a mixture of linear regressions, as in the paper's experiments.

    ``x ~ N(0, I)``, each ``beta_j`` uniform on the sphere of radius ``snr * sigma``, and
    ``y = x'beta_j + sigma * noise`` with probability ``weights[j]``.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        Sizes; all at least 1.
    snr : float
        Length of every regression vector in units of ``sigma``.
    sigma : float, default=1.0
        Standard deviation of the noise.
    symmetric : bool, default=False
        Make the second vector the negative of the first; needs ``n_components=2``.
    weights : array-like of shape (n_components,), optional
        Probabilities of the components; equal when omitted.
    groups : int or array-like of shape (n_samples,), optional
        Rows of a group share their component. A number is the size of every group (the last one
        may be smaller); an array gives the group id of every row.
    random_state : int, numpy.random.Generator, numpy.random.RandomState, optional
        Source of randomness; an int makes the call repeatable.

    Returns
    -------
    MixedRegression

    Examples
    --------
    >>> from wmlr.datasets import make_mixed_regression
    >>> rows = make_mixed_regression(100, 3, snr=5, symmetric=True, random_state=0)
    >>> rows.X.shape, rows.coef.shape
    ((100, 3), (2, 3))
    """
    n = _positive_integer("n_samples", n_samples)
    d = _positive_integer("n_features", n_features)
    k = _positive_integer("n_components", n_components)
    _positive_number("snr", snr)
    _positive_number("sigma", sigma)
    if symmetric and k != 2:
        raise ValueError(f"symmetric=True needs n_components=2 (got {k})")
    shares = _shares(weights, k)
    ids = _group_ids(groups, n)
    generator = _generator(random_state)

    directions = generator.standard_normal((1 if symmetric else k, d))
    coef = snr * sigma * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    if symmetric:
        coef = np.concatenate([coef, -coef])
    X = generator.standard_normal((n, d))
    codes = None if ids is None else np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int64)
    y, labels = Mixture.of(coef, sigma, shares).sample(X, generator, codes)
    return MixedRegression(X, y, coef, labels, ids, float(sigma), shares, bool(symmetric))


def load_tone() -> Bunch:
    """Tone perception (Cohen, 1980): 150 trials of one musician.

    A fundamental tone was played with overtones stretched by ``stretchratio``; the musician tuned
    a second tone to the octave above it, and ``tuned`` is the ratio reached. Some trials follow the
    true octave, others the overtones: two lines.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (150, 1), ``target`` (150,), ``feature_names``, ``target_name``, ``DESCR``.
    """
    return _load(
        "tone",
        "stretchratio",
        "tuned",
        """Tone perception, 150 trials: tuned ~ stretchratio, two components.

Cohen, E. A. (1980). Inharmonic tone perception. PhD dissertation, Stanford University.
De Veaux, R. D. (1989). Mixtures of linear regressions. Computational Statistics and Data Analysis 8, 227-245.

Maximum likelihood with a weight, an intercept and a standard deviation per component:
log-likelihood 141.1984; weights .6977 .3023; lines 1.91638 + .04255 x and -.01927 + .99230 x;
standard deviations .04619 and .13283.""",
    )


def load_co2() -> Bunch:
    """Carbon dioxide emission against gross national product, per head, in 28 countries in 1996.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (28, 1), ``target`` (28,), ``feature_names``, ``target_name``, ``DESCR``, and
        ``country``, 28 abbreviations.
    """
    bunch = _load(
        "co2",
        "GNP",
        "CO2",
        """CO2 emission and GNP per head, 28 countries, 1996: CO2 ~ GNP, two components.

Hurn, M., Justel, A. and Robert, C. P. (2003). Estimating mixtures of regressions.
Journal of Computational and Graphical Statistics 12, 55-79.

Maximum likelihood with a weight, an intercept and a standard deviation per component:
log-likelihood -66.93977; weights .754921 .245079; lines 8.678987 - .023344 x and 1.415150 + .676596 x;
standard deviations 2.049315 and .809389.""",
    )
    bunch["country"] = np.array([record["country"] for record in _records("co2")])
    return bunch


def load_no() -> Bunch:
    """Nitrogen oxide and equivalence ratio of an ethanol engine (Brinkman, 1981): 88 runs.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (88, 1), ``target`` (88,), ``feature_names``, ``target_name``, ``DESCR``.
    """
    return _load(
        "no",
        "NO",
        "Equivalence",
        """Peak nitrogen oxide of a one-cylinder engine on ethanol, 88 runs: Equivalence ~ NO, two components.

Brinkman, N. D. (1981). Ethanol fuel: a single-cylinder engine study of efficiency and exhaust emissions.
SAE Transactions 90, 1410-1424.
Hurn, M., Justel, A. and Robert, C. P. (2003). Estimating mixtures of regressions.
Journal of Computational and Graphical Statistics 12, 55-79.

Maximum likelihood with a weight, an intercept and a standard deviation per component:
log-likelihood 122.0384; weights .5103 .4897; lines 1.24708 - .08300 x and .56499 + .08502 x;
standard deviations .02414 and .04331.""",
    )


def _records(name: str) -> list[dict[str, str]]:
    with files("wmlr").joinpath("data", f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _load(name: str, feature: str, target: str, description: str) -> Bunch:
    records = _records(name)
    return Bunch(
        data=np.array([[float(record[feature])] for record in records]),
        target=np.array([float(record[target]) for record in records]),
        feature_names=[feature],
        target_name=target,
        DESCR=description,
    )


def _positive_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(f"{name} must be a positive integer (got {value!r})")
    return int(value)


def _positive_number(name: str, value: float) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be positive (got {value!r})")


def _shares(weights: ArrayLike | None, k: int) -> Array:
    if weights is None:
        return np.full(k, 1.0 / k)
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (k,):
        raise ValueError(f"weights must hold one number per component, shape ({k},) (got shape {shares.shape})")
    if not np.all(shares >= 0) or abs(float(shares.sum()) - 1.0) > 1e-8:
        raise ValueError(f"weights must be non-negative and sum to 1; divide them by their sum (got {shares})")
    return shares.copy()


def _group_ids(groups: int | ArrayLike | None, n: int) -> NDArray[Any] | None:
    if groups is None:
        return None
    ids = np.asarray(groups)
    if ids.ndim == 0:
        return np.arange(n) // _positive_integer("groups, when a number of rows per group,", groups)
    if ids.shape != (n,):
        raise ValueError(f"groups must be a number or one id per row, shape ({n},) (got shape {ids.shape})")
    return ids.copy()


def _generator(random_state: Seed) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)
