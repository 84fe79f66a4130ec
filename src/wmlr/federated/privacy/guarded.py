"""A round whose sum alone is seen: answers leave their agents masked, or clipped and noisy, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmlr.core.query import Query
from wmlr.federated.privacy.fixed import DIGITS, decode, encode
from wmlr.federated.privacy.noise import NoiseEnvelope, Privacy, SystemNormals
from wmlr.federated.privacy.postprocess import valid_sums
from wmlr.federated.privacy.protocol import Secure
from wmlr.numerics.arrays import Array, Integers, Sums


@dataclass(frozen=True)
class GuardedSums:
    """The sums of a round, and the bytes of the secure sum to and from each agent; None where it was not secure."""

    sums: Sums
    bytes_down: int | None = None
    bytes_up: int | None = None


@dataclass(frozen=True)
class Guard:
    """How answers are guarded.

    Attributes
    ----------
    secure : settings of the secure sum, or None where the server sees each answer.
    privacy : settings of the noise, or None.
    certain : whether every agent that is asked answers.
    """

    secure: Secure | None
    privacy: Privacy | None
    certain: bool

    @classmethod
    def of(cls, secure: bool | Secure, privacy: Privacy | None, certain: bool) -> Guard | None:
        """The guard these settings ask for, if any."""
        settings = Secure() if secure is True else secure or None
        return None if settings is None and privacy is None else cls(settings, privacy, certain)

    def least(self, asked: int) -> int:
        """The fewest answers a round may be summed of."""
        if self.certain:
            return asked
        return (self.secure or Secure()).least(asked)

    def total(
        self,
        query: Query,
        answer: Callable[[int], Sums],
        n_features: int,
        grouped: bool,
        asked: Integers,
        answering: Integers,
        turn: int,
    ) -> GuardedSums:
        """Sum the answers of the agents that answer.

        Parameters
        ----------
        query : what is asked.
        answer : an agent's own answer, by its number.
        n_features, grouped : the columns of X, and whether an agent's rows share their component.
        asked, answering : the agents that begin, and those that answer.
        turn : the round's number.
        """
        envelope = NoiseEnvelope.of(query, n_features, grouped, self.privacy, self.least(len(asked)))
        generator = SystemNormals() if self.privacy is None else self.privacy.generator(turn)
        if self.secure is None:
            vector: Array = np.zeros(len(envelope.layout))
            for agent in answering.tolist():
                vector += envelope.privatise(answer(agent), generator)
            return GuardedSums(self._read(query, envelope, vector, len(answering)))
        from wmlr.federated.privacy.secure import secure_sum

        held = secure_sum(
            lambda agent: encode(envelope.privatise(answer(agent), generator)),
            DIGITS * len(envelope.layout),
            asked.tolist(),
            answering.tolist(),
            self.secure,
        )
        sums = self._read(query, envelope, decode(held.words), len(answering))
        return GuardedSums(sums, held.bytes_down, held.bytes_up)

    def _read(self, query: Query, envelope: NoiseEnvelope, vector: Array, agents: int) -> Sums:
        sums = envelope.layout.restore(vector)
        return sums if self.privacy is None else valid_sums(envelope.layout.parts, sums, envelope.errors(agents))
