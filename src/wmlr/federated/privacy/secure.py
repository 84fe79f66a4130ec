"""A secure sum among agents in one process, every message of it as bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.fixed import Words
from wmlr.federated.privacy.protocol import Secure
from wmlr.federated.privacy.server import SecureServer


@dataclass(frozen=True)
class SecureSum:
    """The words' sum, and the bytes that each agent received and sent on average."""

    words: Words
    bytes_down: int
    bytes_up: int


def secure_sum(
    words: Callable[[int], Words], size: int, asked: Collection[int], answering: Collection[int], settings: Secure
) -> SecureSum:
    """Run the protocol; agents that do not answer are lost after they have sent their shares.

    Parameters
    ----------
    words : an agent's own words, by its number.
    size : how many words an agent has.
    asked : the agents that begin.
    answering : those of them that send their words.
    """
    server = SecureServer(settings, size)
    begun = {member: SecureAgent.begin(member, settings) for member in asked}
    rosters = server.rosters({member: keys for member, (_, keys) in begun.items()})
    shared = {member: agent.share(rosters[member]) for member, (agent, _) in begun.items()}
    boxes = server.boxes({member: letters for member, (_, letters) in shared.items()})
    masked = {member: shared[member][0].mask(boxes[member], words(member)) for member in answering}
    outcomes = server.outcomes({member: data for member, (_, data) in masked.items()})
    revealed = {member: agent.reveal(outcomes[member]) for member, (agent, _) in masked.items()}
    total = server.total({member: data for member, (_, data) in revealed.items()})
    down = sum(len(data) for post in (rosters, boxes, outcomes) for data in post.values())
    up = sum(len(data) for step in (begun, shared, masked, revealed) for _, data in step.values())
    return SecureSum(total, down // max(len(asked), 1), up // max(len(asked), 1))
