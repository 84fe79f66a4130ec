"""The server's side: a SuperLink, the agents it lets in, and the run it serves."""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from flwr.common.constant import SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.task_identity import TaskIdentity

from wmlr.flower.control import begin_run, commander, enlist
from wmlr.flower.keys import Certificates
from wmlr.flower.letter_grid import LetterGrid
from wmlr.flower.processes import WORD, Child, Folder
from wmlr.flower.superlink import KEYS
from wmlr.flower.tasks import Runtime, heartbeat
from wmlr.io.files import write_private

STARTING = 60.0
RELEASE = 8.0
LOOK = 0.1
CALLS = 4  # how often a call that cannot connect is tried


@dataclass(frozen=True)
class Address:
    """Where a server listens, and who may come.

    Attributes
    ----------
    host, port : the address; 0.0.0.0 is every address of this machine.
    certificates : what it shows; None speaks without TLS.
    agents : public keys of the agents, by name; None lets everyone in.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    certificates: Certificates | None = None
    agents: Mapping[str, bytes] | None = field(default=None, repr=False)

    @property
    def local(self) -> str:
        """How this machine itself reaches the server."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def authority(self) -> Path | None:
        return None if self.certificates is None else self.certificates.authority


@contextmanager
def superlink(address: Address) -> Iterator[Grid]:
    """A SuperLink with a run of ours on it; both are gone afterwards."""
    _refuse_taken(address)
    with Folder() as name:
        folder = Path(name)
        secret, word = secrets.token_bytes(32), secrets.token_hex(32)
        write_private(folder / "secret", secret)
        child = Child("wmlr.flower.superlink", _options(address, folder / "secret"), folder, {WORD: word})
        with child:
            _wait(child, address)
            with commander(address.local, word, address.authority) as control:
                enlist(control, address.agents or {})
                begin_run(control)
            runtime = Runtime(address.local, secret, word, address.authority)
            try:
                with _grid_of_run(runtime, _token(runtime), word) as grid:
                    yield grid
            except httpx.HTTPError as error:
                if child.is_running:
                    raise
                raise RuntimeError(f"the SuperLink has ended: {child.last_lines()}") from error
            finally:
                runtime.close()


@contextmanager
def _grid_of_run(runtime: Runtime, token: str, word: str) -> Iterator[LetterGrid]:
    """The Grid of a run, whose ServerApp is whatever the caller does with it."""
    grid = LetterGrid(runtime.address, runtime.authority, token, word)
    grid._retry_invoker.max_tries = CALLS
    client = grid._runtime_client
    status, details = SubStatus.FAILED, "the server was stopped"
    with heartbeat(client):
        given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id = given.task_id
        TaskIdentity.run_id = given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        grid.set_run(run_from_proto(given.run))
        try:
            yield grid
            status, details = SubStatus.COMPLETED, ""
        finally:
            grid._retry_invoker.max_tries = 1
            with suppress(httpx.HTTPError, RuntimeError):
                client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
            grid.close()


def _options(address: Address, secret: Path) -> list[str]:
    options = ["--host", address.host, "--port", str(address.port)]
    options += ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
    if address.certificates is None:
        return [*options, "--insecure"]
    files = address.certificates
    options += ["--ssl-ca-certfile", str(files.authority)]
    options += ["--ssl-certfile", str(files.certificate), "--ssl-keyfile", str(files.key)]
    return options if address.agents is None else [*options, KEYS]


def _refuse_taken(address: Address) -> None:
    """Wait a moment for the port, which the SuperLink of a server just killed may still hold, and refuse it then."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    until = time.monotonic() + RELEASE
    while True:
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address.host, address.port))
            return
        except OSError as error:
            if time.monotonic() > until:
                raise ValueError(
                    f"nobody can listen on {address.host}:{address.port} ({error.strerror}): choose another --port"
                ) from None
        time.sleep(LOOK)


def _wait(child: Child, address: Address) -> None:
    """Wait until the SuperLink answers."""
    scheme = "http" if address.authority is None else "https"
    trusted = ssl.create_default_context(cafile=None if address.authority is None else str(address.authority))
    until = time.monotonic() + STARTING
    while child.is_running and time.monotonic() < until:
        try:
            if httpx.get(f"{scheme}://{address.local}/health", verify=trusted, timeout=5.0).is_success:
                return
        except httpx.TransportError as error:
            if "certificate" in str(error).lower():
                raise ValueError(
                    f"the server's certificate is not good for {address.local} ({error}): "
                    f"wmlr server keys --host {address.host} makes another"
                ) from None
        time.sleep(LOOK)
    raise RuntimeError(f"the SuperLink did not start at {address.host}:{address.port}: {child.last_lines()}")


def _token(runtime: Runtime) -> str:
    until = time.monotonic() + STARTING
    while time.monotonic() < until:
        token = runtime.acquire(TaskType.SERVER_APP)
        if token is not None:
            return token
        time.sleep(LOOK)
    raise RuntimeError(f"the SuperLink handed out no task within {STARTING:.0f} s")
