"""How well parameters are known: information, standard errors, intervals, tests, the bootstrap and criteria."""

from wmlr.inference.classification import Classification
from wmlr.inference.component_test import ComponentTest
from wmlr.inference.fisher import CramerRao, cramer_rao, fisher_information

__all__ = ["Classification", "ComponentTest", "CramerRao", "cramer_rao", "fisher_information"]
