"""How far a fit moves without each agent, from the sums that its standard errors are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.federated.trust.contributions import Agent
from wmlr.inference.information import Information
from wmlr.io.printable import printable
from wmlr.model.constraints import Constraints
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

HEADER = ("agent", "rows", "coefficients move by", "standard errors")
MOST_SHOWN = 5


@dataclass(frozen=True)
class Influence:
    """What leaving out each agent would do to the fit, to first order.

    Attributes
    ----------
    agents, rows : who they are, and how many rows they have.
    moved : (M,) the length by which all coefficients move, over their own length.
    errors : (M,) the largest move of one parameter, in its standard errors.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.federated import Federation, Influence
    >>> data = make_mixed_regression(400, 2, snr=5, groups=100, random_state=0)
    >>> federation = Federation.split(data.X, data.y, data.groups)
    >>> fit = MixedLinearRegression(random_state=0).fit_on(federation)
    >>> _ = fit.covariance_on(federation)
    >>> federation.ledger.influence.agents
    (0, 1, 2, 3)
    """

    agents: tuple[Agent, ...]
    rows: tuple[int, ...]
    moved: Array
    errors: Array

    @classmethod
    def of(
        cls, mixture: Mixture, constraints: Constraints, information: Information, rows: Mapping[Agent, int]
    ) -> Influence | None:
        """From the information at a fit; None where the agents' answers were not seen one by one."""
        moves = information.moves()
        if not moves:
            return None
        agents = tuple(moves)
        shifts = np.array([moves[agent] for agent in agents])
        lines = constraints.coefficients(mixture.n_components, mixture.n_features)
        change = shifts[:, : lines.shape[1]] @ lines.T
        size = float(np.linalg.norm(np.column_stack([mixture.coef, mixture.intercept])))
        errors = np.sqrt(np.maximum(np.diag(information.covariance()), 0.0))
        told = np.isfinite(errors) & (errors > 0)
        largest = np.abs(shifts[:, told] / errors[told]).max(axis=1, initial=0.0)
        moved = np.linalg.norm(np.nan_to_num(change), axis=1) / max(size, 1e-300)
        return cls(agents, tuple(int(rows[agent]) for agent in agents), moved, largest)

    def records(self) -> list[dict[str, Any]]:
        """A dict per agent, who moves the fit furthest first."""
        return [
            {"agent": _agent_label(self.agents[place]), "rows": self.rows[place], "moved": float(self.moved[place]),
             "standard_errors": float(self.errors[place])}
            for place in np.argsort(-self.errors, kind="stable").tolist()
        ]  # fmt: skip

    def lines(self, most: int = MOST_SHOWN) -> Iterator[tuple[str, ...]]:
        """As a table has them."""
        for record in self.records()[:most]:
            yield (
                str(record["agent"]),
                f"{record['rows']:,}",
                f"{record['moved']:.2g}",
                f"{record['standard_errors']:.2g}",
            )

    def __str__(self) -> str:
        told = [f"{agent} ({errors} standard errors)" for agent, _, _, errors in self.lines()]
        return printable(f"without one agent the fit moves furthest for {', '.join(told)}")


def _agent_label(agent: Agent) -> Any:
    """An agent's name as JSON has it; of a group of agents, all names."""
    if isinstance(agent, tuple):
        return " + ".join(str(one) for one in agent)
    return agent.item() if isinstance(agent, np.generic) else agent
