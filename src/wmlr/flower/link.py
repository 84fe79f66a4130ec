"""An agent's link to its server: the calls of a Flower SuperNode, made by the process that holds the rows.

A SuperNode of Flower's own keeps a database and a web server beside the agent, and would run code that came over the
network. An agent needs neither: it asks for messages, answers each with the code installed on its own machine, and
sends the reply. Nothing but bytes of a bounded number is read from the server.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, TIMESTAMP_HEADER
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
    UnregisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    FLWR_COMPONENT_NAME_METADATA_KEY,
    FLWR_PACKAGE_NAME_METADATA_KEY,
    FLWR_PACKAGE_VERSION_METADATA_KEY,
)
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, push_objects
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.version import package_name, package_version
from flwr.supernode.fleet_http_client import FleetHttpClient

from wmlr.flower.letterboxes import LETTER, REPLY, TAKE, TOKEN, message_bytes, read_message
from wmlr.flower.polling import fetch_sooner
from wmlr.flower.unfolding import MOST_BYTES_OF_WORDS, refuse_unfolding_object

MOST_BYTES = 2**26  # of an answer of the server's; Flower cuts what is larger into chunks
MOST_BYTES_OF_MESSAGE = 2**28
MOST_OBJECTS = 10_000  # that a message may be cut into
MOST_CONTEXTS = 8  # runs that are remembered
BEAT = HEARTBEAT_DEFAULT_INTERVAL / 3
LOOK = 10.0  # seconds between two looks for what does not come as a letter

App = Callable[[Message, Context], Message]


class TooLongError(ValueError):
    """A message that is longer than an agent reads."""


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


@dataclass(frozen=True)
class _Signature:
    """Says at every call who calls, as SuperNodes do; Flower's own would end the process where a server says so."""

    key: EllipticCurvePrivateKey

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Sign the time, and say which Flower this is."""
        when = now().isoformat()
        context.request.headers.update(
            {
                TOKEN: "wanted",
                FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public_key_to_bytes(self.key.public_key())).decode(),
                TIMESTAMP_HEADER: when,
                FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(self.key, when.encode())).decode(),
                FLWR_PACKAGE_NAME_METADATA_KEY: package_name,
                FLWR_PACKAGE_VERSION_METADATA_KEY: package_version,
                FLWR_COMPONENT_NAME_METADATA_KEY: "SuperNode",
            }
        )
        return call_next(context)


class _BoundedClient(FleetHttpClient):
    """Flower's calls, of whose answers no more is read than an agent has room for, and letters."""

    box: str = ""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._client.follow_redirects = False
        self._client.headers["accept-encoding"] = "identity"

    def _send(self, context: ProtobufRequestContext, *, stream: bool = False) -> httpx.Response:
        most = MOST_BYTES if context.rpc_method.endswith("/PullObject") else MOST_BYTES_OF_WORDS
        answer = _read_bounded(super()._send(context, stream=True), most)
        if context.rpc_method.endswith("/ActivateNode") and answer.is_success:
            self.box = answer.headers.get(TOKEN, "")
        return answer

    def letter(self, path: str, letter: str, content: bytes = b"") -> httpx.Response:
        """Ask for the letter after this one, or answer it."""
        headers = {TOKEN: self.box, LETTER: letter}
        request = self._client.build_request("POST", f"{self._base_url}{path}", content=content, headers=headers)
        answer = _read_bounded(self._client.send(request, stream=True, follow_redirects=False))
        answer.raise_for_status()
        return answer


def _read_bounded(answer: httpx.Response, most: int = MOST_BYTES) -> httpx.Response:
    """An answer of no more bytes than there is room for, as they came: what is packed is not unpacked."""
    content = bytearray()
    try:
        for part in [answer.content] if answer.is_closed else answer.iter_raw():
            content += part
            if len(content) > most:
                raise TooLongError(f"the server sends more than {most:,} bytes at once")
    finally:
        answer.close()
    told = {name: answer.headers[name] for name in (TOKEN, LETTER) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=told, content=bytes(content), request=answer.request)


