"""What a server may answer to an agent's calls: anything, and the agent neither fills its memory nor ends by it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeResponse, PullMessagesResponse
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PullObjectResponse

from wmlr.flower import link
from wmlr.flower.link import Connection, TooLongError, open_link

MEGABYTE = bytes(2**20)
RUNTIME_VERSION_INCOMPATIBLE = 1001


@contextmanager
def server(answers):
    """A server that answers the calls of an agent by their names, in whatever pieces."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            status, pieces, *headers = answers.get(self.path.rsplit("/", 1)[1], (200, [b""]))
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
                    sent.append(len(piece))
            except OSError:
                pass

        def log_message(self, *_):
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    try:
        yield Connection(f"127.0.0.1:{found.server_port}"), sent
    finally:
        found.shutdown()
        found.server_close()
        thread.join()


def letting_in():
    return {"activate-node": (200, [ActivateNodeResponse(node_id=7).SerializeToString()])}


def message_of(parts):
    children = [ObjectTree(object_id=f"{part:064x}") for part in range(1, parts)]
    tree = ObjectTree(object_id=f"{0:064x}", children=children)
    message = Message(metadata=Metadata(run_id=1, message_id=tree.object_id))
    return PullMessagesResponse(messages_list=[message], message_object_trees=[tree]).SerializeToString()


def test_an_agent_reads_no_more_from_its_server_than_it_has_room_for():
    endless = (200, (MEGABYTE for _ in range(10_000)))
    with server(letting_in() | {"pull-messages": endless}) as (connection, sent), open_link(connection) as agent:
        agent.register()
        with pytest.raises(TooLongError, match="more than 4,194,304 bytes at once"):
            agent.take()
        assert sum(sent) < 2 * link.MOST_BYTES


@pytest.mark.parametrize(("parts", "said"), [(10_001, "parts"), (40, "bytes")])
def test_an_agent_reads_no_message_of_more_parts_or_bytes_than_it_has_room_for(parts, said, monkeypatch):
    monkeypatch.setattr(link, "MOST_BYTES_OF_MESSAGE", 8 * 2**20)
    part = PullObjectResponse(object_found=True, object_available=True, object_content=MEGABYTE).SerializeToString()
    answers = {"pull-messages": (200, [message_of(parts)]), "pull-object": (200, [part])}
    with server(letting_in() | answers) as (connection, sent), open_link(connection) as agent:
        agent.register()
        with pytest.raises(TooLongError, match=said):
            agent.take()
        assert sum(sent) < 32 * 2**20


def test_a_server_cannot_end_an_agent_by_calling_it_old():
    said = json.dumps({"code": RUNTIME_VERSION_INCOMPATIBLE, "detail": "too old", "extra": "go"}).encode()
    answers = {"register-node": (400, [said])}
    with server(answers) as (connection, _), open_link(connection) as agent, pytest.raises(httpx.HTTPStatusError):
        agent.register()


def test_answers_that_are_none_end_a_look_and_not_the_agent():
    with (
        server(letting_in() | {"pull-messages": (200, [b"\xff" * 100])}) as (connection, _),
        open_link(connection) as agent,
    ):
        agent.register()
        with pytest.raises(ValueError, match="protobuf"):
            agent.take()
