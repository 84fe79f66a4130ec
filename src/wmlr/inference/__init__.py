"""How well parameters are known: information, standard errors, intervals, tests, the bootstrap and criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlr.lazy import names_of

if TYPE_CHECKING:
    from wmlr.inference.classification import Classification
    from wmlr.inference.component_test import ComponentTest
    from wmlr.inference.fisher import CramerRao, cramer_rao, fisher_information

_HOMES = {
    "Classification": "wmlr.inference.classification",
    "ComponentTest": "wmlr.inference.component_test",
    "CramerRao": "wmlr.inference.fisher",
    "cramer_rao": "wmlr.inference.fisher",
    "fisher_information": "wmlr.inference.fisher",
}

__all__ = ["Classification", "ComponentTest", "CramerRao", "cramer_rao", "fisher_information"]

__getattr__ = names_of(__name__, _HOMES)
