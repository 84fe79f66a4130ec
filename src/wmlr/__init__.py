"""Mixed linear regression: each row of data follows one of k unknown linear models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlr.lazy import names_of
from wmlr.version import __version__

if TYPE_CHECKING:
    from wmlr import datasets, federated, inference, metrics
    from wmlr.estimator.regression import MixedLinearRegression
    from wmlr.federated import Federation
    from wmlr.methods import EM, GDA, GEM, IFCA, AltMin, FederatedEM, MixIRLS, PrintedEM, Reduction, Refreshed
    from wmlr.methods.search.certificate import Search
    from wmlr.methods.search.effort import Effort
    from wmlr.model.mixture import Mixture
    from wmlr.selection import select_components

_HOMES = {
    "MixedLinearRegression": "wmlr.estimator",
    "Mixture": "wmlr.model",
    "select_components": "wmlr.selection",
    "AltMin": "wmlr.methods",
    "Effort": "wmlr.methods.search.effort",
    "EM": "wmlr.methods",
    "GDA": "wmlr.methods",
    "GEM": "wmlr.methods",
    "IFCA": "wmlr.methods",
    "FederatedEM": "wmlr.methods",
    "Federation": "wmlr.federated",
    "MixIRLS": "wmlr.methods",
    "PrintedEM": "wmlr.methods",
    "Reduction": "wmlr.methods",
    "Refreshed": "wmlr.methods",
    "Search": "wmlr.methods.search.certificate",
    "SparkRows": "wmlr.engines.spark",
    "SqlRows": "wmlr.engines.sql",
}
_ROOMS = (
    "datasets", "engines", "families", "federated", "inference", "metrics", "neural", "plots", "report", "theory",
)  # fmt: skip

__all__ = [
    "EM",
    "GDA",
    "GEM",
    "IFCA",
    "AltMin",
    "Effort",
    "FederatedEM",
    "Federation",
    "MixIRLS",
    "MixedLinearRegression",
    "Mixture",
    "PrintedEM",
    "Reduction",
    "Refreshed",
    "Search",
    "SparkRows",
    "SqlRows",
    "__version__",
    "datasets",
    "federated",
    "inference",
    "metrics",
    "select_components",
]


__getattr__ = names_of(__name__, _HOMES | {room: f"wmlr.{room}" for room in _ROOMS})


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
