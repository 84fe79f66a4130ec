"""Agents in one process: each answers for its own rows, and only sums of answers are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wmlr.core.agent_blocks import Piece, ask, joined, sampled
from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.core.round import Rows, Sampled
from wmlr.engines.arrays import add_answers, default_threads, rows_per_block
from wmlr.federated.ledger import Ledger, Round, entry, floats_in
from wmlr.federated.participation import Attendance, Participation
from wmlr.federated.privacy import Privacy, Secure, SecureSumError, Spent
from wmlr.federated.privacy.fixed import check_agents
from wmlr.federated.privacy.guarded import Guard
from wmlr.federated.roster import Roster
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers, Sums

PATIENCE = 100
SAMPLES_KEPT = 4


class Federation:
    """Many agents, each with its own rows.

    Agents answer in blocks of whole agents at once, so that ten thousand small ones cost about what one
    pass over all their rows costs. Every answer is a sum over the agents; no row leaves one.

    Parameters
    ----------
    agents : a list of (X, y), copied once into one array unless they are successive parts of one already;
        :meth:`split` shares the array it is given.
    weighting : "rows" weighs each agent by its number of rows, which equals the central fit; "agents" weighs
        all agents alike, the paper's 1/M average.
    level : "row" when each row has a component of its own, "agent" when an agent's rows share theirs.
    participation : the fraction of the agents asked in each round, drawn anew.
    dropout : the probability that an agent asked never answers.
    late : the probability that an agent's answer comes after the round has closed: counted, not added.
    seed : decides who takes part.
    n_jobs : threads; None uses what the linear algebra library would.
    secure : the server sees sums of answers and no agent's own, by a protocol whose every message is carried out
        here; True, or a :class:`Secure` with settings. For some hundred agents: the work grows with the pairs of agents
        that share a key.
    privacy : a :class:`Privacy`: every agent's answer is clipped and noisy, so that the fit says little of any agent.
        Fit by :func:`wmlr.federated.fit_privately`, which keeps within the rounds that were settled.

    Attributes
    ----------
    ledger : every round so far, with the floats and bytes that travelled.
    agent_ids : the agents' names.
    capabilities : what methods go by: who answers, the rounds that are left, what was spent.

    Notes
    -----
    Where only some agents answer, their sums are scaled by all agents' weight over theirs. Row counts are
    known to the server from the agents' joining.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.federated import Federation
    >>> data = make_mixed_regression(3000, 4, snr=5, symmetric=True, groups=10, random_state=0)
    >>> federation = Federation.split(data.X, data.y, data.groups, level="agent")
    >>> fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation)
    >>> fit.ledger_
    Ledger(4 rounds, 1200 answers, 298 kB)
    """

    def __init__(
        self,
        agents: Iterable[tuple[Any, Any]],
        *,
        weighting: str = "rows",
        level: str = "row",
        participation: float = 1.0,
        dropout: float = 0.0,
        late: float = 0.0,
        seed: int = 0,
        n_jobs: int | None = None,
        secure: bool | Secure = False,
        privacy: Privacy | None = None,
    ) -> None:
        there = Participation(participation, dropout, late, seed)
        self._settle(Roster.gathered(agents), weighting, level, there, n_jobs, secure, privacy)

    @classmethod
    def split(
        cls,
        X: Any,
        y: Any,
        agent_ids: Any,
        *,
        weighting: str = "rows",
        level: str = "row",
        participation: float = 1.0,
        dropout: float = 0.0,
        late: float = 0.0,
        seed: int = 0,
        n_jobs: int | None = None,
        secure: bool | Secure = False,
        privacy: Privacy | None = None,
    ) -> Self:
        """Rows with the agent each belongs to; agents keep the order in which they first appear.

        X is not copied. Where an agent's rows are apart, they are brought together block by block.
        """
        federation = cls.__new__(cls)
        there = Participation(participation, dropout, late, seed)
        federation._settle(Roster.split(X, y, agent_ids), weighting, level, there, n_jobs, secure, privacy)
        return federation

    def _settle(
        self,
        roster: Roster,
        weighting: str,
        level: str,
        participation: Participation,
        n_jobs: int | None,
        secure: bool | Secure,
        privacy: Privacy | None,
    ) -> None:
        for name, value, allowed in (("weighting", weighting, ("rows", "agents")), ("level", level, ("row", "agent"))):
            if value not in allowed:
                raise ValueError(f"{name} must be {allowed[0]!r} or {allowed[1]!r} (got {value!r})")
        self.weighting, self.level, self.participation = weighting, level, participation
        self.threads = default_threads() if n_jobs is None else n_jobs
        self.ledger = Ledger()
        self._roster = roster
        self._samples: dict[tuple[float, int], list[Piece]] = {}
        sizes = roster.sizes
        even = bool(np.all(sizes == sizes[0]))
        self._agents = np.arange(len(roster))
        self._order, self._edges = roster.order, roster.edges
        self._scales = np.ones(len(roster))
        if weighting == "agents" and not even:
            self._agents = np.argsort(sizes, kind="stable")
            self._order = roster.places(self._agents)
            self._edges = np.concatenate([[0], np.cumsum(sizes[self._agents])])
            self._scales = len(roster.y) / (len(roster) * sizes.astype(np.float64))
        self._weights = self._scales * sizes
        self.privacy = privacy
        self._guard = Guard.of(secure, privacy, participation.certain)
        if self._guard is not None and self._guard.secure is not None:
            check_agents(round(participation.share * len(roster)))
        self._blocks = self._cut(rows_per_block(*roster.X.shape))

    @property
    def n_features(self) -> int:
        return int(self._roster.X.shape[1])

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return len(self._roster)

    @property
    def sizes(self) -> Integers:
        """The number of rows of each agent."""
        return self._roster.sizes

    @property
    def agent_ids(self) -> NDArray[Any]:
        return self._roster.ids

    @property
    def answering(self) -> float:
        return self.participation.answering

    def total(self, query: Query) -> Sums:
        """The weighted sum of the agents' answers: one round.

        A round that nobody answers, or too few for its guard, is written down and held again.
        """
        if self.privacy is not None and self.rounds_left == 0:
            raise RuntimeError(
                f"the {self.privacy.rounds} private rounds are spent ({self.privacy_spent}): fit by fit_privately, "
                "which keeps within them, or settle on more"
            )
        for _ in range(PATIENCE):
            attendance = self.participation.draw(len(self.ledger), self.n_agents)
            if self._guard is None:
                sums = self._sum(query, attendance)
                line = entry(query, sums, attendance.asked, attendance.count, attendance.late)
            else:
                sums, line = self._guarded(query, attendance, self._guard)
            self.ledger.write(line)
            if sums:
                return sums
        who = "no agent" if self._guard is None else "not enough agents"
        raise RuntimeError(
            f"{who} answered in {PATIENCE} rounds: raise participation or lower dropout (they are "
            f"{self.participation.share} and {self.participation.dropout} for {self.n_agents} agents)"
        )

    @property
    def rounds_left(self) -> int | None:
        """How many private rounds may still be held; None where they are not counted."""
        return None if self.privacy is None else max(0, self.privacy.rounds - self._noisy_rounds)

    @property
    def privacy_spent(self) -> Spent | None:
        """What the rounds so far have cost; None where there is no noise."""
        return None if self.privacy is None else self.privacy.spent(self._noisy_rounds)

    @property
    def _noisy_rounds(self) -> int:
        return sum(line.noise > 0 for line in self.ledger)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            answering=self.answering,
            grouped=self.level == "agent",
            hides_rows=True,
            rounds_left=self.rounds_left,
            ledger=self.ledger,
            totals=self.ledger.totals(),
            privacy_spent=self.privacy_spent,
            agents=self.n_agents,
            feature_names=self._roster.feature_names,
            shares=self.responsibilities,
        )

    def rows_of(self, agent: int) -> Rows:
        """One agent's own rows, as it sees them."""
        roster = self._roster
        first, last = int(roster.edges[agent]), int(roster.edges[agent + 1])
        chosen: Any = slice(first, last) if roster.order is None else roster.order[first:last]
        starts = np.zeros(1, dtype=np.int64) if self.level == "agent" else None
        index = np.arange(first, last) if roster.order is None else chosen
        return Rows(roster.X[chosen], roster.y[chosen], None, starts, index)

    def responsibilities(self, model: Any) -> Array:
        """Each agent's P(component | its rows): (M, k), computed where the rows are.

        At level "row" it is the mean over the agent's rows: the share of each component there. For a new
        agent, ``model.responsibilities(X, y, groups=np.zeros(len(y)))`` gives the same. These are what each agent can
        know of itself: they are exact, cost no round, and a private federation's budget does not cover handing them on.
        """
        mixture: Mixture = getattr(model, "mixture_", model)
        mapped = hasattr(model, "network_") or getattr(model, "features", None) is not None
        shares = np.empty((self.n_agents, mixture.n_components))
        for number in range(len(self._blocks) - 1):
            piece = self._piece(number)
            sizes = np.diff(np.append(piece.firsts, len(piece.rows)))
            X = model.map_features(piece.rows.X) if mapped else piece.rows.X
            densities = mixture.log_densities(X, piece.rows.y)
            if self.level == "agent":
                shares[piece.agents] = _posterior(np.add.reduceat(densities, piece.firsts, axis=0), mixture.weights)
            else:
                each = _posterior(densities, mixture.weights)
                shares[piece.agents] = np.add.reduceat(each, piece.firsts, axis=0) / sizes[:, None]
        return shares

    def assign(self, model: Any) -> tuple[Integers, Array]:
        """Each agent's likeliest component, and its probability."""
        shares = self.responsibilities(model)
        return shares.argmax(axis=1), shares.max(axis=1)

    def __repr__(self) -> str:
        return (
            f"Federation({self.n_agents} agents, {len(self._roster.y)} rows, {self.n_features} features, "
            f"weighting={self.weighting!r}, level={self.level!r})"
        )

    def _sum(self, query: Query, attendance: Attendance) -> Sums:
        there = attendance.mask(self.n_agents)
        if attendance.count == 0:
            return {}
        factor = 1.0 if there is None else float(self._weights.sum() / self._weights[there].sum())
        asked, pieces = query, None
        if isinstance(query, Sampled) and query.share < 1.0:
            asked, pieces = query.query, self._sample(query)

        def answer(number: int) -> Sums:
            piece = self._piece(number) if pieces is None else pieces[number]
            piece = piece if there is None else piece.of(there)
            if not len(piece.rows):
                return {}
            return _scaled(ask(asked, piece), piece.scale * factor)

        return add_answers(answer, len(self._blocks) - 1 if pieces is None else len(pieces), self.threads)

    def _guarded(self, query: Query, attendance: Attendance, guard: Guard) -> tuple[Sums, Round]:
        """A round whose sum alone is seen, or nothing where too few have answered; and its line."""
        everyone = np.arange(self.n_agents)
        asked = everyone if attendance.begun is None else attendance.begun
        answering = everyone if attendance.answered is None else attendance.answered
        nothing: Sums = {}
        failed = nothing, Round(query.label, attendance.asked, 0, attendance.late, floats_in(query), 0)
        if len(answering) < guard.least(len(asked)):
            return failed
        grouped, turn = self.level == "agent", len(self.ledger)
        try:
            held = guard.total(query, self._own(query), self.n_features, grouped, asked, answering, turn)
        except SecureSumError:
            if len(asked) < 2:
                raise
            return failed
        weights = self._weights if self.privacy is None else np.ones(self.n_agents)
        sums = _scaled(held.sums, float(weights.sum() / weights[answering].sum()))
        line = entry(query, sums, attendance.asked, attendance.count, attendance.late)
        if self.privacy is not None:
            line = replace(line, noise=self.privacy.multiplier)
        if held.bytes_up is not None and held.bytes_down is not None:
            up = max(0, held.bytes_up - line.bytes_up)
            line = replace(line, extra_down=held.bytes_down, extra_up=up, secure=True)
        return sums, line

    def _own(self, query: Query) -> Callable[[int], Sums]:
        """An agent's own answer, weighed as it counts; where there is privacy, by nothing that others' rows decide."""

        def answer(agent: int) -> Sums:
            rows = self.rows_of(agent)
            scale = float(self._scales[agent])
            if self.privacy is not None and self.weighting == "agents":
                scale = self.privacy.rows / len(rows)
            return _scaled(ask(query, Piece(rows, np.zeros(1, dtype=np.int64), np.array([agent]))), scale)

        return answer

    def _cut(self, block_rows: int) -> Integers:
        """Blocks as places in the line of agents; agents that count differently never share one."""
        wanted = np.searchsorted(self._edges[:-1], np.arange(block_rows, self._edges[-1], block_rows))
        changes = np.flatnonzero(np.diff(self._scales[self._agents])) + 1
        return np.unique(np.concatenate([[0], wanted, changes, [self.n_agents]]))

    def _piece(self, number: int) -> Piece:
        low, high = int(self._blocks[number]), int(self._blocks[number + 1])
        first, last = int(self._edges[low]), int(self._edges[high])
        places = slice(first, last) if self._order is None else self._order[first:last]
        firsts = self._edges[low:high] - first
        agents = self._agents[low:high]
        rows = Rows(
            X=self._roster.X[places],
            y=self._roster.y[places],
            starts=firsts if self.level == "agent" else None,
            index=np.arange(first, last) if self._order is None else self._order[first:last],
        )
        return Piece(rows, firsts, agents, float(self._scales[agents[0]]))

    def _sample(self, query: Sampled) -> list[Piece]:
        key = (query.share, query.seed)
        if key not in self._samples:
            by_scale: dict[float, list[Piece]] = {}
            for number in range(len(self._blocks) - 1):
                piece = self._piece(number)
                by_scale.setdefault(piece.scale, []).append(sampled(piece, query))
            for oldest in list(self._samples)[: 1 - SAMPLES_KEPT]:
                del self._samples[oldest]
            self._samples[key] = [joined(pieces) for pieces in by_scale.values()]
        return self._samples[key]


def _posterior(densities: Array, weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        joint = densities + np.log(weights)
    joint = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _scaled(sums: Sums, factor: float) -> Sums:
    return sums if factor == 1.0 else {name: np.asarray(value * factor) for name, value in sums.items()}
