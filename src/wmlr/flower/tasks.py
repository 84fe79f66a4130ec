"""The tasks a Flower process hands out, taken by the process that holds the rows or the method.

Flower would start a new process for every message, with code that came over the network. Here the SuperLink and
the SuperNodes run in their "process" isolation, and the ``wmlr`` that started them takes their tasks: an agent
answers with the code installed on its own machine, and its rows stay in its memory between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from wmlr.flower.polling import fetch_sooner

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
BEAT = 10.0  # seconds; Flower gives a task up after sixty

App = Callable[[Message, Context], Message]


class Runtime:
    """Where a Flower process on this machine hands out its tasks.

    Parameters
    ----------
    address : host and port.
    secret : what it was told to expect from whoever takes tasks.
    authority : the certificate that vouches for it, where it speaks TLS.
    """

    def __init__(self, address: str, secret: bytes, authority: Path | None = None) -> None:
        self.address = address
        self.authority = None if authority is None else authority.read_bytes()
        taker = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
        self._client = self.client(taker)
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


def answer_one(runtime: Runtime, app: App) -> bool:
    """Answer a message, if one waits; an app that fails says so to whoever asked, without the reason."""
    token = runtime.acquire(TaskType.CLIENT_APP)
    if token is None:
        return False
    with runtime.client(RuntimeTokenHttpInterceptor(token)) as client, beating(client):
        message, context, _, _ = pull_task_input(client)
        try:
            reply = app(message, context)
        except Exception as error:
            failure = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"the agent failed ({type(error).__name__})")
            push_message(client, Message(failure, reply_to=message), context)
            push_task_output(client, None, SubStatus.FAILED, type(error).__name__)
            raise
        push_message(client, reply, context)
        push_task_output(client, context, SubStatus.COMPLETED, "")
    return True


@contextmanager
def beating(client: RuntimeHttpClient) -> Iterator[None]:
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
