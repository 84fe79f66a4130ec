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
from wmlr.federated.ledger import Round, entry
from wmlr.federated.messages import MessageError, pack, unpack_sums
from wmlr.federated.privacy import SecureSumError
from wmlr.federated.privacy.noise import Envelope
from wmlr.federated.privacy.postprocess import valid_sums
from wmlr.federated.privacy.protocol import Keys, Letters, Masked, Revealed, received
from wmlr.flower.admission import Member
from wmlr.flower.answering import KEYS, MASKED, REVEAL, ROUND, SHARES
from wmlr.flower.members import Asked, Members, TooFewAgentsError
from wmlr.flower.terms import Terms
from wmlr.numerics.arrays import Sums

FEWEST_GROUPS = 3
"""Where a sum cannot be one, the sums of so many groups of agents are asked for at least."""


@dataclass(frozen=True)
class Held:
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

    def line(self, query: Query, terms: Terms) -> Round:
        """The round as the ledger has it."""
        noise = 0.0 if terms.privacy is None else terms.privacy.multiplier
        line = entry(query, self.sums, self.asked, len(self.rows), self.late, noise)
        if self.bytes_down is None or self.bytes_up is None:
            return line
        down, up = max(0, self.bytes_down - line.bytes_down), max(0, self.bytes_up - line.bytes_up)
        return replace(line, extra_down=down, extra_up=up, secure=True)


def plain(members: Members, query: Query, terms: Terms, n_features: int, least: int) -> Held:
    """A round in which the server sees each answer, and checks it."""
    asked = {"query": pack(query)}
    envelope = None
    if terms.privacy is not None:
        envelope = Envelope.of(query, n_features, terms.grouped, terms.privacy, terms.least(1))

    def read(member: Member, content: Mapping[str, Any]) -> Sums:
        sums = unpack_sums(_data(content, "sums"))
        if envelope is None:
            check_answer(_whole(sums, member, terms), query, n_features, member.rows)
        else:
            _check_noisy(envelope.layout.flatten(sums))
        return sums

    said = members.ask(ROUND, lambda _: asked, read, least, query.label)
    answers = [said.answers[member] for member in _ordered(said)]
    sums = add(answers)
    if envelope is not None:
        sums = valid_sums(envelope.layout.parts, sums, envelope.errors(len(answers)))
    rows = {member.name: member.rows for member in _ordered(said)}
    exact = envelope is None and terms.weighting == "rows"
    seen = {member.name: said.answers[member] for member in _ordered(said)} if exact else {}
    return Held(sums, rows, said.asked, said.late, answers=seen)


def each(members: Members, query: Query, terms: Terms, among: Sequence[Member]) -> tuple[dict[str, Sums], int]:
    """Each agent's own answer, as a sum over its rows and not looked at; and how many older answers came late."""
    asked = {"query": pack(query)}

    def read(member: Member, content: Mapping[str, Any]) -> Sums:
        return _whole(unpack_sums(_data(content, "sums")), member, terms)

    said = members.ask(ROUND, lambda _: asked, read, 1, query.label, among)
    return {member.name: said.answers[member] for member in _ordered(said)}, said.late


def secure(
    members: Members,
    query: Query,
    terms: Terms,
    n_features: int,
    least: int,
    among: Sequence[Member] | None = None,
) -> Held:
    """A round in which the server sees the sum alone; it is held again where agents are lost on the way."""
    until = time.monotonic() + members.timeout + members.patience
    while True:
        try:
            return _secure_sum(members, query, terms, n_features, least, among)
        except (TooFewAgentsError, SecureSumError, MessageError) as error:
            if isinstance(error, MessageError) and among is None:
                _leave_out_spoilers(members, query, terms, n_features)
            if time.monotonic() > until:
                raise TooFewAgentsError(f"no secure sum of {query.label} could be had: {error}") from None
            members.tell(f"the secure sum of {query.label} is held again: {error}")
            members.gather(least, least)


