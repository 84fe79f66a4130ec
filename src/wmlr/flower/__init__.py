"""Fitting among agents on other machines, over Flower.

A server has Flower's SuperLink beside it, and an agent speaks to that as Flower's SuperNodes do. What
they carry are this package's queries and sums, so that ``MixedLinearRegression.fit_on`` runs as it is:

    engine.py       the engine: asks the agents over a Flower Grid, adds what they answer
    members.py      who has joined, who answers, who does not
    messages.py     messages to agents and their replies
    agent.py        an agent: its rows, and what it refuses
    agent_app.py    the ClientApp; server_app.py the ServerApp: the same app under plain ``flwr run``
    fitting.py      a fit from the first agent's joining to the standard errors
    keys.py         certificates and keys
    superlink.py    Flower's process beside a server; serving.py starts it, tasks.py does what it asks
    lines.py        lines to its port, counted; unfolding.py messages that would become many times their bytes
    link.py         an agent's calls to the SuperLink; joining.py makes them until the fit is done
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from wmlr.io.tables import MissingExtraError

QUIET = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}
"""What keeps Flower from installing things and from calling home."""


def require() -> None:
    """Raise, with what to install, where Flower is missing; keep it quiet where it is there."""
    if find_spec("flwr") is None:
        raise MissingExtraError("a real federation needs Flower: pip install 'wmlr[flower]'")
    os.environ.update(QUIET)
