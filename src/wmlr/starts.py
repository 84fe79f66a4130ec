"""Where methods begin: reference vectors and starting points, found by queries alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from wmlr.coordinates import Frame, ScaledFrame
from wmlr.round import Array, Integers, Query, Sampled, Steps, Sums
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.moments import FourthMoments
from wmlr.statistics.robust import Histogram
from wmlr.statistics.score import SymmetricLengths
from wmlr.task import Task

LENGTH_ROWS = 20_000
SHARES = 1.0 / (1.0 + np.exp(-np.linspace(np.log(0.02 / 0.98), np.log(0.999 / 0.001), 16)))

CANDIDATES = 50
CANDIDATE_ROWS = 4_000
LEAST_UNITS = 500
ROUNDS = ((CANDIDATES, 0, 6, 0.25), (16, 0, 8, 0.5), (6, 0, 16, 1.0))
MOST_CANDIDATES = 200
CANDIDATE_NUMBERS = 150_000
ROWS_PER_NUMBER = 150
FINALISTS = 3
SAME = 0.01
SETTLED = 1e-4

BINS = 256
USUAL = 2.5

Within = Callable[[Query], Query]
Rounds = tuple[tuple[int, int, int, float], ...]


def oriented(vectors: Array) -> Array:
    """Columns with their largest entry positive, so that an eigenvector's sign is no accident."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs))


def spectral_direction(frame: Frame, sums: Sums) -> Array:
    """The unit top eigenvector of (1/n) sum y^2 ww', or of its cross terms within groups.

    Within groups, sum_a [s_a s_a' - sum_j y_j^2 w_j w_j'] with s_a = sum_j y_j w_j estimates beta beta' for
    any law of x; where rows stand alone the fourth moment is all there is.
    """
    if "pairs" in sums and float(sums["pair_count"]) > 0:
        matrix = frame.pull_matrix(sums["pairs"])
    else:
        matrix = frame.pull_matrix(sums["fourth"]) - frame.yy * frame.gram
    return oriented(np.linalg.eigh(matrix)[1][:, -1:])[:, 0]


def length_share(frame: Frame | ScaledFrame) -> float:
    """The share of the rows by which a length is chosen."""
    return _share(frame, LENGTH_ROWS)


def lengthened(
    frame: Frame | ScaledFrame, direction: Array, sigma: float | None, seed: int, mean: Array | None = None
) -> Steps[tuple[Array, float]]:
    """The spectral direction with its likeliest length, and the variance left over."""
    unit = frame.unit(direction)
    shares = SHARES
    s2 = np.maximum((1.0 - shares) * frame.yy, frame.floor)
    if sigma is not None:
        s2 = np.full_like(s2, sigma**2)
    lengths = np.sqrt(shares * frame.yy)
    query = SymmetricLengths(frame.raw(unit), lengths, s2, mean)
    sums = yield Sampled(query, length_share(frame), seed)
    best = int(np.argmax(sums["log_likelihood"]))
    return unit * lengths[best], float(s2[best])


def random_vectors(frame: Frame | ScaledFrame, task: Task, columns: int) -> Array:
    """N(0, I/d) draws (r, columns), in units of the spread of y, as the paper draws with sigma = 1."""
    draws = task.generator().standard_normal((frame.dimension, columns))
    return np.asarray(draws / np.sqrt(frame.dimension))


def usual_range(mean: float, deviation: float) -> Steps[tuple[float, float]]:
    """A range of y that holds what is usual and leaves out gross outliers, from two histograms.

    The second looks closely at where the first found the middle 80% to be.
    """
    low, high = mean - 4 * deviation, mean + 4 * deviation
    for _ in range(2):
        edges = np.linspace(low, high, BINS + 1)
        counts = (yield Histogram(edges))["counts"]
        shares = np.cumsum(counts[:-1]) / counts.sum()
        tenth, middle, most = np.interp([0.1, 0.5, 0.9], shares, edges)
        reach = max(most - middle, middle - tenth, 1e-3 * (high - low))
        low, high = middle - USUAL * reach, middle + USUAL * reach
    return float(low), float(high)


