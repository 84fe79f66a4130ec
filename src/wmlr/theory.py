"""The paper's theorems as functions: what they assume, checked, and what they then promise.

A bound written with O(.) in the paper is returned with its leading constant set to ``constant`` (1 unless
told otherwise): it says how the quantity scales, and by itself no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wmlr.families import Noise
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.coordinates import orient_columns
from wmlr.numerics.roots import roots


@dataclass(frozen=True)
class StepSizes:
    """The constants of Theorem 2: ascent and descent steps, smoothness L and condition number kappa."""

    alpha_max: float
    alpha_min: float
    L: float
    kappa: float


@dataclass(frozen=True)
class GeneralizationBound:
    """Theorem 4: how far the empirical objective and its gradient may be from the true ones."""

    value: float
    gradient: float


@dataclass(frozen=True)
class CorrelationCondition:
    """Theorem 3's condition for a reference vector.

    Attributes
    ----------
    probability : max of P(r'x x'beta <= 0) and P(r'x x'beta >= 0) over the rows.
    holds : whether that is 1.
    cosine : |cos| of the angle between the reference and beta.
    gaussian : the probability for x ~ N(0, I), 1 - angle/pi, which is below 1 unless they are parallel.
    reference : the reference examined.
    """

    probability: float
    holds: bool
    cosine: float
    gaussian: float
    reference: Array


def data_eta(X: ArrayLike, y: ArrayLike, *, worst_case: bool = False) -> float:
    """eta of Theorem 2 from data: E[y^2 |x|^2], as its proof uses it.

    With ``worst_case``, C^2 E[y^2] with C the longest row, as the theorem states it; never smaller.
    """
    rows, response = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)
    if worst_case:
        return float(squares.max() * np.mean(response**2))
    return float(np.mean(response**2 * squares))


def step_sizes(
    lam: float,
    eta: float,
    reference_norm: float = 1.0,
    *,
    radius: float | None = None,
    regularizer: str = "halved",
) -> StepSizes:
    """Theorem 2: alpha_max = 1/L and alpha_min = 1/(kappa^2 L).

    Its constants are proved with lambda/2 times the squared distances from the references, which bend by lambda.
    Where the regulariser is lambda times them, as the problem itself is printed, it bends by 2 lambda, and that
    stands in lambda's place in the constants and in the assumptions.

    Parameters
    ----------
    lam : the regulariser's lambda.
    eta : a bound on C^2 E[y^2]; see :func:`data_eta`.
    reference_norm : the length of the reference vector.
    radius : C, the longest row; when given, C^2 < lambda/2 is checked too.
    regularizer : "halved" for lambda/2 times the squared distances, "printed" for lambda times them.

    Raises
    ------
    ValueError
        When an assumption of the theorem fails; the message says which.

    Examples
    --------
    >>> from wmlr.theory import step_sizes
    >>> round(step_sizes(4.0, 1.0, 1.0).kappa, 2)
    6.5
    """
    _positive(lam=lam, eta=eta)
    if reference_norm < 0:
        raise ValueError(f"reference_norm must not be negative (got {reference_norm!r})")
    per_lam = _bend(regularizer)
    bend, most = per_lam * lam, "lam / 2" if per_lam == 1 else "lam"
    if not eta < bend / 2:
        raise ValueError(
            f"Theorem 2 (the convergence theorem) asks for eta = C^2 E[y^2] below {most} (got eta={eta:.4g}, "
            f"lam={lam:.4g}): raise lam above {2 * eta / per_lam:.4g}, or use steps='paper'"
        )
    if radius is not None and not radius**2 < bend / 2:
        raise ValueError(
            f"Theorem 2 asks for C^2 below {most} (got C={radius:.4g}, lam={lam:.4g}): "
            f"raise lam above {2 * radius**2 / per_lam:.4g}, or scale the rows of X"
        )
    L = bend + 4 * eta * (1 + eta / bend + reference_norm)
    kappa = L / (bend - 2 * eta)
    return StepSizes(alpha_max=1 / L, alpha_min=1 / (kappa**2 * L), L=L, kappa=kappa)


def _bend(regularizer: str) -> float:
    """The regulariser's second derivative in each gamma, per lambda."""
    if regularizer not in ("printed", "halved"):
        raise ValueError(f"regularizer must be 'printed' or 'halved' (got {regularizer!r})")
    return 2.0 if regularizer == "printed" else 1.0


