"""The judge: what a fitted mixture is worth, whoever found it.

Every end is climbed on by the same accelerated EM before it is judged, so that what counts is which maximum was
found and not whose tolerance was tighter. With one sigma for all, the value is the log-likelihood. With a sigma each
the likelihood is unbounded, and the value that ranks is

    log-likelihood - (1/n) sum_j (S / s2_j + log(s2_j / S)),

S the variance that one regression leaves, with s2_j never below grain^2/12, where the responses are multiples of the
grain; the plain log-likelihood is reported beside it. The judge shares no code with the methods it judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.kernels import LOG_2PI

LEAST_VARIANCE = 1e-6
LEAST_WEIGHT = 1e-12
LEAST_MASS = 1e-9
EM_STEPS = 3000
GAIN = 1e-4
LONGEST = 64.0
COARSEST, FINEST = -3, 7

State = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Value:
    """A maximum: the value that ranks, its plain log-likelihood, and its parameters on the data's own scale.

    ``at_floor`` says that a variance sits at its floor.
    """

    ranked: float
    log_likelihood: float
    mixture: Mixture
    at_floor: bool


def grain(y: Array) -> float:
    """The coarsest power of ten of which all responses are multiples; zero where there is none."""
    for digits in range(COARSEST, FINEST):
        multiples = y * 10.0**digits
        if np.all(np.abs(multiples - np.round(multiples)) < 1e-9 * np.maximum(1.0, np.abs(multiples))):
            return float(10.0**-digits)
    return 0.0


class Judge:
    """Judges mixtures on one data set, with intercepts, one sigma or a sigma each."""

    def __init__(self, X: Array, y: Array, shared_sigma: bool, intercept: bool = True) -> None:
        n = len(y)
        self._means = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
        centred = X - self._means
        scale = np.sqrt(np.mean(centred**2, axis=0))
        Q, R = np.linalg.qr(centred / scale)
        self._into = R * (scale / np.sqrt(n))
        self._Z = np.column_stack([Q * np.sqrt(n), np.ones(n)]) if intercept else Q * np.sqrt(n)
        self._mean = float(y.mean()) if intercept else 0.0
        self._unit = float(np.sqrt(np.mean((y - self._mean) ** 2)))
        self._y = (y - self._mean) / self._unit
        self._intercept, self._shared = intercept, shared_sigma
        self._left = float(np.mean((self._y - self._Z @ (self._Z.T @ self._y) / n) ** 2))
        self._penalty = 0.0 if shared_sigma else 1.0 / n
        step = 0.0 if shared_sigma else grain(y) / self._unit
        self._floor = max(LEAST_VARIANCE, step**2 / 12.0)
        self._constant = -n * (np.log(self._unit) + 0.5 * LOG_2PI)

    def settle(self, mixture: Mixture, steps: int = EM_STEPS) -> Value:
        """Climb from a mixture to the maximum it lies below."""
        here = self._inside(mixture)
        value, quiet, taken = -np.inf, 0, 0
        while taken < steps and quiet < 2:
            before, first = self._step(here)
            middle, second = self._step(first)
            there = _extrapolate(here, first, second, self._floor)
            reached, beyond = self._step(there)
            taken += 3
            here, value = (beyond, reached) if reached >= middle else (second, middle)
            quiet = quiet + 1 if value - before < GAIN else 0
        if self._shared:
            here = (here[0], here[1], np.full(len(here[1]), here[2][0]))
        ranked, _ = self._step(here)
        plain = ranked + self._taken_off(here[2])
        return Value(ranked, plain, self._outside(here), bool(np.any(here[2] <= 1.001 * self._floor)))

    def value(self, mixture: Mixture) -> float:
        """The value that ranks, where the mixture is."""
        return self._step(self._inside(mixture))[0]

    def _taken_off(self, s2: Array) -> float:
        return float(self._penalty * np.sum(self._left / s2 + np.log(s2 / self._left)))

    def _step(self, state: State) -> tuple[float, State]:
        """The value at a state, and one step of penalised EM from it."""
        B, weights, s2 = state
        E = self._y[:, None] - self._Z @ B
        joint = E * E * (-0.5 / s2) + (np.log(np.maximum(weights, LEAST_WEIGHT)) - 0.5 * np.log(s2))
        top = joint.max(axis=1, keepdims=True)
        R = np.exp(joint - top)
        total = R.sum(axis=1, keepdims=True)
        R /= total
        value = float(np.sum(top + np.log(total))) + self._constant - self._taken_off(s2)
        mass = R.sum(axis=0)
        ahead = np.empty_like(B)
        for j, column in enumerate(R.T):
            weighted = self._Z * column[:, None]
            ridge = LEAST_MASS * max(float(mass[j]), LEAST_MASS)
            gram = weighted.T @ self._Z
            gram[np.diag_indices_from(gram)] += ridge
            ahead[:, j] = np.linalg.solve(gram, weighted.T @ self._y + ridge * B[:, j])
        squares = np.sum(R * (self._y[:, None] - self._Z @ ahead) ** 2, axis=0)
        if self._shared:
            s2 = np.full(len(mass), squares.sum() / mass.sum())
        else:
            s2 = (squares + 2 * self._penalty * self._left) / np.maximum(mass + 2 * self._penalty, LEAST_MASS)
        weights = np.maximum(mass / mass.sum(), LEAST_WEIGHT)
        return value, (ahead, weights / weights.sum(), np.maximum(s2, self._floor))

    def _inside(self, mixture: Mixture) -> State:
        slopes = self._into @ mixture.coef.T / self._unit
        constants = (mixture.intercept + mixture.coef @ self._means - self._mean) / self._unit
        B = np.vstack([slopes, constants]) if self._intercept else slopes
        s2 = np.maximum((mixture.sigma / self._unit) ** 2, self._floor)
        if self._shared:
            s2 = np.full(len(s2), float(mixture.weights @ s2))
        weights = np.maximum(mixture.weights, LEAST_WEIGHT)
        return B, weights / weights.sum(), s2

    def _outside(self, state: State) -> Mixture:
        B, weights, s2 = state
        slopes = B[:-1] if self._intercept else B
        coef = np.linalg.solve(self._into, slopes * self._unit).T
        constants = np.zeros(len(weights))
        if self._intercept:
            constants = self._mean + self._unit * B[-1] - coef @ self._means
        return Mixture(coef, constants, weights, self._unit * np.sqrt(s2))


def _extrapolate(here: State, first: State, second: State, floor: float) -> State:
    """SQUAREM (Varadhan and Roland, 2008): two steps of EM, followed on as far as they bend little."""

    def flat(state: State) -> Array:
        return np.concatenate([state[0].ravel(), np.log(state[1]), np.log(state[2])])

    start, one, two = flat(here), flat(first), flat(second)
    step, bend = one - start, two - 2 * one + start
    ratio = float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-300)
    length = min(max(ratio, 1.0), LONGEST)
    ahead = start + 2 * length * step + length**2 * bend
    k = len(here[1])
    size = here[0].size
    weights = np.exp(np.clip(ahead[size : size + k] - ahead[size : size + k].max(), -27.0, 0.0))
    s2 = np.maximum(np.exp(np.clip(ahead[size + k :], -60.0, 60.0)), floor)
    return ahead[:size].reshape(here[0].shape), weights / weights.sum(), s2
