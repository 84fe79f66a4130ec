"""Messages to agents and their replies, over a Flower Grid.

Every message is one record of plain values and bytes. Replies are fetched agent by agent, so that one that
cannot be read costs that agent's answer and no other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

from wmlr.io.files import write_private

RECORD = "wmlr"
KEPT = ("sums", "data")


@dataclass(frozen=True)
class MessageNode:
    """A node that is connected: the name its key was enlisted under, or none, and since when."""

    name: str = ""
    since: str = ""


@dataclass(frozen=True)
class Reply:
    """What came back: values by name, or what went wrong on the way."""

    content: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


def pack(content: Mapping[str, Any]) -> RecordDict:
    """Values as a message holds them."""
    return RecordDict({RECORD: ConfigRecord(dict(content))})


def unpack(message: Message) -> dict[str, Any]:
    """The values in a message; none where it holds something else."""
    record = message.content.get(RECORD)
    return dict(record) if isinstance(record, ConfigRecord) else {}


class Messenger:
    """Sends and fetches.

    Parameters
    ----------
    grid : Flower's way to the agents.
    lasting : how many seconds a message waits to be picked up and answered.
    audit : a folder for what each reply holds in bytes, as it came; None keeps nothing.
    """

    def __init__(self, grid: Grid, lasting: float, audit: Path | None = None) -> None:
        self.grid, self.lasting, self.audit = grid, lasting, audit
        self._sent: dict[str, str] = {}
        self._kept = 0 if audit is None else _next_number(audit)

    def online(self) -> dict[int, MessageNode]:
        """The nodes that are connected, by their numbers."""
        return {
            int(node.node_id): MessageNode(str(node.name), str(node.last_activated_at))
            for node in self.grid.get_nodes()
        }

    def send(self, action: str, contents: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
        """Send each node its values; the letters' numbers, by node."""
        messages = [
            Message(pack(content), node, f"query.{action}", ttl=self.lasting) for node, content in contents.items()
        ]
        letters = self.grid.push_messages(messages) if messages else []
        sent = {node: letter for node, letter in zip(contents, letters) if letter}
        if self.audit is not None:
            first = self._kept + len(self._sent)
            self._sent |= {
                letter: f"{first + at:05d}-{action}-{node}" for at, (node, letter) in enumerate(sent.items())
            }
        return sent

    def fetch(self, letter: str) -> Reply | None:
        """The reply to a letter, if it has come."""
        try:
            found = list(self.grid.pull_messages([letter]))
        except (httpx.HTTPError, RunNotRunningException):
            raise
        except Exception as error:
            return Reply(error=f"its reply cannot be read ({type(error).__name__})")
        if not found:
            return None
        if found[0].has_error():
            return Reply(error=str(found[0].error.reason))
        reply = Reply(unpack(found[0]))
        if self.audit is not None:
            for name in KEPT:
                if isinstance(value := reply.content.get(name), bytes):
                    write_private(self.audit / f"{self._sent[letter]}.{name}", value)
        return reply


def _next_number(audit: Path) -> int:
    """The number from which letters are counted, beyond those whose replies an earlier run has left in a folder."""
    numbers = [path.name.partition("-")[0] for path in audit.glob("*-*")]
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
