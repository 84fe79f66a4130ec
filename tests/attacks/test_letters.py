"""Letters between a server and its agents: who may take, answer and send them, and what nobody can do to others."""

import asyncio

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeResponse
from msgspec import msgpack
from test_lying_servers import MEGABYTE, letting_in, server

from wmlr.flower import letterboxes, link
from wmlr.flower.letterboxes import ACTIVATE, FETCH, LETTER, REPLY, SEND, TAKE, TOKEN
from wmlr.flower.link import TooLongError, open_link
from wmlr.flower.superlink import HEADER, Door

WORD = {HEADER: "word"}
MOST = letterboxes.MOST_BYTES


def flower(granted):
    """What stands behind the door: Flower, which grants an activation or does not."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200 if granted else 401, "headers": []})
        content = ActivateNodeResponse(node_id=int(dict(scope["headers"])[b"node"])).SerializeToString()
        await send({"type": "http.response.body", "body": content[:1], "more_body": True})
        await send({"type": "http.response.body", "body": content[1:]})

    return app


class Caller:
    """Calls at a door, each answered by its status, headers and body."""

    def __init__(self, granted=True):
        self.door = Door(flower(granted), "word")
        self.read = 0

    async def call(self, path, body=b"", headers=None):
        sent, waiting = [], [body[first : first + 2**20] for first in range(0, len(body), 2**20)] or [b""]

        async def receive():
            piece = waiting.pop(0)
            self.read += len(piece)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        async def send(message):
            sent.append(message)

        given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await self.door({"type": "http", "path": path, "headers": given}, receive, send)
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], told, b"".join(one.get("body", b"") for one in sent[1:])

    async def activate(self, node):
        _, told, body = await self.call(ACTIVATE, headers={TOKEN: "wanted", "node": str(node)})
        assert ActivateNodeResponse.FromString(body).node_id == node
        return told.get(TOKEN)

    async def send(self, *letters):
        return msgpack.decode((await self.call(SEND, msgpack.encode(letters), WORD))[2])

    async def fetch(self, *received):
        return dict(msgpack.decode((await self.call(FETCH, msgpack.encode(received), WORD))[2]))

    async def take(self, token, last=""):
        return await self.call(TAKE, headers={TOKEN: token, LETTER: last})

    async def reply(self, token, letter, content):
        return (await self.call(REPLY, content, {TOKEN: token, LETTER: letter}))[0]


@pytest.fixture(autouse=True)
def short_holds(monkeypatch):
    monkeypatch.setattr(letterboxes, "HOLD", 0.05)


def test_letters_reach_the_agent_they_are_for_and_replies_the_server():
    async def play():
        door = Caller()
        north, south = await door.activate(1), await door.activate(2)
        assert await door.send((1, "a", b"to north"), (2, "b", b"to south"), (3, "c", b"nobody")) == ["c"]
        status, told, body = await door.take(north)
        assert (status, told[LETTER], body) == (200, "a", b"to north")
        assert (await door.take(north))[2] == b"to north"  # a call that broke off is made again
        assert await door.reply(north, "a", b"from north") == 200
        assert await door.reply(south, "b", b"from south") == 200
        assert await door.fetch() == {"a": b"from north", "b": b"from south"}
        assert await door.fetch("a") == {"b": b"from south"}
        assert (await door.take(north, "a"))[0] == 204

    asyncio.run(play())


def test_a_letter_that_comes_while_an_agent_waits_is_handed_over_at_once(monkeypatch):
    monkeypatch.setattr(letterboxes, "HOLD", 30.0)

    async def play():
        door = Caller()
        north = await door.activate(1)
        waiting = asyncio.create_task(door.take(north))
        await asyncio.sleep(0.01)
        await door.send((1, "a", b"hello"))
        assert (await asyncio.wait_for(waiting, 5))[2] == b"hello"

    asyncio.run(play())


@pytest.mark.parametrize("path", [TAKE, REPLY, SEND, FETCH, "/v1/letters/", "/v1/letters/open", "/v1/letters/../take"])
@pytest.mark.parametrize("shown", [{}, {TOKEN: ""}, {TOKEN: "wanted"}, {TOKEN: "0" * 64}, {HEADER: "wrong"}])
def test_a_stranger_neither_takes_answers_nor_sends_letters_and_is_not_read(path, shown):
    async def play():
        door = Caller()
        await door.activate(1)
        await door.send((1, "a", b"hello"))
        door.read = 0
        assert (await door.call(path, bytes(2**21), {LETTER: "a", **shown}))[0] == 403
        assert door.read == 0

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/v1/control/start-run", "/v1/runtime/push-messages", "/v1/runtime/get-nodes", "/"])
def test_of_a_stranger_nothing_is_read_but_what_agents_call(path):
    async def play():
        door = Caller()
        token = await door.activate(1)
        for shown in ({}, {TOKEN: token}, {HEADER: "wrong"}):
            door.read = 0
            assert (await door.call(path, bytes(2**21), shown))[0] == 403
            assert door.read == 0

    asyncio.run(play())


def test_an_agent_cannot_take_answer_or_send_the_letters_of_others():
    async def play():
        door = Caller()
        north, south = await door.activate(1), await door.activate(2)
        await door.send((1, "a", b"to north"))
        assert (await door.take(south))[0] == 204
        assert await door.reply(south, "a", b"forged") == 409
        assert (await door.call(SEND, msgpack.encode([(1, "x", b"forged")]), {TOKEN: south}))[0] == 403
        assert (await door.call(FETCH, msgpack.encode([]), {TOKEN: south}))[0] == 403
        assert await door.reply(north, "a", b"mine") == 200
        assert await door.reply(north, "a", b"changed later") == 200
        assert await door.fetch() == {"a": b"mine"}

    asyncio.run(play())


def test_only_who_flower_lets_in_gets_a_token_and_a_new_one_ends_the_old():
    async def play():
        refusing = Caller(granted=False)
        assert TOKEN not in (await refusing.call(ACTIVATE, headers={TOKEN: "wanted", "node": "1"}))[1]
        door = Caller()
        old = await door.activate(1)
        await door.send((1, "a", b"hello"))
        new = await door.activate(1)
        assert old != new
        assert (await door.take(old))[0] == 403
        assert (await door.take(new))[0] == 204  # what was for the process before is gone with it

    asyncio.run(play())


def test_a_reply_longer_than_may_be_is_not_kept():
    async def play():
        door = Caller()
        north = await door.activate(1)
        await door.send((1, "a", b"hello"))
        assert await door.reply(north, "a", bytes(MOST + 1)) == 413
        assert await door.fetch() == {}

    asyncio.run(play())


def with_box(answers):
    node = ActivateNodeResponse(node_id=7).SerializeToString()
    return server({"activate-node": (200, [node], {TOKEN: "t"})} | answers)


def test_letters_that_are_none_or_too_long_end_a_look_and_not_the_agent():
    endless = (200, (MEGABYTE for _ in range(10_000)))
    with with_box({"take": endless}) as (connection, sent), open_link(connection) as agent:
        agent.register()
        with pytest.raises(TooLongError, match="more than 67,108,864 bytes at once"):
            agent.take()
        assert sum(sent) < 2 * link.MOST_BYTES
    with with_box({"take": (200, [b"\xff" * 100])}) as (connection, _), open_link(connection) as agent:
        agent.register()
        with pytest.raises(ValueError, match="this is no letter"):
            agent.take()


@pytest.mark.parametrize("call", ["activate-node", "pull-messages", "take"])
def test_a_server_cannot_send_an_agents_calls_elsewhere(call):
    """A redirect would let a server reach whatever is inside the agent's own network."""
    with server(letting_in()) as (elsewhere, reached):
        away = (307, [b""], {"location": f"http://{elsewhere.server}/v1/fleet/{call}"})
        given = {"take": away} if call == "take" else {}
        opened = with_box(given) if call == "take" else server(letting_in() | {call: away})
        with opened as (connection, _), open_link(connection) as agent, pytest.raises(httpx.HTTPStatusError):
            register_and_take(agent)
        assert reached == []


def register_and_take(agent):
    agent.register()
    agent.take()
