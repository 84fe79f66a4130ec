"""Methods: each a generator of queries that reads like its algorithm."""

from wmlr.methods.baselines import AltMin, MixIRLS
from wmlr.methods.em import EM
from wmlr.methods.federated_em import FederatedEM
from wmlr.methods.gda import GDA
from wmlr.methods.gem import GEM
from wmlr.methods.ifca import IFCA
from wmlr.methods.printed import PrintedEM
from wmlr.methods.reduction import Reduction
from wmlr.methods.refreshed import Refreshed

METHODS = {"em": EM, "gem": GEM, "mix-irls": MixIRLS, "altmin": AltMin}
SOLVERS = {"auto": Refreshed, "gda": GDA, "reduction": Reduction}

__all__ = [
    "EM",
    "GDA",
    "GEM",
    "IFCA",
    "METHODS",
    "SOLVERS",
    "AltMin",
    "FederatedEM",
    "MixIRLS",
    "PrintedEM",
    "Reduction",
    "Refreshed",
]
