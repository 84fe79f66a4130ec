"""An agent's side of the secure sum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wmlr.federated.messages import MessageError
from wmlr.federated.privacy import masks
from wmlr.federated.privacy.fixed import Words
from wmlr.federated.privacy.protocol import (
    Keys,
    Letter,
    Letters,
    Masked,
    Outcome,
    Revealed,
    Roster,
    Secure,
    SecureSumError,
    bound_session,
    fewest_summed,
    pack_message,
    unpack_message,
)
from wmlr.federated.wire import Codec


@dataclass(frozen=True)
class SecureAgent:
    """An agent in one secure sum; each step returns its next state and the bytes to send.

    ``settings`` are those that all agents were told; ``least`` is the fewest agents, itself among them, whose answers
    the sum may be of. Partners count whose letters it could open: keys alone may be old.

    Examples
    --------
    >>> agent, keys = SecureAgent.begin(3)
    >>> SecureAgent.from_bytes(agent.to_bytes()) == agent
    True
    """

    me: int
    step: str
    seal_secret: bytes
    mask_secret: bytes
    seed: bytes
    session: bytes = b""
    threshold: int = 0
    members: tuple[Keys, ...] = ()
    held: dict[str, bytes] | None = None
    settings: Secure = field(default_factory=Secure)
    least: int = 2

    @classmethod
    def begin(cls, me: int, settings: Secure | None = None, least: int = 2) -> tuple[SecureAgent, bytes]:
        """Step 1: fresh secrets, and the public keys to send."""
        seal, mask, seed = (masks.new_secret() for _ in range(3))
        agent = cls(me, "keys", seal, mask, seed, settings=settings or Secure(), least=least)
        return agent, pack_message(agent._keys())

    def share(self, roster: bytes) -> tuple[SecureAgent, bytes]:
        """Step 2: split the secrets among the agents of the roster."""
        self._at("keys")
        given = unpack_message(roster, Roster)
        members = [keys.member for keys in given.members]
        if len(set(members)) != len(members) or self._keys() not in given.members:
            raise MessageError(f"the roster sent to agent {self.me} has not its own keys once")
        if len({key for keys in given.members for key in (keys.seal, keys.mask)}) != 2 * len(members):
            raise MessageError("two agents of the roster have the same key")
        if not self.settings.least(len(members)) <= given.threshold <= len(members):
            raise MessageError(f"a threshold of {given.threshold} is not the part of {len(members)} agents agreed on")
        self._check_count(len(members))
        agent = replace(
            self,
            step="shares",
            session=bound_session(given, self.settings),
            threshold=given.threshold,
            members=given.members,
            held={},
        )
        seeds, keys = (masks.split_secret(one, given.threshold, len(members)) for one in (self.seed, self.mask_secret))
        letters = []
        for place, other in enumerate(given.members):
            if other.member == self.me:
                agent = replace(agent, held={str(self.me): seeds[place] + keys[place]})
                continue
            key, context = agent._seal_key(other), agent._context("letter", self.me, other.member)
            letters.append(Letter(self.me, other.member, masks.seal(key, seeds[place] + keys[place], context)))
        return agent, pack_message(Letters(tuple(letters)))

    def mask(self, letters: bytes, words: Words) -> tuple[SecureAgent, bytes]:
        """Step 3: the words under all masks."""
        return self.open(letters).hide(words)

    def open(self, letters: bytes) -> SecureAgent:
        """Step 3, before the words are known: the shares that others have sent."""
        self._at("shares")
        others = {keys.member: keys for keys in self.members}
        held = dict(self.held or {})
        for letter in unpack_message(letters, Letters).letters:
            other = others.get(letter.sender)
            if other is None or letter.to != self.me or str(letter.sender) in held:
                raise MessageError(f"agent {self.me} has got a letter that is not for it")
            held[str(letter.sender)] = self._read(other, letter)
        agent = replace(self, step="opened", held=held)
        if len(agent._trusted) < self.threshold:
            raise SecureSumError(
                f"{len(agent._trusted)} agents have sent shares and the secure sum needs {self.threshold}"
            )
        self._check_count(agent.fewest)
        return agent

    def hide(self, words: Words) -> tuple[SecureAgent, bytes]:
        """The rest of step 3."""
        self._at("opened")
        held = self.held or {}
        masked = words + masks.stream(masks.derive_key(self.seed, self.session), len(words))
        for other in self.members:
            if other.member != self.me and str(other.member) in held:
                pair = (self.me, other.member)
                masked = masked + masks.pair_mask(self.mask_secret, other.mask, self.session, pair, len(words))
        unread = tuple(other.member for other in self.members if held.get(str(other.member)) == b"")
        return replace(self, step="masked"), pack_message(Masked(masked, unread))

    @property
    def fewest(self) -> int:
        """The fewest agents that the sum can be of, whatever the server tells the others."""
        return fewest_summed(len(self.members), self.threshold, len(self._trusted), self.least)

    @property
    def _trusted(self) -> set[int]:
        """Itself, and those whose letters it could open."""
        return {int(member) for member, shares in (self.held or {}).items() if shares}

    def _check_count(self, count: int) -> None:
        if count < self.least:
            raise SecureSumError(f"a secure sum of {count} agents, where --min-agents is {self.least}")

    def _read(self, other: Keys, letter: Letter) -> bytes:
        """The shares in a letter; none where it cannot be opened, which is told of its sender."""
        try:
            shares = masks.unseal(self._seal_key(other), letter.sealed, self._context("letter", letter.sender, self.me))
        except MessageError:
            return b""
        return shares if len(shares) == 2 * masks.SHARE_BYTES else b""

    def reveal(self, outcome: bytes) -> tuple[SecureAgent, bytes]:
        """Step 4: one share for each agent it is paired with, of the one secret or of the other."""
        self._at("masked")
        given = unpack_message(outcome, Outcome)
        held = self.held or {}
        named = [*given.answered, *given.lost]
        if len(set(named)) != len(named) or {str(member) for member in named} != held.keys():
            raise MessageError(f"agent {self.me} is asked for shares that it does not hold once each")
        if self.me not in given.answered or len(given.answered) < self.threshold:
            raise SecureSumError(
                f"{len(given.answered)} agents have answered and the secure sum needs {self.threshold}"
            )
        self._check_count(len(self._trusted & set(given.answered)))
        seeds = {str(member): held[str(member)][: masks.SHARE_BYTES] for member in given.answered if held[str(member)]}
        keys = {str(member): held[str(member)][masks.SHARE_BYTES :] for member in given.lost if held[str(member)]}
        return replace(self, step="done", held={}), pack_message(Revealed(seeds, keys))

    def to_bytes(self) -> bytes:
        """The state, to be kept between messages; it holds secrets."""
        return _STATE.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> SecureAgent:
        """The state that :meth:`to_bytes` wrote."""
        agent = _STATE.decode(data)
        if not isinstance(agent, cls):
            raise MessageError("an agent's state is wanted")
        return agent

    def _keys(self) -> Keys:
        public = masks.public_key(self.seal_secret), masks.public_key(self.mask_secret)
        return Keys(self.me, *public, masks.derive_key(self.seed, b"commitment"))

    def _seal_key(self, other: Keys) -> bytes:
        pair = sorted((self.me, other.member))
        return masks.common_key(self.seal_secret, other.seal, self._context("seal", *pair))

    def _context(self, purpose: str, first: int, second: int) -> bytes:
        return masks.context(purpose, self.session, first, second)

    def _at(self, step: str) -> None:
        if self.step != step:
            raise MessageError(f"agent {self.me} has sent its {self.step} and is asked for what follows {step}")


_STATE = Codec("secure agent", {cls.__name__: cls for cls in (SecureAgent, Keys, Secure)})
