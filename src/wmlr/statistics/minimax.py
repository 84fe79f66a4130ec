"""The minimax objective of WMLR and its gradients, as sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from wmlr.core.query import Field, Part, Parts, Query, unit
from wmlr.core.round import Rows, Together
from wmlr.numerics import kernels
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.expectations import Expectation
from wmlr.statistics import compiled
from wmlr.statistics.moments import SecondMoments, response
from wmlr.statistics.posterior import ConstantMixing
from wmlr.statistics.score import component_shares, score_parts
from wmlr.statistics.symmetric_score import sign_shares


@dataclass(frozen=True)
class SymmetricMinimax(Query):
    """Sums of psi_2 (eq. psi_2) over the data minus its expectation under p_beta, and gradients.

    ``gamma`` is (d, 2). ``s2`` is the variance of the model's noise. y is divided by ``unit`` first.
    """

    beta: Annotated[Array, Field("p")]
    gamma: Annotated[Array, Field("p g")]
    s2: Annotated[float, Field(above=0.0)]
    expectation: Expectation
    unit: Annotated[float, Field(above=0.0)] = 1.0
    mean: Annotated[Array | None, Field("p")] = None

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "value": Part((), unit()),
            "gradients": Part((len(self.beta), 3), unit(x=1)),
            "log_cosh": Part((), unit()),
            "tyu": Part((), unit(y=2, times=self.unit**-2)),
        }

    @property
    def repeats(self) -> float:
        return float(self.expectation.size)

    def check(self) -> None:
        self.expectation.check()
        _check_columns(self, 2)

    def residual_form(self) -> Query:
        return Together((self, SecondMoments(self.beta, self.mean)))

    def from_residual_form(self, sums: Sums, moments: Sums) -> Sums:
        """The two scalars from which sigma^2 and the likelihood follow, as if the first round's rows had answered."""
        own, second = Together((self, SecondMoments(self.beta))).split_sums(sums)
        known = float(moments["yy"]) / self.unit**2 + float(self.beta @ moments["gram"] @ self.beta)
        found = float(second["yy"]) / self.unit**2 + float(second["uu"])
        apart = 0.5 * (known - found)
        log_cosh = own["log_cosh"] + apart / self.s2
        return own | {"tyu": np.asarray(own["tyu"] + apart), "log_cosh": np.asarray(log_cosh)}

    def shares(self, rows: Rows) -> Array:
        """By the signs that the model gives to rows, and by their factors in the gradients."""
        scaled = replace(rows, y=response(rows, self.mean) / self.unit)
        U = kernels.forward(rows.X, np.column_stack([self.beta, self.gamma]))
        return np.hstack([sign_shares(scaled, self.beta, self.s2, None), self.gradient_factors(rows, U)[0]])

    def answer(self, rows: Rows) -> Sums:
        sums = compiled.symmetric_minimax(rows, self.beta, self.gamma, self.s2, self.expectation, self.unit, self.mean)
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        U = kernels.forward(rows.X, np.column_stack([self.beta, self.gamma]))
        W, value = self.gradient_factors(rows, U)
        u = U[:, 0]
        wty, sums = kernels.signs(u, response(rows, self.mean) / self.unit, self.s2, rows.weight, rows.starts)
        return {
            "value": np.array(value),
            "gradients": kernels.backward(rows.X, W, len(self.beta) > rows.X.shape[1]),
            "log_cosh": np.array(sums["log_cosh"]),
            "tyu": np.array(float(wty @ u)),
        }

    def gradient_factors(self, rows: Rows, U: Array) -> tuple[Array, float]:
        """Each row's factor of x in the gradients (n, 3), and the value, at U = x'[beta gamma1 gamma2]."""
        w, starts = rows.weight, rows.starts
        y = response(rows, self.mean) / self.unit
        u = U[:, 0]
        sigma = float(np.sqrt(self.s2))
        count = kernels.unit_counts(len(rows), w, starts)
        W = np.zeros_like(U)
        value = 0.0
        for j, sign in ((1, 1.0), (2, -1.0)):
            v = U[:, j]
            model_value, T, moment = self.expectation.log_cosh(u, v, sigma, w, starts, rows.index)
            data_tanh, data_value = kernels.tanh_log_cosh(kernels.unit_sums(y * v, w, starts))
            W[:, 0] += sign * v * T
            W[:, j] = sign * (y * kernels.to_rows(data_tanh, None, starts, len(rows)) - moment)
            value += sign * float(count @ (data_value - model_value))
        if w is not None:
            W *= w[:, None]
        return W, value


