"""Fitting where the data are: agents in one process, their rounds and their ledger."""

from wmlr.federated.checkpoint import Recorded
from wmlr.federated.federation import Federation
from wmlr.federated.ledger import Ledger, Round
from wmlr.federated.participation import Participation
from wmlr.federated.plots import ErrorTrace, error_against_bytes
from wmlr.federated.privacy import Privacy, Secure, SecureSumError, Spent
from wmlr.federated.privacy.fitting import fit_privately
from wmlr.federated.trust import Influence

__all__ = [
    "ErrorTrace",
    "Federation",
    "Influence",
    "Ledger",
    "Participation",
    "Privacy",
    "Recorded",
    "Round",
    "Secure",
    "SecureSumError",
    "Spent",
    "error_against_bytes",
    "fit_privately",
]
