"""Recipes on the centralised problem: every method on the same rows, sharing each pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlr import EM, GDA, GEM, PrintedEM, Refreshed
from wmlr.core.round import Fit, Method, run_together
from wmlr.datasets import MixedRegression
from wmlr.engines import ArrayRows
from wmlr.experiments.federated_cells import grid_name
from wmlr.experiments.problems import PaperProblem, Watch, negative_log_likelihood, relative_error, stop_divergence
from wmlr.inference.fisher import cramer_rao
from wmlr.methods.task import Task


def printed_wmlr(lam: float) -> GDA:
    """Algorithm 1 as the authors ran it: lambda/2, raw features, one noise draw per row kept throughout."""
    return GDA(lam=lam, regularizer="halved", coordinates="raw", expectation="frozen")


def exact_wmlr(lam: float, snr: float) -> GDA:
    """The same with the expectation computed in place of drawn."""
    return GDA(lam=lam, regularizer="halved", coordinates="raw", nodes=8 if snr >= 5 else 16)


def printed_gem(alpha: float) -> GEM:
    """Gradient EM as the authors ran it: half the gradient in beta, sigma^2 from 1, no safeguard."""
    return GEM(alpha=alpha, capped=False, coordinates="raw", half_gradient=True, sigma2_start=1.0)


def wmlr_task(problem: PaperProblem, iterations: int) -> Task:
    """Random beta and gamma, and noise of deviation 1 in the generator, as in the authors' code."""
    return problem.task(iterations, start="random", sigma=1.0)


def comparison(n: int, d: int, snr: float, seed: int, iterations: int, lam: float, alpha: float) -> dict[str, Any]:
    """Table 1's methods and the fair ones on one data set."""
    problem = PaperProblem(n, d, snr, seed)
    data = problem.draw()
    methods: dict[str, Method[Fit]] = {
        "em": PrintedEM().fit(problem.task(iterations)),
        "gem": printed_gem(alpha).fit(problem.task(iterations)),
        "wmlr": printed_wmlr(lam).fit(wmlr_task(problem, iterations)),
        "em_least_squares": EM().fit(problem.task(iterations, tol=1e-9)),
        "wmlr_exact": exact_wmlr(lam, snr).fit(wmlr_task(problem, iterations)),
        "wmlr_refreshed": Refreshed().fit(problem.task(iterations, start="auto", tol=1e-9)),
    }
    outcome = _outcomes(methods, data)
    outcome["cramer_rao"] = {"error": float(cramer_rao(data.mixture, n=n).relative_error)}
    return outcome


def repeat_table4(n: int, d: int, snr: float, seed: int, iterations: int, lam: float) -> dict[str, Any]:
    """Table 4's two methods on one fresh data set."""
    problem = PaperProblem(n, d, snr, seed)
    methods: dict[str, Method[Fit]] = {
        "em": PrintedEM().fit(problem.task(iterations, tol=1e-12)),
        "wmlr": printed_wmlr(lam).fit(wmlr_task(problem, iterations)),
    }
    return _outcomes(methods, problem.draw())


def search(
    n: int, d: int, snr: float, seed: int, iterations: int, lams: Sequence[float], alphas: Sequence[float]
) -> dict[str, Any]:
    """Every value of the grids on one data set."""
    problem = PaperProblem(n, d, snr, seed)
    methods: dict[str, Method[Fit]] = {}
    for lam in lams:
        methods[f"wmlr {grid_name(lam)}"] = printed_wmlr(lam).fit(wmlr_task(problem, iterations))
    for alpha in alphas:
        methods[f"gem {grid_name(alpha)}"] = printed_gem(alpha).fit(problem.task(iterations))
    return _outcomes(methods, problem.draw())


def _outcomes(methods: dict[str, Method[Fit]], data: MixedRegression) -> dict[str, Any]:
    truth = data.coef[0]
    watches = [Watch(truth) for _ in methods]
    with np.errstate(all="ignore"):
        fits = run_together(
            [stop_divergence(method) for method in methods.values()], ArrayRows(data.X, data.y), watches
        )
    mean_square = float(np.mean(data.y**2))
    outcome: dict[str, Any] = {}
    for (name, fit), watch in zip(zip(methods, fits), watches):
        s2 = _variance(name, fit, mean_square)
        error = relative_error(fit.mixture.coef[0], truth)
        outcome[name] = {
            "error": error,
            "nll": negative_log_likelihood(fit.mixture, data.X, data.y, s2),
            "iterations": fit.n_iter,
            "errors": [float(f"{value:.6g}") for value in watch.errors],
        }
    return outcome


def _variance(name: str, fit: Fit, mean_square: float) -> float:
    """The variance each method's NLL is printed with: EM's stays at 1, WMLR's is E[y^2] - |beta|^2."""
    if name == "em":
        return 1.0
    if name.startswith("wmlr") and name != "wmlr_refreshed":
        return mean_square - float(np.sum(fit.mixture.coef[0] ** 2))
    return float(fit.mixture.sigma[0] ** 2)
