"""How well parameters are known: information, standard errors, intervals, tests, the bootstrap and criteria."""

from wmlr.inference.fisher import CramerRao, cramer_rao, fisher_information

__all__ = ["CramerRao", "cramer_rao", "fisher_information"]