def iteration_bound(
    lam: float,
    eta: float,
    reference_norm: float,
    delta: float,
    epsilon: float,
    *,
    constant: float = 1.0,
    regularizer: str = "halved",
) -> float:
    """Theorem 2: iterations to an epsilon-stationary point, (kappa^2 L Delta + kappa L^2 (2 eta/lam)^2) / epsilon^2.

    Parameters
    ----------
    lam, eta, reference_norm, regularizer : as in :func:`step_sizes`.
    delta : Delta, the objective max over gamma at the start minus its least value over beta.
    epsilon : the gradient norm to be reached.
    constant : the O(.)'s leading constant.
    """
    _positive(epsilon=epsilon, constant=constant)
    if delta < 0:
        raise ValueError(f"delta is a start's value minus the minimum and cannot be negative (got {delta!r})")
    steps = step_sizes(lam, eta, reference_norm, regularizer=regularizer)
    L, kappa, bend = steps.L, steps.kappa, _bend(regularizer) * lam
    return constant * (kappa**2 * L * delta + kappa * L**2 * (2 * eta / bend) ** 2) / epsilon**2


def c_transform_constant(X: ArrayLike, y: ArrayLike, gamma: ArrayLike, *, n_components: int = 2) -> float:
    """Proposition 2: the lambda with which the squared distances to the references bound the c-transform.

    k C^2 E[(1 + C|y|)^2] / (1 - eta) with C the longest row and eta = 2 k C^2 max |gamma_i|^2.

    Parameters
    ----------
    X, y : the rows.
    gamma : (m, d), the discriminator's vectors.
    n_components : k.

    Raises
    ------
    ValueError
        When eta is not below 1: the proposition then says nothing.
    """
    rows, response = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    vectors = np.atleast_2d(np.asarray(gamma, dtype=np.float64))
    if vectors.shape[1] != rows.shape[1]:
        raise ValueError(f"gamma must have {rows.shape[1]} columns, as X has (got {vectors.shape[1]})")
    C = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
    eta = 2 * n_components * C**2 * float(np.einsum("ij,ij->i", vectors, vectors).max())
    if not eta < 1:
        raise ValueError(
            f"Proposition 2 asks for eta = 2 k C^2 max|gamma|^2 below 1 (got {eta:.4g} with k={n_components}, "
            f"C={C:.4g}): shorten gamma or scale the rows of X"
        )
    return n_components * C**2 * float(np.mean((1 + C * np.abs(response)) ** 2)) / (1 - eta)


def bayes_error(mixture: Mixture, X: Any) -> float:
    """P_err of Theorem 1: how often the best guess of a row's component from (x, y) is wrong.

    Where two weighted densities are equal is found in closed form; between such places one component is the
    likeliest throughout, and the others' probabilities are added up.

    Examples
    --------
    >>> from wmlr.model import Mixture
    >>> from wmlr.theory import bayes_error
    >>> round(bayes_error(Mixture.of([[0.0], [2.0]]), [[1.0]]), 6)
    0.158655
    """
    _positive(sigma=float(mixture.sigma.min()))
    means = mixture.means(np.asarray(X, dtype=np.float64))
    live = mixture.weights > 0
    means, sigma, weights = means[:, live], mixture.sigma[live], mixture.weights[live] / mixture.weights.sum()
    noise = mixture.noise
    borders = _borders(noise, means, sigma, np.log(weights) - np.log(sigma))
    edges = np.hstack([np.full((len(means), 1), -np.inf), borders, np.full((len(means), 1), np.inf)])
    low, high = edges[:, :-1], edges[:, 1:]
    with np.errstate(invalid="ignore"):
        inside = np.where(
            np.isinf(low), high - sigma.max(), np.where(np.isinf(high), low + sigma.max(), (low + high) / 2)
        )
    inside = np.where(np.isfinite(inside), inside, 0.0)[..., None]
    densities = noise.log_density((inside - means[:, None]) / sigma) + np.log(weights) - np.log(sigma)
    wrong = np.arange(len(weights)) != densities.argmax(axis=-1)[..., None]
    a, b = ((edge[..., None] - means[:, None]) / sigma for edge in (low, high))
    flip = a > 0  # the smaller tail keeps its digits
    masses = noise.cdf(np.where(flip, -a, b)) - noise.cdf(np.where(flip, -b, a))
    return float((masses * weights * wrong).sum() / len(means))


