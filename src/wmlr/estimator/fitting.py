"""From settings and rows to the best fit of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from wmlr.core.capabilities import capabilities_of
from wmlr.core.progress import announce_fit
from wmlr.core.round import Engine, Fit, Report, Watcher, run, run_together
from wmlr.engines.arrays import single_blas
from wmlr.estimator.named_columns import columns_of
from wmlr.estimator.restarts import fit_without_empty_components
from wmlr.estimator.settings import resolve_family, resolve_gate, resolve_solver, who_offers
from wmlr.io.users_line import warn_user
from wmlr.methods.adaptation import adapt_method, adapt_task
from wmlr.methods.task import Task, offers
from wmlr.model.constraints import INTERCEPT, Constraints, Held
from wmlr.model.gates import EQUAL, ColumnWeights, Gate
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import WIDE


def constraints_of(
    settings: Any, columns: Sequence[str], intercept: bool | None = None, gate: tuple[str, ...] = ()
) -> Constraints:
    """Which parameters an estimator's settings leave free.

    Parameters
    ----------
    settings : the estimator.
    columns : the names of the columns that coefficients belong to, among which ``shared``, ``only`` and ``fixed`` are
        looked up.
    intercept : whether the formula has one; None where there is no formula.
    gate : names of the columns that mixing weights depend on.
    """
    family = resolve_family(settings.family, settings.robust, settings.outliers)
    own = family.own
    constant = bool(settings.fit_intercept if intercept is None else intercept) and not settings.symmetric
    return Constraints(
        intercept=constant,
        symmetric=settings.symmetric,
        gate=_gate(settings, gate),
        shared_sigma=settings.shared_sigma,
        sigma=_known_sigma(settings),
        shared=columns_of("shared", settings.shared, columns),
        own="" if own is None else own.name,
        held=_fixed_coefficients(settings, [*columns, INTERCEPT] if constant else columns, family.without_predictor),
        kinds=family.kinds,
        scaleless=family.scaleless,
    )


def _gate(settings: Any, columns: tuple[str, ...]) -> Gate:
    if settings.symmetric:
        return EQUAL
    return ColumnWeights(columns) if columns else resolve_gate(settings.gate, settings.equal_weights)


def _known_sigma(settings: Any) -> float | None:
    """The scale that is not estimated: as it is given, or 1 where the family has none."""
    if not resolve_family(settings.family, settings.robust, settings.outliers).has_scale:
        return 1.0
    return None if settings.sigma is None else float(settings.sigma)


def _fixed_coefficients(settings: Any, columns: Sequence[str], without: tuple[int, ...]) -> Held:
    """The coefficients that ``only`` takes out (0) and ``fixed`` gives: (component, column, value) from 0.

    Components ``without`` a predictor have none of the columns.
    """
    held = {(component, column): 0.0 for component in without for column in range(len(columns))}
    held |= {
        (component, column): 0.0
        for item, having in (settings.only or {}).items()
        for column in columns_of("only", [item], columns)
        for component in range(settings.n_components)
        if component + 1 not in having
    }
    for item, values in (settings.fixed or {}).items():
        for column in columns_of("fixed", [item], columns):
            for number, value in values.items():
                if (int(number) - 1, column) in held:
                    out = "and it is a point mass" if int(number) - 1 in without else "which only= takes out"
                    raise ValueError(f"fixed gives component {number} a coefficient of {item!r}, {out}")
                held[int(number) - 1, column] = float(value)
    return tuple((*place, value) for place, value in sorted(held.items()))


def task_of(settings: Any, constraints: Constraints, width: int, k: int, seed: int = 0) -> Task:
    """What an estimator's settings ask of a method, for k components and so many columns."""
    start = settings.start if k == settings.n_components else "auto"
    if not isinstance(start, str):
        start = _start_lines(np.asarray(start, dtype=np.float64), constraints, width, k)
    return Task(
        n_components=k,
        symmetric=constraints.symmetric,
        intercept=constraints.intercept,
        gate=constraints.gate,
        shared_sigma=constraints.shared_sigma,
        sigma=constraints.sigma,
        start=start,
        max_iter=settings.max_iter,
        tol=float(settings.tol),
        seed=seed,
        ridge=float(settings.alpha),
        shared=constraints.shared,
        held=constraints.held,
        labelled=constraints.labelled,
        family=resolve_family(settings.family, settings.robust, settings.outliers),
        wide=width > WIDE,
        search=settings.search,
        searches=settings.n_init,
        guard=settings.guard,
    )