def subspace(frame: Frame, task: Task, within: Within) -> Steps[Array]:
    """An orthonormal basis (r, q) of where the components' coefficients are sought.

    It holds the least-squares vector, the top k-1 eigenvectors of the residuals' fourth moment, the
    direction in which the residuals' size grows, and the intercept.
    """
    fit = frame.least_squares
    sums = yield within(FourthMoments(frame.raw(fit)))
    frame = replace(frame, weight=float(sums["weight"]))
    mean_square = float(sums["rr"]) / frame.weight
    if "pairs" in sums and float(sums["pair_count"]) > 0:
        spread = frame.pull_matrix(sums["pairs"])
    else:
        spread = frame.pull_matrix(sums["fourth"]) - mean_square * frame.gram
    columns = [fit[:, None]]
    r = frame.dimension
    features = r - 1 if frame.intercept else r
    if features:
        block = spread[:features, :features]
        vectors = np.zeros((r, min(task.n_components - 1, features)))
        vectors[:features] = oriented(np.linalg.eigh(block)[1][:, ::-1][:, : vectors.shape[1]])
        columns.append(vectors)
    if frame.intercept:
        growth = np.zeros((r, 1))
        growth[:features, 0] = frame.pull(sums["fourth"][:, -1])[:features]
        columns += [growth, np.eye(r)[:, -1:]]
    return _independent(np.hstack(columns))


def ranked(likelihoods: Array) -> Integers:
    """Places from likeliest to least; a difference of rounding decides nothing, the earlier one wins."""
    grain = 1e-9 * max(float(np.abs(likelihoods).max(initial=0.0)), 1e-300)
    return np.argsort(np.round((likelihoods.max(initial=-np.inf) - likelihoods) / grain), kind="stable")


def _share(frame: Frame | ScaledFrame, rows: float) -> float:
    """The share of the data to sample: so many rows, and never just a few groups."""
    return min(1.0, max(rows / max(frame.rows, 1.0), LEAST_UNITS / max(frame.units, 1.0)))


def _independent(columns: Array) -> Array:
    norms = np.linalg.norm(columns, axis=0)
    columns = columns[:, norms > 1e-12] / norms[norms > 1e-12]
    kept: list[Array] = []
    for column in columns.T:
        rest = column.copy()
        for _ in range(2):
            for vector in kept:
                rest -= (vector @ rest) * vector
        if np.linalg.norm(rest) > 1e-6:
            kept.append(rest / np.linalg.norm(rest))
    return np.stack(kept, axis=1) if kept else np.zeros((columns.shape[0], 0))


def multi_start(
    frame: Frame, task: Task, within: Within = lambda query: query
) -> Steps[list[tuple[Array, Array, Array]]]:
    """The best few of many short EM runs inside the subspace: (coef (r, k), weights, s2 (k,)) each.

    ``within`` may keep gross outliers out of them. With the start "everywhere" more run in all directions.
    """
    fit = frame.least_squares
    left = frame.yy - float(frame.xy @ fit)
    searches: list[tuple[Array, Rounds]] = [((yield from subspace(frame, task, within)), ROUNDS)]
    if isinstance(task.start, str) and task.start == "everywhere":
        searches.append((np.eye(frame.dimension), _longer(task.n_components, frame.dimension)))
    places: list[tuple[Array, Array, Array]] = []
    for Q, rounds in searches:
        found = yield from searched(frame, task, frame.raw(Q), Q.T @ fit, left, within, rounds)
        places += [(Q @ coef.T, weights, s2) for coef, weights, s2 in found]
    return places


