"""The task a SuperLink hands out, taken by the process that holds the method.

Flower would start a new process for it, with code that came over the network. Here the SuperLink runs in its "process"
isolation, and the ``wmlr server`` that started it takes its task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import httpx
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient

from wmlr.flower.control import Word
from wmlr.flower.polling import fetch_sooner

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
BEAT = 10.0  # seconds; Flower gives a task up after sixty


class Runtime:
    """Where a Flower process on this machine hands out its tasks.

    Parameters
    ----------
    address : host and port.
    secret : what it was told to expect from whoever takes tasks.
    word : what its door wants.
    authority : the certificate that vouches for it, where it speaks TLS.
    """

    def __init__(self, address: str, secret: bytes, word: str, authority: Path | None = None) -> None:
        self.address = address
        self.authority = None if authority is None else authority.read_bytes()
        taker = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
        self._client = self.client(taker, Word(word))
        fetch_sooner()

    def client(self, *interceptors: ProtobufClientInterceptor) -> RuntimeHttpClient:
        """A connection of its own."""
        version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
        return RuntimeHttpClient.from_server_address(
            self.address, self.authority is None, self.authority, [version, *interceptors]
        )

    def acquire(self, kind: TaskType) -> str | None:
        """The token of a task that waits, or None."""
        try:
            found = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
        except httpx.TransportError:
            return None
        return found.token if found.HasField("task") and found.token else None

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()


@contextmanager
def heartbeat(client: RuntimeHttpClient) -> Iterator[None]:
    """Tell Flower from time to time that the task is being worked on."""
    done = Event()

    def beat() -> None:
        while not done.wait(BEAT):
            with suppress(httpx.HTTPError, RunNotRunningException):
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    heart = Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()
