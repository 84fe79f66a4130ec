"""Bytes for what travels: a JSON header that says what there is, then the arrays as raw little-endian numbers.

A message holds None, booleans, whole numbers, finite numbers, text, bytes, arrays, tuples, dictionaries and
dataclasses of a known list. Nothing in it is run, and no name in it is ever imported.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from wmlr.io.field_types import fits, hints

MAGIC = b"WMLR"
VERSION = 1
PREFIX = struct.Struct("<4sBI")
LARGEST_MESSAGE = 2**28
LARGEST_HEADER = 2**22
LARGEST_INTEGER = 2**64
LONGEST_TEXT = 2**20
MOST_PARTS = 100_000
MOST_AXES = 8
DEEPEST = 16
DTYPES = ("<f8", "<i8", "<u8", "|b1")


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header of a message: what it is, and its content but for the arrays' bytes."""

    what: str
    content: Any


class MessageError(ValueError):
    """A message that cannot be what it should be; the text says why."""


@dataclass(frozen=True)
class Codec:
    """One kind of message.

    Attributes
    ----------
    what : its name, which its header carries.
    kinds : the dataclasses it may hold, by name.
    stands_for : for a type that a field is declared as but that no object has, the classes meant.
    """

    what: str
    kinds: Mapping[str, type] = field(default_factory=dict)
    stands_for: Mapping[Any, tuple[type, ...]] = field(default_factory=dict)

    def encode(self, content: Any) -> bytes:
        """The message's bytes."""
        parts: list[bytes] = []
        tree = self._to_json(content, parts, self.what, 0)
        header = json.dumps({"what": self.what, "content": tree}, allow_nan=False, separators=(",", ":")).encode()
        if len(header) > LARGEST_HEADER:
            raise MessageError(f"the {self.what} has a header of {len(header)} bytes (at most {LARGEST_HEADER})")
        data = b"".join([PREFIX.pack(MAGIC, VERSION, len(header)), header, *parts])
        if len(data) > LARGEST_MESSAGE:
            raise MessageError(f"the {self.what} has {len(data)} bytes (at most {LARGEST_MESSAGE})")
        return data

    def decode(self, data: bytes) -> Any:
        """What the bytes hold; every limit and type is looked at on the way."""
        header, start = _header(data, self.what)
        try:
            envelope = msgspec.convert(header, Envelope)
        except msgspec.ValidationError:
            raise MessageError(f"the header of the {self.what} is not one of this format") from None
        if envelope.what != self.what:
            raise MessageError(f"a message of kind {_short(envelope.what)} where a {self.what} is wanted")
        rest = _Rest(data, start)
        content = self._from_json(envelope.content, rest, self.what, 0)
        if rest.place != len(data):
            raise MessageError(f"the {self.what} has {len(data) - rest.place} bytes more than its header says")
        return content

    def _to_json(self, value: Any, parts: list[bytes], at: str, depth: int) -> Any:
        """A value as JSON; the bytes of its arrays go to ``parts``."""
        if depth > DEEPEST:
            raise MessageError(f"{at} is nested more than {DEEPEST} deep")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return _check_scalar(value, at)
        if isinstance(value, bytes):
            parts.append(value)
            return {"bytes": len(value)}
        if isinstance(value, np.ndarray):
            return _array_to_json(value, parts, at)
        if isinstance(value, tuple):
            return [self._to_json(item, parts, f"{at}[{place}]", depth + 1) for place, item in enumerate(value)]
        if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise MessageError(f"{at} has keys that are not text")
            plain = {key: self._to_json(item, parts, f"{at}[{key!r}]", depth + 1) for key, item in value.items()}
            return {"dict": plain}
        name = type(value).__name__
        if self.kinds.get(name) is not type(value):
            raise MessageError(f"{at} holds {name}, which no {self.what} may")
        given: Any = value
        content = {one.name: getattr(given, one.name) for one in fields(given) if not _left_out(one, given)}
        self._check_types(type(value), content)
        plain = {own: self._to_json(item, parts, f"{name}.{own}", depth + 1) for own, item in content.items()}
        return {"kind": name, "fields": plain}

    def _from_json(self, tree: Any, rest: _Rest, at: str, depth: int) -> Any:
        """The value that ``_to_json`` made JSON of."""
        if depth > DEEPEST:
            raise MessageError(f"{at} is nested more than {DEEPEST} deep")
        if tree is None or isinstance(tree, (bool, int, float, str)):
            return _check_scalar(tree, at)
        if isinstance(tree, list):
            _check_count(tree, at)
            return tuple(self._from_json(item, rest, f"{at}[{place}]", depth + 1) for place, item in enumerate(tree))
        if tree.keys() == {"array", "shape", "order"}:
            return _array_from_json(tree, rest, at)
        if tree.keys() == {"bytes"}:
            return rest.take(_whole(tree["bytes"], at), at)
        if tree.keys() == {"dict"} and isinstance(tree["dict"], dict):
            _check_count(tree["dict"], at)
            items = tree["dict"].items()
            return {name: self._from_json(item, rest, f"{at}[{_short(name)}]", depth + 1) for name, item in items}
        if tree.keys() == {"kind", "fields"} and isinstance(tree["fields"], dict):
            return self._dataclass(tree["kind"], tree["fields"], rest, at, depth)
        raise MessageError(f"{at} is not written as this format writes values")

    def _dataclass(self, kind: Any, given: dict[str, Any], rest: _Rest, at: str, depth: int) -> Any:
        cls = self.kinds.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise MessageError(f"{at} is of unknown kind {_short(kind)}")
        wanted = {one.name: bool(one.metadata.get("omit_default")) for one in fields(cls)}
        if not {name for name, may_lack in wanted.items() if not may_lack} <= given.keys() <= wanted.keys():
            raise MessageError(f"{kind} has the fields {', '.join(wanted)} (got {_short(', '.join(given))})")
        content = {name: self._from_json(item, rest, f"{kind}.{name}", depth + 1) for name, item in given.items()}
        self._check_types(cls, content)
        try:
            return cls(**content)
        except (TypeError, ValueError) as error:
            raise MessageError(f"{kind} cannot be: {error}") from None

    def _check_types(self, cls: type, content: dict[str, Any]) -> None:
        for name, hint in hints(cls).items():
            if name in content and not fits(content[name], hint, self.stands_for):
                raise MessageError(f"{cls.__name__}.{name} is of the wrong type ({_type_name(content[name])})")