def _longer(k: int, q: int) -> Rounds:
    """More and longer runs, as all directions need; so many that an answer stays small enough to send."""
    count = int(np.clip(CANDIDATE_NUMBERS / (k * q * (q + 1) / 2), CANDIDATES, MOST_CANDIDATES))
    return (
        (count, 0, 10, 0.25),
        (count // 4, count // 2, 12, 0.25),
        (count // 4, count // 4, 12, 0.5),
        (16, 0, 30, 1.0),
    )


def searched(
    frame: Frame | ScaledFrame,
    task: Task,
    transform: Array,
    centre: Array,
    left: float,
    within: Within,
    rounds: Rounds = ROUNDS,
) -> Steps[list[tuple[Array, Array, Array]]]:
    """Short EM runs on the white features transform'x from random starts around ``centre``: the best few.

    All runs share each pass, on a sample of the rows chosen by content; as the runs go on the worse ones are
    left behind and the sample grows. ``left`` is the mean square that the single regression leaves of y;
    ``rounds`` say how many runs go on, how many new ones are crossed from them, and how far all go on what part
    of the sample.
    """
    generator = task.generator()
    k, q, count = task.n_components, transform.shape[1], rounds[0][0]
    left = max(left, frame.floor)
    draws = generator.standard_normal((count, k, q)) / np.sqrt(max(q, 1))
    coef = centre + np.sqrt(left) * draws * np.exp(generator.uniform(-0.7, 0.9, (count, 1, 1)))
    weights = np.full((count, k), 1.0 / k)
    s2 = np.full(count, left / 2 if task.sigma is None else task.sigma**2)
    order = np.arange(count)
    for survivors, crossed, iterations, part in rounds:
        share = _share(frame, part * max(CANDIDATE_ROWS, ROWS_PER_NUMBER * k * q))
        chosen = order[:survivors]
        coef, weights, s2 = _with_crossed(coef[chosen], weights[chosen], s2[chosen], crossed, generator)
        reached = np.full(len(s2), -np.inf)
        for _ in range(iterations):
            query = within(CandidateScores(transform, coef, weights, s2, task.dof))
            sums = yield Sampled(query, share, task.seed)
            gain = float((sums["log_likelihood"] - reached).max()) / max(float(sums["mass"][0].sum()), 1e-300)
            reached = sums["log_likelihood"]
            coef, weights, s2 = _candidate_step(sums, coef, s2, task, frame.floor)
            if gain < SETTLED:
                break
        order = ranked(reached)
    best = distinct(coef[order[:FINALISTS]])
    return [(coef[i], weights[i], np.full(k, s2[i])) for i in order[best]]


def _with_crossed(
    coef: Array, weights: Array, s2: Array, count: int, generator: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Candidates, and ``count`` more whose components are drawn from all of theirs: each may have found another."""
    runs, k, q = coef.shape
    drawn = coef.reshape(runs * k, q)[generator.integers(runs * k, size=(count, k))]
    return (
        np.concatenate([coef, drawn]),
        np.concatenate([weights, np.full((count, k), 1.0 / k)]),
        np.concatenate([s2, np.full(count, np.median(s2))]),
    )


def distinct(coef: Array) -> Integers:
    """Places of the candidates (s, k, q) that are not, but for their labels, an earlier one again."""
    kept: list[int] = []
    for place, lines in enumerate(coef):
        spread = float(np.mean(np.sum((lines - lines.mean(axis=0)) ** 2, axis=1)))
        for earlier in kept:
            apart = np.sum((lines[:, None] - coef[earlier][None]) ** 2, axis=2)
            if apart[linear_sum_assignment(apart)].max() <= SAME * spread:
                break
        else:
            kept.append(place)
    return np.array(kept, dtype=np.int64)


def _candidate_step(sums: Sums, coef: Array, s2: Array, task: Task, floor: float) -> tuple[Array, Array, Array]:
    q = coef.shape[2]
    upper = np.triu_indices(q)
    grams = np.empty((*coef.shape[:2], q, q))
    grams[..., upper[0], upper[1]] = sums["grams"]
    grams[..., upper[1], upper[0]] = sums["grams"]
    ridge = 1e-9 * np.maximum(sums["grip"], 1e-9)[..., None]
    right = sums["moments"] + ridge * coef
    coef = np.asarray(np.linalg.solve(grams + ridge[..., None] * np.eye(q), right[..., None])[..., 0], dtype=np.float64)
    bent = np.einsum("skqp,skp->skq", grams, coef)
    residual = (sums["squares"] + np.einsum("skq,skq->sk", coef, bent - 2 * sums["moments"])).sum(axis=1)
    residual /= np.maximum(sums["mass"].sum(axis=1), 1e-300)
    if task.sigma is None:
        s2 = np.maximum(residual, floor)
    weights = sums["units"] / sums["units"].sum(axis=1, keepdims=True)
    if task.equal_weights:
        weights = np.full_like(weights, 1.0 / weights.shape[1])
    return coef, np.maximum(weights, 1e-12), s2
