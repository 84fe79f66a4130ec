"""Agents in one process: each answers for its own rows, and only sums of answers are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wmlr.core.agent_blocks import AgentBlock, join_blocks, sample_block
from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.core.roles import Roles
from wmlr.core.round import Rows, Sampled
from wmlr.engines.arrays import add_answers, default_threads, rows_per_block
from wmlr.engines.sample_cache import SampleCache
from wmlr.federated.agent_engine import AgentEngine, scale_sums
from wmlr.federated.ledger import Round, entry, floats_in
from wmlr.federated.participation import Attendance, Participation
from wmlr.federated.privacy import Privacy, Secure, SecureSumError
from wmlr.federated.privacy.fixed import check_agents
from wmlr.federated.privacy.guarded import Guard
from wmlr.federated.roster import AgentRoster
from wmlr.federated.trust.contributions import Agent
from wmlr.federated.trust.majority import Majority, check_trust
from wmlr.model.mixture import Mixture
from wmlr.model.own_weights import group_counts
from wmlr.numerics.arrays import Array, Integers, Sums

PATIENCE = 100
MOST_JUDGED = 1000
"""Where there are more agents, how far the fit moves without each is not told."""


class Federation(AgentEngine):
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
    trust : "all" adds every agent's answers; "majority" bears a minority of agents that answer anything at all: agents
        whose answers cannot be answers, or whose rows contradict what the majority's say given their components, are
        named in ``left_out``, and the fit is exactly that of the others (:mod:`wmlr.federated.trust.consensus`).
    privacy : a :class:`Privacy`: every agent's answer is clipped and noisy, so that the fit says little of any agent.
        Fit by :func:`wmlr.federated.fit_privately`, which keeps within the rounds that were settled.

    Attributes
    ----------
    ledger : every round so far, with the floats and bytes that travelled.
    agent_ids : the agents' names.
    roles : which columns of the agents' tables are no features (:class:`wmlr.core.roles.Roles`), for what agents say of
        themselves; None where all are. Queries bring their own.
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
        trust: str = "all",
    ) -> None:
        draws = Participation(participation, dropout, late, seed)
        self._settle(AgentRoster.gather(agents), weighting, level, draws, n_jobs, secure, privacy, trust)

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
        trust: str = "all",
    ) -> Self:
        """Rows with the agent each belongs to; agents keep the order in which they first appear.

        X is not copied. Where an agent's rows are apart, they are brought together block by block.
        """
        federation = cls.__new__(cls)
        draws = Participation(participation, dropout, late, seed)
        federation._settle(AgentRoster.split(X, y, agent_ids), weighting, level, draws, n_jobs, secure, privacy, trust)
        return federation

    def _settle(
        self,
        roster: AgentRoster,
        weighting: str,
        level: str,
        participation: Participation,
        n_jobs: int | None,
        secure: bool | Secure,
        privacy: Privacy | None,
        trust: str,
    ) -> None:
        for name, value, allowed in (
            ("weighting", weighting, ("rows", "agents")),
            ("level", level, ("row", "agent")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be {allowed[0]!r} or {allowed[1]!r} (got {value!r})")
        check_trust(trust, privacy)
        majority = Majority(grouped=bool(secure), seed=participation.seed) if trust == "majority" else None
        super().__init__(weighting, level, privacy, majority)
        self.participation, self.trust = participation, trust
        self.roles: Roles | None = None
        self.threads = default_threads() if n_jobs is None else n_jobs
        self._roster = roster
        self._samples: SampleCache[list[AgentBlock]] = SampleCache()
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
        self._guard = Guard.of(secure, privacy, participation.certain)
        if self._guard is not None and self._guard.secure is not None:
            check_agents(round(participation.share * len(roster)))
        self._blocks = self._cut(rows_per_block(*roster.X.shape))
        self._names: list[Agent] = roster.ids.tolist()
        self._place = {name: place for place, name in enumerate(self._names)}

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
    def agent_sizes(self) -> dict[Agent, int]:
        return dict(zip(self._names, self.sizes.tolist()))

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
            if self._majority is not None:
                sums, line = self._trusted_round(query, attendance, self._majority)
            elif self._guard is None:
                sums = self._sum(query, attendance)
                self.last_answers = self._of_each(query) if attendance.answered is None else {}
                line = entry(query, sums, attendance.asked, attendance.count, attendance.late)
            else:
                sums, line = self._guarded_round(query, attendance, self._guard)
            self.ledger.write(line)
            if sums:
                return sums
        who = "no agent" if self._guard is None else "not enough agents"
        raise RuntimeError(
            f"{who} answered in {PATIENCE} rounds: raise participation or lower dropout (they are "
            f"{self.participation.share} and {self.participation.dropout} for {self.n_agents} agents)"
        )

    def answers(self, query: Query) -> dict[Agent, Sums]:
        """Each agent's own answer, or each group's, as sums over its rows: one round."""
        attendance = self.participation.draw(len(self.ledger), self.n_agents)
        present = attendance.mask(self.n_agents)
        electors = [agent for agent in self.electors if present is None or present[self._members_of(agent)].all()]
        answers = {agent: self.answer(agent, query) for agent in electors}
        example = next(iter(answers.values()), {})
        self.ledger.write(entry(query, example, attendance.asked, attendance.count, attendance.late))
        return self._screen(query, answers)

    def answer(self, agent: Agent, query: Query) -> Sums:
        """One agent's answer, or that of a group under masks, as a sum over its rows."""
        places = self._members_of(agent)
        if self._guard is None or self._guard.secure is None:
            return query.answer_each(self.rows_of(int(places[0])), np.zeros(1, dtype=np.int64))
        grouped, turn = self.level == "agent", len(self.ledger)
        own = self._agent_answer(query)
        return self._guard.total(query, own, self.n_features, grouped, places, places, turn).sums

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
            by_majority=None if self._majority is None else self.fit_by_majority,
            last_answers=self.last_answers,
            rows_by_agent=self.rows_by_agent if self.last_answers else {},
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
        Where agents have weights of their own, these are they.
        """
        inputs = None if isinstance(model, Mixture) else model.fitted_.inputs
        mixture: Mixture = model if inputs is None else model.fitted_.mixture
        gate = None if inputs is None else inputs.gate
        shares = np.empty((self.n_agents, mixture.n_components))
        for number in range(len(self._blocks) - 1):
            piece = self._piece(number)
            sizes = np.diff(np.append(piece.firsts, len(piece.rows)))
            rows = piece.rows if self.roles is None else self.roles.split_columns(piece.rows)
            X = rows.X if inputs is None else inputs.map_features(rows.X)
            beside = rows.beside if gate is None else {**rows.beside, "gate": gate.of_rows(rows.X)}
            if mixture.prior is not None:
                counts = group_counts(mixture.prior, mixture.log_densities(X, rows.y, beside), piece.firsts)
                shares[piece.agents] = counts / counts.sum(axis=1, keepdims=True)
            elif self.level == "agent":
                codes = np.repeat(np.arange(len(sizes)), sizes)
                shares[piece.agents] = mixture.unit_responsibilities(X, rows.y, codes, beside=beside)
            else:
                each = mixture.responsibilities(X, rows.y, beside=beside)
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
        present = attendance.mask(self.n_agents)
        if attendance.count == 0:
            return {}
        factor = 1.0 if present is None else float(self._weights.sum() / self._weights[present].sum())
        asked, pieces, sample = query, None, query.sample
        if sample is not None and sample.of_some:
            asked, pieces = sample.query.query, self._sample(sample.query)

        def answer(number: int) -> Sums:
            piece = self._piece(number) if pieces is None else pieces[number]
            piece = piece if present is None else piece.keep(present)
            if not len(piece.rows) and number:
                return {}  # the first says what nothing looks like, where a sample holds no row
            return scale_sums(asked.answer_each(piece.rows, piece.firsts), piece.scale * factor)

        return add_answers(answer, len(self._blocks) - 1 if pieces is None else len(pieces), self.threads)

    def _of_each(self, query: Query) -> dict[Agent, Sums]:
        """The agents' own answers to what says how far a fit moves without each; nothing to other queries."""
        if self.n_agents > MOST_JUDGED or self.weighting != "rows" or not query.tells_influence:
            return {}
        return {agent: self.answer(agent, query) for agent in self._names}

    def _members_of(self, agent: Agent) -> Integers:
        """The places of an agent, or of a group of agents."""
        names = agent if isinstance(agent, tuple) and agent not in self._place else (agent,)
        return np.array([self._place[name] for name in names], dtype=np.int64)

    def _trusted_round(self, query: Query, attendance: Attendance, majority: Majority) -> tuple[Sums, Round]:
        """A round in which the answers of the agents that count are looked at, and added."""
        present = attendance.mask(self.n_agents)
        counted, sizes = majority.summed_agents(self._names), self.rows_by_agent
        whole = [agent for agent in counted if present is None or present[self._members_of(agent)].all()]
        self.last_answers = self._screen(query, {agent: self.answer(agent, query) for agent in whole})
        sums = self._add_trusted({agent: sizes[agent] for agent in counted}, self.last_answers)
        line = entry(query, sums, attendance.asked, len(self.last_answers), attendance.late)
        return sums, replace(line, secure=majority.grouped)

    def _guarded_round(self, query: Query, attendance: Attendance, guard: Guard) -> tuple[Sums, Round]:
        """A round whose sum alone is seen, or nothing where too few have answered; and its line."""
        everyone = np.arange(self.n_agents)
        asked = everyone if attendance.asked_agents is None else attendance.asked_agents
        answering = everyone if attendance.answered is None else attendance.answered
        nothing: Sums = {}
        failed = nothing, Round(query.label, attendance.asked, 0, attendance.late, floats_in(query), 0)
        if len(answering) < guard.least(len(asked)):
            return failed
        grouped, turn = self.level == "agent", len(self.ledger)
        try:
            held = guard.total(query, self._agent_answer(query), self.n_features, grouped, asked, answering, turn)
        except SecureSumError:
            if len(asked) < 2:
                raise
            return failed
        weights = self._weights if self.privacy is None else np.ones(self.n_agents)
        sums = scale_sums(held.sums, float(weights.sum() / weights[answering].sum()))
        line = entry(query, sums, attendance.asked, attendance.count, attendance.late)
        if self.privacy is not None:
            line = replace(line, noise=self.privacy.multiplier)
        if held.bytes_up is not None and held.bytes_down is not None:
            up = max(0, held.bytes_up - line.bytes_up)
            line = replace(line, extra_down=held.bytes_down, extra_up=up, secure=True)
        return sums, line

    def _agent_answer(self, query: Query) -> Callable[[int], Sums]:
        """An agent's own answer, weighed as it counts; where there is privacy, by nothing that others' rows decide."""

        def answer(agent: int) -> Sums:
            rows = self.rows_of(agent)
            scale = float(self._scales[agent])
            if self.privacy is not None and self.weighting == "agents":
                scale = self.privacy.rows / len(rows)
            return scale_sums(query.answer_each(rows, np.zeros(1, dtype=np.int64)), scale)

        return answer

    def _cut(self, block_rows: int) -> Integers:
        """Blocks as places in the line of agents; agents that count differently never share one."""
        wanted = np.searchsorted(self._edges[:-1], np.arange(block_rows, self._edges[-1], block_rows))
        changes = np.flatnonzero(np.diff(self._scales[self._agents])) + 1
        return np.unique(np.concatenate([[0], wanted, changes, [self.n_agents]]))

    def _piece(self, number: int) -> AgentBlock:
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
        return AgentBlock(rows, firsts, agents, float(self._scales[agents[0]]))

    def _sample(self, query: Sampled) -> list[AgentBlock]:
        return self._samples.get(query.choice, lambda: self._draw(query))

    def _draw(self, query: Sampled) -> list[AgentBlock]:
        by_scale: dict[float, list[AgentBlock]] = {}
        for number in range(len(self._blocks) - 1):
            piece = self._piece(number)
            by_scale.setdefault(piece.scale, []).append(sample_block(piece, query))
        return [join_blocks(pieces) for pieces in by_scale.values()]
