"""Agents that may lie: whose answers can be an answer, whose rows fit what the majority's say, and who moves a fit."""

from wmlr.federated.trust.influence import Influence

__all__ = ["Influence"]
