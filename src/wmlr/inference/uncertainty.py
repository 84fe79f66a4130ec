"""Standard errors: what was estimated, and the covariance of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmlr.inference.information import covariance, effective_parameters
from wmlr.model.constraints import GATE, INTERCEPT, SIGMA, WEIGHT, Constraints
from wmlr.model.layout import Layout, diagonal_blocks, logits_of
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

__all__ = [
    "GATE", "INTERCEPT", "SIGMA", "WEIGHT", "Constraints", "Estimates", "aliased_columns", "covariance",
    "effective_parameters", "free_parameters", "propagate_covariance", "standard_errors",
]  # fmt: skip


def aliased_columns(mixture: Mixture, constraints: Constraints) -> tuple[int, ...]:
    """The columns that follow from others and so have no estimate: they are left out, with a coefficient of 0.

    A coefficient that is estimated is not 0 to the last digit in every component.
    """
    known = np.bincount([column for _, column, _ in constraints.held], minlength=mixture.n_features)
    asked = known[: mixture.n_features] < mixture.n_components
    return tuple(np.flatnonzero(~mixture.coef.any(axis=0) & asked).tolist())


def propagate_covariance(jacobian: Array, covariance: Array) -> Array:
    """J C J', NaN for whatever depends on a parameter that has no error."""
    known = ~np.isnan(np.diag(covariance))
    inner = jacobian[:, known]
    found = np.asarray(inner @ covariance[np.ix_(known, known)] @ inner.T)
    lost = np.any(jacobian[:, ~known] != 0, axis=1)
    found[lost], found[:, lost] = np.nan, np.nan
    return found


def standard_errors(covariance: Array) -> Array:
    """Roots of the variances; NaN where a parameter has none."""
    variances = np.diag(covariance)
    return np.sqrt(np.where(variances > 0, variances, np.nan))


def free_parameters(mixture: Mixture, constraints: Constraints) -> Array:
    """The free parameters of a mixture, in the order of :func:`covariance`."""
    k, d = mixture.n_components, mixture.n_features
    lines = mixture.lines[:, : d + int(constraints.intercept)]
    own = np.array([] if mixture.family.own is None else [mixture.family.own.unbounded])
    logits = logits_of(mixture.weights) if mixture.gate is None else mixture.gate[:-1].ravel()
    layout = Layout(lines.shape[1], k, len(own), 1 if mixture.gate is None else mixture.gate.shape[1])
    whole = layout.join(lines.T, np.log(mixture.sigma), logits, own)
    free = constraints.embedding(k, d)
    return np.asarray(whole[free.argmax(axis=0)])


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a reader looks at: coefficients, sigma and weights, each on its own scale.

    Attributes
    ----------
    names, values : one of each per estimate; NaN for a column that has none.
    jacobian : their derivatives in the free parameters, for the delta method.
    scales : "linear", "log" (sigma), "square" (a sigma that may be nil) or "logit" (weights): where intervals are
        symmetric.
    """

    names: tuple[str, ...]
    values: Array
    jacobian: Array
    scales: tuple[str, ...]

    @classmethod
    def of(cls, mixture: Mixture, constraints: Constraints, columns: Sequence[str]) -> Estimates:
        """The estimated quantities of a mixture; what was held fixed is left out."""
        k = mixture.n_components
        theta = free_parameters(mixture, constraints)
        theta[constraints.places(aliased_columns(mixture, constraints), k, mixture.n_features)] = np.nan
        sigmas = constraints.sigma_names(k)
        logits = constraints.logits(k).shape[1]
        own = [] if mixture.family.own is None else [mixture.family.own]
        plain = len(theta) - len(sigmas) - logits - len(own)
        deviations = mixture.sigma[constraints.sigma_components(k)]
        if mixture.gate is None:
            shares = mixture.weights if logits else np.empty(0)
            gate_names = [f"{WEIGHT}[{j + 1}]" for j in range(len(shares))]
            gate_slopes, scale = (np.diag(shares) - np.outer(shares, shares))[:, :logits], "logit"
        else:
            shares, gate_names = theta[plain + len(sigmas) :][:logits], constraints.gate_names(k)
            gate_slopes, scale = np.eye(logits), "linear"
        slopes = [np.eye(plain), np.diag(deviations), gate_slopes]
        slopes += [np.full((1, 1), one.slope) for one in own]
        of_sigmas = _sigma_scales(mixture, constraints)
        return cls(
            names=(*constraints.names(columns, k)[:plain], *sigmas, *gate_names, *(one.name for one in own)),
            values=np.concatenate([theta[:plain], deviations, shares, [one.value for one in own]]),
            jacobian=diagonal_blocks(*slopes),
            scales=("linear",) * plain + of_sigmas + (scale,) * len(shares) + ("logit",) * len(own),
        )

    def covariance(self, free: Array) -> Array:
        """Their covariance by the delta method, from that of the free parameters."""
        return propagate_covariance(self.jacobian, free)


def _sigma_scales(mixture: Mixture, constraints: Constraints) -> tuple[str, ...]:
    laws = [mixture.family.of_component(j) for j in constraints.sigma_components(mixture.n_components)]
    return tuple("square" if law.vanishing else "log" for law in laws)