def _left_out(one: Field[Any], value: Any) -> bool:
    """Whether a field stands at the default that a message need not name."""
    return bool(one.metadata.get("omit_default")) and getattr(value, one.name) == one.default


class _Rest:
    """The bytes after the header, taken from the front."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    def take(self, count: int, at: str) -> bytes:
        end = self.place + count
        if end > len(self.data):
            raise MessageError(
                f"the message is cut off: {at} has {count} bytes and {len(self.data) - self.place} are left"
            )
        taken = self.data[self.place : end]
        self.place = end
        return taken


def _header(data: bytes, what: str) -> tuple[Any, int]:
    if not isinstance(data, bytes):
        raise MessageError(f"a {what} must come as bytes (got {type(data).__name__})")
    if len(data) > LARGEST_MESSAGE:
        raise MessageError(f"the {what} has {len(data)} bytes (at most {LARGEST_MESSAGE})")
    if len(data) < PREFIX.size:
        raise MessageError(f"the {what} is cut off after {len(data)} bytes")
    magic, version, length = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise MessageError(f"the {what} does not begin as a message of this library does")
    if version != VERSION:
        raise MessageError(f"the {what} is in version {version} of the format and this is version {VERSION}")
    if length > LARGEST_HEADER:
        raise MessageError(f"the {what} claims a header of {length} bytes (at most {LARGEST_HEADER})")
    end = PREFIX.size + length
    if end > len(data):
        raise MessageError(f"the {what} is cut off in its header")
    try:
        return json.loads(data[PREFIX.size : end], parse_constant=_refuse_constant), end
    except MessageError:
        raise
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the header of the {what} is not JSON: {_short(str(error))}") from None


def _refuse_constant(name: str) -> Any:
    raise MessageError(f"the header holds {name}, which is not a finite number")


def _check_scalar(value: Any, at: str) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        raise MessageError(f"{at} is not finite ({value})")
    if isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
        raise MessageError(f"{at} is too large a whole number")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise MessageError(f"{at} is a text of {len(value)} characters (at most {LONGEST_TEXT})")
    return value


def _array_to_json(value: NDArray[Any], parts: list[bytes], at: str) -> dict[str, Any]:
    little = value.dtype.newbyteorder("<")
    if little.str not in DTYPES:
        raise MessageError(f"{at} is an array of {value.dtype} (allowed: {', '.join(DTYPES)})")
    if value.ndim > MOST_AXES:
        raise MessageError(f"{at} has {value.ndim} axes (at most {MOST_AXES})")
    refuse_infinite(value, at)
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    parts.append(value.astype(little, copy=False).tobytes(order=order))  # type: ignore[arg-type]
    return {"array": little.str, "shape": list(value.shape), "order": order}


def _array_from_json(tree: dict[str, Any], rest: _Rest, at: str) -> NDArray[Any]:
    kind, shape, order = tree["array"], tree["shape"], tree["order"]
    if kind not in DTYPES:
        raise MessageError(f"{at} is an array of {_short(kind)} (allowed: {', '.join(DTYPES)})")
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise MessageError(f"{at} has no shape of at most {MOST_AXES} axes")
    if order not in ("C", "F"):
        raise MessageError(f"{at} is in the unknown order {_short(order)}")
    size = np.dtype(kind).itemsize
    for length in shape:
        size *= _whole(length, at)
    data = rest.take(size, at)
    if kind == "|b1" and data.translate(None, b"\x00\x01"):
        raise MessageError(f"{at} holds bytes that are neither true nor false")
    stored = np.frombuffer(data, dtype=kind).reshape(shape, order=order)
    refuse_infinite(stored, at)
    return stored.astype(stored.dtype.newbyteorder("="), order="K", copy=True)


def refuse_infinite(value: NDArray[Any], at: str) -> None:
    """Raise where an array of floats holds what is not a finite number."""
    if value.dtype.kind == "f" and not np.all(np.isfinite(value)):
        place = tuple(int(index) for index in np.argwhere(~np.isfinite(value))[0])
        raise MessageError(f"{at} is not finite ({value[place]} at {place})")


def _whole(value: Any, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_MESSAGE:
        raise MessageError(f"{at} has an impossible length ({_short(value)})")
    return value


def _check_count(parts: Any, at: str) -> None:
    if len(parts) > MOST_PARTS:
        raise MessageError(f"{at} has {len(parts)} parts (at most {MOST_PARTS})")


def _type_name(value: Any) -> str:
    return f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
