"""The server's side of the secure sum."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import numpy as np

from wmlr.federated.messages import MessageError
from wmlr.federated.privacy import masks
from wmlr.federated.privacy.fixed import Words, check_agents
from wmlr.federated.privacy.protocol import (
    Keys,
    Letter,
    Letters,
    Masked,
    Outcome,
    Post,
    Revealed,
    Roster,
    Secure,
    SecureSumError,
    received,
    sent,
)


class SecureServer:
    """The server in one secure sum: each step takes the agents' bytes and gives the bytes to send them.

    An agent that is lost is left out of what the next step is given. ``size`` is the number of words of an answer.
    """

    def __init__(self, settings: Secure, size: int) -> None:
        self.settings, self.size = settings, size
        self.session = secrets.token_bytes(16)
        self.keys: dict[int, Keys] = {}
        self.paired: dict[int, list[int]] = {}
        self.letters: dict[int, dict[int, Letter]] = {}
        self.masked: dict[int, Words] = {}

    def rosters(self, keys: Post) -> dict[int, bytes]:
        """After step 1: to each agent, the public keys of those it is paired with."""
        check_agents(len(keys))
        if len(keys) < 2:
            raise SecureSumError(f"a secure sum of {len(keys)} agents would show an agent's own answer: two are needed")
        for member, data in keys.items():
            found = received(data, Keys)
            if found.member != member:
                raise MessageError(f"agent {member} has sent the keys of agent {found.member}")
            self.keys[member] = found
        self.paired = ring(self.keys, self.settings.neighbours)
        return {member: sent(self._roster(member)) for member in self.keys}

    def boxes(self, letters: Post) -> dict[int, bytes]:
        """After step 2: to each agent, the letters for it."""
        self._enough(len(letters), "sent shares")
        for member, data in letters.items():
            found = received(data, Letters).letters
            to = {letter.to: letter for letter in found}
            if {letter.sender for letter in found} != {member} or sorted(to) != sorted(self._others(member)):
                raise MessageError(f"agent {member} has not sent one letter to each agent it is paired with")
            self.letters[member] = to
        return {
            member: sent(
                Letters(tuple(self.letters[other][member] for other in self._others(member) if other in letters))
            )
            for member in letters
        }

    def outcomes(self, masked: Post) -> dict[int, bytes]:
        """After step 3: to each agent, whose words have arrived."""
        self._enough(len(masked), "answered")
        for member, data in masked.items():
            words = received(data, Masked).words
            if words.shape != (self.size,):
                raise MessageError(f"agent {member} has sent {words.shape} words where {self.size} are wanted")
            self.masked[member] = words
        return {member: sent(self._outcome(member)) for member in masked}

    def total(self, revealed: Post) -> Words:
        """After step 4: the sum of the words of the agents that answered, and of nobody else."""
        self._enough(len(revealed), "given their shares")
        parts = {member: received(data, Revealed) for member, data in revealed.items()}
        words = np.zeros(self.size, dtype=np.uint64)
        for member, own in self.masked.items():
            seed = self._secret({other: part.seeds for other, part in parts.items()}, member)
            if masks.derived(seed, b"commitment") != self.keys[member].commitment:
                raise SecureSumError(f"the shares of agent {member}'s seed do not fit together")
            words += own - masks.stream(masks.derived(seed, self.session), self.size)
        for member in self.letters.keys() - self.masked.keys():
            secret = self._secret({other: part.keys for other, part in parts.items()}, member)
            if masks.public_key(secret) != self.keys[member].mask:
                raise SecureSumError(f"the shares of agent {member}'s key do not fit together")
            for other in self._others(member):
                if other in self.masked:
                    public = self.keys[other].mask
                    words += masks.pair_mask(secret, public, self.session, (member, other), self.size)
        return words

    def _secret(self, parts: dict[int, dict[str, bytes]], member: int) -> bytes:
        """A secret of one agent, from the shares of those it is paired with."""
        roster = self.paired[member]
        shares = {
            place + 1: parts[other][str(member)]
            for place, other in enumerate(roster)
            if other in parts and str(member) in parts[other]
        }
        least = self.settings.least(len(roster))
        if len(shares) < least:
            raise SecureSumError(
                f"{len(shares)} of the {len(roster)} agents that hold shares of agent {member}'s secrets are left and "
                f"{least} are needed: hold the round again, or pair each agent with more"
            )
        try:
            return masks.combined(dict(list(shares.items())[:least]))
        except MessageError:
            raise SecureSumError(f"the shares of agent {member}'s secrets do not fit together") from None

    def _others(self, member: int) -> list[int]:
        return [other for other in self.paired[member] if other != member]

    def _roster(self, member: int) -> Roster:
        members = self.paired[member]
        return Roster(self.session, self.settings.least(len(members)), tuple(self.keys[other] for other in members))

    def _outcome(self, member: int) -> Outcome:
        seen = [other for other in self.paired[member] if other in self.letters]
        answered = tuple(other for other in seen if other in self.masked)
        return Outcome(answered, tuple(other for other in seen if other not in self.masked))

    def _enough(self, count: int, what: str) -> None:
        least = self.settings.least(len(self.keys))
        if count < least:
            raise SecureSumError(f"{count} of {len(self.keys)} agents have {what} and the secure sum needs {least}")


def ring(members: Iterable[int], neighbours: int) -> dict[int, list[int]]:
    """Who is paired with whom: all with all, or with the nearest on a ring of random order. Each has itself too."""
    line = sorted(members)
    if len(line) <= neighbours + 1:
        return dict.fromkeys(line, line)
    secrets.SystemRandom().shuffle(line)
    reach = neighbours // 2
    count = len(line)
    return {
        member: [line[(place + step) % count] for step in range(-reach, reach + 1)] for place, member in enumerate(line)
    }
