"""The server's SuperLink, with a door that only agents and the server itself come through.

A SuperLink answers on one port to the agents (Fleet), to whoever runs its apps (Runtime) and to whoever
commands it (Control). Fleet asks for the agents' keys and Runtime for a task's token; Control asks for nothing,
so that whoever reaches the port could enlist agents or send them a run. Here Control and Runtime want a word that only
the ``wmlr server`` that started this process knows, before anything of a call is read.
Letters to agents wait at the door (:mod:`wmlr.flower.letterboxes`).

    python -m wmlr.flower.superlink OPTIONS OF flower-superlink
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from hmac import compare_digest
from typing import Any

from wmlr.flower.letterboxes import ACTIVATE, LETTER, REPLY, TAKE, TOKEN, Letterboxes, activated_node
from wmlr.flower.lines import Lines
from wmlr.flower.processes import WORD, follow_parent
from wmlr.flower.unfolding import MOST_BYTES_OF_WORDS

HEADER = "wmlr-word"
LETTERS = "/v1/letters/"
KEYS = "--enable-supernode-auth"
PUSH_OBJECT = "/v1/fleet/push-object"
OPEN = ("/v1/fleet/", "/health")
KEY = b"flwr-public-key"
MOST_BYTES = 2**26  # of a request; Flower cuts what is larger into chunks
MOST_BYTES_OF_STRANGERS = (
    2**18
)  # of a request of who is neither the server nor let in by Flower, where agents have keys
SERVING = {"access_log": False, "proxy_headers": False, "ws": "none", "loop": "asyncio", "http": "h11"}
"""How uvicorn serves: by a loop whose lines can be counted, and by a reader of requests that bounds their headers."""
MOST_RECORDS = 10_000  # of the SuperLink's log
PATIENCE_WITH_STRANGERS = 30.0  # seconds until all of their request must be there


class Door:
    """An ASGI app before another: what is not open to all wants the word."""

    def __init__(self, app: Any, word: str, strangers: int = MOST_BYTES, lines: Lines | None = None) -> None:
        self.app, self.word, self.strangers = app, word.encode(), strangers
        self.lines = Lines() if lines is None else lines
        self.boxes = Letterboxes()
        self.keys: set[bytes] = set()  # that Flower has let in

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and not self._may_pass(scope):
            await _turn_away(send, 403)
        elif scope["type"] == "http" and scope["path"].startswith(LETTERS):
            await self._letters(scope, receive, send)
        elif scope["type"] == "http":
            opens = scope["path"] == ACTIVATE and TOKEN.encode() in dict(scope["headers"])
            await self._limit_request(scope, receive, self._send_with_token(send) if opens else send)

    async def _letters(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call about letters, of an agent that shows its token or of the server."""
        headers = dict(scope["headers"])
        node = self.boxes.owner(headers.get(TOKEN.encode(), b"")) if scope["path"] in (TAKE, REPLY) else None
        self.lines.let_in(scope.get("client"), node)

        async def body(most: int) -> bytes:
            content = bytearray()
            while True:
                message = await receive()
                content += message.get("body", b"")
                if len(content) > most or message["type"] == "http.disconnect":
                    raise _TooLongError
                if not message.get("more_body", False):
                    return bytes(content)

        try:
            letter = headers.get(LETTER.encode(), b"").decode("ascii", errors="replace")
            result = await self.boxes.answer(scope["path"], node, letter, body)
        except _TooLongError:
            await _turn_away(send, 413)
            return
        told = [(LETTER.encode(), result.letter.encode())] if result.letter else []
        length = [] if result.status == 204 else [(b"content-length", str(len(result.body)).encode())]
        await send({"type": "http.response.start", "status": result.status, "headers": [*told, *length]})
        await send({"type": "http.response.body", "body": result.body})

    def _send_with_token(self, send: Any) -> Any:
        """Put the token of a new box beside the answer to an activation, where Flower grants it."""
        begun: list[Any] = []
        content = bytearray()

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                begun.append(message)
                return
            if begun:
                content.extend(message.get("body", b""))
                if message.get("more_body", False):
                    return
                token = self.boxes.open(activated_node(bytes(content))).encode()
                start = begun.pop()
                await send({**start, "headers": [*start.get("headers", []), (TOKEN.encode(), token)]})
                message = {**message, "body": bytes(content)}
            await send(message)

        return answer

    async def _limit_request(self, scope: Any, receive: Any, send: Any) -> None:
        """Hand a request on, as long as it is not longer than it may be, nor takes longer where a stranger makes it."""
        headers = dict(scope["headers"])
        key = headers.get(KEY, b"")
        ours = self._knows_word(headers)
        known = key in self.keys or ours
        if ours:
            self.lines.let_in(scope.get("client"), None)
        most = MOST_BYTES if known else self.strangers
        if not ours and scope["path"] != PUSH_OBJECT:
            most = min(most, MOST_BYTES_OF_WORDS)
        read, begun, whole = 0, False, known
        until = asyncio.get_running_loop().time() + PATIENCE_WITH_STRANGERS

        async def measure() -> Any:
            nonlocal read, whole
            try:
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                raise _TooLongError from None
            read += len(message.get("body", b""))
            if read > most:
                raise _TooLongError
            whole = whole or not message.get("more_body", False)
            return message

        async def answer(message: Any) -> None:
            nonlocal begun
            begun = True
            if message.get("status") == 200 and key:
                if scope["path"] == ACTIVATE:
                    self.keys.add(key)
                if key in self.keys:
                    self.lines.let_in(scope.get("client"), key)
            await send(message)

        try:
            if int(headers.get(b"content-length", b"0") or b"0") > most:
                raise _TooLongError
            await self.app(scope, measure, answer)
        except (_TooLongError, ValueError):
            if begun:
                raise
            await _turn_away(send, 413)

    def _may_pass(self, scope: Any) -> bool:
        headers = dict(scope["headers"])
        if scope["path"] in (TAKE, REPLY):
            return self.boxes.owner(headers.get(TOKEN.encode(), b"")) is not None
        return scope["path"].startswith(OPEN) or self._knows_word(headers)

    def _knows_word(self, headers: dict[bytes, bytes]) -> bool:
        return compare_digest(headers.get(HEADER.encode(), b""), self.word)


class FirstRecords(logging.Filter):
    """So many records of a log, and no more: every request that is refused is one."""

    def __init__(self, count: int = MOST_RECORDS) -> None:
        super().__init__()
        self._left = count

    def filter(self, record: logging.LogRecord) -> bool:
        self._left -= 1
        return self._left >= 0


class _TooLongError(Exception):
    """A request that is longer than it may be, or takes longer."""


async def _turn_away(send: Any, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Run ``flower-superlink`` behind the door."""
    import uvicorn
    from flwr.superlink.cli import flower_superlink

    follow_parent()
    word = os.environ.pop(WORD)
    strangers = MOST_BYTES_OF_STRANGERS if KEYS in sys.argv else MOST_BYTES

    def behind_door(app: Any, *, host: str = "127.0.0.1", port: int = 0, **options: Any) -> None:
        lines = Lines()
        config = uvicorn.Config(Door(app, word, strangers, lines), **(options | SERVING))
        for logger in ("flwr", "uvicorn.error"):
            logging.getLogger(logger).addFilter(FirstRecords())
        uvicorn.Server(config).run(lines.listen(host, port))

    uvicorn.run = behind_door
    flower_superlink()


if __name__ == "__main__":
    main()
