"""A page of a running fit at the mercy of whoever reaches its port: it stays a page, and the fit goes on."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression, plots
from wmlr.dashboard import Live
from wmlr.dashboard.serving import MOST_AT_ONCE


def told(port: int, request: bytes) -> bytes:
    """What the port answers to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as caller:
        caller.sendall(request)
        found = b""
        while more := caller.recv(65536):
            found += more
    return found


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost:{}#@evil", "localhost:{}?evil", "localhost:{}.evil", "x@localhost:{}"]
)
def test_a_name_that_is_pointed_at_this_machine_is_not_answered(host):
    with Live("a run") as live:
        port = live._served.port
        request = f"GET / HTTP/1.1\r\nHost: {host.format(port)}\r\n\r\n"
        assert told(port, request.encode()).startswith(b"HTTP/1.0 403")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/../../etc/passwd", 404), ("//etc/passwd", 404), ("/%2e%2e/x", 404), ("http://[", 404), ("/state.json/..", 404)],
)
def test_there_is_no_path_but_the_pages(path, status, capfd):
    with Live("a run") as live:
        port = live._served.port
        request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"
        assert told(port, request.encode()).startswith(f"HTTP/1.0 {status}".encode())
    assert capfd.readouterr().err == ""


def test_callers_that_hang_up_leave_no_traceback(capfd):
    with Live("a run") as live:
        port = live._served.port
        for _ in range(5):
            caller = socket.create_connection(("127.0.0.1", port))
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
            caller.close()
        time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_callers_that_never_finish_take_neither_threads_nor_the_page():
    before = threading.active_count()
    callers = []
    with Live("a run") as live:
        for _ in range(3 * MOST_AT_ONCE):
            caller = socket.create_connection(("127.0.0.1", live._served.port))
            caller.sendall(b"GET / HT")
            callers.append(caller)
        with urllib.request.urlopen(live.url, timeout=5) as answer:
            assert answer.status == 200
        patience = time.monotonic() + 5
        while threading.active_count() - before > MOST_AT_ONCE + 1 and time.monotonic() < patience:
            time.sleep(0.01)
        assert threading.active_count() - before <= MOST_AT_ONCE + 1
    for caller in callers:
        caller.close()


@pytest.mark.parametrize("name", ["price in $ and $", "$\\bad{$", "$" + "{" * 5000 + "$", "a" * 2_000_000])
def test_names_of_columns_are_drawn_as_they_are_written(name):
    """Dollars are marks of mathematics to matplotlib: a name that has two was set as a formula, or an error."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame({name: generator.standard_normal(60), "other": generator.standard_normal(60)})
    y = pd.Series(X[name] * np.sign(generator.standard_normal(60)), name=name)
    fit = MixedLinearRegression(2, random_state=0, sigma=0.5).fit(X, y)
    drawn = [
        plots.fitted_lines(fit, X, y, feature=name),
        plots.effects(fit.effects(X, y)),
        plots.profile(fit.profile(X, y=y)),
    ]
    for figure in drawn:
        assert plots.image(figure)
        (axes,) = figure.axes
        texts = [axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
        assert max(len(text.get_text()) for text in texts) < 400
        assert not any(text._preprocess_math(text.get_text())[1] for text in texts)
