"""What an agent answers to each message of a run.

A plain round is one message. A round under masks is four, after Bonawitz et al. (2017): keys, shares, masked
words, and what takes the masks off the sum. Between them an agent keeps its secrets in a :class:`Memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.federated.messages import pack_sums, unpack
from wmlr.federated.privacy import SecureSumError
from wmlr.federated.privacy.noise import Envelope
from wmlr.flower.agent import Agent, RefusalError
from wmlr.flower.terms import Terms

JOIN, ROUND, KEYS, SHARES, MASKED, REVEAL, END = "join", "round", "keys", "shares", "masked", "reveal", "end"

Content = Mapping[str, Any]


@dataclass(frozen=True)
class Memory:
    """What an agent remembers from one message of a run to the next: its terms, its secrets, its noisy answers."""

    terms: str = ""
    secrets: bytes = b""
    answered: int = 0


@dataclass(frozen=True)
class Answered:
    """The reply to a message, what to remember, and what was answered, in a word."""

    content: Content
    memory: Memory
    what: str = ""


def respond(action: str, content: Content, agent: Agent, memory: Memory) -> Answered:
    """An agent's reply to a message; ValueError where it refuses, with the reason."""
    if action == JOIN:
        terms = Terms.of(content.get("terms"))
        return Answered(agent.card(terms), replace(memory, terms=terms.to_text()))
    terms = Terms.of(memory.terms)
    if action == ROUND:
        return _plain(content, agent, memory, terms)
    if terms.secure is None:
        raise RefusalError("this run has no secure sums")
    try:
        return _secure(action, content, agent, memory, terms)
    except SecureSumError as error:
        raise RefusalError(str(error)) from None


def _plain(content: Content, agent: Agent, memory: Memory, terms: Terms) -> Answered:
    if terms.secure is not None:
        raise RefusalError("in this run answers leave under masks only")
    query = unpack(_data(content, "query"))
    if terms.privacy is None:
        return Answered({"sums": pack_sums(agent.answer(query, terms))}, memory, query.label)
    envelope = Envelope.of(query, agent.X.shape[1], terms.grouped, terms.privacy, terms.least(1))
    vector, memory = _closed(envelope, query, agent, memory, terms)
    return Answered({"sums": pack_sums(envelope.opened(vector))}, memory, query.label)


def _secure(action: str, content: Content, agent: Agent, memory: Memory, terms: Terms) -> Answered:
    from wmlr.federated.privacy.agent import SecureAgent
    from wmlr.federated.privacy.fixed import encoded

    if action == KEYS:
        me = content.get("me")
        if not isinstance(me, int) or isinstance(me, bool) or me < 0:
            raise RefusalError("the server gives this agent no number")
        state, data = SecureAgent.begin(me)
        return Answered({"data": data}, replace(memory, secrets=state.to_bytes()))
    state, what = SecureAgent.from_bytes(memory.secrets), ""
    if action == SHARES:
        state, data = state.share(_data(content, "data"))
    elif action == MASKED:
        query = unpack(_data(content, "query"))
        what = query.label
        least = terms.least(len(state.members))
        envelope = Envelope.of(query, agent.X.shape[1], terms.grouped, terms.privacy, least)
        vector, memory = _closed(envelope, query, agent, memory, terms)
        state, data = state.mask(_data(content, "data"), encoded(vector))
    elif action == REVEAL:
        state, data = state.reveal(_data(content, "data"))
    else:
        raise RefusalError(f"there is no {action!r} in a run")
    return Answered({"data": data}, replace(memory, secrets=state.to_bytes()), what)


def _closed(envelope: Envelope, query: Query, agent: Agent, memory: Memory, terms: Terms) -> tuple[Any, Memory]:
    """An answer as it leaves, and the memory that counts it where it is noisy."""
    privacy = terms.privacy
    if privacy is None:
        return envelope.closed(agent.answer(query, terms), np.random.default_rng()), memory
    if memory.answered >= privacy.rounds:
        raise RefusalError(f"the {privacy.rounds} noisy answers that were agreed on have been given")
    sums = agent.answer(query, terms)
    agent.spend(terms)
    return envelope.closed(sums, privacy.generator(memory.answered)), replace(memory, answered=memory.answered + 1)


def _data(content: Content, name: str) -> bytes:
    data = content.get(name)
    if not isinstance(data, bytes):
        raise RefusalError(f"the message holds no {name}")
    return data
