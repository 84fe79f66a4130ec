"""A fit among agents, from the first one's joining to the standard errors."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from wmlr.core.round import Report, Watcher
from wmlr.estimator.summary import Summary
from wmlr.federated.trust.majority import check_trust
from wmlr.flower.assignment import Assignment
from wmlr.flower.checkpoint import CheckpointedRows
from wmlr.flower.engine import FlowerRows
from wmlr.flower.members import Members, Tell, TooFewAgentsError
from wmlr.flower.messages import Messenger
from wmlr.flower.replay import AGAIN, run_fit
from wmlr.flower.terms import RunTerms
from wmlr.io.plain_data import plain

LATER = ("family", "gate", "formula", "missing", "outliers")
"""Settings that checkpoints of earlier versions do not name: they are left out where they are as usual."""

REFITS = 3
"""How often a fit begins again because agents came or went while it ran."""


@dataclass(frozen=True)
class Rules:
    """How a run deals with its agents.

    Attributes
    ----------
    agents : how many to wait for before the fit begins; with fewer it begins when patience is over.
    min_agents : the fewest answers a round goes on with.
    terms : what the agents' answers are, and how they are guarded.
    answering : the share of the agents whose answers a round may expect.
    round_timeout, patience : seconds a round waits for the slowest, and then for the fewest.
    errors : ask for the standard errors, one round more.
    checkpoint : the file that every round is written to; ``resume`` takes up the run in it.
    audit : a folder for every reply, as it came.
    trust : "all" agents, or their "majority", which bears a few that lie.
    roles : the agents' columns that are no features, by their role: offset, exposure, trials.
    """

    agents: int = 1
    min_agents: int = 1
    terms: RunTerms = field(default_factory=RunTerms)
    answering: float = 1.0
    round_timeout: float = 60.0
    patience: float = 300.0
    errors: bool = True
    checkpoint: Path | None = None
    resume: bool = False
    audit: Path | None = None
    trust: str = "all"
    roles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.min_agents <= self.agents:
            raise ValueError(f"--min-agents must be from 1 to --agents ({self.agents}; got {self.min_agents})")
        if not 0.0 < self.answering <= 1.0:
            raise ValueError(f"--answering must be above 0 and at most 1 (got {self.answering})")
        for name, seconds in (("round-timeout", self.round_timeout), ("patience", self.patience)):
            if not seconds > 0:
                raise ValueError(f"--{name} must be positive (got {seconds})")
        check_trust(self.trust, self.terms.privacy)
        if self.trust == "majority" and self.checkpoint is not None:
            raise ValueError(
                "--checkpoint keeps sums, by which no agent can be judged: leave it out of --trust majority"
            )
        if self.resume and self.checkpoint is None:
            raise ValueError("--resume takes up the run of a --checkpoint FILE: name it")


@dataclass(frozen=True)
class DeployedFit:
    """A fit and how it came about.

    Attributes
    ----------
    fitted : the estimator.
    engine : the agents it was fitted on, with the ledger.
    summary : its table.
    errors : standard errors of the estimates, by name; None where they were not asked for.
    """

    fitted: Any
    engine: FlowerRows
    summary: Summary
    errors: dict[str, float] | None = None

    @property
    def replayed(self) -> int:
        """How many rounds came from a checkpoint."""
        return len(self.engine.ledger) - self.engine.live


def fit_among(grid: Grid, wanted: Any, rules: Rules, tell: Tell, live: Any = None) -> DeployedFit:
    """Fit an estimator on the agents that a Grid reaches.

    Parameters
    ----------
    grid : Flower's way to the agents.
    wanted : a :class:`wmlr.MixedLinearRegression`, not fitted.
    rules : how to deal with the agents.
    tell : hears what happens, a line each.
    live : a :class:`wmlr.dashboard.Live`, to be shown every round and iteration.
    """
    messenger = Messenger(grid, rules.round_timeout + rules.patience, rules.audit)
    if wanted.random_state is None:
        wanted = wanted.set_params(random_state=secrets.randbits(31))
    task = Assignment.of(wanted, rules.errors, rules.answering, follows=rules.trust == "all", roles=rules.roles)
    members = Members(messenger, rules.terms, tell, rules.round_timeout, rules.patience, task=task.to_bytes())
    try:
        members.gather(rules.agents, rules.min_agents)
        outcome = _fit(members, wanted, rules, tell, live)
    except TooFewAgentsError as error:
        raise TooFewAgentsError(f"{error}{_advice(rules)}") from None
    members.dismiss("the fit is done")
    return outcome


def _fit(members: Members, wanted: Any, rules: Rules, tell: Tell, live: Any) -> DeployedFit:
    engine = FlowerRows(members, rules.terms, min_agents=rules.min_agents, answering=rules.answering, trust=rules.trust)
    engine.settle()
    rows: Any = engine
    if rules.checkpoint is not None:
        rows = CheckpointedRows(engine, rules.checkpoint, _settings(wanted, rules), rules.resume)
    watch = _watcher(tell)
    if live is not None:
        rows, watch = live.over(rows), live.also(watch)
    fitted = _fit_until_stable(wanted, rows, engine, tell, watch, rules.roles)
    private = rules.terms.privacy is not None
    facts: tuple[tuple[str, str], ...] = (("agents", str(len(engine.settled))),)
    if not private:
        facts = (("rows", str(sum(engine.settled.values()))), *facts)
    if private or not rules.errors:
        return DeployedFit(fitted, engine, Summary.of(fitted.fitted_, None, facts))
    intervals = fitted.fitted_.confidence_intervals_on(rows, **rules.roles)
    summary = Summary.of(fitted.fitted_, intervals, (*facts, ("errors", "observed information")))
    return DeployedFit(fitted, engine, summary, dict(zip(intervals.names, map(float, intervals.errors))))


def _fit_until_stable(
    wanted: Any, rows: Any, engine: FlowerRows, tell: Tell, watch: Watcher, roles: Mapping[str, str]
) -> Any:
    """The fit; where agents came or went while it ran, fitted on from there until one is of the same throughout."""
    left = iter(range(REFITS if engine.answering >= 1.0 else 0))

    def must_refit() -> bool:
        if engine.same_agents or next(left, None) is None:
            return False
        engine.settle()
        engine.transcript.mark(AGAIN)
        tell(f"agents came or went: fitting on from here with {', '.join(engine.settled)}")
        return True

    fitted = run_fit(wanted, rows, engine.terms.privacy is not None, must_refit, watch, roles)
    if not engine.same_agents and engine.answering >= 1.0:
        tell("agents came and went to the end: with --answering below 1 the steps allow for that")
    return fitted


def _settings(wanted: Any, rules: Rules) -> dict[str, Any]:
    """What a checkpoint must have been made with to be taken up."""
    given, usual = wanted.get_params(deep=False), type(wanted)().get_params(deep=False)
    told = {name: plain(value) for name, value in given.items() if name != "verbose"}
    unsaid = [name for name in LATER if told[name] == plain(usual[name])]
    kept = {name: value for name, value in told.items() if name not in unsaid}
    trust = {} if rules.trust == "all" else {"trust": rules.trust}
    return {**kept, **asdict(rules.terms), "answering": rules.answering, **trust, **rules.roles}


def _watcher(tell: Tell) -> Callable[[Report], None]:
    def watch(report: Report) -> None:
        record = report.record
        tell(
            f"iteration {record['iteration']:.0f}: log-likelihood {record['log_likelihood']:.6f}, "
            f"{record['rounds']:.0f} rounds"
        )

    return watch


def _advice(rules: Rules) -> str:
    if rules.checkpoint is None:
        return " (with --checkpoint FILE the run could be taken up later)"
    return f"; the rounds so far are in {rules.checkpoint}, and --resume goes on from there"