def _leave_out_spoilers(members: Members, query: Query, terms: Terms, n_features: int) -> None:
    """Find whose words make a sum that cannot be one, by sums of groups of agents: first any groups, then others.

    Agents that were together in a bad group are apart in the next, so that what is bad there is one agent's doing.
    """
    suspects, shuffled = list(members.present), SystemRandom()
    for _ in range(2):
        count = max(FEWEST_GROUPS, len(suspects) if len(suspects) < len(members.present) else 0)
        count = min(count, len(members.present) // 2)
        if count < 2:
            return
        others = [member for member in members.present if member not in suspects]
        shuffled.shuffle(suspects)
        shuffled.shuffle(others)
        line = [*suspects, *others]
        bad = [line[first::count] for first in range(count)]
        bad = [group for group in bad if not _plausible(members, query, terms, n_features, group)]
        suspects = [member for member in suspects if any(member in group for group in bad)]
    if len(suspects) < len(members.present) / 2:
        for member in suspects:
            members.leave_out(member, "the sums it is in cannot be sums of answers")


def _plausible(members: Members, query: Query, terms: Terms, n_features: int, group: Sequence[Member]) -> bool:
    try:
        held = _secure_sum(members, query, terms, n_features, len(group), group)
        if terms.weighting == "rows":
            check_answer(held.sums, query, n_features, sum(held.rows.values()))
    except (TooFewAgentsError, SecureSumError, MessageError):
        return False
    return True


def _secure_sum(
    members: Members, query: Query, terms: Terms, n_features: int, least: int, among: Sequence[Member] | None
) -> Held:
    from wmlr.federated.privacy.fixed import DIGITS, decoded
    from wmlr.federated.privacy.server import SecureServer

    assert terms.secure is not None
    line = [member for member in members.present if among is None or member in among]
    numbers = {member: place for place, member in enumerate(line)}
    least = max(least, terms.secure.least(len(line)))
    envelope = Envelope.of(query, n_features, terms.grouped, terms.privacy, terms.least(len(line)))
    server = SecureServer(terms.secure, DIGITS * len(envelope.layout))
    down = up = late = 0

    def step(action: str, letters: Mapping[int, Mapping[str, Any]]) -> dict[int, bytes]:
        nonlocal down, up, late
        among = [member for member in line if numbers[member] in letters]
        said: Asked[bytes] = members.ask(
            action,
            lambda member: letters[numbers[member]],
            lambda member, given: _secured(action, numbers[member], server.size, _data(given, "data")),
            least,
            query.label,
            among,
        )
        down += sum(
            len(value) for content in letters.values() for value in content.values() if isinstance(value, bytes)
        )
        up += sum(map(len, said.answers.values()))
        late += said.late
        return {numbers[member]: data for member, data in said.answers.items()}

    try:
        rosters = server.rosters(step(KEYS, {place: {"me": place} for place in numbers.values()}))
        boxes = server.boxes(step(SHARES, {place: {"data": data} for place, data in rosters.items()}))
        asked = pack(query)
        outcomes = server.outcomes(
            step(MASKED, {place: {"data": data, "query": asked} for place, data in boxes.items()})
        )
        words = server.total(step(REVEAL, {place: {"data": data} for place, data in outcomes.items()}))
    finally:
        for place, why in server.guilty.items():
            members.leave_out(line[place], why)
    rows = {member.name: member.rows for member in line if numbers[member] in outcomes}
    sums = envelope.opened(decoded(words))
    if terms.privacy is not None:
        sums = valid_sums(envelope.layout.parts, sums, envelope.errors(len(rows)))
    elif terms.weighting == "rows" and among is None:
        check_answer(sums, query, n_features, sum(rows.values()))
    return Held(sums, rows, len(line), late, down // len(line), up // len(line))


def _secured(action: str, number: int, size: int, data: bytes) -> bytes:
    """A message of the secure sum, if by itself it can be what is due from this agent."""
    kinds: dict[str, type] = {KEYS: Keys, SHARES: Letters, MASKED: Masked, REVEAL: Revealed}
    found: Any = received(data, kinds[action])
    owner = {found.member} if isinstance(found, Keys) else {number}
    if isinstance(found, Letters):
        owner = {letter.sender for letter in found.letters}
    if owner != {number}:
        raise MessageError("it speaks for another agent")
    if isinstance(found, Masked) and found.words.shape != (size,):
        raise MessageError(f"it holds {found.words.size} words where {size} are wanted")
    return data


def _ordered(said: Asked[Any]) -> list[Member]:
    """By name, so that sums do not depend on who was first."""
    return sorted(said.answers, key=lambda member: member.name)


def _whole(sums: Sums, member: Member, terms: Terms) -> Sums:
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
