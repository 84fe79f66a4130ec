"""The agents of a run: they join, are asked together, answer or do not, and may come back."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wmlr.flower.admission import (
    Member,
    agent_from_card,
    claimed_name,
    most_common,
    refuse_other_columns,
    short,
)
from wmlr.flower.answering import END, JOIN, REVEAL, ROUND
from wmlr.flower.messages import MessageNode, Messenger, Reply
from wmlr.flower.terms import RunTerms

MOST_STRIKES = 3
MOST_AGAIN = 2  # times that an agent in one round is sent what it lacks
LAST = (ROUND, REVEAL)  # what a round ends with
FAREWELL = 10.0
LONGEST_PAUSE = 1.0
GREETING = 0.5  # seconds between two looks for agents that are new
REFUSED = (
    ": some refuse, and their own logs say why; where numbers stand on too few rows of an agent, let three agents or "
    "more join, whose sums are masked, or start agents with a lower --min-rows"
)

Answer = TypeVar("Answer")
Tell = Callable[[str], None]


class TooFewAgentsError(RuntimeError):
    """A round that too few agents answered, however long it waited."""


@dataclass(frozen=True)
class Answers(Generic[Answer]):
    """What a question brought: answers by agent, how many were asked, and how many older answers came late."""

    answers: Mapping[Member, Answer]
    asked: int
    late: int


class Members:
    """Who has joined, and who of them answers.

    An agent that does not answer in time is absent: it is not asked again until its answer comes after all, too
    late to be used. One that answers wrongly three times in a row is left out for good.

    Parameters
    ----------
    messenger : how to reach them.
    terms : what they are told on joining.
    tell : hears of everything that happens, a line each.
    timeout : how many seconds a round waits for the slowest.
    patience : how many seconds more it waits while too few have answered.
    pause : seconds between two looks, at first; the longer a round takes, the more rarely one looks.
    task : what is to be fitted, which they are told on joining as well.

    Attributes
    ----------
    pattern : the first agent whose columns most have that the fit waited for; all others must have them.
    """

    def __init__(
        self,
        messenger: Messenger,
        terms: RunTerms,
        tell: Tell,
        timeout: float,
        patience: float,
        pause: float = 0.15,
        task: bytes = b"",
    ) -> None:
        self.messenger, self.terms, self.tell, self.task = messenger, terms, tell, task
        self.run = secrets.token_hex(16)
        self.timeout, self.patience, self.pause = timeout, patience, pause
        self.pattern: Member | None = None
        self._members: dict[int, Member] = {}
        self._waiting: dict[int, str] = {}
        self._absent: dict[int, str] = {}
        self._joining: dict[int, str] = {}
        self._refused: set[int] = set()
        self._strikes: dict[str, int] = {}
        self._online: dict[int, MessageNode] = {}
        self._greeted = 0.0
        self._seen: dict[int, int] = {}
        self._refusing: set[int] = set()

    @property
    def present(self) -> list[Member]:
        """Those who are asked, by name."""
        there = [member for node, member in self._members.items() if node not in self._absent]
        return sorted(there, key=lambda member: member.name)

    def gather(self, wanted: int, least: int) -> None:
        """Wait until ``wanted`` agents have joined; after some patience ``least`` will do."""
        until = time.monotonic() + self.patience
        while len(self.present) < wanted:
            self._greet()
            if len(self.present) >= wanted:
                self._choose_columns()
            if time.monotonic() > until:
                break
            time.sleep(self.pause)
        self._choose_columns()
        if len(self.present) < least:
            raise TooFewAgentsError(
                f"{_count(len(self.present))} joined within {self.patience:.0f} s and at least {least} must: "
                "look at the agents' own messages, raise --patience or lower --min-agents"
            )

    def ask(
        self,
        action: str,
        content: Callable[[Member], Mapping[str, Any]],
        read: Callable[[Member, Mapping[str, Any]], Answer],
        least: int,
        what: str,
        among: Iterable[Member] | None = None,
    ) -> Answers[Answer]:
        """Ask agents, and wait for their answers.

        Parameters
        ----------
        action, content : what to send each of them.
        read : makes an answer of what one sent, or raises ValueError with what is wrong with it.
        least : the fewest answers that will do. While there are fewer, agents that join are asked as well.
        what : what is asked for, in a word.
        among : whom to ask; None asks all who are present.
        """
        answers: dict[Member, Answer] = {}
        self._refusing.clear()
        asked: set[int] = set()
        late = 0
        again = dict.fromkeys(self._members, MOST_AGAIN)

        def send(members: Iterable[Member]) -> None:
            new = {member.node: content(member) for member in members if member.node not in asked}
            self._waiting |= self.messenger.send(action, new)
            asked.update(new)

        send(self.present if among is None else among)
        started = time.monotonic()
        while True:
            self._greet()
            late += self._count_returned()
            behind = self._collect(read, answers, forgiving=action in LAST)
            for member in behind:
                again[member.node] = again.get(member.node, MOST_AGAIN) - 1
                if again[member.node] >= 0:
                    self._waiting |= self.messenger.send(action, {member.node: content(member)})
            spent = time.monotonic() - started
            over = not self._waiting or spent > self.timeout
            if over and len(answers) >= least:
                break
            if spent > self.timeout + self.patience or self._is_hopeless(least - len(answers), asked, among is None):
                self._give_up()
                raise TooFewAgentsError(
                    f"{_count(len(answers))} answered {what} within {spent:.0f} s and at least {least} must"
                    + (REFUSED if self._refusing else "")
                )
            if over and among is None:
                send(self.present)
            time.sleep(min(max(self.pause, 0.1 * spent), LONGEST_PAUSE))
        self._give_up()
        return Answers(answers, len(asked), late)

    def _is_hopeless(self, missing: int, asked: set[int], others: bool) -> bool:
        """Whether all have replied whose answers are awaited, and nobody can be expected to bring those missing.

        Where ``others`` may answer as well, agents that join are waited for, unless some refuse: they will not be asked
        again in this round, and who might come was waited for before the fit began.
        """
        if self._waiting:
            return False
        coming = sum(node not in asked for node in (*self._members, *self._joining))
        return not others or (bool(self._refusing) and coming < missing)

    def dismiss(self, reason: str) -> None:
        """Tell all agents that the run is over, and wait a moment until they have heard it."""
        nodes = [*self._members, *self._joining]
        letters = self.messenger.send(END, {node: {"reason": reason, "done": True} for node in nodes})
        waiting = {letter for node, letter in letters.items() if node not in self._absent}
        until = time.monotonic() + min(FAREWELL, self.timeout)
        while waiting and time.monotonic() < until:
            time.sleep(self.pause)
            waiting = {letter for letter in waiting if self.messenger.fetch(letter) is None}

    def _collect(
        self, read: Callable[[Member, Mapping[str, Any]], Answer], answers: dict[Member, Answer], forgiving: bool
    ) -> list[Member]:
        """Take in the answers that have come; those who say that they have not received all there is to know.

        ``forgiving`` forgets earlier faults of an agent that answers well.
        """
        behind = []
        for node, letter in list(self._waiting.items()):
            reply = self.messenger.fetch(letter)
            if reply is None:
                continue
            del self._waiting[node]
            member = self._members[node]
            if reply.error is not None:
                self._note_loss(member, reply.error)
            elif isinstance(reply.content.get("refusal"), str):
                self._refusing.add(node)
                self._strike(member, f"agent {member.name} refuses, and its own log says why")
            elif isinstance(seen := reply.content.get("seen"), int):
                self._seen[node] = max(0, seen)
                behind.append(member)
            else:
                try:
                    answers[member] = read(member, reply.content)
                    if forgiving:
                        self._strikes.pop(member.name, None)
                except ValueError as error:
                    self._strike(member, f"agent {member.name}: reply dropped: {short(str(error))}")
        return behind

    def entries_received(self, member: Member) -> int:
        """How many entries of the transcript an agent has received, as far as is known."""
        return self._seen.get(member.node, 0)

    def note_received(self, member: Member, entries: int) -> None:
        """Note that an agent has received so many entries."""
        self._seen[member.node] = entries

    def _strike(self, member: Member, text: str) -> None:
        strikes = self._strikes[member.name] = self._strikes.get(member.name, 0) + 1
        self.tell(text)
        if strikes >= MOST_STRIKES:
            self.tell(f"agent {member.name} is left out from here on, after {strikes} such replies in a row")
            self._forget(member)
            self._refused.add(member.node)

    def leave_out(self, member: Member, why: str) -> None:
        """Ask an agent no more in this run."""
        self.tell(f"agent {member.name} is left out from here on: {why}")
        self._strikes[member.name] = MOST_STRIKES
        self._forget(member)
        self._refused.add(member.node)

    def _give_up(self) -> None:
        """Whoever has not answered is absent from now on."""
        for node in self._waiting:
            self.tell(f"agent {self._members[node].name} did not answer in time: the run goes on without it")
        self._absent |= self._waiting
        self._waiting = {}

    def _count_returned(self) -> int:
        """How many of the absent have answered after all."""
        late = 0
        for node, letter in list(self._absent.items()):
            reply = self.messenger.fetch(letter)
            if reply is None:
                continue
            del self._absent[node]
            if reply.error is not None:
                self._note_loss(self._members[node], reply.error)
                continue
            late += 1
            self.tell(f"agent {self._members[node].name} answered too late, and is asked again from the next round on")
        return late

    def _choose_columns(self) -> None:
        """Fit the columns that most agents have, and turn the others away; who joins later must have them."""
        if self.pattern is not None or not self._members:
            return
        self.pattern = most_common(self._members.values())
        for member in list(self._members.values()):
            try:
                refuse_other_columns(member, self.pattern)
            except ValueError as error:
                self._forget(member)
                self._turn_away(member.node, member.name, error)

    def _turn_away(self, node: int, name: str, why: ValueError) -> None:
        self.tell(f"agent {name} is not admitted: {why}")
        self._refused.add(node)
        self.messenger.send(END, {node: {"reason": f"not admitted: {why}", "done": False}})

    def _note_loss(self, member: Member, error: str) -> None:
        self.tell(f"agent {member.name} is gone: {short(error)}")
        self._forget(member)

    def _forget(self, member: Member) -> None:
        for book in (self._members, self._waiting, self._absent):
            book.pop(member.node, None)

    def _greet(self) -> None:
        """Ask whoever is new to join, and take in those who have answered."""
        if time.monotonic() - self._greeted < GREETING:
            return
        self._greeted = time.monotonic()
        before, self._online = self._online, self.messenger.online()
        for node, member in list(self._members.items()):
            if node in self._online and node in before and self._online[node].since != before[node].since:
                self._note_loss(member, "it has connected anew")
        self._refused &= self._online.keys()
        known = self._members.keys() | self._joining.keys() | self._refused
        terms = {"terms": self.terms.to_text(), "task": self.task, "run": self.run}
        self._joining |= self.messenger.send(JOIN, {node: terms for node in self._online if node not in known})
        for node, letter in list(self._joining.items()):
            reply = self.messenger.fetch(letter)
            if reply is not None:
                del self._joining[node]
                self._admit(node, reply)

    def _admit(self, node: int, reply: Reply) -> None:
        """Take an agent in, in the place of one of its name that is gone; or tell it, and the log, why not."""
        if reply.error is not None:
            return  # it has left again, or will be asked once more
        name = self._online.get(node, MessageNode()).name
        try:
            member = agent_from_card(node, name, reply.content, self.pattern, self.terms.privacy is not None)
            if self._strikes.get(member.name, 0) >= MOST_STRIKES:
                raise ValueError("it was left out of this run")
            for other in [one for one in self._members.values() if one.name == member.name]:
                if other.node in self._online and other.node not in self._absent:
                    raise ValueError("there is an agent of this name already: give it another --name")
                self._forget(other)
        except ValueError as error:
            self._turn_away(node, name or claimed_name(reply.content) or str(node), error)
            return
        self._members[node] = member
        self._seen.pop(node, None)
        self.tell(f"agent {member.name} joined" + (f" with {member.rows:,} rows" if member.rows else ""))
        if member.floor > 1:
            self.tell(f"agent {member.name} shows no number that stands on fewer than {member.floor} rows")


def _count(count: int) -> str:
    return f"{count or 'no'} agent{'' if count == 1 else 's'}"
