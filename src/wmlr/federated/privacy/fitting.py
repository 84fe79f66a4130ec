"""An estimator fitted within the private rounds of a federation."""

from __future__ import annotations

from typing import Any

from wmlr.core.capabilities import capabilities_of
from wmlr.core.round import Watcher


def fit_privately(estimator: Any, federation: Any, watch: Watcher | None = None, **columns: Any) -> Any:
    """Fit an estimator on a federation with ``privacy=``, in as many rounds as are left.

    What it has cost is the estimator's ``privacy_``. ``estimator.fit_on`` does the same; this name refuses a
    federation that is not private. ``columns`` that are no features are named as for ``fit_on``.
    """
    if capabilities_of(federation).rounds_left is None:
        raise ValueError("this federation adds no noise: give it privacy=Privacy(...), or use the estimator's fit_on")
    return estimator.fit_on(federation, watch, **columns)
