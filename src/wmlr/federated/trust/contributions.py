"""What each agent adds to the equations of a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.features.maps import MappedRows
from wmlr.features.transformers import Described
from wmlr.inference.information import WhiteView, free_directions, white_query
from wmlr.model.constraints import Constraints
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers, Sums

Agent = Hashable


@dataclass(frozen=True)
class Contributions:
    """Each agent's score, information and log-likelihood at a mixture, in white coordinates of the free parameters.

    Attributes
    ----------
    agents : whose they are.
    rows : (M,) how many rows each of them has.
    scores : (M, f) the derivative of each agent's log-likelihood.
    information : (M, f, f) minus its second derivative.
    log_likelihood : (M,).
    units : (M, k) how many rows, or groups of rows, each agent has in each component.
    lines : how many of the parameters are coefficients and sigmas; the others are the weights' logits.
    """

    agents: tuple[Agent, ...]
    rows: Array
    scores: Array
    information: Array
    log_likelihood: Array
    units: Array
    lines: int

    @classmethod
    def of(
        cls,
        answers: Mapping[Agent, Sums],
        rows: Mapping[Agent, int],
        view: WhiteView,
        mixture: Mixture,
        constraints: Constraints,
    ) -> Contributions:
        """From the agents' answers to :func:`wmlr.inference.information.white_query`."""
        k = mixture.n_components
        free = free_directions(view, constraints, k)
        agents = tuple(answers)
        scores = np.array([answers[agent]["score"] for agent in agents])
        information = np.array([answers[agent]["information"] for agent in agents])
        counts = np.array([float(answers[agent]["units"].sum()) for agent in agents])
        layout = view.layout(k, bool(constraints.own))
        drift = scores[:, layout.logits].reshape(len(agents), k - 1, layout.gate)[:, :, -1]
        units = counts[:, None] * mixture.weights + np.column_stack([drift, -drift.sum(axis=1)])
        return cls(
            agents,
            np.array([float(rows[agent]) for agent in agents]),
            scores @ free,
            free.T @ information @ free,
            np.array([float(answers[agent]["log_likelihood"]) for agent in agents]),
            units,
            free.shape[1] - constraints.logits(k, view.gate_size).shape[1],
        )

    @property
    def n_parameters(self) -> int:
        return int(self.scores.shape[1])

    def places(self, agents: Sequence[Agent]) -> Integers:
        """Where these agents are."""
        return np.array([self.agents.index(agent) for agent in agents if agent in self.agents], dtype=np.int64)

    def parts_of_information(self, places: Integers) -> Array:
        """(m, f, f): of some agents, each one's part of what all of these say of coefficients and sigmas.

        They sum to the identity, in coordinates of the directions of which something is said.
        """
        information = self.of_lines(places)[1][places]
        white = whitening(information.sum(axis=0))
        return symmetric(white.T @ information @ white)

    def of_lines(self, places: Integers) -> tuple[Array, Array]:
        """Scores and information of coefficients and sigmas, given each agent's own shares of the components.

        Agents honestly differ in how much of each component they have. So their weights are free for each of them, and
        what those explain is taken off; ``places`` are the agents by whose information a weight is held where an agent
        has none of a component.
        """
        lines = self.lines
        if lines == self.n_parameters:
            return self.scores, self.information
        common = self.information[places].sum(axis=0)[lines:, lines:] / self.rows[places].sum()
        weights = self.information[:, lines:, lines:] + WEIGHT_HOLD * self.rows[:, None, None] * common
        cross = self.information[:, lines:, :lines]
        slope = np.swapaxes(np.linalg.solve(weights, cross), 1, 2)
        scores = self.scores[:, :lines] - np.einsum("mij,mj->mi", slope, self.scores[:, lines:])
        return scores, self.information[:, :lines, :lines] - slope @ cross


def symmetric(matrices: Array) -> Array:
    """Matrices without what rounding, or a liar, makes of them."""
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)


def whitening(information: Array) -> Array:
    """(f, r): the directions of which something is said, each so long that its information is one."""
    values, vectors = np.linalg.eigh(symmetric(information))
    seen = values > LEAST_INFORMATION * float(values.max(initial=0.0))
    return np.asarray(vectors[:, seen] / np.sqrt(values[seen]))


LEAST_INFORMATION = 1e-10  # of the largest information: less says nothing of a direction
WEIGHT_HOLD = 0.05
"""An agent's own weights are held towards the common ones by this part of what its rows would tell of them."""


def ask_contributions(model: Any, rows: Any) -> Contributions:
    """Ask all agents that an engine reaches for what they add to the equations of a fitted model: a round or two."""
    fitted = model.fitted_
    features = fitted.inputs.features
    engine = rows if features is None else MappedRows(rows, Described.of(features))
    view = WhiteView.of(engine, fitted.constraints, 0.0)
    answers = engine.answers(white_query(fitted.mixture, view))
    return Contributions.of(answers, rows.rows_by_agent, view, fitted.mixture, fitted.constraints)
