"""The agent's side: keeps in touch with the server, and answers what it is sent."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import httpx
from flwr.supercore.run import RunNotRunningException

from wmlr.flower.agent import Agent
from wmlr.flower.agent_app import Tell, agent_app
from wmlr.flower.link import AgentLink, App, Connection, answer_one, open_link

AGAIN = 1.0  # seconds between two tries to reach a server
REMIND = 5.0  # seconds between two words on a server that cannot be reached
PROBE = 3.0  # seconds between two looks at what a server speaks that cannot be connected to
PASSING = (502, 503, 504)  # what a server says that will be back


class RefusedError(RuntimeError):
    """The server does not let this agent in."""


def join(agent: Agent, connection: Connection, tell: Tell, stay: bool = False) -> None:
    """Answer for an agent until the server says that it is done with it.

    Parameters
    ----------
    agent : its rows.
    connection : the way to the server.
    tell : hears what happens, a line each.
    stay : wait for the next fit after one is done.

    Raises
    ------
    RefusedError
        When the server does not let the agent in, or sends it away.
    """
    ends: list[tuple[str, bool]] = []

    def note_end(reason: str, done: bool) -> None:
        tell(f"the server says: {reason}")
        if not (stay and done):
            ends.append((reason, done))

    app, patience = agent_app(lambda _: agent, tell, note_end), _Patience(connection, tell)
    while not ends:
        with open_link(connection) as link:
            try:
                patience.reach(link.register)
                patience.note_connection()
                while not ends:
                    begun = time.monotonic()
                    if not _answer_next(link, app, tell, patience):
                        time.sleep(max(0.0, connection.pause - (time.monotonic() - begun)))
            except httpx.HTTPStatusError as error:
                patience.wait_after_refusal(error)
    reason, done = ends[0]
    if not done:
        raise RefusedError(f"the server sent this agent away: {reason}")


class _Patience:
    """Tries again where the server is out of reach, and for a while where it refuses."""

    def __init__(self, connection: Connection, tell: Tell) -> None:
        self.connection, self.tell = connection, tell
        self._since: float | None = None
        self._connected = False
        self._told = self._probed = time.monotonic()

    def note_connection(self) -> None:
        """Note that the server has let the agent in."""
        self._connected, self._since = True, None
        self.tell(f"connected to {self.connection.server}")

    def reach(self, call: Callable[..., Any], *given: Any) -> Any:
        """What a call gives, which is made again as long as the server is out of reach."""
        begun = self._told = time.monotonic()
        while True:
            try:
                return call(*given)
            except httpx.TransportError:
                self._remind(begun)
            except httpx.HTTPStatusError as error:
                if error.response.status_code not in PASSING:
                    raise
                self._remind(begun)
            time.sleep(AGAIN)

    def wait_after_refusal(self, error: httpx.HTTPStatusError) -> None:
        """Wait a moment before the next try; raise where there were enough."""
        now, server = time.monotonic(), self.connection.server
        if self._since is None:
            self._since = now
            self.tell(f"the connection to {server} {'broke off' if self._connected else 'failed'}: trying again")
        if now - self._since > self.connection.patience:
            raise RefusedError(f"the server at {server} does not let this agent in: {_reason(error)}") from None
        self._connected = False
        time.sleep(AGAIN)

    def _remind(self, begun: float) -> None:
        """Say every few seconds that the server cannot be reached; end where it will never be."""
        now = time.monotonic()
        if now - self._probed > PROBE:
            self._probed = now
            if reason := tls_mismatch(self.connection):
                raise RefusedError(reason)
        if now - self._told > REMIND:
            self._told = now
            self.tell(
                f"no connection to {self.connection.server} for {now - begun:.0f} s: is wmlr server running "
                "there, and the port open? trying on"
            )


def _reason(error: httpx.HTTPStatusError) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in error.response.text[:300])
    return f"{error.response.status_code} {text}".strip()


def tls_mismatch(connection: Connection) -> str:
    """What is wrong where one side speaks TLS and the other does not; nothing where that cannot be told."""
    host, _, port = connection.server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE) as plain:
            anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
            try:
                with anybody.wrap_socket(plain):
                    speaks = True
            except ssl.SSLError as error:
                speaks = "WRONG_VERSION_NUMBER" not in str(error) and "RECORD_LAYER" not in str(error)
    except OSError:
        return ""
    if speaks and connection.authority is None:
        return f"the server at {connection.server} speaks TLS: add --tls ca.crt"
    if not speaks and connection.authority is not None:
        return f"the server at {connection.server} does not speak TLS: leave out --tls, or start it with --tls"
    return ""


def _answer_next(link: AgentLink, app: App, tell: Tell, patience: _Patience) -> bool:
    """Answer a message if there is one; what goes wrong with it ends this message and not the agent."""
    try:
        return answer_one(link, app, patience.reach)
    except (httpx.HTTPError, RefusedError):
        raise
    except RunNotRunningException:
        tell("a message could not be answered: the run is over")
    except Exception as error:
        tell(f"a message could not be answered: {type(error).__name__}: {error}")
    return False
