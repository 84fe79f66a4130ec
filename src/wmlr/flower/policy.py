"""What an agent's operator allows, held against the fit that a server proposes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wmlr.flower.assignment import Assignment
from wmlr.flower.refusals import RefusalError
from wmlr.methods.search.effort import Effort

MOST = {"n_init": 100, "max_iter": 10**6}
FEATURES = 1000  # that columns are taken to become, before it is known how many they do
MOST_DRAWN = 2**23  # coefficients of all candidates
MOST_CANDIDATES = 20_000  # of a search: they are drawn, and kept, before the first question about them


@dataclass(frozen=True)
class Policy:
    """Limits on the fits that an agent takes part in.

    Attributes
    ----------
    methods : the methods it takes part in, by name; none names all of them.
    max_components : the most components.
    max_rounds : the most questions it answers for all fits together; None answers any number.
    own_start : refuse a start that the server gives.
    any_question : take part in fits that cannot be followed, in which the server asks what it likes.
    max_trouble : how many questions it refuses or answers once more before it answers no further ones.
    max_runs : how many fits it begins, which a server could hold among other agents each time; None begins any number.
    """

    methods: tuple[str, ...] = ()
    max_components: int = 20
    max_rounds: int | None = 2000
    own_start: bool = False
    any_question: bool = False
    max_trouble: int = 20
    max_runs: int | None = 20

    def without_end(self) -> Policy:
        """The same for an agent that stays, whose operator sets no limit to fits and rounds."""
        return replace(self, max_rounds=None, max_runs=None)

    def check(self, wanted: Assignment, columns: int) -> None:
        """Raise :class:`RefusalError` unless the agent takes part in such a fit of so many columns."""
        allowed = [name.lower() for name in self.methods]
        if allowed and wanted.method.lower() not in allowed:
            raise RefusalError(f"the method is {wanted.method}, and --methods allows {', '.join(self.methods)}")
        made = wanted.estimator()
        self.check_components(made.n_components)
        for name, most in MOST.items():
            if getattr(made, name) > most:
                raise RefusalError(f"{name} may be at most {most:,} (got {getattr(made, name)})")
        width = columns if made.features is None else max(columns, FEATURES)
        candidates = Effort.of(made.search, made.n_init, width, draws=False).candidates
        if candidates > MOST_CANDIDATES:
            raise RefusalError(f"a search may have at most {MOST_CANDIDATES:,} candidates (got {candidates})")
        numbers = candidates * made.n_components * (width + 1)
        if numbers > MOST_DRAWN:
            raise RefusalError(f"the candidates of a search may have at most {MOST_DRAWN:,} numbers (got {numbers:,})")
        if not wanted.follows and not self.any_question:
            raise RefusalError("the server asks what it likes (--trust majority): --any-question would allow that")
        if self.own_start and wanted.has_start:
            raise RefusalError("the server gives the start, and --own-start does not allow that")

    def check_components(self, count: int) -> None:
        """Raise where a fit, or a question of the server's own, is about more components than are allowed."""
        if count > self.max_components:
            raise RefusalError(f"{count} components are more than --max-components {self.max_components}")
