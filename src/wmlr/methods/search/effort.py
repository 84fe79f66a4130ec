"""How hard to search."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

Plan = tuple[tuple[float, int, float], ...]

MANY_COLUMNS = 30  # from here on a candidate's step costs as much as many of few columns
MANY_COLUMNS_PLAN: Plan = ((1.0, 6, 0.25), (16, 8, 0.5), (8, 16, 1.0))
"""Of short runs inside spectral directions, which hold half of a component or less, more are handed on: the best is
seldom the right one."""
COSTLY_PLAN: Plan = ((1.0, 6, 0.25), (8, 8, 0.5), (2, 16, 1.0))
COSTLY_FIRST_PLAN: Plan = ((1.0, 5, 1.0), (2, 8, 1.0))
"""Where each step in all directions is costly, few candidates take any."""
ISLAND = 16  # offspring of an island, where steps are cheap: many small ones find more than few large ones
LAST_PATIENCE = 3  # times an island's, of the population of all maxima: it finds more than others begun anew
RESTARTS = 3  # of islands that disagree, where steps are cheap
EFFORTS = ("auto", "quick", "thorough")
AGENTS_ROUNDS = 50  # of the search among agents; with the survey, the climb and its end some 60 to 80


@dataclass(frozen=True)
class Effort:
    """Sizes of a search.

    Attributes
    ----------
    lineages : independent searches that share each pass.
    first, spectral, chains : first candidates of each lineage: draws and few rows; inside the spectral directions;
        one component at a time.
    first_plan, spectral_plan : how these are halved: what share of the candidates (or, from 1 on, how many of each
        lineage) goes how many EM steps further, on what part of the rows searched.
    size : maxima that a lineage's first candidates are climbed to.
    kept : maxima that a population keeps from generation to generation.
    offspring : candidates per lineage and generation.
    islands : populations of a lineage that know nothing of each other before all lineages help each other.
    plan, last : where rounds are limited, how the offspring are halved and how many climb to their maxima.
    patience : generations without a gain before an island gives up; patience_agreed : where all agree.
    restarts, enough : how often others begin anew where islands disagree, unless so many, or all, came to the best
        value by themselves.
    least_steps : EM steps before which islands that agree are not believed: others begin anew.
    generations : the most there may be.
    strands : where rounds are limited, generations under way at a time, each some rounds behind the one before.
    early : whether an easy problem may end the search before the first generation.
    steps, rounds : the most EM steps of single candidates, and the most queries; None for no such limit.
    """

    lineages: int = 2
    first: int = 12
    spectral: int = 25
    chains: int = 2
    first_plan: Plan = ((1.0, 10, 1.0),)
    spectral_plan: Plan = ((1.0, 6, 0.25), (8, 8, 0.5), (3, 16, 1.0))
    size: int = 6
    kept: int = 6
    offspring: int = 16
    islands: int = 1
    plan: Plan = ((1.0, 4, 1.0), (0.35, 5, 1.0))
    last: int = 2
    patience: int = 12
    patience_agreed: int = 10
    restarts: int = 0
    enough: int = 6
    least_steps: float = 0.0
    generations: int = 120
    strands: int = 1
    early: bool = True
    steps: float | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, (int, float)) and not value >= 0:
                raise ValueError(f"Effort.{one.name} must not be negative (got {value!r})")

    @property
    def candidates(self) -> int:
        """How many there may be at a time."""
        own = self.first + self.spectral + self.chains + max(self.size, self.kept) + self.strands * self.offspring
        return self.lineages * own

    @property
    def of_all_islands(self) -> Effort:
        """The effort of one population as large as all islands of all lineages together, which waits longer."""
        kept, offspring = self.lineages * self.islands * self.kept, self.lineages * self.offspring
        return replace(self, kept=kept, offspring=offspring, islands=1, patience=LAST_PATIENCE * self.patience)

    @property
    def widened(self) -> Effort:
        """The effort of what begins anew where populations disagree: of more and larger ones, which wait longer."""
        if not self.early:
            return self
        return replace(
            self, islands=2 * self.islands, offspring=2 * self.offspring, kept=8 * self.kept // 5,
            patience=5 * self.patience // 3, patience_agreed=3 * self.patience_agreed // 2,
        )  # fmt: skip

    @property
    def of_costly_steps(self) -> Effort:
        """The effort where one EM step of one candidate takes long: a few candidates of the sources that find most."""
        return replace(self, first=0, chains=1, spectral_plan=COSTLY_PLAN, first_plan=COSTLY_FIRST_PLAN, size=2)

    @classmethod
    def among_agents(cls, rounds: int = AGENTS_ROUNDS, lineages: int = 2) -> Effort:
        """A search of at most so many rounds, for rows that are far away; the fit itself takes some 15 more.

        Rounds are what is costly: many candidates share each of them, and none waits for another's to close in.
        """
        return cls(
            lineages=lineages, first=40, spectral=12, chains=0, size=16, kept=16, offspring=60, last=8, rounds=rounds,
            strands=3,
            first_plan=((1.0, 5, 1.0), (0.4, 6, 1.0)), spectral_plan=((1.0, 4, 1.0), (5, 4, 1.0)),
        )  # fmt: skip

    @classmethod
    def of(cls, wanted: str | float | Effort, searches: int, columns: int, draws: bool, cheap: bool = False) -> Effort:
        """The effort that ``search=`` names, for so many columns; a number is EM steps of one candidate.

        ``searches`` independent ones, two at least. Where rows may not be drawn (``draws``) each query is a round among
        agents, and the quick search takes few of them. EM steps of normal regressions are ``cheap`` beside what comes
        between generations, which then are larger.
        """
        if isinstance(wanted, Effort):
            return wanted
        effort = cls(lineages=max(2, searches))
        if not draws and wanted == "quick":
            effort = cls.among_agents(lineages=effort.lineages)
        elif wanted == "quick":
            effort = replace(effort, offspring=8, patience=2, patience_agreed=1, generations=4, chains=1)
        elif wanted == "thorough":
            effort = replace(
                effort, lineages=max(3, searches), first=60, first_plan=((1.0, 10, 1.0), (0.5, 20, 1.0)), chains=4,
                size=10, kept=10, offspring=32, patience=20, patience_agreed=14, enough=12, generations=200,
                early=False,
            )  # fmt: skip
        elif not isinstance(wanted, str):
            effort = replace(effort, steps=float(wanted), generations=10_000, restarts=10_000, enough=10_000)
        if cheap and wanted != "quick" and columns <= MANY_COLUMNS:
            effort = replace(
                effort, offspring=2 * effort.offspring, islands=2 * effort.offspring // ISLAND,
                kept=5 * effort.kept // 3, patience=5 * effort.patience // 3,  # finds more than restarts at that price
                patience_agreed=effort.patience_agreed // 2,  # so many that agree say more than two do
                restarts=max(effort.restarts, RESTARTS), generations=10 * effort.generations,
            )  # fmt: skip
        if columns > MANY_COLUMNS:
            effort = replace(effort, offspring=max(6, effort.offspring // 2), chains=4)
            if effort.rounds is not None:
                return replace(effort, first=max(4, effort.first // 3))
            effort = replace(effort, first=max(2, effort.first // 6), spectral_plan=MANY_COLUMNS_PLAN)
        return effort
