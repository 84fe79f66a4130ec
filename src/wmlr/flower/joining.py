"""The agent's side: a SuperNode that keeps in touch with the server, and the answers it is given to send."""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.supercore.run import RunNotRunningException

from wmlr.flower.agent import Agent
from wmlr.flower.agent_app import Tell, agent_app
from wmlr.flower.processes import PAUSE, Child, Folder, free_port
from wmlr.flower.tasks import App, Runtime, answer_one
from wmlr.io.files import write_private

LOOK = 0.05
AGAIN = 1.0
REMIND = 5.0  # seconds between two words on a server that cannot be reached
LAST_REPLY = 1.0  # seconds that a SuperNode may need to pass the last reply on
CONNECTED = "SuperNode ID"
PROBE = 3.0  # seconds between two looks at what a server speaks that cannot be connected to


@dataclass(frozen=True)
class Connection:
    """How an agent reaches its server.

    Attributes
    ----------
    server : host and port.
    authority : the certificate that vouches for the server; None speaks without TLS.
    key : the agent's private key, where the server asks for one.
    pause : seconds between two looks for messages.
    patience : seconds to keep trying where the server refuses or breaks the connection.
    """

    server: str
    authority: Path | None = None
    key: Path | None = None
    pause: float = 0.5
    patience: float = 60.0

    def options(self) -> list[str]:
        """As ``flower-supernode`` wants them."""
        options = ["--superlink", self.server]
        options += ["--insecure"] if self.authority is None else ["--root-certificates", str(self.authority)]
        return options if self.key is None else [*options, "--auth-supernode-private-key", str(self.key)]


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

    def ended(reason: str, done: bool) -> None:
        tell(f"the server says: {reason}")
        if not (stay and done):
            ends.append((reason, done))

    app = agent_app(lambda _: agent, tell, ended)
    with Folder() as name:
        folder, secret, port = Path(name), secrets.token_bytes(32), free_port()
        write_private(folder / "secret", secret)
        options = [*connection.options(), "--host", "127.0.0.1", "--port", str(port)]
        options += ["--isolation", "process", "--superexec-auth-secret-file", str(folder / "secret")]
        runtime = Runtime(f"127.0.0.1:{port}", secret)
        with Child("wmlr.flower.supernode", options, folder, {PAUSE: str(connection.pause)}) as node:
            keeper = _Keeper(node, connection, tell)
            while not ends:
                if not (keeper.expects() and _answer_next(runtime, app, tell)):
                    keeper.look()
                    time.sleep(LOOK)
            time.sleep(connection.pause + LAST_REPLY)
    reason, done = ends[0]
    if not done:
        raise RefusedError(f"the server sent this agent away: {reason}")


class _Keeper:
    """Starts a SuperNode again when it has ended, until patience is over."""

    def __init__(self, node: Child, connection: Connection, tell: Tell) -> None:
        self.node, self.connection, self.tell = node, connection, tell
        self._since: float | None = None
        self._connected = False
        self._begun = self._told = time.monotonic()
        self._asked = 0.0
        self._probed = time.monotonic()

    def expects(self) -> bool:
        """Whether a message may wait: the SuperNode has just written to its log, or was not asked for a while."""
        if self.node.speaks() or time.monotonic() - self._asked > AGAIN:
            self._asked = time.monotonic()
            return True
        return False

    def look(self) -> None:
        """See to it that the SuperNode runs."""
        if self.node.running:
            if not self._connected and self.node.said(CONNECTED):
                self._connected, self._since = True, None
                self.tell(f"connected to {self.connection.server}")
            elif not self._connected:
                self._remind()
            return
        now, server = time.monotonic(), self.connection.server
        if self._since is None:
            self._since = now
            self.tell(f"the connection to {server} {'broke off' if self._connected else 'failed'}: trying again")
        if now - self._since > self.connection.patience:
            raise RefusedError(f"the server at {server} does not let this agent in: {self.node.last_words()}")
        self._connected = False
        time.sleep(AGAIN)
        self.node.start()

    def _remind(self) -> None:
        """Say every few seconds that the server cannot be reached; end where it will never be."""
        now = time.monotonic()
        if now - self._probed > PROBE:
            self._probed = now
            if reason := tls_mismatch(self.connection):
                raise RefusedError(reason)
        if now - self._told > REMIND:
            self._told = now
            self.tell(
                f"no connection to {self.connection.server} for {now - self._begun:.0f} s: is wmlr server running "
                "there, and the port open? trying on"
            )


def tls_mismatch(connection: Connection) -> str:
    """What is wrong where one side speaks TLS and the other does not; nothing where that cannot be told."""
    host, _, port = connection.server.rpartition(":")
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE) as plain:
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


def _answer_next(runtime: Runtime, app: App, tell: Tell) -> bool:
    """Answer a message if there is one; what goes wrong with it ends this message and not the agent."""
    try:
        return answer_one(runtime, app)
    except (httpx.HTTPError, RunNotRunningException):
        tell("a message could not be answered: the connection broke off, or the run is over")
    except Exception as error:
        tell(f"a message could not be answered: {type(error).__name__}: {error}")
    return True
