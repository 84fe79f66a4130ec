"""Lines to a server's port, counted: those of strangers make way for new ones, so that nobody keeps others out."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from typing import Any

MOST_OF_STRANGERS = 256  # lines at a time of those whom nobody has let in
MOST_OF_ONE = 16  # lines at a time of one who was let in

Peer = tuple[Any, ...]
"""Where a line comes from: an address and a port."""


class Lines:
    """The lines that are open, a line being a stranger's until somebody has let it in."""

    def __init__(self) -> None:
        self._strangers: dict[Peer, socket.socket] = {}
        self._let_in: dict[Any, dict[Peer, socket.socket]] = {}

    def enter(self, line: socket.socket, peer: Peer) -> None:
        """A line has come; where there are too many, the oldest of the address that has the most ends."""
        self._strangers[peer] = line
        if len(self._strangers) <= MOST_OF_STRANGERS:
            return
        self._strangers = _open(self._strangers)
        if len(self._strangers) > MOST_OF_STRANGERS:
            ((most, _),) = Counter(address for address, *_ in self._strangers).most_common(1)
            _end(self._strangers, next(peer for peer in self._strangers if peer[0] == most))

    def let_in(self, peer: Peer | None, owner: Any) -> None:
        """A line is that of an agent, one of its last few; or, where ``owner`` is None, of the server itself."""
        line = None if peer is None else self._strangers.pop(tuple(peer), None)
        if line is None or peer is None or owner is None:
            return
        own = self._let_in[owner] = _open(self._let_in.get(owner, {})) | {tuple(peer): line}
        if len(own) > MOST_OF_ONE:
            _end(own, next(iter(own)))

    def listen(self, host: str, port: int) -> list[socket.socket]:
        """Sockets at every address of a host, whose lines are counted."""
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = _CountedSocket(family, kind, protocol)
            listening.lines = self
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            sockets.append(listening)
        return sockets


class _CountedSocket(socket.socket):
    """A listening socket that tells of every line."""

    lines: Lines

    def accept(self) -> tuple[socket.socket, Any]:
        line, peer = super().accept()
        self.lines.enter(line, _address(peer))
        return line, peer


def _address(peer: Any) -> Peer:
    """A peer as requests name it: address and port, without the scope of version 6."""
    return tuple(peer[:2])


def _open(lines: dict[Peer, socket.socket]) -> dict[Peer, socket.socket]:
    return {peer: line for peer, line in lines.items() if line.fileno() != -1}


def _end(lines: dict[Peer, socket.socket], peer: Peer) -> None:
    """Shut a line; whoever serves it sees its end, and closes it."""
    with suppress(OSError):
        lines.pop(peer).shutdown(socket.SHUT_RDWR)