class AgentLink:
    """One agent among the server's; it must be registered before anything else."""

    def __init__(self, connection: Connection) -> None:
        keys: tuple[EllipticCurvePrivateKey, EllipticCurvePublicKey]
        keys = generate_key_pairs() if connection.key is None else _read_key(connection.key)
        self._client = _BoundedClient.from_server_address(
            connection.server,
            connection.authority is None,
            None if connection.authority is None else connection.authority.read_bytes(),
            [_Signature(keys[0])],
        )
        self._public = public_key_to_bytes(keys[1])
        self._unknown = connection.key is None
        self._node: Node | None = None
        self._contexts: dict[int, Context] = {}
        self._over = Event()
        self._last, self._looked = "", 0.0
        fetch_sooner()

    def register(self) -> None:
        """Become one of the server's agents."""
        if self._unknown:
            self._client.RegisterNode(RegisterNodeFleetRequest(public_key=self._public))
        wanted = ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        self._node = Node(node_id=self._client.ActivateNode(wanted).node_id)
        Thread(target=self._beat, args=(self._node,), daemon=True).start()

    def take(self) -> Message | None:
        """A message that waits, or None.

        Raises
        ------
        TooLongError
            Where there is one that is longer than an agent reads.
        """
        assert self._node is not None
        if self._client.box:
            answer = self._client.letter(TAKE, self._last)
            if answer.content:
                self._last = answer.headers.get(LETTER, "")
                message: Message = read_message(answer.content)
                message.metadata.__dict__["_message_id"] = self._last
                return message
            if time.monotonic() - self._looked < LOOK:
                return None
            self._looked = time.monotonic()
        found = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not found.messages_list:
            return None
        tree, run = found.message_object_trees[0], found.messages_list[0].metadata.run_id
        if sum(1 for _ in iterate_object_tree(tree)) > MOST_OBJECTS:
            raise TooLongError(f"the server sends a message of more than {MOST_OBJECTS:,} parts")
        message = pull_and_inflate_object_from_tree(
            tree,
            _with_byte_limit(make_pull_object_fn_protobuf(self._client.PullObject, self._node, run)),
            make_confirm_message_received_fn_protobuf(self._client.ConfirmMessageReceived, self._node, run),
            return_type=Message,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def context(self, run: int) -> Context:
        """What the agent remembers of a run, as long as this link holds."""
        assert self._node is not None
        if run not in self._contexts:
            while len(self._contexts) >= MOST_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
            self._contexts[run] = Context(run, self._node.node_id, {}, RecordDict(), {})
        return self._contexts[run]

    def send(self, reply: Message, seconds: float) -> None:
        """Send a reply that took so many seconds."""
        assert self._node is not None
        if self._last and reply.metadata.reply_to_message_id == self._last:
            self._client.letter(REPLY, self._last, message_bytes(reply))
            return
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            sent = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[seconds],
                )
            )
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(
                    self._client.PushObject, self._node, reply.metadata.run_id, sent.session_id
                ),
                object_ids_to_push=set(sent.objects_to_push),
            )

    def close(self) -> None:
        """Take leave of the server, if it is there, and let the connection go."""
        self._over.set()
        with suppress(httpx.HTTPError, ValueError):
            if self._node is not None:
                self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
                if self._unknown:
                    self._client.UnregisterNode(UnregisterNodeFleetRequest(node_id=self._node.node_id))
        self._client.close()

    def _beat(self, node: Node) -> None:
        """Let the server know that the agent lives, also while it computes."""
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        while not self._over.wait(BEAT):
            with suppress(httpx.HTTPError, ValueError, RuntimeError):
                self._client.SendNodeHeartbeat(request)


@contextmanager
def open_link(connection: Connection) -> Iterator[AgentLink]:
    """A link that is closed at the end."""
    link = AgentLink(connection)
    try:
        yield link
    finally:
        link.close()


def answer_one(link: AgentLink, app: App, reach: Callable[..., Any]) -> bool:
    """Answer a message, if one waits; ``reach`` makes a call of the link, again where the server is out of reach."""
    message: Message | None = reach(link.take)
    if message is None:
        return False
    begun = time.monotonic()
    reply = app(message, link.context(message.metadata.run_id))
    reach(link.send, reply, time.monotonic() - begun)
    return True


def _with_byte_limit(pull: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """Pull the objects of one message, as long as they are not too long together."""
    read, lock = 0, Lock()

    def pull_some(name: str) -> bytes:
        nonlocal read
        content = pull(name)
        with lock:
            read += len(content)
            if read > MOST_BYTES_OF_MESSAGE:
                raise TooLongError(f"the server sends a message of more than {MOST_BYTES_OF_MESSAGE:,} bytes")
        refuse_unfolding_object(content)
        return content

    return pull_some


def _read_key(path: Path) -> tuple[EllipticCurvePrivateKey, EllipticCurvePublicKey]:
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError(f"{path} is no private key of an agent: wmlr server keys makes them")
    return key, key.public_key()
