"""Refusals: one word to the server, whatever the reason; the reason is for the agent's own operator."""

from __future__ import annotations

WORD = "refused"


class RefusalError(ValueError):
    """What an agent will not do, and why; the text stays with the agent."""
