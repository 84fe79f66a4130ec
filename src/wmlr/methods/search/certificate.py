"""What a search says of its result: who else found it, and what else there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

SAME = 0.1  # nats: what two searches may differ by and still have found the same


@dataclass(frozen=True)
class Maximum:
    """One maximum of the likelihood.

    Attributes
    ----------
    log_likelihood : there, of all rows; estimated from a sample where the search looked at a sample; with a
        ridge, differences to the best are those of the penalised values by which the search compares.
    found : how many candidates ended there.
    distance : how far its regressions lie from the best maximum's, matched one to one: the largest root mean square
        difference over the rows, in standard deviations of the noise.
    """

    log_likelihood: float
    found: int
    distance: float


@dataclass(frozen=True)
class Search:
    """How the maximum was found, and how sure one may be that none is higher.

    Attributes
    ----------
    searches : independent searches; reached : how many of them came to the best value by themselves (none, where they
        came to it together).
    maxima : the distinct maxima, best first.
    runner_up : by how many nats the second maximum is lower; None where there is no second. It is negative where the
        second is more likely and was passed over, as a component of it shrinks onto a few rows.
    steps : EM steps of one candidate, all told; generations : of moves between maxima.
    sampled : whether the search looked at a sample of the rows.
    consistent : whether the fitted model passes the information-matrix test: a wrong maximum seldom does.
    interrupted : whether it was ended by hand.
    """

    searches: int
    reached: int
    maxima: tuple[Maximum, ...]
    runner_up: float | None
    steps: float
    generations: int
    sampled: bool = False
    consistent: bool = False
    interrupted: bool = False

    @property
    def sure(self) -> bool:
        """Whether nothing speaks for another maximum."""
        return not self.interrupted and (self.reached == self.searches or self.consistent)

    def sentence(self) -> str:
        """One line for people."""
        said = f"reached by {self.reached} of {self.searches} searches"
        if not self.reached:
            said = f"reached by none of {self.searches} searches alone"
        if self.runner_up is not None:
            said += f"; the next maximum is {self.next_maximum}"
        return said

    @property
    def next_maximum(self) -> str:
        """How the second maximum compares, in words; one that is higher was passed over by the guard."""
        if self.runner_up is None:
            return "none seen"
        return f"{self.runner_up:.2f} lower" if self.runner_up >= 0 else f"{-self.runner_up:.2f} higher, guarded"

    def with_higher_maximum(self, log_likelihood: float) -> Search:
        """The same, where a higher maximum was found by other means."""
        maxima = (Maximum(log_likelihood, 1, 0.0), *self.maxima)
        return replace(self, reached=0, maxima=maxima, runner_up=gap(maxima))

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "searches": self.searches,
            "reached": self.reached,
            "maxima": [[one.log_likelihood, one.found, one.distance] for one in self.maxima],
            "steps": self.steps,
            "generations": self.generations,
            "sampled": self.sampled,
            "consistent": self.consistent,
            "interrupted": self.interrupted,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Search:
        """From what :meth:`to_plain` gave."""
        maxima = tuple(Maximum(float(value), int(found), float(far)) for value, found, far in plain["maxima"])
        return cls(
            searches=int(plain["searches"]),
            reached=int(plain["reached"]),
            maxima=maxima,
            runner_up=gap(maxima),
            steps=float(plain["steps"]),
            generations=int(plain["generations"]),
            sampled=bool(plain["sampled"]),
            consistent=bool(plain["consistent"]),
            interrupted=bool(plain["interrupted"]),
        )


def gap(maxima: tuple[Maximum, ...]) -> float | None:
    """The difference between the best maximum and the next."""
    return maxima[0].log_likelihood - maxima[1].log_likelihood if len(maxima) > 1 else None
