"""The secure sum, message by message: the server learns the sum of the agents' words and no agent's own.

After Bonawitz et al. (2017), "Practical secure aggregation for privacy-preserving machine learning", with each agent
paired with some others only (Bell et al., 2020). A round has four steps, and agents may be lost between any two:

1. *keys*: every agent draws two key pairs and the seed of a mask of its own, and sends the public keys;
2. *shares*: it splits its mask's private key and its seed among the agents it is paired with, sealed;
3. *masked words*: it sends its words plus its own mask, plus or minus a mask in common with each agent it is paired
   with that has come this far; in the sum over the agents the common masks cancel;
4. *reveal*: for an agent that sent its words the others give their shares of its seed, for one that was lost those of
   its private key: never both. With enough shares the server takes away the masks that are left in the sum.

Every message is bytes. An agent's state is a frozen dataclass that can be kept as bytes between messages. A server that
tells agents different things gets no sum of fewer than they want, as long as they are all of one roster
(:func:`fewest_summed`); what is assumed is that fewer agents than the threshold tell it what they know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any, TypeVar

from wmlr.federated.messages import MessageError
from wmlr.federated.privacy.fixed import Words
from wmlr.federated.wire import Codec

MessagesByAgent = Mapping[int, bytes]
Message = TypeVar("Message")


class SecureSumError(RuntimeError):
    """A secure sum that cannot be had; the text says why, ``guilty`` whose fault it is, by agent and with the fault."""

    def __init__(self, text: str, guilty: Mapping[int, str] | None = None) -> None:
        super().__init__(text)
        self.guilty = dict(guilty or {})


@dataclass(frozen=True)
class Secure:
    """Settings of secure sums.

    Attributes
    ----------
    threshold : the part of the agents asked that must answer; also of those each agent is paired with.
    neighbours : how many others each agent is paired with, at most. More bear more losses and more agents who tell
        what they know, and cost more.
    """

    threshold: float = 2 / 3
    neighbours: int = 30

    def __post_init__(self) -> None:
        if not 0.5 < self.threshold <= 1.0:
            raise ValueError(f"threshold must be above 0.5 and at most 1 (got {self.threshold!r})")
        if self.neighbours < 2:
            raise ValueError(f"neighbours must be at least 2 (got {self.neighbours!r})")

    def least(self, agents: int) -> int:
        """How many of so many agents must answer."""
        return max(2, ceil(self.threshold * agents - 1e-9))

    def is_ring(self, agents: int) -> bool:
        """Whether a roster of so many agents may be a part of all, who then have rosters of their own."""
        return agents > self.neighbours // 2 * 2

    def most_liars(self, agents: int) -> int:
        """How many of so many agents may lie without harm: what more of them agree on, an honest one says."""
        return agents - self.least(agents)


@dataclass(frozen=True)
class Keys:
    """An agent's public keys, and a commitment to the seed of its own mask."""

    member: int
    seal: bytes
    mask: bytes
    commitment: bytes


@dataclass(frozen=True)
class Roster:
    """The agents an agent is paired with, itself among them; their order numbers the shares."""

    session: bytes
    threshold: int
    members: tuple[Keys, ...]


def fewest_summed(members: int, threshold: int, present: int, least: int) -> int:
    """The fewest agents that a sum with an agent's answer can be of, whatever the server tells each of who was lost.

    To leave one out of a sum the server needs ``threshold`` agents who believe it lost. No agent believes that of
    itself, nor of more than ``members - threshold``; this one, which has heard from ``present`` of them and wants
    ``least`` in a sum, believes it of ``present - least`` at most.
    """
    most, own = members - threshold, present - max(threshold, least)
    for left in range(present - 1, 0, -1):
        told = (members - left - 1) * min(left, most) + left * min(left - 1, most) + min(left, own)
        if threshold * left <= told:
            return present - left
    return present


@dataclass(frozen=True)
class Letter:
    """A sealed share from one agent to another."""

    sender: int
    to: int
    sealed: bytes


@dataclass(frozen=True)
class Letters:
    """What an agent sends to those it is paired with, or receives from them."""

    letters: tuple[Letter, ...]


@dataclass(frozen=True)
class Masked:
    """An agent's words under its masks, and the agents whose letters it could not open."""

    words: Words
    unread: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Of the agents an agent is paired with: whose words arrived, and who was lost after sending shares."""

    answered: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True)
class Revealed:
    """Shares of the seeds of those who answered, and of the keys of those who were lost."""

    seeds: dict[str, bytes]
    keys: dict[str, bytes]


def bound_session(roster: Roster, settings: Secure) -> bytes:
    """What masks and letters are made for: where all have one roster, only those who were sent the same agree."""
    if settings.is_ring(len(roster.members)):
        return roster.session
    return sha256(pack_message(roster)).digest()


_CODEC = Codec("secure sum", {cls.__name__: cls for cls in (Keys, Roster, Letter, Letters, Masked, Outcome, Revealed)})


def pack_message(message: Any) -> bytes:
    """A message of the secure sum as bytes."""
    return _CODEC.encode(message)


def unpack_message(data: bytes, cls: type[Message]) -> Message:
    """A message of the secure sum, of the kind that is due."""
    message = _CODEC.decode(data)
    if not isinstance(message, cls):
        raise MessageError(f"{cls.__name__} are wanted (got {type(message).__name__})")
    return message
