"""The scikit-learn face of the library: settings, the fit, the fitted object, its prediction, summary and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmlr.estimator.regression import MixedLinearRegression

__all__ = ["MixedLinearRegression"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from wmlr.estimator import regression

        return getattr(regression, name)
    raise AttributeError(f"module 'wmlr.estimator' has no attribute {name!r}")
