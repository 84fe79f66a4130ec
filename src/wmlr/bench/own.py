"""Agents that have mixing weights of their own: rows of new agents, held out, beside other ways to predict them."""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.base import clone

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.io.users_line import without_warnings
from wmlr.numerics.arrays import Array, Integers

AGENTS = 300
SIZES = (30, 100)  # rows of each agent
LINES = np.array([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])
AMOUNT = 0.4  # of the Dirichlet law of the agents' weights
SIGMA = 0.7
SEEN = 0.8  # of the agents
NEAR = 0.02  # of an oracle's log-likelihood
DRAWS = 20_000  # of weights, by which an oracle learns those of an agent


def draw_agents(seed: int, agents: int, rows: int) -> tuple[Array, Array, Integers, Array]:
    """X, y, each row's agent, and the agents' weights."""
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(len(LINES), AMOUNT), agents)
    X = generator.standard_normal((agents * rows, LINES.shape[1]))
    owner = np.repeat(np.arange(agents), rows)
    component = np.array([generator.choice(len(LINES), p=weights[agent]) for agent in owner])
    y = (X * LINES[component]).sum(axis=1) + SIGMA * generator.standard_normal(len(X))
    return X, y, owner, weights


def score_new_agents(agents: int, rows: int, seed: int = 0) -> dict[str, float]:
    """The mean log-likelihood of half of the rows of agents that the fit has not seen, by each way to predict them.

    The other half is there to learn the agent's weights from, or to fit the agent alone. One oracle knows the lines,
    the noise and the agent's weights; the other learns the weights from the same rows as the fit, by Bayes's rule with
    the law that they were drawn from: none can do better.
    """
    X, y, owner, weights = draw_agents(seed, agents, rows)
    new = owner >= SEEN * agents
    late = np.arange(len(y)) % 2 == 1
    seen, learned, held = ~new, new & ~late, new & late
    model = MixedLinearRegression(len(LINES), fit_intercept=False, random_state=0)
    common = clone(model).fit(X[seen], y[seen]).score(X[held], y[held])
    own = clone(model).set_params(gate="group").fit(X[seen], y[seen], groups=owner[seen])
    own.learn_groups(X[learned], y[learned], groups=owner[learned])
    densities = np.exp(-0.5 * ((y[:, None] - X @ LINES.T) / SIGMA) ** 2) / (np.sqrt(2 * np.pi) * SIGMA)
    laws = np.random.default_rng(seed).dirichlet(np.full(len(LINES), AMOUNT), DRAWS)
    alone, learning = [], []
    for agent in np.unique(owner[held]):
        mine, others = learned & (owner == agent), held & (owner == agent)
        quick = clone(model).set_params(search="quick")
        alone.append(quick.fit(X[mine], y[mine]).score(X[others], y[others]))
        logs = np.log(densities[mine] @ laws.T).sum(axis=0)
        posterior = np.exp(logs - logs.max())
        learning.append(np.log(densities[others] @ (posterior @ laws / posterior.sum())).mean())
    return {
        "own weights": own.score(X[held], y[held], groups=owner[held]),
        "common weights": common,
        "each agent alone": float(np.mean(alone)),
        "oracle that learns weights": float(np.mean(learning)),
        "oracle that knows weights": float(np.log((weights[owner] * densities).sum(axis=1))[held].mean()),
    }


def run(watch: Watch, agents: int = AGENTS, sizes: tuple[int, ...] = SIZES, seeds: int = 2) -> Result:
    """Own weights are to be better than common ones and than a fit per agent, and near the oracles'."""
    lines, limits, numbers = [], [], []
    for rows, seed in product(sizes, range(seeds)):
        name = f"{rows} rows, seed {seed}"
        watch(name)
        with without_warnings():  # of single agents with too few rows
            found = score_new_agents(agents, rows, seed)
        own = found["own weights"]
        behind = {who: (value - own) / abs(value) for who, value in found.items() if who.startswith("oracle")}
        lines.append((name, *(f"{value:.4f}" for value in found.values())))
        numbers.append({"rows": rows, "seed": seed, **found})
        limits += [
            Limit(f"{name}: nats a row above common weights", own - found["common weights"], least=0.0),
            Limit(f"{name}: nats a row above each agent alone", own - found["each agent alone"], least=0.0),
            *(Limit(f"{name}: behind the {who}, of its value", value, most=NEAR) for who, value in behind.items()),
        ]
    bounds = [(limit.name, f"{limit.value:.4f}", limit.bound, limit.verdict, "", "") for limit in limits]
    return Result(
        suite="own",
        title=f"{agents} agents with weights of their own, a fifth of them new: log-likelihood a row, held out",
        columns=("rows of an agent", "own weights", "common", "each alone", "oracle learns", "oracle knows"),
        rows=(*lines, *bounds),
        numbers={"draws": numbers, "limits": [limit.plain() for limit in limits]},
    )