def _borders(noise: Noise, means: Array, sigma: Array, offsets: Array) -> Array:
    """Where two components' weighted densities are equal: (n, k (k - 1)), in order, infinity where they never are."""
    found = [np.empty((len(means), 0))]
    for i, j in combinations(range(len(sigma)), 2):
        closed = noise.crossing(offsets[i] - offsets[j])
        if closed is None:
            pair = [i, j]
            found.append(_search_borders(noise, means[:, pair], sigma[pair], offsets[pair]))
            continue
        factor, constant = closed
        apart = means[:, i] - means[:, j]
        curved = 1.0 - factor * (sigma[i] / sigma[j]) ** 2
        square = (apart * sigma[i] / sigma[j]) ** 2 * factor + curved * constant * sigma[i] ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            half = apart + np.copysign(np.sqrt(square), apart)
            both = np.stack([half / curved, (apart**2 - constant * sigma[i] ** 2) / half], axis=1)
        found.append(means[:, j, None] + both)
    borders = np.hstack(found)
    return np.sort(np.where(np.isfinite(borders), borders, np.inf), axis=1)


def _search_borders(noise: Noise, means: Array, sigma: Array, offsets: Array) -> Array:
    """The same of two components, where there is no closed form: between which points of a grid the order changes."""

    def first_less_second(y: Array, rows: Integers) -> Array:
        z = (y[..., None] - means[rows, None]) / sigma
        return np.asarray((noise.log_density(z) + offsets) @ np.array([1.0, -1.0]))

    every = np.arange(len(means))
    grid = np.sort((means[:, :, None] + sigma[:, None] * noise.knots()).reshape(len(means), -1), axis=1)
    above = first_less_second(grid, every) > 0
    changes = above[:, :-1] != above[:, 1:]
    places = np.argsort(~changes, axis=1, kind="stable")[:, : int(changes.sum(axis=1).max(initial=0))]
    low, high = (np.take_along_axis(grid, places + side, axis=1) for side in (0, 1))
    borders = roots(first_less_second, low, high, 1e-12 * float(sigma.min()))
    return np.where(np.take_along_axis(changes, places, axis=1), borders, np.inf)


def duality_gap_bound(largest_mean: float, sigma: float, error_probability: float) -> float:
    """Theorem 1: 16 (C'^2 + 2 sigma^2) sqrt(P_err) + 2 (C'^2 + sigma^2) P_err^(1/4).

    Parameters
    ----------
    largest_mean : C', a bound on |x'beta*_i| over rows and components.
    sigma : the noise deviation.
    error_probability : P_err, see :func:`bayes_error`.
    """
    _positive(sigma=sigma)
    if largest_mean < 0:
        raise ValueError(f"largest_mean bounds |x'beta| and cannot be negative (got {largest_mean!r})")
    if not 0 <= error_probability <= 1:
        raise ValueError(f"Theorem 1's P_err is a probability (got {error_probability!r})")
    mean_square, noise = largest_mean**2, sigma**2
    return float(
        16 * (mean_square + 2 * noise) * error_probability**0.5 + 2 * (mean_square + noise) * error_probability**0.25
    )


