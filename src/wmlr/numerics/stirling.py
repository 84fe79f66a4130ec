"""What is left of the gamma function's logarithm, and of its derivatives, beside their leading terms.

Log-densities whose shape is large are small differences of large numbers. Written with the leading terms cancelled on
paper, nothing is lost: each function below is exact to rounding whatever the size of its argument.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, psi

from wmlr.numerics.arrays import Array

LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))
LARGE = 20.0  # from here on five terms of Stirling's series are exact to rounding
UPWARD = 12  # steps of a recurrence after which nine terms of the series are
NEAR = 0.25  # of nil: nearer, the logarithm comes by its series


def log_less_gap(logarithm: Array, gap: Array) -> Array:
    """log(1 + gap) - gap, of gaps above -1 and the logarithms of 1 + gap; by a series where the two are near.

    The series is that of the inverse hyperbolic tangent at gap / (2 + gap).
    """
    near = np.abs(gap) < NEAR
    inside = np.where(near, gap, 0.0)
    half = inside / (2.0 + inside)
    square = half * half
    series = np.zeros_like(half)
    for power in range(19, 1, -2):
        series = series * square + 2.0 / power
    return np.asarray(np.where(near, half * (square * series - inside), logarithm - gap))


def log_gamma_rest(x: Array) -> Array:
    """log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2, what Stirling's formula leaves: about 1 / (12 x)."""
    large, small = np.maximum(x, LARGE), np.minimum(x, LARGE)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / large
    exact = gammaln(small) - (small - 0.5) * np.log(small) + small - LOG_ROOT_2PI
    return np.asarray(np.where(x > LARGE, series, exact))


def digamma_rest(x: Array) -> Array:
    """psi(x) - log x: about -1 / (2 x)."""
    large, small = np.maximum(x, LARGE), np.minimum(x, LARGE)
    square = large * large
    further = (1 / 12 - (1 / 120 - (1 / 252 - (1 / 240 - 1 / 132 / square) / square) / square) / square) / square
    series = -0.5 / large - further
    return np.asarray(np.where(x > LARGE, series, psi(small) - np.log(small)))


def trigamma_rest(x: Array) -> Array:
    """psi'(x) - 1 / x: about 1 / (2 x^2)."""
    large, small = np.maximum(x, LARGE), np.minimum(x, LARGE)
    square = large * large
    further = (1 / 6 - (1 / 30 - (1 / 42 - (1 / 30 - 5 / 66 / square) / square) / square) / square) / large
    series = (0.5 + further) / square
    return np.asarray(np.where(x > LARGE, series, _trigamma(small) - 1.0 / small))


def _trigamma(x: Array) -> Array:
    """psi'(x): by its recurrence from where nine terms of Stirling's series are exact, several times SciPy's speed."""
    with np.errstate(over="ignore"):
        steps = sum(1.0 / np.square(x + step) for step in range(UPWARD))
    large = x + UPWARD
    square = large * large
    last = 1 / 30 - (5 / 66 - (691 / 2730 - 7 / 6 / square) / square) / square
    further = 1 / 6 - (1 / 30 - (1 / 42 - last / square) / square) / square
    return np.asarray(steps + 1.0 / large + (0.5 + further / large) / square)
