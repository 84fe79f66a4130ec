"""One round: a query to all agents, and the sum of their answers, seen one by one or under masks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import SystemRandom
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import add
from wmlr.federated.checks import LARGEST, check_answer
from wmlr.federated.ledger import BYTES, Round, entry, floats_in
from wmlr.federated.messages import MessageError, pack, unpack_sums
from wmlr.federated.privacy import SecureSumError
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.federated.privacy.postprocess import valid_sums
from wmlr.federated.privacy.protocol import Keys, Letters, Masked, Revealed, unpack_message
from wmlr.flower.admission import Member
from wmlr.flower.answering import KEYS, MASKED, REVEAL, ROUND, SHARES
from wmlr.flower.members import Answers, Members, TooFewAgentsError
from wmlr.flower.replay import AGAIN, INTERRUPTED, Transcript, fingerprint
from wmlr.flower.terms import RunTerms
from wmlr.numerics.arrays import Sums

SMALLEST_GROUP = 3
"""Agents refuse to be summed with fewer."""

FEWEST_GROUPS = 3
"""Where a sum cannot be one, the sums of so many groups of agents are asked for at least."""


@dataclass(frozen=True)
class RoundSums:
    """What a round brought.

    Attributes
    ----------
    sums : of the answers as they were sent.
    rows : of each agent that answered, by its name.
    asked, late : how many agents were asked, and how many older answers came late.
    bytes_down, bytes_up : of a secure sum, to and from each agent; None where the server saw each answer.
    answers : each agent's, where it was seen and is exact.
    """

    sums: Sums
    rows: Mapping[str, int]
    asked: int
    late: int
    bytes_down: int | None = None
    bytes_up: int | None = None
    answers: Mapping[str, Sums] = field(default_factory=dict)

    def line(self, question: Question) -> Round:
        """The round as the ledger has it; down go the sums of the round before."""
        privacy = question.terms.privacy
        noise = 0.0 if privacy is None else privacy.multiplier
        line = entry(question.query, self.sums, self.asked, len(self.rows), self.late, noise)
        line = replace(line, floats_down=question.floats)
        if self.bytes_down is None or self.bytes_up is None:
            return line
        down, up = max(0, self.bytes_down - line.bytes_down), max(0, self.bytes_up - line.bytes_up)
        return replace(line, extra_down=down, extra_up=up, secure=True)


@dataclass(frozen=True)
class Question:
    """What a round asks for, of agents that find it themselves in the transcript; without one, they are told."""

    query: Query
    terms: RunTerms
    n_features: int
    transcript: Transcript | None

    def to(self, members: Members, member: Member) -> dict[str, Any]:
        """The message to an agent: what the fit has received since the agent's last one."""
        if self.transcript is None:
            return {"query": pack(self.query)}
        first = min(members.entries_received(member), len(self.transcript))
        entries = self.transcript.entries[first:]
        return {"first": first, "entries": entries, "label": self.query.label, "mark": fingerprint(self.query)}

    @property
    def entries(self) -> int:
        """How many entries of the transcript an agent that answers has received."""
        return 0 if self.transcript is None else len(self.transcript)

    @property
    def floats(self) -> int:
        """How many numbers an agent that follows the fit receives."""
        if self.transcript is None:
            return floats_in(self.query)
        last = [entry for entry in self.transcript.entries[-1:] if entry not in (AGAIN, INTERRUPTED)]
        return sum(floats_in(unpack_sums(entry)) for entry in last) + len(fingerprint(self.query))


def plain_round(members: Members, question: Question, least: int) -> RoundSums:
    """A round in which the server sees each answer, and checks it."""
    query, terms, n_features = question.query, question.terms, question.n_features
    envelope = None
    if terms.privacy is not None:
        envelope = NoiseEnvelope.of(query, n_features, terms.grouped, terms.privacy, terms.least(1))

    def read(member: Member, content: Mapping[str, Any]) -> Sums:
        members.note_received(member, question.entries)
        sums = unpack_sums(_data(content, "sums"))
        if envelope is None:
            check_answer(_whole(sums, member, terms), query, n_features, member.rows)
        else:
            _check_noisy(envelope.layout.flatten(sums))
        return sums

    said = members.ask(ROUND, lambda member: question.to(members, member), read, least, query.label)
    answers = [said.answers[member] for member in _by_name(said)]
    sums = add(answers)
    if envelope is not None:
        sums = valid_sums(envelope.layout.parts, sums, envelope.errors(len(answers)))
    rows = {member.name: member.rows for member in _by_name(said)}
    exact = envelope is None and terms.weighting == "rows"
    seen = {member.name: said.answers[member] for member in _by_name(said)} if exact else {}
    return RoundSums(sums, rows, said.asked, said.late, answers=seen)


