"""The server's SuperLink, with a door that only agents and the server itself come through.

A SuperLink answers on one port to the agents (Fleet), to whoever runs its apps (Runtime) and to whoever
commands it (Control). Fleet asks for the agents' keys and Runtime for a task's token; Control asks for nothing,
so that whoever reaches the port could enlist agents or send them a run. Here Control wants a word that only the
``wmlr server`` that started this process knows.

    python -m wmlr.flower.superlink OPTIONS OF flower-superlink
"""

from __future__ import annotations

import os
from hmac import compare_digest
from typing import Any

from wmlr.flower.processes import WORD, follow_parent

HEADER = "wmlr-word"
OPEN = ("/v1/fleet/", "/v1/runtime/", "/health")


class Door:
    """An ASGI app before another: what is not open to all wants the word."""

    def __init__(self, app: Any, word: str) -> None:
        self.app, self.word = app, word.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._may_pass(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def _may_pass(self, scope: Any) -> bool:
        given = dict(scope["headers"]).get(HEADER.encode(), b"")
        return scope["path"].startswith(OPEN) or compare_digest(given, self.word)


def main() -> None:
    """Run ``flower-superlink`` behind the door."""
    import uvicorn
    from flwr.superlink.cli import flower_superlink

    follow_parent()
    word = os.environ.pop(WORD)
    plain = uvicorn.run

    def behind_door(app: Any, **options: Any) -> None:
        plain(Door(app, word), **(options | {"access_log": False}))

    uvicorn.run = behind_door
    flower_superlink()


if __name__ == "__main__":
    main()
