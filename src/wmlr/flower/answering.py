"""What an agent answers to each message of a run.

A plain round is one message. A round under masks is four, after Bonawitz et al. (2017): keys, shares, masked
words, and what takes the masks off the sum. Between them an agent keeps its secrets in a :class:`Memory`.

A message that asks holds no question, but what the fit has received since the last one; the question is the agent's own
(:mod:`wmlr.flower.replay`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wmlr.core.query import Query
from wmlr.federated.messages import pack_sums, unpack
from wmlr.federated.privacy import SecureSumError
from wmlr.federated.privacy.noise import NoiseEnvelope, SystemNormals
from wmlr.flower.agent import Agent, Run
from wmlr.flower.assignment import Assignment
from wmlr.flower.refusals import RefusalError, refusals_for_rows
from wmlr.flower.replay import same
from wmlr.flower.terms import RunTerms

JOIN, ROUND, KEYS, SHARES, MASKED, REVEAL, END = "join", "round", "keys", "shares", "masked", "reveal", "end"
LONGEST_NAME = 64

Content = Mapping[str, Any]


@dataclass(frozen=True)
class Memory:
    """What an agent remembers from one message of a run to the next: its terms, its secrets, its noisy answers."""

    terms: str = ""
    task: bytes = b""
    run: str = ""
    secrets: bytes = b""
    answered: int = 0


@dataclass(frozen=True)
class AgentResponse:
    """The reply to a message, what to remember, and what was answered, in a word."""

    content: Content
    memory: Memory
    what: str = ""


def respond(action: str, content: Content, agent: Agent, memory: Memory) -> AgentResponse:
    """An agent's reply to a message; ValueError where it refuses, with the reason, which is for its operator alone."""
    if agent.trouble >= agent.policy.max_trouble:
        raise RefusalError(f"{agent.trouble} questions were refused or asked again: this agent answers nothing more")
    try:
        return _join(content, agent, memory) if action == JOIN else _reply(action, content, agent, memory)
    except Exception as error:
        agent.trouble += error.cost if isinstance(error, RefusalError) else 1
        foreseen = isinstance(error, (ValueError, SecureSumError))
        raise RefusalError(str(error) if foreseen else f"{type(error).__name__}: {error}") from None


def _join(content: Content, agent: Agent, memory: Memory) -> AgentResponse:
    terms, run, task = RunTerms.of(content.get("terms")), content.get("run"), content.get("task")
    assignment = Assignment.from_bytes(task)
    if not isinstance(run, str) or not 0 < len(run) <= LONGEST_NAME:
        raise RefusalError("the server gives the run no name")
    card = agent.card(terms, assignment)
    answered = memory.answered if memory.run == run else 0
    joined = Memory(terms.to_text(), assignment.to_bytes(), run, answered=answered)
    alone = terms.secure is not None and agent.vouching is None
    among = ", summed with partners that nobody vouches for: a server that invents them sees single answers"
    return AgentResponse(card, joined, f"the call to fit {assignment}{among if alone else ''}")


def _reply(action: str, content: Content, agent: Agent, memory: Memory) -> AgentResponse:
    terms = RunTerms.of(memory.terms)
    if action == ROUND:
        return _plain(content, agent, memory, terms)
    if terms.secure is None:
        raise RefusalError("this run has no secure sums")
    return _secure(action, content, agent, memory, terms)


def _question(content: Content, agent: Agent, run: Run) -> Query | None:
    """What the fit asks now, if the server asks for the same; None where entries of the transcript are missing."""
    if agent.policy.max_rounds is not None and agent.answered >= agent.policy.max_rounds:
        raise RefusalError(f"the {agent.policy.max_rounds} questions of --max-rounds are answered")
    if run.replay is None:
        asked = unpack(_data(content, "query"))
        agent.policy.check_components(asked.components)
        return asked
    first, entries = content.get("first"), content.get("entries")
    if not isinstance(first, int) or not isinstance(entries, list):
        raise RefusalError("the message says nothing of what the fit has received")
    if first != run.replay.read:
        return None
    if not all(isinstance(entry, bytes) for entry in entries):
        raise RefusalError("what the fit has received must come as bytes")
    query = run.replay.advance(entries)
    if not same(query, content.get("label"), content.get("mark")):
        raise RefusalError(f"the fit asks for {query.label} here, and the server for something else")
    if run.turn == run.replay.read:
        agent.trouble += 1
    return query


