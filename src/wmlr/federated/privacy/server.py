"""The server's side of the secure sum."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

import numpy as np

from wmlr.federated.messages import MessageError
from wmlr.federated.privacy import masks
from wmlr.federated.privacy.fixed import Words, check_agents
from wmlr.federated.privacy.protocol import (
    Keys,
    Letter,
    Letters,
    Masked,
    MessagesByAgent,
    Outcome,
    Revealed,
    Roster,
    Secure,
    SecureSumError,
    bound_session,
    pack_message,
    unpack_message,
)


class SecureServer:
    """The server in one secure sum: each step takes the agents' bytes and gives the bytes to send them.

    An agent that is lost is left out of what the next step is given. ``size`` is the number of words of an answer.

    Blame falls on who sends what is wrong. Fewer liars than the threshold leaves cannot spoil a sum: shares that are
    missing or wrong are made up for by the others', and what more agents say of one than there may be liars is true.
    ``guilty`` says whose fault was found, and which.
    """

    def __init__(self, settings: Secure, size: int) -> None:
        self.settings, self.size = settings, size
        self.session = self.bound = secrets.token_bytes(16)
        self.keys: dict[int, Keys] = {}
        self.paired: dict[int, list[int]] = {}
        self.letters: dict[int, dict[int, Letter]] = {}
        self.masked: dict[int, Words] = {}
        self.unread: dict[int, tuple[int, ...]] = {}
        self.guilty: dict[int, str] = {}

    def rosters(self, keys: MessagesByAgent) -> dict[int, bytes]:
        """After step 1: to each agent, the public keys of those it is paired with."""
        check_agents(len(keys))
        if len(keys) < 2:
            raise SecureSumError(f"a secure sum of {len(keys)} agents would show an agent's own answer: two are needed")
        for member, data in keys.items():
            found = unpack_message(data, Keys)
            if found.member != member:
                self._blame(member, f"it has sent the keys of agent {found.member}")
            self.keys[member] = found
        self._check_keys()
        self.paired = ring(self.keys, self.settings.neighbours)
        rosters = {member: self._roster(member) for member in self.keys}
        self.bound = bound_session(next(iter(rosters.values())), self.settings)
        return {member: pack_message(roster) for member, roster in rosters.items()}

    def boxes(self, letters: MessagesByAgent) -> dict[int, bytes]:
        """After step 2: to each agent, the letters for it."""
        self._require_enough(len(letters), "sent shares")
        for member, data in letters.items():
            found = unpack_message(data, Letters).letters
            to = {letter.to: letter for letter in found}
            if {letter.sender for letter in found} != {member} or sorted(to) != sorted(self._others(member)):
                self._blame(member, "it has not sent one letter to each agent it is paired with")
            self.letters[member] = to
        return {
            member: pack_message(
                Letters(tuple(self.letters[other][member] for other in self._others(member) if other in letters))
            )
            for member in letters
        }

    def outcomes(self, masked: MessagesByAgent) -> dict[int, bytes]:
        """After step 3: to each agent, whose words have arrived."""
        self._require_enough(len(masked), "answered")
        for member, data in masked.items():
            found = unpack_message(data, Masked)
            if found.words.shape != (self.size,):
                self._blame(member, f"it has sent {found.words.shape} words where {self.size} are wanted")
            self.masked[member], self.unread[member] = found.words, found.unread
        self._judge_letters()
        return {member: pack_message(self._outcome(member)) for member in masked}

    def total(self, revealed: MessagesByAgent) -> Words:
        """After step 4: the sum of the words of the agents that answered, and of nobody else."""
        self._require_enough(len(revealed), "given their shares")
        parts = {member: unpack_message(data, Revealed) for member, data in revealed.items()}
        words, wrong = np.zeros(self.size, dtype=np.uint64), dict[int, set[int]]()
        lost: list[str] = []
        for member, own in self.masked.items():
            commitment = self.keys[member].commitment
            seed = self._secret(
                {other: part.seeds for other, part in parts.items()},
                member,
                lambda secret, wanted=commitment: masks.derive_key(secret, b"commitment") == wanted,  # type: ignore[misc]
                wrong,
                lost,
            )
            if seed:
                words += own - masks.stream(masks.derive_key(seed, self.bound), self.size)
        for member in self.letters.keys() - self.masked.keys():
            public = self.keys[member].mask
            secret = self._secret(
                {other: part.keys for other, part in parts.items()},
                member,
                lambda found, wanted=public: masks.public_key(found) == wanted,  # type: ignore[misc]
                wrong,
                lost,
            )
            for other in self._others(member) if secret else ():
                if other in self.masked:
                    words += masks.pair_mask(secret, self.keys[other].mask, self.bound, (member, other), self.size)
        self._judge_shares(wrong)
        if lost:
            raise SecureSumError(lost[0], self.guilty)
        return words

    def _secret(
        self,
        parts: dict[int, dict[str, bytes]],
        member: int,
        right: Callable[[bytes], bool],
        wrong: dict[int, set[int]],
        lost: list[str],
    ) -> bytes:
        """A secret of one agent, from the shares of those it is paired with; nothing where it is lost, and why."""
        roster = self.paired[member]
        shares = {
            place + 1: parts[other][str(member)]
            for place, other in enumerate(roster)
            if other in parts and str(member) in parts[other]
        }
        least = self.settings.least(len(roster))
        if len(shares) < least:
            lost.append(
                f"{len(shares)} of the {len(roster)} agents that hold shares of agent {member}'s secrets are left and "
                f"{least} are needed: hold the round again, or pair each agent with more"
            )
            return b""
        try:
            secret, off = masks.recover_secret(shares, least, right)
        except MessageError:
            lost.append(f"the shares of agent {member}'s secrets do not fit together")
            wrong[member] = set(roster)
            return b""
        wrong[member] = {roster[place - 1] for place in off}
        return secret

    def _blame(self, member: int, why: str) -> None:
        self.guilty[member] = why
        raise SecureSumError(f"agent {member}: {why}", self.guilty)

    def _check_keys(self) -> None:
        """Raise where a public key is none, or two agents have the same: keys are fresh, so nobody knows another's."""
        owners: dict[bytes, int] = {}
        wrong: dict[int, str] = {}
        for member, keys in self.keys.items():
            for key in (keys.seal, keys.mask):
                try:
                    masks.check_public_key(key)
                except MessageError:
                    wrong[member] = "its public key is none"
                for one in {owners[key], member} if key in owners else ():
                    wrong[one] = "it has sent a key that is used twice"
                owners[key] = member
        if wrong:
            self.guilty |= wrong
            raise SecureSumError("public keys are wrong", wrong)

    def _judge_letters(self) -> None:
        """Whose letters too many could not open, and who says so of too many."""
        for member, others in self.paired.items():
            most = self.settings.most_liars(len(others))
            accusing = [other for other in others if member in self.unread.get(other, ())]
            if len(accusing) > most:
                self.guilty[member] = f"{len(accusing)} agents could not open the letters it sealed"
            if len(self.unread.get(member, ())) > most:
                self.guilty.setdefault(member, f"it says of {len(self.unread[member])} agents that it cannot read them")

    def _judge_shares(self, wrong: dict[int, set[int]]) -> None:
        """Who has revealed wrong shares of too many, and whose shares were wrong for too many."""
        for member, others in self.paired.items():
            most = self.settings.most_liars(len(others))
            against = [
                dealer for dealer, off in wrong.items() if member in off and dealer != member and len(off) <= most
            ]
            if len(against) > most:
                self.guilty[member] = f"it has revealed wrong shares of {len(against)} agents' secrets"
        for dealer, off in wrong.items():
            honest = [other for other in off if other not in self.guilty]
            if len(honest) > self.settings.most_liars(len(self.paired[dealer])):
                self.guilty.setdefault(dealer, "the shares it dealt of its secrets do not fit together")

    def _others(self, member: int) -> list[int]:
        return [other for other in self.paired[member] if other != member]

    def _roster(self, member: int) -> Roster:
        members = self.paired[member]
        return Roster(self.session, self.settings.least(len(members)), tuple(self.keys[other] for other in members))

    def _outcome(self, member: int) -> Outcome:
        seen = [other for other in self.paired[member] if other in self.letters]
        answered = tuple(other for other in seen if other in self.masked)
        return Outcome(answered, tuple(other for other in seen if other not in self.masked))

    def _require_enough(self, count: int, what: str) -> None:
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