def single_answers(members: Members, question: Question, among: Sequence[Member]) -> tuple[dict[str, Sums], int]:
    """Each agent's own answer, as a sum over its rows and not looked at; and how many older answers came late."""

    def read(member: Member, content: Mapping[str, Any]) -> Sums:
        return _whole(unpack_sums(_data(content, "sums")), member, question.terms)

    said = members.ask(ROUND, lambda member: question.to(members, member), read, 1, question.query.label, among)
    return {member.name: said.answers[member] for member in _by_name(said)}, said.late


def secure_round(members: Members, question: Question, least: int, among: Sequence[Member] | None = None) -> RoundSums:
    """A round in which the server sees the sum alone; it is held again where agents are lost on the way.

    One ``among`` some agents needs all of them.
    """
    until = time.monotonic() + members.timeout + members.patience
    while True:
        try:
            return _secure_sum(members, question, least, among)
        except (TooFewAgentsError, SecureSumError, MessageError) as error:
            if isinstance(error, MessageError) and among is None:
                _leave_out_spoilers(members, question)
            gone = among is not None and not set(among) <= set(members.present)
            if gone or time.monotonic() > until:
                raise TooFewAgentsError(f"no secure sum of {question.query.label} could be had: {error}") from None
            members.tell(f"the secure sum of {question.query.label} is held again: {error}")
            members.gather(least, least)


