"""Flower's Grid, whose messages go as letters to the agents that have a box."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from secrets import token_hex
from typing import Any

import httpx
import msgspec
from flwr.app import Message, Metadata
from flwr.app.error import Error
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.constant import SYSTEM_MESSAGE_TYPE
from flwr.superlink.grid import HttpGrid

from wmlr.flower.letterboxes import FETCH, MOST_BYTES, SEND, message_bytes, read_message
from wmlr.flower.superlink import HEADER
from wmlr.flower.unfolding import refuse_unfolding_object

FRESH = 0.05  # seconds for which replies that were just asked for are all there are


class LetterGrid(HttpGrid):
    """A Grid to agents with boxes, and by Flower's own way to the others.

    Parameters
    ----------
    address : host and port of the SuperLink.
    authority : the certificate that vouches for it; None speaks without TLS.
    token : of the task that the run is.
    word : what its door wants.
    """

    def __init__(self, address: str, authority: bytes | None, token: str, word: str) -> None:
        super().__init__(address, authority is None, authority, token=token)
        client: Any = self._runtime_client
        client._client.headers[HEADER] = word
        client.PullObject = _checked_call(client.PullObject)
        self._nodes: dict[str, int] = {}
        self._replies: dict[str, bytes] = {}
        self._received: list[str] = []
        self._asked = 0.0
        self._online: set[int] = set()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """The nodes that are connected."""
        found = list(super().get_nodes())
        self._online = {int(node.node_id) for node in found}
        return found

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, as letters where there is a box; their names."""
        given = list(messages)
        names = [token_hex(16) for _ in given]
        letters: list[tuple[int, str, bytes]] = []
        for name, message in zip(names, given):
            message.metadata.__dict__["_message_id"] = name
            letters.append((int(message.metadata.dst_node_id), name, message_bytes(message)))
        left = self._push([letter for letter in letters if len(letter[2]) <= MOST_BYTES])
        left |= {name for _, name, content in letters if len(content) > MOST_BYTES}
        self._nodes |= {name: node for node, name, _ in letters if name not in left}
        others = [message for name, message in zip(names, given) if name in left]
        sent = iter(list(super().push_messages(others)) if others else [])
        return [next(sent, "") if name in left else name for name in names]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that have come; of an agent that has gone, an error."""
        wanted = list(message_ids)
        ours = [name for name in wanted if name in self._nodes]
        if ours:
            self._collect()
        found = []
        for name in ours:
            if name in self._replies:
                node, content = self._nodes.pop(name), self._replies.pop(name)
                message: Message = read_message(content)
                message.metadata.__dict__["_message_id"] = name
                found.append(message)
            elif self._nodes[name] not in self._online:
                node = self._nodes.pop(name)
                found.append(_unavailable_reply(self.run.run_id, node, name))
        others = [name for name in wanted if name not in ours]
        return [*found, *(super().pull_messages(others) if others else [])]

    def _push(self, letters: list[tuple[int, str, bytes]]) -> set[str]:
        """Put letters into their boxes, in calls that are not too long; the names of those that have none."""
        left: set[str] = set()
        batch: list[tuple[int, str, bytes]] = []
        for letter in [*letters, None]:
            if batch and (letter is None or sum(len(one[2]) for one in batch) + len(letter[2]) > MOST_BYTES):
                answer = self._call(SEND, msgspec.msgpack.encode(batch))
                left |= set(msgspec.msgpack.decode(answer, type=list[str]))
                batch = []
            if letter is not None:
                batch.append(letter)
        return left

    def _collect(self) -> None:
        """Ask for the replies that have come."""
        if time.monotonic() - self._asked < FRESH:
            return
        answer = self._call(FETCH, msgspec.msgpack.encode(self._received))
        self._received = []
        for name, content in msgspec.msgpack.decode(answer, type=list[tuple[str, bytes]]):
            self._received.append(name)
            if name in self._nodes:
                self._replies[name] = content
        self._asked = time.monotonic()

    def _call(self, path: str, content: bytes) -> bytes:
        client: Any = self._runtime_client

        def call() -> httpx.Response:
            answer: httpx.Response = client._client.post(f"{client._base_url}{path}", content=content)
            answer.raise_for_status()
            return answer

        return bytes(self._retry_invoker.invoke(call).content)


def _checked_call(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Flower's call for a part of a message, whose answer is looked at before it becomes objects."""

    def pull_some(*given: Any, **named: Any) -> Any:
        answer = pull(*given, **named)
        if answer.object_content:
            refuse_unfolding_object(answer.object_content)
        return answer

    return pull_some


def _unavailable_reply(run: int, node: int, letter: str) -> Message:
    """What Flower says of a message to a node that is gone."""
    metadata = Metadata(
        run_id=run,
        message_id="",
        src_node_id=node,
        dst_node_id=node,
        message_type=SYSTEM_MESSAGE_TYPE,
        group_id="",
        ttl=0,
        reply_to_message_id=letter,
        created_at=time.time(),
    )
    return make_message(metadata=metadata, error=Error(ErrorCode.NODE_UNAVAILABLE, "the agent is not connected"))
