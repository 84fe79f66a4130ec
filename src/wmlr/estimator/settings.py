"""Settings are looked at before any work is done, and refused with their value."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from wmlr import families
from wmlr.families import Family, Student
from wmlr.methods import METHODS, SOLVERS
from wmlr.methods.search.effort import EFFORTS, Effort
from wmlr.methods.task import Solver

NUMBER = (int, float, np.integer, np.floating)


def chosen_solver(method: str | Solver, solver: str | Solver) -> Solver:
    """What ``method`` and ``solver`` mean together, whether they are names or bring settings of their own."""
    given = solver if isinstance(method, str) and method == "wmlr" else method
    if not isinstance(given, str):
        return given
    named: Solver = (SOLVERS if given is solver else METHODS)[given]()
    return named


def chosen_family(family: str | Family, robust: bool | float) -> Family:
    """What ``family`` and ``robust`` mean together."""
    chosen = families.family(family)
    if robust is False:
        return chosen
    if not chosen.least_squares:
        raise ValueError(
            f"robust={robust!r} is another spelling of Student's noise, and family={chosen.name!r} is given as well: "
            "leave out one of them"
        )
    return Student() if robust is True else Student(float(robust))


def check_parameters(estimator: Any) -> None:
    """Refuse settings that make no sense, before any work is done."""
    for name, least in (("n_components", 1), ("n_init", 1), ("max_iter", 1)):
        value = getattr(estimator, name)
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least} (got {value!r})")
    if not isinstance(estimator.tol, NUMBER) or not estimator.tol >= 0:
        raise ValueError(f"tol must be a number of at least 0 (got {estimator.tol!r})")
    if estimator.sigma is not None and not (isinstance(estimator.sigma, NUMBER) and 0 < estimator.sigma < np.inf):
        raise ValueError(f"sigma must be positive or None (got {estimator.sigma!r})")
    if estimator.symmetric and estimator.n_components != 2:
        raise ValueError(f"symmetric=True means two components (got n_components={estimator.n_components})")
    for name in ("symmetric", "equal_weights", "shared_sigma", "fit_intercept", "guard"):
        value = getattr(estimator, name)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False (got {value!r})")
    if not isinstance(estimator.alpha, NUMBER) or not 0 <= estimator.alpha < np.inf:
        raise ValueError(f"alpha must be a number of at least 0 (got {estimator.alpha!r})")
    if not isinstance(estimator.robust, bool) and not (isinstance(estimator.robust, NUMBER) and estimator.robust > 0):
        raise ValueError(f"robust must be True, False or positive degrees of freedom (got {estimator.robust!r})")
    if estimator.on_empty not in ("reseed", "drop", "raise"):
        raise ValueError(f"on_empty must be 'reseed', 'drop' or 'raise' (got {estimator.on_empty!r})")
    phi = estimator.features
    if phi is not None and (isinstance(phi, type) or not (hasattr(phi, "fit") and hasattr(phi, "transform"))):
        raise ValueError(f"features must be a transformer with fit and transform, or None (got {phi!r})")
    _check_search(estimator.search)
    if isinstance(estimator.start, str) and estimator.start not in ("auto", "spectral", "random"):
        raise ValueError(f"start must be 'auto', 'spectral', 'random' or an array (got {estimator.start!r})")
    if not _usable(estimator.method, ("wmlr", *METHODS)):
        names = ", ".join(map(repr, ("wmlr", *METHODS)))
        raise ValueError(
            f"method must be one of {names} (got {estimator.method!r}), or a method with its settings, such as "
            "GEM(alpha=0.1)"
        )
    if not _usable(estimator.solver, SOLVERS):
        names = ", ".join(map(repr, SOLVERS))
        raise ValueError(
            f"solver must be one of {names} (got {estimator.solver!r}), or a solver with its settings, such as "
            "GDA(lam=0.5)"
        )
    _check_combinations(estimator)


def _usable(value: Any, names: Collection[str]) -> bool:
    """Whether a method or solver is known by name, or can fit."""
    return value in names if isinstance(value, str) else hasattr(value, "fit") and not isinstance(value, type)


def _check_search(search: Any) -> None:
    if isinstance(search, Effort) or (isinstance(search, str) and search in EFFORTS):
        return
    if isinstance(search, NUMBER) and not isinstance(search, bool) and 0 < search < np.inf:
        return
    names = ", ".join(map(repr, EFFORTS))
    raise ValueError(f"search must be {names}, a positive number of EM steps, or an Effort (got {search!r})")


def _check_combinations(estimator: Any) -> None:
    """Refuse options that make no sense together."""
    if estimator.method != "wmlr" and estimator.solver != "auto":
        raise ValueError(f"solver={estimator.solver!r} is of method='wmlr' (got method={estimator.method!r})")
    solver = chosen_solver(estimator.method, estimator.solver)
    offers: frozenset[str] = getattr(solver, "offers", frozenset())
    if estimator.alpha and "alpha" not in offers:
        raise ValueError("alpha= needs method='em' or 'gem', or method='wmlr' with solver='auto'")
    normal = chosen_family(estimator.family, estimator.robust).least_squares
    asked = {"shared": estimator.shared is not None, "family": not normal}
    for name in (name for name, wanted in asked.items() if wanted):
        said = "robust" if name == "family" and estimator.robust is not False else name
        if estimator.symmetric:
            raise ValueError(f"{said}= is for free components: set symmetric=False")
        if name not in offers:
            raise ValueError(f"{said}= needs method='em', or method='wmlr' with solver='auto'")
    if estimator.sigma is not None and not estimator.shared_sigma:
        raise ValueError("sigma= is the known noise of all components: leave out shared_sigma=False, or sigma")
    if estimator.symmetric and not estimator.shared_sigma:
        raise ValueError("symmetric=True has one sigma: leave out shared_sigma=False")
    if not isinstance(estimator.start, str) and estimator.start is not None and estimator.n_init > 1:
        raise ValueError(f"n_init={estimator.n_init} starts from one given array would all be the same: leave it out")
    needs = sorted(getattr(solver, "needs", ()))
    if not all(getattr(estimator, name) for name in needs):
        kind = type(solver).__name__.lower()
        raise ValueError(f"solver={kind!r} needs {' and '.join(f'{name}=True' for name in needs)}")
