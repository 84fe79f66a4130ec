"""Bytes of Flower's messages looked at before they become objects, of which a few bytes each may make gigabytes."""

from __future__ import annotations

from typing import Any

MOST_PARTS = 250_000  # fields and numbers of a message; texts and bytes are one each
MOST_BYTES_OF_OTHERS = 2**20  # of an object that is no record of values
MOST_BYTES_OF_WORDS = 2**22  # of a call or an answer of Flower's that holds no object
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def refuse_many_parts(data: bytes, kind: Any) -> None:
    """Raise ValueError where bytes hold more parts than a message has, or are none of its kind.

    Parameters
    ----------
    data : a protobuf message.
    kind : its class.
    """
    _count_parts(memoryview(data), kind.DESCRIPTOR, MOST_PARTS)


def refuse_unfolding_object(content: bytes) -> None:
    """Raise ValueError where one of the objects that Flower cuts a message into would take many times its bytes."""
    from flwr.proto.recorddict_pb2 import ConfigRecord
    from flwr.supercore.constant import HEAD_BODY_DIVIDER, HEAD_VALUE_DIVIDER

    head, _, body = content.partition(HEAD_BODY_DIVIDER)
    record = head.startswith(f"{ConfigRecord.DESCRIPTOR.name}{HEAD_VALUE_DIVIDER}".encode())
    if len(head if record else content) > MOST_BYTES_OF_OTHERS:
        raise ValueError(f"{len(content):,} bytes, where a message is one record of values")
    if record:
        refuse_many_parts(body, ConfigRecord)


def _count_parts(data: memoryview, kind: Any, left: int) -> int:
    """How many of so many parts are left beyond those in the bytes."""
    place = 0
    while place < len(data):
        tag, place = _number(data, place)
        wire, field = tag & 7, kind.fields_by_number.get(tag >> 3)
        left -= 1
        if wire == VARINT:
            _, place = _number(data, place)
        elif wire == LENGTH:
            length, place = _number(data, place)
            inside, place = data[place : place + length], place + length
            if field is not None and field.message_type is not None:
                left = _count_parts(inside, field.message_type, left)
            elif field is not None and field.type not in (field.TYPE_STRING, field.TYPE_BYTES):
                left -= length  # numbers one after the other, of a byte at least
        elif wire in (FIXED64, FIXED32):
            place += 8 if wire == FIXED64 else 4
        else:
            raise ValueError("this is no message")
        if left < 0:
            raise ValueError(f"a message of more than {MOST_PARTS:,} parts")
        if place > len(data):
            raise ValueError("a message that is cut off")
    return left


def _number(data: memoryview, place: int) -> tuple[int, int]:
    """A whole number as protobuf writes it, and the place behind it."""
    found = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, place
    raise ValueError("a message that is cut off")
