"""The terms of a run: what an agent's answers are sums of, and how they are guarded. Agents hear them on joining."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any, TypeVar

from wmlr.federated.privacy import Privacy, Secure

LEVELS = ("row", "agent")
WEIGHTINGS = ("rows", "agents")
LONGEST = 10_000

Settings = TypeVar("Settings", Privacy, Secure)


@dataclass(frozen=True)
class RunTerms:
    """What server and agents must agree on.

    Attributes
    ----------
    level : "row" when each row has a component of its own, "agent" when an agent's rows share theirs.
    weighting : "rows" weighs each agent by its rows, "agents" weighs all alike.
    secure : answers are masked, and only their sum is seen; None where the server sees each.
    privacy : answers are clipped and noisy; None where they are exact.
    """

    level: str = "row"
    weighting: str = "rows"
    secure: Secure | None = None
    privacy: Privacy | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (("level", self.level, LEVELS), ("weighting", self.weighting, WEIGHTINGS)):
            if value not in allowed:
                raise ValueError(f"{name} must be {allowed[0]} or {allowed[1]} (got {value!r})")
        if self.privacy is not None and self.privacy.seed is not None:
            raise ValueError("noise that can be drawn again hides nothing: leave seed out")

    @property
    def grouped(self) -> bool:
        """Whether an agent's rows share their component."""
        return self.level == "agent"

    def least(self, agents: int) -> int:
        """Of so many agents, the fewest whose noise together must be enough.

        Without masks the server sees each answer, so that each must be noisy enough by itself. With masks it is
        the fewest that a secure sum needs, among those an agent is paired with.
        """
        if self.secure is None:
            return 1
        return self.secure.least(min(agents, self.secure.neighbours + 1))

    def to_text(self) -> str:
        """As they are sent."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, text: Any) -> RunTerms:
        """What :meth:`to_text` wrote."""
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError("the server says no terms")
        try:
            given = json.loads(text, parse_constant=_refuse_constant)
            secure, privacy = _settings(Secure, given["secure"]), _settings(Privacy, given["privacy"])
            return cls(given["level"], given["weighting"], secure, privacy)
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"the server's terms cannot be read ({type(error).__name__})") from None


def _refuse_constant(name: str) -> Any:
    raise TypeError(name)


def _settings(cls: type[Settings], given: Any) -> Settings | None:
    if given is None:
        return None
    for one in fields(cls):
        value = given[one.name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < inf
        if value is not None and not number:
            raise TypeError(one.name)
    if given.keys() != {one.name for one in fields(cls)}:
        raise TypeError(cls.__name__)
    return cls(**given)
