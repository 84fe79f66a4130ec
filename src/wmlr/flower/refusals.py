"""Refusals: one word to the server, whatever the reason; the reason is for the agent's own operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

WORD = "refused"


class RefusalError(ValueError):
    """What an agent will not do, and why; the text stays with the agent.

    ``cost`` is what it counts among the refusals that an agent allows.
    """

    cost = 1


class RowsRefusalError(RefusalError):
    """A refusal that follows from what the rows are, so that it says something of them: few are allowed."""

    cost = 5


@contextmanager
def refusals_for_rows() -> Iterator[None]:
    """Count whatever goes wrong in making an answer as a refusal that follows from the rows."""
    try:
        yield
    except RefusalError:
        raise
    except Exception as error:
        raise RowsRefusalError(f"{type(error).__name__}: {error}") from None
