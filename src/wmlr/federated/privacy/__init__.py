"""Sums that show no agent: secure aggregation, and differential privacy of agents."""

from wmlr.federated.privacy.noise import Privacy, Spent
from wmlr.federated.privacy.protocol import Secure, SecureSumError

__all__ = ["Privacy", "Secure", "SecureSumError", "Spent"]
