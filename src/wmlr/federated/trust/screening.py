"""Which answers of a round cannot be answers, and whose they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from wmlr.core.query import Query
from wmlr.federated.checks import check_answers
from wmlr.federated.trust.contributions import Agent
from wmlr.numerics.arrays import Array, Sums

FACTOR = 1e4
SPREADS = 8.0
"""A part of an answer is too large where, per row, it is this many times the usual one, and so many spreads above."""


def faults(
    query: Query,
    answers: Mapping[Agent, Sums],
    rows: Mapping[Agent, int],
    n_features: int,
    compared: Collection[Agent] = (),
) -> dict[Agent, str]:
    """Why some of the answers cannot be used, by agent.

    Parameters
    ----------
    query : what was asked.
    answers : each agent's own, as sums over its rows.
    rows : how many rows each agent has.
    n_features : the columns every agent has.
    compared : agents whose answers are about a fit to their rows and most others', so that sizes can be compared.
    """
    wrong = check_answers(answers, query, n_features, rows)
    found: dict[Agent, str] = {agent: f"its answer cannot be one: {error}" for agent, error in wrong.items()}
    alike = {agent: sums for agent, sums in answers.items() if agent in compared and agent not in found}
    return found | _oversized_agents(alike, rows) if len(alike) > 2 else found


def _oversized_agents(answers: Mapping[Agent, Sums], rows: Mapping[Agent, int]) -> dict[Agent, str]:
    """Agents a part of whose answer is larger, per row, than honest differences explain."""
    agents, found = list(answers), {}
    counts = np.array([max(rows[agent], 1) for agent in agents], dtype=np.float64)
    for name in answers[agents[0]]:
        sizes = np.array([float(np.abs(answers[agent][name]).max(initial=0.0)) for agent in agents]) / counts
        for place in np.flatnonzero(_far_above(sizes)).tolist():
            usual = float(np.median(sizes))
            found[agents[place]] = f"its {name} is {sizes[place]:.3g} per row where {usual:.3g} is usual"
    return found


def _far_above(sizes: Array) -> Array:
    logs = np.log(np.maximum(sizes, 1e-300))
    middle = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - middle)))
    usable = np.median(sizes) > 0
    return np.asarray(usable & (logs - middle > np.log(FACTOR) + SPREADS * spread))
