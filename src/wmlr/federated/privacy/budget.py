"""What an agent's noisy answers have cost, over all runs with all terms, kept on its own disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from wmlr.federated.privacy.accountant import epsilon
from wmlr.io.files import read_bytes, refuse_special, write_private


class NoisyAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many answers with noise of this multiple of their bound."""

    noise_multiplier: Annotated[float, Meta(ge=1e-100, le=1e100)]
    answers: Annotated[int, Meta(ge=0, le=2**53)]


@dataclass
class Budget:
    """Noisy answers so far.

    Answers with noise z compose to one with noise z / sqrt(n), and answers with noises z_i to one with noise
    1 / sqrt(sum 1/z_i^2), whatever the terms they were given under.

    Examples
    --------
    >>> budget = Budget()
    >>> for _ in range(4):
    ...     budget.spend(4.0)
    >>> round(budget.epsilon(1e-5), 2)
    1.99
    """

    path: Path | None = None
    answers: dict[float, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Budget:
        """The budget in a file, or a new one that will be written there."""
        path = path.resolve()  # what a link leads to, so that all its names are one budget
        if not path.exists():
            return cls(path)
        if path.stat().st_nlink > 1:
            raise ValueError(f"{path} has several names, and would be counted for one of them: copy it to a new file")
        try:
            lines = msgspec.json.decode(read_bytes(path), type=list[NoisyAnswers])
        except (msgspec.MsgspecError, OSError) as error:
            raise ValueError(f"{path} is not what an agent has spent ({error}): restore it, or name another") from None
        answers: dict[float, int] = {}
        for line in lines:
            answers[line.noise_multiplier] = answers.get(line.noise_multiplier, 0) + line.answers
        return cls(path, answers)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other agents with the same file from spending meanwhile, and know what they have spent so far."""
        if self.path is None:
            yield
            return
        place = self.path.with_name(f"{self.path.name}.lock")
        refuse_special(place)
        with place.open("a") as lock:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            written = self.read(self.path).answers
            for noise in written.keys() | self.answers.keys():  # whatever has become of the file, these were given
                self.answers[noise] = max(written.get(noise, 0), self.answers.get(noise, 0))
            yield

    def epsilon(self, delta: float, noise_multiplier: float = 1.0, more: int = 0) -> float:
        """What the answers so far cost at a delta, with so many more of this noise."""
        information = sum(count / noise**2 for noise, count in self.answers.items()) + more / noise_multiplier**2
        return epsilon(1.0 / sqrt(information), 1, delta) if information > 0 else 0.0

    def spend(self, noise_multiplier: float) -> None:
        """Write down one more answer; ValueError where it could not be read again."""
        answers = self.answers | {noise_multiplier: self.answers.get(noise_multiplier, 0) + 1}
        lines = [NoisyAnswers(noise, count) for noise, count in answers.items()]
        try:
            msgspec.convert(msgspec.to_builtins(lines), list[NoisyAnswers])
        except msgspec.ValidationError as error:
            raise ValueError(f"noise of {noise_multiplier:.3g} times the bound cannot be counted ({error})") from None
        self.answers = answers
        if self.path is not None:
            write_private(self.path, msgspec.json.encode(lines))
