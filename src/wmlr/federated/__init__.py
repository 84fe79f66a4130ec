"""Fitting where the data are: agents in one process, their rounds and their ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlr.lazy import names_of

if TYPE_CHECKING:
    from wmlr.federated.checkpoint import Recorded
    from wmlr.federated.federation import Federation
    from wmlr.federated.ledger import Ledger, Round
    from wmlr.federated.participation import Participation
    from wmlr.federated.plots import ErrorTrace, error_against_bytes
    from wmlr.federated.privacy import Privacy, Secure, SecureSumError, Spent
    from wmlr.federated.privacy.fitting import fit_privately
    from wmlr.federated.trust import Influence

_HOMES = {
    "ErrorTrace": "wmlr.federated.plots",
    "Federation": "wmlr.federated.federation",
    "Influence": "wmlr.federated.trust",
    "Ledger": "wmlr.federated.ledger",
    "Participation": "wmlr.federated.participation",
    "Privacy": "wmlr.federated.privacy",
    "Recorded": "wmlr.federated.checkpoint",
    "Round": "wmlr.federated.ledger",
    "Secure": "wmlr.federated.privacy",
    "SecureSumError": "wmlr.federated.privacy",
    "Spent": "wmlr.federated.privacy",
    "error_against_bytes": "wmlr.federated.plots",
    "fit_privately": "wmlr.federated.privacy.fitting",
}

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

__getattr__ = names_of(__name__, _HOMES)
