"""Fitting where the data are: agents in one process, their rounds and their ledger."""

from wmlr.federated.federation import Federation
from wmlr.federated.ledger import Ledger, Round
from wmlr.federated.participation import Participation
from wmlr.federated.plots import ErrorTrace, error_against_bytes

__all__ = ["ErrorTrace", "Federation", "Ledger", "Participation", "Round", "error_against_bytes"]