@dataclass(frozen=True)
class Minimax(Query):
    """Sums of psi_gamma (eq. prop_psi_k) over the data minus its expectation under p_beta, and gradients.

    ``beta`` is (d, k), ``gamma`` (d, 2k): the first k vectors are the numerator's. ``s2`` are the
    variances of the model's components, ``tau2`` the variance inside psi. y is divided by ``unit`` first.
    Rows of a group share their component and psi is taken on the group; that expectation is over all its
    rows' noise, so it must be drawn.
    """

    beta: Annotated[Array, Field("p k")]
    gamma: Annotated[Array, Field("p g")]
    log_weights: Annotated[Array, Field("k")]
    s2: Annotated[Array, Field("k", above=0.0)]
    tau2: Annotated[float, Field(above=0.0)]
    expectation: Expectation
    unit: Annotated[float, Field(above=0.0)] = 1.0

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts = score_parts(self.beta, self.s2, False)
        del parts["score"]
        gradients = Part((len(self.beta), 3 * len(self.s2)), unit(x=1))
        return {"value": Part((), unit()), "gradients": gradients} | parts

    @property
    def repeats(self) -> float:
        return float(self.expectation.size)

    @property
    def numbers_per_row(self) -> int:
        return len(self.s2) ** 2 * self.expectation.size

    def check(self) -> None:
        self.expectation.check()
        _check_columns(self, 2 * len(self.s2))

    def shares(self, rows: Rows) -> Array:
        """By the posteriors of the model, and by rows' factors in the gradients."""
        scaled = replace(rows, y=rows.y / self.unit)
        U = kernels.forward(rows.X, np.column_stack([self.beta, self.gamma]))
        found = component_shares(scaled, self.beta, ConstantMixing(self.log_weights), self.s2)
        return np.hstack([found, self.gradient_factors(rows, U)[0]])

    def answer(self, rows: Rows) -> Sums:
        sums = compiled.minimax(
            rows, self.beta, self.gamma, self.log_weights, self.s2, self.tau2, self.expectation, self.unit
        )
        return self._plain(rows) if sums is None else sums

    def _plain(self, rows: Rows) -> Sums:
        U = kernels.forward(rows.X, np.column_stack([self.beta, self.gamma]))
        W, value = self.gradient_factors(rows, U)
        E = (rows.y / self.unit)[:, None] - U[:, : self.beta.shape[1]]
        R, units, log_likelihood, _ = kernels.posteriors(E, self.log_weights, self.s2, rows.weight, rows.starts)
        return {
            "value": np.array(value),
            "gradients": kernels.backward(rows.X, W, self.beta.shape[0] > rows.X.shape[1]),
            "squares": np.einsum("ij,ij->j", R * E, E),
            "mass": R.sum(axis=0),
            "units": units,
            "log_likelihood": np.array(log_likelihood),
        }

    def gradient_factors(self, rows: Rows, U: Array) -> tuple[Array, float]:
        """Each row's factor of x in the gradients (n, 3k), and the value, at U = x'[beta gamma]."""
        k = self.beta.shape[1]
        y = rows.y / self.unit
        mean, G = U[:, :k], U[:, k:]
        offsets, shares = self.expectation.offsets(rows.index, len(rows))
        Y = mean[:, :, None] + np.sqrt(self.s2)[:, None] * offsets[:, None, :]
        probabilities = np.exp(self.log_weights)[:, None] * shares
        count = kernels.unit_counts(len(rows), rows.weight, rows.starts)
        W = np.empty_like(U)
        slope = np.zeros_like(Y)
        value = 0.0
        for half, sign in ((slice(0, k), 1.0), (slice(k, 2 * k), -1.0)):
            side = (G[:, half], self.log_weights, self.tau2, rows.weight, rows.starts)
            data_value, _, data_pull = kernels.discriminator(y, *side)
            model_value, model_slope, model_pull = kernels.discriminator(Y, *side)
            slope += sign * model_slope
            expected = np.einsum("njqi,jq->ni", model_pull, probabilities)
            W[:, k:][:, half] = sign * (data_pull - expected)
            value += sign * float(count @ (data_value - np.einsum("njq,jq->n", model_value, probabilities)))
        W[:, :k] = np.einsum("njq,jq->nj", slope, probabilities)
        if rows.weight is not None:
            W *= rows.weight[:, None]
        return W, value


def _check_columns(query: SymmetricMinimax | Minimax, wanted: int) -> None:
    columns = query.gamma.shape[1]
    if columns != wanted:
        raise ValueError(f"{type(query).__name__}.gamma has {columns} columns where {wanted} are wanted")
