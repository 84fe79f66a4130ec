"""Messages of a few bytes a part, which as objects would take twenty times their bytes and more."""

import time
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto import recorddict_pb2
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.supercore.task_identity import TaskIdentity
from test_curious_servers import behind_the_door, knock
from test_lying_servers import letting_in, message_of, server

from wmlr.flower.letter_grid import _checked_call
from wmlr.flower.letterboxes import ACTIVATE, message_bytes, read_message
from wmlr.flower.link import open_link
from wmlr.flower.superlink import PUSH_OBJECT, Door
from wmlr.flower.unfolding import MOST_BYTES_OF_WORDS, MOST_PARTS, refuse_many_parts, refuse_unfolding_object

MANY = 4 * MOST_PARTS


def field(number, content):
    """A field of protobuf that holds bytes."""
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    tag = bytes([number << 3 | 2]) if number < 16 else bytes([(number << 3 | 2) & 127 | 128, number >> 4])
    return tag + length + bytes([size]) + content


def value(name, content):
    """A record of one value, whose kind has this name."""
    kind = recorddict_pb2.ConfigRecordValue.DESCRIPTOR.fields_by_name[name].number
    return field(1, field(1, b"a") + field(2, field(kind, content)))


RECORDS = {
    "numbers": value("sint_list", field(1, bytes(MANY))),
    "truths": value("bool_list", field(1, bytes(MANY))),
    "texts": value("string_list", field(1, b"") * MANY),
    "pieces": value("bytes_list", field(1, b"") * MANY),
    "values": field(1, b"") * MANY,
    "groups without end": b"\x0b" * MANY,
    "a number without end": b"\x80" * 100,
    "cut off": value("bytes", bytes(100))[:-1],
}


def sent(content):
    """A message as a letter."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    return message_bytes(Message(RecordDict({"wmlr": ConfigRecord(content)}), 1, "query.round"))


def letter(record):
    """A letter that holds a record of these bytes."""
    items = recorddict_pb2.RecordDict.Item.DESCRIPTOR.fields_by_name
    (kind,) = (one.number for name, one in items.items() if "config" in name)
    content = field(1, field(items["key"].number, b"wmlr") + field(kind, record))
    metadata = ProtoMessage.FromString(sent({"a": 1})).metadata.SerializeToString()
    numbers = ProtoMessage.DESCRIPTOR.fields_by_name
    return field(numbers["metadata"].number, metadata) + field(numbers["content"].number, content)


def refuse_to_make(*_):
    raise AssertionError("objects were made")


@pytest.mark.parametrize("what", RECORDS)
def test_letters_of_many_small_parts_are_refused_before_they_are_objects(what, monkeypatch):
    data, started = letter(RECORDS[what]), time.process_time()
    monkeypatch.setattr("flwr.common.serde.message_from_proto", refuse_to_make)
    with pytest.raises(ValueError, match=r"parts|cut off|no message"):
        refuse_many_parts(data, ProtoMessage)
    with pytest.raises(ValueError, match="this is no letter"):
        read_message(data)
    assert time.process_time() - started < 5


def test_letters_of_many_columns_and_long_answers_are_read():
    content = {"columns": [f"x{place}" for place in range(100_000)], "entries": [b"x"] * 5000, "sums": bytes(2**25)}
    started = time.process_time()
    assert dict(read_message(sent(content)).content["wmlr"]) == content
    assert time.process_time() - started < 10


OBJECTS = {what: b"ConfigRecord  9\0" + record for what, record in RECORDS.items()} | {
    "children": b"RecordDict " + b"," * 2**21 + b" 1\0x",
    "a record's children": b"ConfigRecord " + b"," * 2**21 + b" 1\0",
    "another kind": b"MetricRecord  9\0" + bytes(2**21),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_parts_of_messages_that_unfold_are_refused_by_agents_and_servers(what):
    with pytest.raises(ValueError, match=r"parts|bytes|cut off|no message"):
        refuse_unfolding_object(OBJECTS[what])
    answer = PullObjectResponse(object_found=True, object_available=True, object_content=OBJECTS[what])
    with pytest.raises(ValueError, match=r"parts|bytes|cut off|no message"):
        _checked_call(lambda request: answer)(SimpleNamespace())
    answers = {"pull-messages": (200, [message_of(1)]), "pull-object": (200, [answer.SerializeToString()])}
    with server(letting_in() | answers) as (connection, _), open_link(connection) as agent:
        agent.register()
        with pytest.raises(ValueError, match=r"parts|bytes|cut off|no message"):
            agent.take()


def test_an_agents_calls_that_hold_no_object_are_short():
    """Flower makes objects of all of a call before it looks at any of it."""
    for headers in ([], [(b"flwr-public-key", b"enlisted")]):
        door = Door(behind_the_door, "word")
        knock(door, headers, [b""], ACTIVATE)
        chunks = [bytes(2**20)] * (MOST_BYTES_OF_WORDS // 2**20 + 2)
        assert knock(door, headers, chunks)[0] == 413
        assert knock(door, headers, chunks, PUSH_OBJECT)[0] == 200
