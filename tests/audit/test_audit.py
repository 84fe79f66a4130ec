"""Fits, over a random sample of all combinations of options, against code that shares nothing with the library.

``make audit`` looks at many more combinations, and at other ones each time.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, given, settings

from audit import checks
from audit import likelihood as own
from audit.problems import Problem, problems
from audit.transforms import Transform, nearest
from audit.waiting import WAITING, waits
from wmlr import MixedLinearRegression

EXAMPLES = int(os.environ.get("WMLR_AUDIT", "200"))
MAX_ITER = 1000
SAMPLED = settings(
    max_examples=EXAMPLES,
    derandomize="WMLR_AUDIT" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)


def fitted(problem: Problem, **changed: Any) -> tuple[Any, set[str]]:
    """A fit, and what it warned of: "floor" where a variance went there."""
    given = problem.settings | {"max_iter": MAX_ITER, "random_state": 0} | changed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MixedLinearRegression(**given)
        model.fit(problem.data.X, problem.data.y, **problem.fit_arguments)
    said = [str(warning.message) for warning in caught]
    return model, {word for word in ("floor", "less than one row") if any(word in text for text in said)}


@given(problem=problems())
@SAMPLED
def test_a_fit_is_what_independent_code_says_of_it(problem):
    fit, warned = fitted(problem)
    model = problem.model(fit.mixture_.n_components)
    assert model.k == problem.settings["n_components"] or "less than one row" in warned
    theta = model.pack(fit.coef_, fit.intercept_, fit.weights_, fit.sigma_)
    checks.likelihood_and_criteria(problem, fit, model, theta)
    checks.prediction(problem, fit, model, theta)
    with TemporaryDirectory() as folder:
        checks.file(problem, fit, Path(folder))
    assert fit.converged_ or fit.n_iter_ >= MAX_ITER
    if "floor" in warned or not fit.converged_:
        event("no maximum inside the model")
        return
    for name, check in (("gain", checks.gain), ("errors", checks.errors)):
        if waits(name, problem.settings):
            event(f"{name} waits")
        else:
            check(problem, fit, model, theta)


@given(problem=problems())
@SAMPLED
def test_other_units_directions_origins_and_orders_give_the_same_fit(problem):
    """From the same start, so that the search for the likeliest maximum has no say in it."""
    transform = Transform.drawn(problem)
    first, _ = fitted(problem)
    k, start = first.mixture_.n_components, np.column_stack([first.coef_, first.intercept_])
    fit, _ = fitted(problem, n_components=k, start=start)
    other, warned = fitted(transform.problem(problem), n_components=k, start=transform.start(start))
    model = problem.model(fit.mixture_.n_components)
    assert other.mixture_.n_components == model.k
    theta = model.pack(fit.coef_, fit.intercept_, fit.weights_, fit.sigma_)
    back = nearest(model, theta, transform.back(other))
    here, there = (own.log_likelihood(model, problem.data, place) for place in (theta, back))
    density = problem.data.weights.sum() * np.log(transform.scale)
    np.testing.assert_allclose(other.log_likelihood_ + density, there, rtol=1e-9, atol=1e-9)
    if "floor" not in warned:
        np.testing.assert_allclose(there, here, atol=2e-3)


def test_what_the_audit_leaves_out_is_said():
    for check, reasons in WAITING.items():
        for option, reason in reasons.items():
            warnings.warn(f"{check!r} is not audited where {option!r} is on: {reason}", UserWarning, stacklevel=1)
            assert option in MixedLinearRegression().get_params()
            assert hasattr(checks, check)
