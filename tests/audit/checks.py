"""What is compared with the independent code, one function each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from audit import families
from audit import likelihood as own
from audit.likelihood import Array, Model
from audit.problems import Problem
from wmlr import MixedLinearRegression

FLAT = 1e-5  # below this least eigenvalue of the information, errors are differences of nearly equal numbers
NIL = 1e-9  # what rounding may make of an eigenvalue of nought


@dataclass(frozen=True)
class Fitted:
    """A fit, and the same parameters for the independent code."""

    problem: Problem
    fit: Any

    @cached_property
    def model(self) -> Model:
        model, law = self.problem.model(self.fit.mixture_.n_components), self.fit.mixture_.family
        return replace(model, span=law.high - law.low) if self.problem.settings["outliers"] else model

    @cached_property
    def logits(self) -> Array:
        """(k, g + 1) of the weights, the constant last."""
        return self.fit.gate_coef_ if self.model.gate else np.log(self.fit.weights_)[:, None]

    @cached_property
    def theta(self) -> Array:
        fit = self.fit
        return self.model.pack(fit.coef_, fit.intercept_, self.logits, fit.sigma_, fit.outlier_share_)

    @cached_property
    def ending(self) -> tuple[float, float]:
        """The gain left, and the least eigenvalue of the information."""
        return own.gain_left(self.model, self.problem.data, self.theta)


def likelihood_and_criteria(found: Fitted) -> None:
    fit, model, theta, data = found.fit, found.model, found.theta, found.problem.data
    total = own.log_likelihood(model, data, theta)
    rows, roles = (data.X, data.y, data.weight, data.groups), data.roles
    np.testing.assert_allclose(fit.log_likelihood_, total, rtol=1e-10, atol=1e-10)
    score = fit.score(*rows, **roles)
    np.testing.assert_allclose(score, total / data.weights.sum(), rtol=1e-10, atol=1e-10)
    if found.problem.settings["alpha"]:
        return  # effective numbers of parameters are another matter
    count, units = sum(model.counts), data.units
    shares = own.posterior(model, data, theta)
    entropy = -np.sum(np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300)), 0.0), axis=1)
    np.testing.assert_allclose(fit.aic(*rows, **roles), 2 * count - 2 * total, rtol=1e-10)
    np.testing.assert_allclose(fit.bic(*rows, **roles), count * np.log(units.sum()) - 2 * total, rtol=1e-10)
    by_rows = count * np.log(data.weights.sum()) - 2 * total
    np.testing.assert_allclose(fit.bic(*rows, **roles, count="rows"), by_rows, rtol=1e-10)
    np.testing.assert_allclose(fit.icl(*rows, **roles) - fit.bic(*rows, **roles), 2 * units @ entropy, atol=1e-8)
    hard = -2 * units @ np.log(shares.max(axis=1))
    np.testing.assert_allclose(fit.icl(*rows, **roles, hard=True) - fit.bic(*rows, **roles), hard, atol=1e-8)


def prediction(found: Fitted) -> None:
    fit, model, theta, data = found.fit, found.model, found.theta, found.problem.data
    lines, sigma, _ = (part[0] for part in model.unpack(theta[None]))
    at_rows = {name: values for name, values in data.roles.items() if name != "labels"}
    alone = replace(data, weight=None, groups=None, labels=None)
    weights = own.row_weights(model, alone, theta)
    eta = own.predictors(model, data, lines[None])[0]
    means = families.mean(model.family, eta)
    size = float(np.abs(means).max() + np.abs(data.y).max())
    np.testing.assert_allclose(fit.predict_components(data.X, **at_rows), means, atol=1e-10 * size)
    np.testing.assert_allclose(fit.predict(data.X, **at_rows), np.sum(means * weights, axis=1), atol=1e-10 * size)
    trials = 1.0 if data.trials is None else data.trials[:, None]
    law = families.law(model.family, model.dof, eta, sigma, trials)
    logs = families.log_densities(model.family, model.dof, data.y[:, None], eta[None], sigma[None, None], trials)[0]
    density = np.sum(np.exp(logs) * weights, axis=1)
    np.testing.assert_allclose(fit.predict_density(data.X, data.y, **at_rows), density, rtol=1e-9, atol=1e-300)
    below = np.sum(law.cdf(data.y[:, None]) * weights, axis=1)
    np.testing.assert_allclose(fit.predict_cdf(data.X, data.y, **at_rows), below, rtol=1e-9, atol=1e-14)
    middle = fit.predict_quantile(data.X, 0.3, **at_rows)
    reached = np.sum(law.cdf(middle[:, None]) * weights, axis=1)
    if model.family in families.COUNTS:  # the least number by which so much is reached
        assert np.all(reached > 0.3 - 1e-9)
        assert np.all(np.sum(law.cdf(middle[:, None] - 1) * weights, axis=1) < 0.3 + 1e-9)
    else:
        np.testing.assert_allclose(reached, 0.3, atol=1e-9)
    shares = own.posterior(model, replace(data, weight=None), theta)
    shares = shares if data.groups is None else shares[data.groups]
    np.testing.assert_allclose(fit.responsibilities(data.X, data.y, data.groups, **data.roles), shares, atol=1e-10)
    if data.groups is not None:
        shares = own.posterior(model, data, theta)
        np.testing.assert_allclose(fit.group_responsibilities_, shares, atol=1e-10)
        known = np.sum(means * shares[data.groups], axis=1)
        np.testing.assert_allclose(fit.predict(data.X, data.groups, **at_rows), known, atol=1e-10 * size)


def maximum(found: Fitted) -> None:
    least = found.ending[1]
    assert least > -NIL, f"this is a saddle: least eigenvalue {least:.3g}"


def gain(found: Fitted) -> None:
    left, least = found.ending
    assert left < 1e-3 or least < NIL, f"{left:.3g} nats are left"


def peak(found: Fitted) -> None:
    """Where the likelihood has kinks, and so no Newton step: that no short step along a parameter gains a hundredth."""
    model, data, theta = found.model, found.problem.data, found.theta
    sizes = np.multiply.outer([-0.003, -0.001, -0.0003, 0.0003, 0.001, 0.003], own.scales(model, data, theta))
    around = np.vstack([theta, *(theta + np.diag(steps) for steps in sizes)])
    values = own.log_likelihoods(model, data, around) - own.penalties(model, data, around, theta[None])
    assert values[1:].max() - values[0] < 0.01, f"a step gains {values[1:].max() - values[0]:.3g}"


def errors(found: Fitted) -> None:
    if found.ending[1] < FLAT:
        return
    data = found.problem.data
    inverse = np.diag(np.linalg.inv(own.information(found.model, data, found.theta)))
    for errors in ("observed", "sandwich"):
        robust = errors == "sandwich"
        expected = np.diag(own.covariance(found.model, data, found.theta, robust))
        rows = (data.X, data.y, data.weight, data.groups)
        given = np.diag(found.fit.covariance(*rows, errors=errors, **data.roles))
        # at beta = 0 no row of a symmetric pair has a score, and its sandwich is nil; with a ridge variances that are
        # not positive are not given
        size = np.maximum(expected, NIL * inverse)
        none = (expected < NIL * inverse) & bool(found.model.alpha)
        assert np.all(np.isnan(given[none]) | (given[none] < 2 * NIL * inverse[none]))
        np.testing.assert_allclose((given / size)[~none], (expected / size)[~none], atol=2e-4)


def file(found: Fitted, folder: Path) -> None:
    fit, data = found.fit, found.problem.data
    fit.save(folder / "model.json")
    again = MixedLinearRegression.load(folder / "model.json")
    for name in ("coef_", "intercept_", "weights_", "sigma_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fit, name))
    for name in ("log_likelihood_", "n_iter_", "converged_", "history_", "n_parameters_", "parameter_names_"):
        assert getattr(again, name) == getattr(fit, name)
    assert again.get_params() == fit.get_params()
    at_rows = {name: values for name, values in data.roles.items() if name != "labels"}
    predicted = [one.predict(data.X, data.groups, **at_rows) for one in (again, fit)]
    np.testing.assert_array_equal(*predicted)
    again.save(folder / "again.json")
    assert (folder / "again.json").read_text() == (folder / "model.json").read_text()
