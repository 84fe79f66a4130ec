"""Letters between a server and its agents, kept at the SuperLink's door.

Flower moves a message as a tree of objects, in nine calls each way, and an agent asks every half second whether there
is one. Here it is one call each way, which waits until there is something. An agent is handed the token of its box by
the answer to its activation, which Flower gives to whoever signs with the node's key, and to nobody else.

A letter stays in its box until the agent asks for the one after it, and a reply until the server has said that it has
it, so that a call that breaks off can be made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec

from wmlr.flower.unfolding import refuse_many_parts

TOKEN, LETTER = "wmlr-box", "wmlr-letter"  # headers: an agent's token, and the letter that it speaks of
ACTIVATE = "/v1/fleet/activate-node"
TAKE, REPLY = "/v1/letters/take", "/v1/letters/reply"  # for agents, by their tokens
SEND, FETCH = "/v1/letters/send", "/v1/letters/fetch"  # for the server, by the word of the door
MOST_BYTES = 2**26  # of a letter or a reply
HOLD = 2.0  # seconds that an agent's call waits for a letter
NAME = 64  # letters of a letter's name at most

Body = Callable[[int], Awaitable[bytes]]
"""Reads what a call holds, if it is no longer than so many bytes."""


@dataclass(frozen=True)
class CallResult:
    """What to answer to a call: a status, a body, and the letter that it is."""

    status: int
    body: bytes = b""
    letter: str = ""


@dataclass(eq=False)
class _Box:
    """The letters to one agent, and those of them that it has not answered."""

    token: bytes
    letters: dict[str, bytes] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    came: asyncio.Event = field(default_factory=asyncio.Event)


class Letterboxes:
    """A box for every agent that asked for one."""

    def __init__(self) -> None:
        self._boxes: dict[int, _Box] = {}
        self._owners: dict[bytes, int] = {}
        self._replies: dict[str, bytes] = {}

    def open(self, node: int) -> str:
        """A new, empty box for a node; the token that opens it, and no older one does."""
        token = token_hex(32)
        former = self._boxes.pop(node, None)
        if former is not None:
            self._owners.pop(former.token, None)
        self._boxes[node] = _Box(_digest(token.encode()))
        self._owners[_digest(token.encode())] = node
        return token

    def owner(self, token: bytes) -> int | None:
        """The node whose token this is."""
        return self._owners.get(_digest(token))

    async def answer(self, path: str, node: int | None, letter: str, body: Body) -> CallResult:
        """Answer a call; ``node`` is the agent that calls, and None for the server."""
        if path == SEND and node is None:
            return CallResult(200, self._send(await body(2 * MOST_BYTES)))
        if path == FETCH and node is None:
            return CallResult(200, self._fetch(await body(MOST_BYTES)))
        if node is None or len(letter) > NAME:
            return CallResult(403)
        if path == TAKE:
            return await self._take(self._boxes[node], letter)
        box = self._boxes[node]
        if letter not in box.letters:
            return CallResult(409)
        content = await body(MOST_BYTES)
        if letter in box.unanswered:
            box.unanswered.discard(letter)
            self._replies[letter] = content
        return CallResult(200)

    def _send(self, data: bytes) -> bytes:
        """Put letters into their boxes; the names of those that there is no box for."""
        left = []
        for node, letter, content in msgspec.msgpack.decode(data, type=list[tuple[int, str, bytes]]):
            box = self._boxes.get(node)
            if box is None:
                left.append(letter)
                continue
            box.letters[letter] = content
            box.unanswered.add(letter)
            box.came.set()
        return msgspec.msgpack.encode(left)

    def _fetch(self, data: bytes) -> bytes:
        """All replies that have come, without those that the server says it has."""
        for letter in msgspec.msgpack.decode(data, type=list[str]):
            self._replies.pop(letter, None)
        some: list[tuple[str, bytes]] = []
        size = 0
        for letter, content in self._replies.items():
            size += len(content)
            if some and size > MOST_BYTES:
                break
            some.append((letter, content))
        return msgspec.msgpack.encode(some)

    async def _take(self, box: _Box, last: str) -> CallResult:
        """The letter after the last one, which is waited for."""
        box.letters.pop(last, None)
        if not box.letters:
            box.came.clear()
            try:
                await asyncio.wait_for(box.came.wait(), HOLD)
            except TimeoutError:
                return CallResult(204)
        letter, content = next(iter(box.letters.items()), ("", b""))
        return CallResult(200, content, letter) if letter else CallResult(204)


def activated_node(content: bytes) -> int:
    """The node that Flower's answer to an activation names."""
    from flwr.proto.fleet_pb2 import ActivateNodeResponse

    return int(ActivateNodeResponse.FromString(content).node_id)


def _digest(token: bytes) -> bytes:
    """What is kept of a token, so that how long a look for it takes says nothing about it."""
    return sha256(token).digest()


def message_bytes(message: Any) -> bytes:
    """A message of Flower's as one letter."""
    from flwr.common.serde import message_to_proto

    return bytes(message_to_proto(message).SerializeToString())


def read_message(data: bytes) -> Any:
    """A letter as a message of Flower's; ValueError where it is none."""
    from flwr.common.serde import message_from_proto
    from flwr.proto.message_pb2 import Message
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        refuse_many_parts(data, Message)
        return message_from_proto(Message.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"this is no letter ({type(error).__name__})") from None
