"""An agent: rows of its own, and what it will not do with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmlr.core.agent_blocks import Piece, ask
from wmlr.core.query import Query
from wmlr.core.round import Rows
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.federated.checks import check_query
from wmlr.flower.terms import Terms
from wmlr.numerics.arrays import Array, Sums


class RefusalError(ValueError):
    """What an agent says when it will not answer; it goes to the server as it is, so it tells of no row."""


@dataclass(eq=False)
class Agent:
    """The rows of one agent, as its own operator read them, and the limits he sets.

    Attributes
    ----------
    name : what it is called among the agents.
    X, y : its rows.
    columns, target : what they are called.
    min_rows : the fewest rows that an answer may be a sum of.
    only_secure : whether it answers under masks only.
    max_epsilon : what all its noisy answers together may cost; with it, it gives no answer without noise.
    answered : how many noisy answers it has given.
    """

    name: str
    X: Array
    y: Array
    columns: tuple[str, ...]
    target: str
    min_rows: int = 10
    only_secure: bool = False
    max_epsilon: float | None = None
    answered: int = 0
    _engines: dict[str, ArrayRows] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.y)

    def card(self, terms: Terms) -> dict[str, Any]:
        """What it says of itself on joining, if it can live with the terms; in privacy, nothing of its rows."""
        self._refuse_few(len(self))
        if self.only_secure and terms.secure is None:
            raise RefusalError("this agent answers under masks only: the server must fit with --secure")
        if self.max_epsilon is not None:
            if terms.privacy is None:
                raise RefusalError("this agent gives noisy answers only: the server must fit with --epsilon")
            self._refuse_cost(terms, terms.privacy.rounds)
        rows = len(self) if terms.privacy is None else 0
        return {"name": self.name, "rows": rows, "columns": list(self.columns), "target": self.target}

    def answer(self, query: Query, terms: Terms) -> Sums:
        """Its part of the sums that a query asks for; where agents count alike, the mean over its rows.

        Where there is privacy, that mean times the public number of rows.

        Raises
        ------
        ValueError
            Where the query is not one that the package asks, or would be answered by too few rows.
        """
        check_query(query, self.X.shape[1])
        self._refuse_parts(query, self._rows(terms))
        sums = self._sums(query, terms)
        if terms.weighting == "agents":
            scale = (1.0 if terms.privacy is None else terms.privacy.rows) / len(self)
            return {name: np.asarray(value * scale) for name, value in sums.items()}
        return sums

    def spend(self, terms: Terms) -> None:
        """Count a noisy answer, or refuse it where it would cost too much."""
        if terms.privacy is not None:
            self._refuse_cost(terms, self.answered + 1)
            self.answered += 1

    def _sums(self, query: Query, terms: Terms) -> Sums:
        if query.of_each_agent:
            return ask(query, Piece(self._rows(terms), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)))
        if terms.level not in self._engines:
            groups = np.zeros(len(self), dtype=np.int64) if terms.grouped else None
            self._engines[terms.level] = ArrayRows(self.X, self.y, groups=groups, n_jobs=default_threads())
        return self._engines[terms.level].total(query)

    def _rows(self, terms: Terms) -> Rows:
        starts = np.zeros(1, dtype=np.int64) if terms.grouped else None
        return Rows(self.X, self.y, None, starts, np.arange(len(self)))

    def _refuse_parts(self, query: Query, rows: Rows) -> None:
        """Refuse a query that picks out a few rows: their sum would be the rows themselves."""
        seen = query.rows(rows)
        for child in query.children():
            self._refuse_parts(child, seen)
        if len(seen):
            self._refuse_few(len(seen))

    def _refuse_few(self, count: int) -> None:
        if count < self.min_rows:
            raise RefusalError(f"fewer rows than the {self.min_rows} that an answer must be a sum of")

    def _refuse_cost(self, terms: Terms, rounds: int) -> None:
        if self.max_epsilon is None or terms.privacy is None:
            return
        cost = terms.privacy.spent(rounds)
        if cost.epsilon > self.max_epsilon * (1 + 1e-6):
            raise RefusalError(f"{rounds} answers would cost epsilon {cost.epsilon:.3g}, above {self.max_epsilon:.3g}")
