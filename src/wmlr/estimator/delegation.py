"""How an estimator hands on what its fitted object can do, and understands last release's spelling of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from wmlr.io.users_line import warn_user

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

OLD_ORDER = {
    "aic": ("groups", "sample_weight"),
    "bic": ("groups", "sample_weight"),
    "icl": ("groups", "sample_weight"),
    "covariance": ("groups",),
    "confidence_intervals": ("groups", "level", "robust"),
    "wald_test": ("groups",),
    "summary": ("groups",),
    "bootstrap": ("n_boot", "groups", "random_state", "n_jobs"),
}
"""What came after y in the last release, where that was another order than sample_weight, groups."""


def delegate(method: Callable[Concatenate[Any, Given], Answer]) -> Callable[Concatenate[Any, Given], Answer]:
    """A method of the estimator that asks its ``fitted_`` object, signed and documented as ``method``."""

    @wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        answer: Answer = getattr(self.fitted_, method.__name__)(*args, **named)
        return answer

    return in_present_spelling(call)


def delegate_refits(
    method: Callable[Concatenate[Any, Any, Given], Answer],
) -> Callable[Concatenate[Any, Given], Answer]:
    """The same, of a method that fits again: its ``model`` is an estimator with the settings of the fit."""

    @wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        answer: Answer = getattr(self.fitted_, method.__name__)(self._refit_estimator(), *args, **named)
        return answer

    given = signature(method)
    kept = [parameter for name, parameter in given.parameters.items() if name != "model"]
    call.__signature__ = given.replace(parameters=kept)  # type: ignore[attr-defined]
    return call


def fitted_attribute(path: str) -> Any:
    """An attribute of the estimator that is read from its ``fitted_`` object; there is none before the fit."""
    read = attrgetter(path)

    def value(self: Any) -> Any:
        if "fitted_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        found = read(self.fitted_)
        if found is None:
            raise AttributeError(f"the fit of this {type(self).__name__} has no {path.rpartition('.')[2]}")
        return found

    return property(value, doc=f"``fitted_.{path}``.")


def in_present_spelling(method: Callable[Concatenate[Any, Given], Answer]) -> Callable[Concatenate[Any, Given], Answer]:
    """A method of a fitted estimator that puts right, with a warning, what a call spells as in the last release."""
    name = method.__name__
    after = 3 if name == "wald_test" else 2

    @wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        check_is_fitted(self)
        options: Any = dict(named)
        given: Any = args
        if name in OLD_ORDER and len(args) > after and _is_old_order(name, self.fitted_, args[after:], named):
            _warn(f"{name}() now takes X, y, sample_weight, groups in this order: pass what comes after y by name")
            options |= dict(zip(OLD_ORDER[name], args[after:]))
            given = args[:after]
        if name in (*OLD_ORDER, "covariance_on") and "robust" in options:
            _warn(
                "robust= of standard errors is now errors='sandwich' (or 'clustered', with groups); robust= of the "
                "constructor, Student's noise, stays"
            )
            options["errors"] = "sandwich" if options.pop("robust") else "observed"
        return method(self, *given, **options)

    return call


def _warn(text: str) -> None:
    warn_user(text, FutureWarning)


def _is_old_order(name: str, fitted: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether arguments after y are in the order of the last release: n_boot, or groups, before the weights."""
    if name == "bootstrap":
        return isinstance(rest[0], (int, np.integer))
    if "robust" in named or (name == "confidence_intervals" and len(rest) > 1 and np.isscalar(rest[1])):
        return True
    return _are_labels(fitted, rest[0]) and not (len(rest) > 1 and _are_labels(fitted, rest[1]))


def _are_labels(fitted: Any, values: Any) -> bool:
    """Whether values are labels of the groups of the fit."""
    if fitted.groups is None or values is None or np.ndim(values) != 1:
        return False
    labels = np.asarray(values)
    known = set(fitted.groups.labels.tolist())
    return all(label in known for label in labels.tolist())