def _start_lines(start: Array, constraints: Constraints, d: int, k: int) -> Array:
    start = np.atleast_2d(start)
    if start.shape == (1, d) and constraints.symmetric:
        start = np.vstack([start, -start])
    if start.shape == (k, d + 1) and not constraints.intercept:
        start = start[:, :d]
    if start.shape == (k, d) and constraints.intercept:
        start = np.column_stack([start, np.zeros(k)])
    if start.shape != (k, d + int(constraints.intercept)) or not np.all(np.isfinite(start)):
        raise ValueError(f"start must be finite numbers of shape {(k, d)} (got {start.shape})")
    return start


def fit_mixture(
    settings: Any,
    constraints: Constraints,
    rows: Engine,
    watch: Watcher | None = None,
    *,
    before: Mixture | None = None,
    smaller: Mixture | None = None,
) -> Fit:
    """The best fit of an estimator's settings to an engine's rows.

    Parameters
    ----------
    settings : the estimator.
    constraints : which parameters are free.
    rows : any engine.
    watch : called after each iteration.
    before : a mixture to begin at; smaller : one with a component fewer, to which the search may add one.
    """
    if constraints.held and rows.n_features > WIDE:
        raise ValueError(f"only= and fixed= are for at most {WIDE:,} columns (got {rows.n_features:,}): leave some out")
    solver = resolve_solver(settings.method, settings.solver)
    if constraints.labelled and (constraints.symmetric or not offers(solver, "labels")):
        raise ValueError(f"labels= needs free components, and {who_offers('labels')}")
    watch = _print_iteration if watch is None and settings.verbose else watch
    engine = capabilities_of(rows)

    def attempt(seeds: list[int], k: int, start: Mixture | None) -> Fit:
        announce_fit(k)
        first = task_of(settings, constraints.of_first(k), rows.n_features, k, seeds[0])
        if k == settings.n_components:
            first = replace(first, smaller=smaller)
        if before is not None and before.n_components == k:
            first = replace(first, start=_start_lines(before.lines, constraints, rows.n_features, k))
        first = adapt_task(first if start is None else replace(first, start=start), engine)
        searched = first.start_word == "auto" and offers(solver, "search")
        tasks = [first] if searched else [replace(first, seed=seed) for seed in seeds]
        methods = [adapt_method(solver, task, engine) for task in tasks]
        if len(methods) == 1:
            return run(methods[0], rows, watch)
        fits = run_together(methods, rows, [watch] * len(methods))
        return max(fits, key=lambda fit: fit.log_likelihood)

    with single_blas(rows.n_features if rows.n_features <= WIDE else 0):
        best = fit_without_empty_components(
            attempt, seeds_of(settings.random_state, settings.n_init), settings.n_components, settings.on_empty,
            again=engine.rounds_left is None, dear=engine.hides_rows,
            fewer=not constraints.classes(settings.n_components).any(),
        )  # fmt: skip
    _warn_of(best, settings.tol)
    return best


def seeds_of(random_state: Any, count: int) -> list[int]:
    """Seeds of independent starts, from whatever scikit-learn takes for a random state."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return [int(seed) for seed in np.random.default_rng(random_state).integers(2**62, size=count)]


def _warn_of(fit: Fit, tol: float) -> None:
    """Warn where a fit has not converged, or where its search is not sure of the maximum."""
    if not fit.converged and tol > 0:
        warn_user(convergence_warning(fit.n_iter, fit.reason), ConvergenceWarning)
    if fit.search is not None and not fit.search.sure:
        warn_user(
            f"the best maximum was {fit.search.sentence()}: another may exist; raise n_init, or set search='thorough'",
            ConvergenceWarning,
        )


def convergence_warning(iterations: int, reason: str) -> str:
    """That a fit has not converged, and what to do."""
    times = "1 iteration" if iterations == 1 else f"{iterations} iterations"
    return f"stopped after {times} without converging: {reason or 'raise max_iter'}"


def _print_iteration(report: Report) -> None:
    record = report.record
    print(
        f"iteration {record['iteration']:.0f}  log-likelihood {record['log_likelihood']:.6f}  "
        f"gradient {record['gradient_norm']:.3e}"
    )