def _plain(content: Content, agent: Agent, memory: Memory, terms: RunTerms) -> AgentResponse:
    if terms.secure is not None:
        raise RefusalError("in this run answers leave under masks only")
    run = agent.run(memory.run, terms, memory.task)
    query = _question(content, agent, run)
    if query is None:
        return AgentResponse({"seen": run.read}, memory)
    if run.replay is not None and run.turn == run.read:
        return AgentResponse(run.reply, memory, f"{query.label} once more")
    if terms.privacy is None:
        sums = agent.answer(query, terms)
    else:
        envelope = NoiseEnvelope.of(query, agent.X.shape[1], terms.grouped, terms.privacy, terms.least(1))
        vector, memory = _close_answer(envelope, query, agent, memory, terms)
        sums = envelope.layout.restore(vector)
    agent.answered += 1
    with refusals_for_rows():
        run.turn, run.reply = run.read, {"sums": pack_sums(sums)}
    return AgentResponse(run.reply, memory, query.label)


def _secure(action: str, content: Content, agent: Agent, memory: Memory, terms: RunTerms) -> AgentResponse:
    from wmlr.federated.privacy.agent import SecureAgent
    from wmlr.federated.privacy.fixed import encode

    session = memory.run.encode()
    if action == KEYS:
        me = content.get("me")
        if not isinstance(me, int) or isinstance(me, bool) or me < 0:
            raise RefusalError("the server gives this agent no number")
        state, data = SecureAgent.begin(me, terms.secure, agent.min_agents)
        shown = {} if agent.vouching is None else agent.vouching.show(session, data)
        return AgentResponse({"data": data, **shown}, replace(memory, secrets=state.to_bytes()))
    state, what = SecureAgent.from_bytes(memory.secrets), ""
    if action == SHARES:
        roster = _data(content, "data")
        if agent.vouching is not None:
            agent.vouching.check_roster(session, roster, content)
        state, data = state.share(roster)
    elif action == MASKED:
        run = agent.run(memory.run, terms, memory.task)
        query = _question(content, agent, run)
        if query is None:
            return AgentResponse({"seen": run.read}, memory)
        what = query.label
        state = state.open(_data(content, "data"))
        sharers = agent.noise_sharers(terms, len(state.members), state.fewest)
        envelope = NoiseEnvelope.of(query, agent.X.shape[1], terms.grouped, terms.privacy, sharers)
        vector, memory = _close_answer(envelope, query, agent, memory, terms)
        with refusals_for_rows():
            words = encode(vector)
        state, data = state.hide(words)
        agent.answered += 1
        run.turn = run.read
    elif action == REVEAL:
        state, data = state.reveal(_data(content, "data"))
    else:
        raise RefusalError(f"there is no {action!r} in a run")
    return AgentResponse({"data": data}, replace(memory, secrets=state.to_bytes()), what)


def _close_answer(
    envelope: NoiseEnvelope, query: Query, agent: Agent, memory: Memory, terms: RunTerms
) -> tuple[Any, Memory]:
    """An answer as it leaves, and the memory that counts it where it is noisy."""
    privacy = terms.privacy
    if privacy is None:
        return envelope.privatise(agent.answer(query, terms), SystemNormals()), memory
    if memory.answered >= privacy.rounds:
        raise RefusalError(f"the {privacy.rounds} noisy answers that were agreed on have been given")
    sums = agent.answer(query, terms)
    agent.spend(terms)
    return envelope.privatise(sums, privacy.generator(memory.answered)), replace(memory, answered=memory.answered + 1)


def _data(content: Content, name: str) -> bytes:
    data = content.get(name)
    if not isinstance(data, bytes):
        raise RefusalError(f"the message holds no {name}")
    return data
