"""The scikit-learn face of the library: settings, the fit, the fitted object, its prediction, summary and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlr.lazy import names_of

if TYPE_CHECKING:
    from wmlr.estimator.regression import MixedLinearRegression

__all__ = ["MixedLinearRegression"]

__getattr__ = names_of(__name__, {"MixedLinearRegression": "wmlr.estimator.regression"})
