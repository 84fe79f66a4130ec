"""A page and its data on a local port: read only, for this machine, and for no other site's scripts."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from wmlr.dashboard.log import DONE, FAILED
from wmlr.io.plain_data import plain
from wmlr.report.parts import Plain

LOCAL = ("127.0.0.1", "localhost", "::1")
ALIVE = 3.0
"""Seconds after its last question in which a page counts as open; it asks every second."""
MOST = 32
"""Pages that are remembered."""
MOST_AT_ONCE = 32
"""Callers at a time; one more ends the one that has been there the longest."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer:
    """A page and the data it asks for, served by threads that end with the process.

    Parameters
    ----------
    page : the page, as HTML.
    state : gives the data whenever they are asked for.
    host, port : where to listen; port 0 takes a free one.
    """

    def __init__(self, page: str, state: Callable[[], Plain], host: str, port: int) -> None:
        self.page, self.state = page.encode(), state
        self._pages: dict[str, float] = {}
        self._over = Event()
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise ValueError(f"no page can be served at {host}:{port} ({error.strerror}): name another port") from None
        self._server.served = self
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="wmlr dashboard", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where to look."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}/"

    def close(self, patience: float) -> None:
        """Stop, once an open page has had the time to see the end."""
        if self._open():
            self._over.wait(patience)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def trusts(self, host: str | None) -> bool:
        """Whether a Host header is this server's own, and not a name that somebody points at this machine."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if host is None or port != self.port or any(sign in host for sign in "/?#@"):
            return False
        if self.host in LOCAL:
            return name in LOCAL
        return name in (*LOCAL, self.host.lower()) or _is_address(name)

    def answer(self, page: str, send: Callable[[bytes], None]) -> None:
        """Send the data to a page; one that has had the last of them need not be waited for."""
        state = self.state()
        self._pages = dict([*self._pages.items(), (page, time.monotonic())][-MOST:])
        send(json.dumps(plain(state, short=True), separators=(",", ":"), allow_nan=False).encode())
        if state["state"] in (DONE, FAILED):
            self._pages.pop(page, None)
            if not self._open():
                self._over.set()

    def _open(self) -> bool:
        now = time.monotonic()
        return any(now - asked < ALIVE for asked in list(self._pages.values()))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    served: PageServer

    def server_activate(self) -> None:
        super().server_activate()
        self._callers: dict[socket.socket, None] = {}
        self._lock = Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._callers) >= MOST_AT_ONCE:
                oldest = next(iter(self._callers))
                del self._callers[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._callers[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._callers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing where a caller has hung up; it is no business of the run's."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10
    server_version, sys_version = "wmlr", ""

    def do_GET(self) -> None:
        served = self.server.served
        if not served.trusts(self.headers.get("Host")):
            self._send(HTTPStatus.FORBIDDEN, b"this page is for this machine only\n", "text/plain")
            return
        path, _, page = self.path.partition("?")
        if path == "/":
            self._send(HTTPStatus.OK, served.page, "text/html; charset=utf-8")
        elif path == "/state.json":
            served.answer(page[:40], lambda data: self._send(HTTPStatus.OK, data, "application/json"))
        elif path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT, b"", "image/x-icon")
        else:
            self._send(HTTPStatus.NOT_FOUND, b"there is / and /state.json\n", "text/plain")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", "text/plain", Allow="GET")

    def _send(self, status: HTTPStatus, data: bytes, kind: str, **more: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(data)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the run's own lines are what the terminal is for."""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