def _leave_out_spoilers(members: Members, question: Question) -> None:
    """Find whose words make a sum that cannot be one, by sums of groups of agents.

    First any groups; then each agent of a bad one with agents of good ones, so that what is bad there is its doing.
    """
    present, random = list(members.present), SystemRandom()
    random.shuffle(present)
    count = min(FEWEST_GROUPS, len(present) // SMALLEST_GROUP)
    if count < 2:
        return
    groups = [present[first::count] for first in range(count)]
    bad = [group for group in groups if not _plausible(members, question, group)]
    suspects = [member for group in bad for member in group if member in members.present]
    cleared = [member for member in members.present if member not in suspects]
    if len(cleared) < SMALLEST_GROUP - 1:
        return
    apart = {member: [member, *random.sample(cleared, SMALLEST_GROUP - 1)] for member in suspects}
    suspects = [member for member, group in apart.items() if not _plausible(members, question, group)]
    if len(suspects) < len(members.present) / 2:
        for member in suspects:
            members.leave_out(member, "the sums it is in cannot be sums of answers")


def _plausible(members: Members, question: Question, group: Sequence[Member]) -> bool:
    try:
        held = _secure_sum(members, question, len(group), group)
        if question.terms.weighting == "rows":
            check_answer(held.sums, question.query, question.n_features, sum(held.rows.values()))
    except (TooFewAgentsError, SecureSumError, MessageError):
        return False
    return True


def _secure_sum(members: Members, question: Question, least: int, among: Sequence[Member] | None) -> RoundSums:
    from wmlr.federated.privacy.fixed import DIGITS, decode
    from wmlr.federated.privacy.server import SecureServer

    query, terms, n_features = question.query, question.terms, question.n_features
    assert terms.secure is not None
    line = [member for member in members.present if among is None or member in among]
    numbers = {member: place for place, member in enumerate(line)}
    least = max(least, terms.secure.least(len(line)), min(SMALLEST_GROUP, len(line)))
    envelope = NoiseEnvelope.of(query, n_features, terms.grouped, terms.privacy, terms.least(len(line)))
    server = SecureServer(terms.secure, DIGITS * len(envelope.layout))
    down = up = late = 0
    shown: dict[int, Mapping[str, Any]] = {}

    def read(action: str, member: Member, given: Mapping[str, Any]) -> bytes:
        data = _secure_message(action, numbers[member], server.size, _data(given, "data"))
        if action == KEYS:
            shown[numbers[member]] = given
        if action == MASKED:
            members.note_received(member, question.entries)
        return data

    def send(action: str, member: Member, letter: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**letter, **question.to(members, member)} if action == MASKED else letter

    def step(action: str, letters: Mapping[int, Mapping[str, Any]]) -> dict[int, bytes]:
        nonlocal down, up, late
        among = [member for member in line if numbers[member] in letters]
        said: Answers[bytes] = members.ask(
            action,
            lambda member: send(action, member, letters[numbers[member]]),
            lambda member, given: read(action, member, given),
            least,
            query.label,
            among,
        )
        down += sum(
            len(value) for content in letters.values() for value in content.values() if isinstance(value, bytes)
        )
        down += BYTES * question.floats * len(among) if action == MASKED else 0
        up += sum(map(len, said.answers.values()))
        late += said.late
        return {numbers[member]: data for member, data in said.answers.items()}

    try:
        rosters = server.rosters(step(KEYS, {place: {"me": place} for place in numbers.values()}))
        vouchers = _vouchers(shown)
        boxes = server.boxes(step(SHARES, {place: {"data": data, **vouchers} for place, data in rosters.items()}))
        outcomes = server.outcomes(step(MASKED, {place: {"data": data} for place, data in boxes.items()}))
        words = server.total(step(REVEAL, {place: {"data": data} for place, data in outcomes.items()}))
    finally:
        for place, why in server.guilty.items():
            members.leave_out(line[place], why)
    rows = {member.name: member.rows for member in line if numbers[member] in outcomes}
    sums = envelope.layout.restore(decode(words))
    if terms.privacy is not None:
        sums = valid_sums(envelope.layout.parts, sums, envelope.errors(len(rows)))
    elif terms.weighting == "rows" and among is None:
        check_answer(sums, query, n_features, sum(rows.values()))
    return RoundSums(sums, rows, len(line), late, down // len(line), up // len(line))


def _secure_message(action: str, number: int, size: int, data: bytes) -> bytes:
    """A message of the secure sum, if by itself it can be what is due from this agent."""
    kinds: dict[str, type] = {KEYS: Keys, SHARES: Letters, MASKED: Masked, REVEAL: Revealed}
    found: Any = unpack_message(data, kinds[action])
    owner = {found.member} if isinstance(found, Keys) else {number}
    if isinstance(found, Letters):
        owner = {letter.sender for letter in found.letters}
    if owner != {number}:
        raise MessageError("it speaks for another agent")
    if isinstance(found, Masked) and found.words.shape != (size,):
        raise MessageError(f"it holds {found.words.size} words where {size} are wanted")
    return data


def _vouchers(shown: Mapping[int, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What agents have shown to be believed by the others."""
    found = [
        (number, given["certificate"], given["signature"])
        for number, given in shown.items()
        if isinstance(given.get("certificate"), bytes) and isinstance(given.get("signature"), bytes)
    ]
    return dict(zip(("numbers", "certificates", "signatures"), map(list, zip(*found)))) if found else {}


def _by_name(said: Answers[Any]) -> list[Member]:
    """By name, so that sums do not depend on who was first."""
    return sorted(said.answers, key=lambda member: member.name)


def _whole(sums: Sums, member: Member, terms: RunTerms) -> Sums:
    """An answer as a sum over the agent's rows, where it was sent as their mean."""
    if terms.weighting == "rows":
        return sums
    return {name: np.asarray(value * member.rows) for name, value in sums.items()}


def _check_noisy(vector: Any) -> None:
    size = float(np.abs(vector).max(initial=0.0))
    if size > LARGEST:
        raise MessageError(f"it holds {size:.3g}, larger than {LARGEST:.3g}")


def _data(content: Mapping[str, Any], name: str) -> bytes:
    data = content.get(name)
    if not isinstance(data, bytes):
        raise MessageError(f"it holds no {name}")
    return data
