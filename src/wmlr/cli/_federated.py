"""What ``wmlr server`` and ``wmlr agent`` share."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

from wmlr.cli._failures import TerminatedError
from wmlr.cli._options import option_under
from wmlr.io.printable import printable

network = option_under("Network and keys")

Insecure = Annotated[bool, network("Speak without TLS to other machines as well.", "--insecure")]

LONGEST_LINE = 2000  # letters of a line of a log
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_address(address: str, option: str, tls: bool, insecure: bool) -> None:
    """Refuse what is no HOST:PORT, and to speak in the clear to another machine unless told to."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{option} must be HOST:PORT (got {address!r})")
    if tls and insecure:
        raise ValueError("--tls and --insecure contradict each other: leave one out")
    if not tls and not insecure and host.strip("[]") not in LOOPBACK:
        raise ValueError(
            f"{host} is another machine: add --tls (wmlr server keys makes certificates), or --insecure where "
            "the network itself can be trusted"
        )


def prefixed_printer(who: str) -> Callable[[str], None]:
    """Lines on stderr that say who speaks, whose words may be a stranger's."""

    def print_text(text: str) -> None:
        line = printable(" ".join(text[:LONGEST_LINE].splitlines()))
        print(f"{who}: {line}", file=sys.stderr, flush=True)

    return print_text


@contextmanager
def graceful_end() -> Iterator[None]:
    """Let SIGTERM end the command in order, so that its children end with it; keep Flower's log quiet."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, interrupt)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
