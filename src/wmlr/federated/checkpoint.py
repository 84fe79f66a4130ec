"""A run that can be taken up again: the sums received, in order, are all that a method has seen.

A method is a deterministic function of the sums it receives, so a run is saved by saving those. Replayed, the
method stands where it stopped, and goes on to the same end to the last bit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from wmlr.core.query import Query
from wmlr.core.round import Engine, EngineWrapper
from wmlr.federated.ledger import Ledger, Round
from wmlr.federated.messages import digest, pack_sums, unpack_answer, unpack_sums
from wmlr.federated.wire import MessageError
from wmlr.io.files import read_bytes, write_private
from wmlr.numerics.arrays import Sums
from wmlr.version import __version__

MAGIC = b"WMLR-RUN"
FORMAT = 1
PREFIX = struct.Struct("<8sB32sQ")


@dataclass(frozen=True)
class RecordedRound:
    """One round as it was held: the query's kind and fingerprint, the sums' bytes, the ledger's lines."""

    kind: str
    query: str
    sums: bytes
    ledger: tuple[Round, ...] = ()


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the header of a file says of one round."""

    kind: str
    query: str
    bytes: Annotated[int, Meta(ge=0)]
    ledger: tuple[Round, ...]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header of a file: who wrote it, for which settings, and the rounds it holds."""

    wmlr: str
    settings: dict[str, Any]
    rounds: list[Entry]


class Recorded(EngineWrapper):
    """An engine that writes down every round, and on a second run gives the same sums without asking again.

    What the engine declares of itself (its ledger, who answers) this one declares as well.

    Parameters
    ----------
    engine : whoever adds the answers.
    path : the file, written whole after every round.
    settings : what the run is about, as JSON would hold it. A file of other settings is refused.
    resume : take up the run in the file, where there is one; False refuses to write over it.
    beside : what the engine's sums may hold besides those that a query declares.

    Attributes
    ----------
    replayed : how many rounds were not asked again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.federated import Federation
    >>> from wmlr.federated.checkpoint import Recorded
    >>> data = make_mixed_regression(300, 3, snr=5, symmetric=True, groups=10, random_state=0)
    >>> path = Path(tempfile.mkdtemp()) / "run.wmlr"
    >>> model = MixedLinearRegression(symmetric=True, random_state=0)
    >>> for resume in (False, True):
    ...     engine = Recorded(Federation.split(data.X, data.y, data.groups), path, {"seed": 0}, resume)
    ...     fit = model.fit_on(engine)
    ...     print(engine.replayed == len(fit.ledger_))
    False
    True
    """

    def __init__(
        self,
        engine: Engine,
        path: str | Path,
        settings: dict[str, Any],
        resume: bool = False,
        beside: Sequence[str] = (),
    ) -> None:
        super().__init__(engine)
        self.path, self._beside = Path(path), tuple(beside)
        self.settings = _as_json(settings) | {"n_features": engine.n_features}
        self.replayed = self._place = 0
        self._rounds: list[RecordedRound] = []
        if self.path.exists():
            held = _read_rounds(self.path, self.settings)
            if not resume:
                raise ValueError(
                    f"{self.path} already holds a run of {len(held)} rounds: resume it, remove it, or name another file"
                )
            self._rounds = held

    def total(self, query: Query) -> Sums:
        """The recorded sums while there are any, then the engine's, which are written down first."""
        if self._place < len(self._rounds):
            return self._replay(query)
        ledger: Ledger | None = self.capabilities.ledger
        before = 0 if ledger is None else len(ledger)
        sums = self.engine.total(query)
        lines = () if ledger is None else tuple(ledger[before:])
        held = RecordedRound(query.label, digest(query), pack_sums(sums), lines)
        self._rounds.append(held)
        self._place = len(self._rounds)
        write_private(self.path, _write(self._rounds, self.settings))
        return unpack_sums(held.sums)

    def _replay(self, query: Query) -> Sums:
        held = self._rounds[self._place]
        if held.query != digest(query):
            asked = (
                f"{held.kind} then and {query.label} now" if held.kind != query.label else f"another {held.kind} then"
            )
            raise ValueError(
                f"round {self._place + 1} in {self.path} does not fit this run ({asked}): "
                "a setting or the program has changed; remove the file to start anew"
            )
        can = self.capabilities
        try:
            sums = unpack_answer(held.sums, query, self.n_features, can.grouped, self._beside)
        except MessageError as error:
            raise ValueError(
                f"round {self._place + 1} in {self.path} is damaged ({error}): restore it, or remove it and start anew"
            ) from None
        if can.ledger is not None:
            for line in held.ledger:
                can.ledger.write(line)
        self._place += 1
        self.replayed += 1
        return sums


def _write(rounds: list[RecordedRound], settings: dict[str, Any]) -> bytes:
    entries = [
        {
            "kind": held.kind,
            "query": held.query,
            "bytes": len(held.sums),
            "ledger": [asdict(line) for line in held.ledger],
        }
        for held in rounds
    ]
    header = json.dumps({"wmlr": __version__, "settings": settings, "rounds": entries}).encode()
    body = b"".join([header, *(held.sums for held in rounds)])
    return PREFIX.pack(MAGIC, FORMAT, sha256(body).digest(), len(header)) + body


def _read_rounds(path: Path, settings: dict[str, Any]) -> list[RecordedRound]:
    """The rounds of a file, or one sentence on why it cannot be used."""
    data = read_bytes(path)
    if len(data) < PREFIX.size or not data.startswith(MAGIC):
        raise ValueError(f"{path} is not a checkpoint of wmlr: name another file")
    _, version, checksum, length = PREFIX.unpack_from(data)
    if version != FORMAT:
        raise ValueError(f"{path} is a checkpoint of another format ({version}, this is {FORMAT}): start anew")
    body = data[PREFIX.size :]
    if sha256(body).digest() != checksum:
        raise ValueError(f"{path} is damaged (its checksum is wrong): restore it, or remove it and start anew")
    try:
        header = msgspec.json.decode(body[:length], type=Header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{path} is not a checkpoint this version can read ({error}): start anew") from None
    written = header.settings
    if header.wmlr != __version__:
        raise ValueError(f"{path} was written by wmlr {header.wmlr} and this is {__version__}: start anew")
    if written != settings:
        raise ValueError(f"{path} is of other settings ({_difference(written, settings)}): use those, or another file")
    return _truncate(path, body, length, header.rounds)


def _truncate(path: Path, body: bytes, place: int, entries: list[Entry]) -> list[RecordedRound]:
    rounds = []
    for entry in entries:
        rounds.append(RecordedRound(entry.kind, entry.query, body[place : place + entry.bytes], entry.ledger))
        place += entry.bytes
    try:
        for held in rounds:
            unpack_sums(held.sums)
    except MessageError as error:
        raise ValueError(f"{path} is damaged ({error}): restore it, or remove it and start anew") from None
    return rounds


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(settings, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings must be what JSON can hold: {error}") from None
    return plain


def _difference(written: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(written, dict):
        return "none there"
    names = [name for name in wanted.keys() | written.keys() if written.get(name, ...) != wanted.get(name, ...)]
    name = min(names)
    there, here = (repr(one[name]) if name in one else "not set" for one in (written, wanted))
    return f"{name} is {there} there and {here} here"
