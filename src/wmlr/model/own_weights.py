"""Weights of each group's own: what a group's rows say of them, and the law that all groups share."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from wmlr.numerics.arrays import Array, Integers

MOST_ROUNDS = 500  # of fixed points that close in by a factor each
STILL = 1e-12  # of a group's rows: what its expected counts may still change by
LEAST, MOST = 1e-3, 1e5  # of a parameter of the groups' law: all groups have one component, or the same weights


def expected_logs(counts: Array) -> Array:
    """Expected log-weights under Dirichlet laws (..., k)."""
    return np.asarray(digamma(counts) - digamma(counts.sum(axis=-1, keepdims=True)))


def group_counts(prior: Array, densities: Array, starts: Integers, weight: Array | None = None) -> Array:
    """(G, k): the Dirichlet law of each group's weights, from the law of all and log-densities (n, k) of the rows.

    By variational Bayes: the rows' expected components and the expected log-weights in turn, until both stand still.

    Parameters
    ----------
    prior : (k,), the Dirichlet law that all groups share.
    densities : (n, k), rows of a group next to each other.
    starts : the first row of each group.
    weight : of the rows; None where each counts once.
    """
    n = len(densities)
    sizes = np.diff(np.append(starts, n))
    amount = sizes.astype(np.float64) if weight is None else np.add.reduceat(weight, starts)
    counts = prior * (1.0 + amount[:, None] / prior.sum())
    left = np.arange(len(starts))
    for _ in range(MOST_ROUNDS):
        chosen = np.repeat(np.isin(np.arange(len(starts)), left), sizes)
        shares = densities[chosen] + np.repeat(expected_logs(counts[left]), sizes[left], axis=0)
        shares -= shares.max(axis=1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        if weight is not None:
            shares *= weight[chosen][:, None]
        found = prior + np.add.reduceat(shares, np.cumsum(sizes[left]) - sizes[left], axis=0)
        moved = np.abs(found - counts[left]).max(axis=1)
        counts[left] = found
        left = left[moved > STILL * np.maximum(amount[left], 1.0)]
        if not len(left):
            break
    return np.asarray(counts)


def likeliest_prior(prior: Array, mean_logs: Array) -> Array:
    """The Dirichlet law (k,) that is likeliest where log-weights have these means, by Newton's steps from one (Minka).

    The log-likelihood is concave; its Hessian is diagonal but for a constant.
    """
    found = prior
    for _ in range(MOST_ROUNDS):
        slope = digamma(found.sum()) - digamma(found) + mean_logs
        bend, common = polygamma(1, found), polygamma(1, found.sum())
        shift = (slope / bend).sum() / (1.0 / common - (1.0 / bend).sum())
        step = (slope + shift) / bend
        moved = np.clip(np.where(found + step > 0.1 * found, found + step, 0.1 * found), LEAST, MOST)
        done = np.all(np.abs(moved - found) <= 1e-12 * found)
        found = moved
        if done:
            break
    return np.asarray(found)
