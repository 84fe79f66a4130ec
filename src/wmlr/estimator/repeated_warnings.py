"""Warnings of fits that try many starts: each is given once, and of several fits only the chosen one's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from wmlr.io.users_line import warn_user


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Hold back warnings, and give each of them once at the end; filters that raise, raise at once."""
    if current_thread() is not main_thread():  # the filters are the whole process's: another thread leaves them
        yield
        return
    with warnings.catch_warnings(record=True) as held:
        try:
            yield
        finally:
            distinct = {(one.category, str(one.message)): one for one in held}
    for one in distinct.values():
        warn_user(one.message, one.category)


class WarningsOfFits:
    """Fits that hold back what they warn of, to be said of the one that is chosen."""

    def __init__(self, fit: Callable[[Any], Any]) -> None:
        self.fit = fit
        self.held: dict[int, tuple[Any, list[warnings.WarningMessage]]] = {}

    def __call__(self, model: Any) -> Any:
        """Fit a model."""
        with warnings.catch_warnings(record=True) as held:
            fitted = self.fit(model)
        self.held[id(fitted)] = fitted, list(held)
        return fitted

    def repeat(self, fitted: Any) -> None:
        """Warn of what a fit has warned of."""
        for one in self.held.get(id(fitted), (None, []))[1]:
            warn_user(one.message, one.category)