def spectral_reference(X: ArrayLike, y: ArrayLike) -> Array:
    """The reference of section 4.1: the unit top eigenvector of M_n = (1/n) sum y^2 xx'."""
    rows, response = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weighted = rows * response[:, None]
    return orient_columns(np.linalg.eigh(weighted.T @ weighted / len(rows))[1][:, -1:])[:, 0]


def correlation_condition(
    beta: ArrayLike, X: ArrayLike, y: ArrayLike | None = None, *, reference: ArrayLike | None = None
) -> CorrelationCondition:
    """Theorem 3's condition, max{P(r'x x'beta <= 0), P(r'x x'beta >= 0)} = 1, over the rows of X.

    Parameters
    ----------
    beta : (d,), the true vector or an estimate of it.
    X, y : the rows; y is needed for the spectral reference only.
    reference : (d,); when omitted, :func:`spectral_reference`.

    Raises
    ------
    ValueError
        When neither y nor a reference is given, or a vector is zero: the condition then has no direction.
    """
    rows, truth = np.asarray(X, dtype=np.float64), np.ravel(np.asarray(beta, dtype=np.float64))
    if reference is None and y is None:
        raise ValueError("correlation_condition needs a reference, or y from which to find the spectral one")
    vector = spectral_reference(rows, y) if reference is None and y is not None else np.ravel(np.asarray(reference))
    lengths = float(np.linalg.norm(vector)), float(np.linalg.norm(truth))
    if min(lengths) == 0:
        raise ValueError("Theorem 3 asks for a reference correlated with beta: neither may be the zero vector")
    product = (rows @ vector) * (rows @ truth)
    probability = max(float(np.mean(product <= 0)), float(np.mean(product >= 0)))
    cosine = min(abs(float(vector @ truth)) / (lengths[0] * lengths[1]), 1.0)
    return CorrelationCondition(
        probability=probability,
        holds=probability == 1.0,
        cosine=cosine,
        gaussian=1.0 - float(np.arccos(cosine)) / float(np.pi),
        reference=np.asarray(vector, dtype=np.float64),
    )


def generalization_bound(
    n: int,
    d: int,
    eta: float,
    lam: float,
    delta: float,
    *,
    radius: float = 1.0,
    sigma: float = 1.0,
    constant: float = 1.0,
) -> GeneralizationBound:
    """Theorem 4: sqrt(d eta^4 log(eta / (lam delta)) / n), and for the gradient that over 1 - eta/lam.

    Parameters
    ----------
    n, d : rows and features.
    eta : the bound on |beta|.
    lam : the regulariser's lambda.
    delta : the bound holds with probability at least 1 - delta.
    radius, sigma : the longest row and the noise deviation, neither above 1.
    constant : the O(.)'s leading constant.

    Raises
    ------
    ValueError
        When an assumption of the theorem fails; the message says which.
    """
    _positive(n=n, d=d, eta=eta, lam=lam, radius=radius, sigma=sigma, constant=constant)
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability of failure, between 0 and 1 (got {delta!r})")
    if max(radius, sigma) > 1:
        raise ValueError(
            f"Theorem 4 asks for max(C, sigma) at most 1 (got C={radius:.4g}, sigma={sigma:.4g}): scale X and y"
        )
    if not eta < lam:
        raise ValueError(f"Theorem 4's gradient bound asks for eta below lam (got eta={eta:.4g}, lam={lam:.4g})")
    logarithm = float(np.log(eta / (lam * delta)))
    if logarithm <= 0:
        raise ValueError(
            f"Theorem 4's log(eta / (lam delta)) must be positive (got eta={eta:.4g}, lam={lam:.4g}, "
            f"delta={delta:.4g}): lower delta below {eta / lam:.4g}"
        )
    value = constant * float(np.sqrt(d * eta**4 * logarithm / n))
    return GeneralizationBound(value=value, gradient=value / (1 - eta / lam))


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive (got {value!r})")
