"""What an engine says of itself: who answers, what a round costs, what it keeps. Methods are adapted by this alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wmlr.numerics.arrays import Sums


@dataclass(frozen=True)
class Capabilities:
    """An engine at the time of asking; one that says nothing holds all rows in reach, and answers every round.

    Attributes
    ----------
    answering : the share of the holders of rows whose answers a round may expect; below 1, other rows answer each time.
    grouped : whether the rows of a holder share their component.
    labelled : whether components of some rows are known, which numbers the components.
    hides_rows : queries about single rows are not to be asked.
    in_one_place : whether a query about all of a sample as a whole can be answered; in memory also one of all rows.
    in_memory : whether a round costs what it computes, and not what it reads: then those about samples cost little.
    slow_rounds : a round takes so long that a search should ask for few.
    rounds_left : how many rounds may still be held; None where they are not counted.
    ledger : every round so far, as a :class:`wmlr.federated.ledger.Ledger`; None where none is kept.
    totals : running totals, which a fit's history shows per iteration.
    privacy_spent : what the noisy rounds so far have cost; None where there is no noise.
    agents : how many agents there are; None where there are none to be counted.
    members : the rows of each agent by its name, where they are known by name.
    seconds : how long each round took, where that is kept.
    feature_names : of the columns; None where they have none.
    formula : what makes the columns from a table, as a :class:`wmlr.formulas.formula.ModelFormula`; None where nothing
        does.
    shares : each agent's posterior shares of the components of a model, where agents are in this process.
    by_majority : fits a model on the agents that their majority stands behind, given the model and what fits one on
        whom the engine adds up; None where all agents are trusted.
    blocks : all rows, block by block, each with the named columns it was read from; None where rows do not leave.
    score : a table with columns that a function makes of each block, where rows are on a cluster that makes it there.
    last_answers : each agent's own part of the last sums, where they were seen one by one.
    rows_by_agent : how many rows each of these has.
    """

    answering: float = 1.0
    grouped: bool = False
    labelled: bool = False
    hides_rows: bool = False
    in_one_place: bool = False
    in_memory: bool = False
    slow_rounds: bool = False
    rounds_left: int | None = None
    ledger: Any = None
    totals: Mapping[str, float] = field(default_factory=dict)
    privacy_spent: Any = None
    agents: int | None = None
    members: Mapping[str, int] | None = None
    seconds: Sequence[float] | None = None
    feature_names: Sequence[str] | None = None
    formula: Any = None
    shares: Callable[[Any], Any] | None = None
    by_majority: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    blocks: Callable[[], Iterator[tuple[Mapping[str, Any], Any]]] | None = None
    score: Callable[[Callable[[Any], dict[str, Any]], Sequence[str]], Any] | None = None
    last_answers: Mapping[Hashable, Sums] = field(default_factory=dict)
    rows_by_agent: Mapping[Hashable, int] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """How many rounds the ledger has."""
        return 0 if self.ledger is None else len(self.ledger)


def capabilities_of(rows: Any) -> Capabilities:
    """What an engine declares as its ``capabilities``; the least there can be where it declares none."""
    declared = getattr(rows, "capabilities", None)
    return declared if isinstance(declared, Capabilities) else Capabilities()
