"""Lines to a server's port that say nothing, by the thousand: they keep nobody out, and take next to nothing."""

import logging
import socket
import ssl
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from wmlr.flower import lines as counted
from wmlr.flower.keys import make_keys
from wmlr.flower.letterboxes import ACTIVATE
from wmlr.flower.lines import Lines
from wmlr.flower.superlink import KEY, SERVING, Door, FirstRecords

MOST = 20


@pytest.fixture(autouse=True)
def few_lines(monkeypatch):
    monkeypatch.setattr(counted, "MOST_OF_STRANGERS", MOST)
    monkeypatch.setattr(counted, "MOST_OF_ONE", 3)


async def flower(scope, receive, send):
    """What stands behind the door: it lets the enlisted key in, and no other."""
    granted = dict(scope["headers"]).get(KEY) != b"forged"
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200 if granted else 401, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def serving(**options):
    """The port of a door."""
    lines = Lines()
    (listening,) = lines.listen("127.0.0.1", 0)
    config = uvicorn.Config(Door(flower, "word", lines=lines), lifespan="off", log_config=None, **SERVING, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def is_open(line):
    """Whether the other side has not ended a line."""
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def count_open(lines, at_most):
    until = time.monotonic() + 5
    while sum(map(is_open, lines)) > at_most and time.monotonic() < until:
        time.sleep(0.02)
    return sum(map(is_open, lines))


@pytest.mark.parametrize("said", [b"", b"POST /v1/fleet/push HTTP/1.1\r\nContent-Le"])
@pytest.mark.parametrize("key", ["enlisted", "forged"])
def test_lines_of_strangers_make_way_and_those_of_agents_stay(said, key):
    """As many as the system allows were kept, for as long as whoever opened them liked: nobody else came in."""
    with serving() as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as agent:
        assert agent.post(ACTIVATE, headers={KEY.decode(): key}).status_code == (200 if key == "enlisted" else 401)
        (own,) = agent._transport._pool.connections
        first = own._connection._network_stream.get_extra_info("socket")
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * MOST)]
        for line in idle:
            line.send(said)
        assert count_open(idle, MOST) in (MOST - 1, MOST)
        assert is_open(first) == (key == "enlisted")
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
        for line in idle:
            line.close()


def test_lines_that_never_shake_hands_make_way(tmp_path):
    made = make_keys(tmp_path, ["north"])
    files = {"ssl_certfile": made.folder / "server.crt", "ssl_keyfile": made.folder / "server.key"}
    trusted = ssl.create_default_context(cafile=str(made.folder / "ca.crt"))
    with serving(**files) as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * MOST)]
        assert count_open(idle, MOST) == MOST
        assert httpx.get(f"https://127.0.0.1:{port}/health", verify=trusted).status_code == 200
        for line in idle:
            line.close()


@pytest.mark.parametrize("begun", [b"GET /", b"GET /health HTTP/1.1\r\nx: ", b"GET /health HTTP/1.1\r\n"])
def test_headers_without_end_end_their_line(begun):
    """They were kept, however many, until the request would be whole: nobody was asked whether it may come in."""
    piece = b"a" * 2**16 if not begun.endswith(b"\n") else b"x: y\r\n" * 2**13
    with serving() as port, socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.sendall(begun)
        with pytest.raises(OSError, match=r"reset|pipe"):
            line.sendall(piece * 500)


def test_who_opens_the_most_lines_gives_way_first():
    lines, pairs = Lines(), [socket.socketpair() for _ in range(3 * MOST)]
    for number, (here, _) in enumerate(pairs):
        lines.enter(here, ("10.0.0.1" if number == 0 else "10.0.0.2", number))
    assert is_open(pairs[0][1])
    assert sum(is_open(there) for _, there in pairs) == MOST
    for here, there in pairs:
        here.close()
        there.close()


def test_an_agent_has_a_few_lines_and_the_server_any_number():
    for owner, left in (("north", 3), (None, 10)):
        lines, pairs = Lines(), [socket.socketpair() for _ in range(10)]
        for number, (here, _) in enumerate(pairs):
            lines.enter(here, ("10.0.0.1", number))
            lines.let_in(("10.0.0.1", number), owner)
        assert [is_open(there) for _, there in pairs] == [False] * (10 - left) + [True] * left
        for here, there in pairs:
            here.close()
            there.close()


def test_what_strangers_are_refused_does_not_fill_the_log(caplog):
    logger = logging.getLogger("wmlr.tests.few")
    logger.addFilter(FirstRecords(3))
    for _ in range(10):
        logger.warning("Invalid HTTP request received.")
    assert len(caplog.records) == 3
