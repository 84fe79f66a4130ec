"""Where methods begin: reference vectors and starting points, found by queries alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtri

from wmlr.core.query import Query
from wmlr.core.round import Sampled, Steps
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.numerics.coordinates import Frame, ScaledFrame, orient_columns
from wmlr.statistics.moments import FourthMoments
from wmlr.statistics.robust import Histogram, Trimmed
from wmlr.statistics.start_scale import on_start_scale
from wmlr.statistics.symmetric_score import SymmetricLengths

LENGTH_ROWS = 16_000  # by which lengths are compared: their likelihoods differ by far more than sampling does
DIRECTION_ROWS = 4_000
ROWS_PER_COLUMN = 100  # of a sample whose second moments are to stand for those of all rows
LARGEST_SHARE = 0.5
FARTHEST = 3.0  # places from which a parabola's top may be
LOGITS = np.linspace(logit(0.02), logit(0.99), 7)  # of shares of y's square that a direction may explain

LEAST_UNITS = 500
CLEAR = 3.0  # times the largest eigenvalue of noise, from which on a sample's direction is to be trusted

BINS = 256  # of a histogram of y
OCTAVES = 64  # from half of the usual range outwards
USUAL = 3.2  # normal deviations to either side: one row in seven hundred is beyond
MOST_LOOKS = 6  # at y, each closer than the last
CLEAR_BINS = 16  # of a histogram, by which a range is seen clearly enough

Within = Callable[[Query], Query]


def spectral_direction(frame: Frame, sums: Sums) -> Array:
    """The unit top eigenvector of (1/n) sum y^2 ww', or of its cross terms within groups.

    Within groups, sum_a [s_a s_a' - sum_j y_j^2 w_j w_j'] with s_a = sum_j y_j w_j estimates beta beta' for
    any law of x; where rows stand alone the fourth moment is all there is.
    """
    return orient_columns(np.linalg.eigh(_fourth_matrix(frame, sums))[1][:, -1:])[:, 0]


def clear_direction(frame: Frame, sums: Sums) -> Array | None:
    """The spectral direction from the fourth moments of a sample; None where noise may have turned it.

    The other eigenvalues say how large one is that comes from noise alone.
    """
    weight = max(float(sums["weight"]), 1e-300)
    own = replace(frame, weight=weight, yy=float(sums["rr"]) / weight)
    values, vectors = np.linalg.eigh(_fourth_matrix(own, sums))
    if len(values) < 2 or values[-1] < CLEAR * max(values[-2], -values[0]):
        return None
    return orient_columns(vectors[:, -1:])[:, 0]


def _fourth_matrix(frame: Frame, sums: Sums) -> Array:
    if "pairs" in sums and float(sums["pair_count"]) > 0:
        return frame.mean_matrix_of(sums["pairs"])
    return np.asarray(frame.mean_matrix_of(sums["fourth"]) - frame.yy * frame.gram)


def length_share(frame: Frame | ScaledFrame) -> float:
    """The share of the rows by which a length is chosen."""
    return sample_share(frame, LENGTH_ROWS)


def with_likeliest_length(
    frame: Frame | ScaledFrame, direction: Array, task: Task, mean: Array | None = None
) -> Steps[tuple[Array, float]]:
    """The spectral direction with its likeliest length, and the variance left over.

    Likelihoods of many lengths, or of lengths at which nearly all signs are sure, would tell of single rows: few are
    asked for, and the likeliest is where the parabola through the best three has its top.
    """
    unit = frame.unit(direction)
    lengths, s2 = _lengths_and_variances(expit(LOGITS), frame, task)
    query = SymmetricLengths(frame.to_data(unit), lengths, s2, mean)
    found = (yield Sampled(query, length_share(frame), task.seed))["log_likelihood"]
    length, variance = _lengths_and_variances(expit(np.array(_top(LOGITS, found))), frame, task)
    return unit * length, float(variance)


def _lengths_and_variances(shares: Array, frame: Frame | ScaledFrame, task: Task) -> tuple[Array, Array]:
    """Lengths that explain these shares of y's square, and the variances that they leave."""
    s2 = np.maximum((1.0 - shares) * frame.yy, frame.floor)
    return np.sqrt(shares * frame.yy), s2 if task.sigma is None else np.full_like(s2, task.sigma**2)


def _top(places: Array, values: Array) -> float:
    """Where the parabola through the highest of values at even places and its neighbours has its top.

    Beyond the places it is looked for as well, though not far.
    """
    best = int(np.argmax(values))
    middle = min(max(best, 1), len(places) - 2)
    before, here, after = values[middle - 1 : middle + 2]
    bend = before - 2.0 * here + after
    shift = 0.5 * (before - after) / bend if bend < 0.0 else FARTHEST * (best - middle)
    return float(places[middle] + min(max(shift, -FARTHEST), FARTHEST) * (places[1] - places[0]))


def random_vectors(frame: Frame | ScaledFrame, task: Task, columns: int) -> Array:
    """N(0, I/d) draws (r, columns), in units of the spread of y, as the paper draws with sigma = 1."""
    draws = task.generator().standard_normal((frame.dimension, columns))
    return np.asarray(draws / np.sqrt(frame.dimension))


def all_rows(query: Query) -> Query:
    """Leaves out nothing."""
    return query


def usual_range(mean: float, deviation: float, holding: float) -> Steps[tuple[float, float]]:
    """A range of y that holds what is usual and leaves out gross outliers, from histograms that look ever closer.

    It is the shortest range that holds the share ``holding`` of the rows, made so much longer that it would reach
    ``USUAL`` deviations to either side, were y normal.
    """
    longer = USUAL / float(ndtri(0.5 + holding / 2))
    low, high = mean - 4 * deviation, mean + 4 * deviation
    for looked in range(MOST_LOOKS):
        edges = np.linspace(low, high, BINS + 1)
        counts = (yield Histogram(edges))["counts"]
        below = np.cumsum(counts[:-1]) / counts.sum()
        ends = np.searchsorted(below, below + holding)
        width = np.where(ends < len(below), ends - np.arange(len(below)), BINS)
        first = int(width.argmin())
        wide = max(int(width[first]), 1)
        middle, half = edges[first] + wide * (high - low) / (2 * BINS), wide * (high - low) / (2 * BINS)
        low, high = middle - longer * half, middle + longer * half
        if looked and wide >= CLEAR_BINS:
            break
    return float(low), float(high)


def usual_rows(frame: Frame | ScaledFrame) -> Within:
    """What keeps gross outliers out of starts, where they are feared."""
    if frame.usual is None:
        return all_rows
    low, high = frame.usual
    return lambda query: Trimmed(query, low, high)


def whole_range(low: float, high: float) -> Steps[tuple[float, float]]:
    """A range that holds every y, from one that holds the usual ones: each end is at most a hundredth too far out.

    One histogram, of stretches that double, finds how far out there is something; the other looks at the outermost two.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    reach = half * 2.0 ** np.arange(OCTAVES)
    edges = np.concatenate([middle - reach[::-1], middle + reach])
    first, last = _occupied_bins((yield Histogram(edges))["counts"])
    for_low = np.linspace(edges[max(first - 1, 0)], edges[min(first, OCTAVES - 1)], BINS // 2)
    for_high = np.linspace(edges[max(last - 1, OCTAVES)], edges[min(last, len(edges) - 1)], BINS // 2)
    edges = np.concatenate([for_low, for_high])
    first, last = _occupied_bins((yield Histogram(edges))["counts"])
    ends = edges[min(max(first - 1, 0), BINS // 2 - 1)], edges[max(min(last, len(edges) - 1), BINS // 2)]
    return float(ends[0]), float(ends[1])


def _occupied_bins(counts: Array) -> tuple[int, int]:
    """The first and the last bin with something in it."""
    some = np.flatnonzero(counts)
    return int(some[0]), int(some[-1])


def subspace(frame: Frame, task: Task, within: Within) -> Steps[Array]:
    """An orthonormal basis (r, q) of where the components' coefficients are sought.

    It holds the least-squares vector, the top k-1 eigenvectors of the residuals' fourth moment, the
    direction in which the residuals' size grows, and the intercept. A sample of the rows is asked first where they are
    many and in memory, and all of them where its eigenvectors do not stand out.
    """
    fit = frame.least_squares
    query = within(on_start_scale(task.family, FourthMoments(frame.to_data(fit))))
    share = sample_share(frame, max(DIRECTION_ROWS, ROWS_PER_COLUMN * frame.dimension))
    if task.in_memory and task.draws and task.exact and share < LARGEST_SHARE:
        found = _directions(frame, task, fit, (yield Sampled(query, share, task.seed)))
        if found.clear:
            return found.basis
    return _directions(frame, task, fit, (yield query)).basis


@dataclass(frozen=True)
class Directions:
    """An orthonormal basis (r, q) of directions, and whether those found by eigenvectors stand out from noise."""

    basis: Array
    clear: bool


def _directions(frame: Frame, task: Task, fit: Array, sums: Sums) -> Directions:
    frame = replace(frame, weight=max(float(sums["weight"]), 1e-300))
    mean_square = float(sums["rr"]) / frame.weight
    if "pairs" in sums and float(sums["pair_count"]) > 0:
        spread = frame.mean_matrix_of(sums["pairs"])
    else:
        spread = frame.mean_matrix_of(sums["fourth"]) - mean_square * frame.start_gram
    columns = [fit[:, None]]
    r = frame.dimension
    features = r - 1 if frame.intercept else r
    clear = True
    if features:
        values, eigenvectors = np.linalg.eigh(spread[:features, :features])
        vectors = np.zeros((r, min(task.n_components - 1, features)))
        wanted = vectors.shape[1]
        vectors[:features] = orient_columns(eigenvectors[:, ::-1][:, :wanted])
        clear = wanted < features and values[-wanted] >= CLEAR * max(values[-wanted - 1], -values[0])
        columns.append(vectors)
    if frame.intercept:
        growth = np.zeros((r, 1))
        growth[:features, 0] = frame.mean_of(sums["fourth"][:, -1])[:features]
        columns += [growth, np.eye(r)[:, -1:]]
    return Directions(_independent(np.hstack(columns)), bool(clear))


def rank_candidates(likelihoods: Array) -> Integers:
    """Places from likeliest to least; a difference of rounding decides nothing, the earlier one wins."""
    known = np.isfinite(likelihoods)
    values = np.where(known, likelihoods, 0.0)
    grain = 1e-9 * max(float(np.abs(values).max(initial=0.0)), 1e-300)
    behind = np.round((values.max(initial=-np.inf, where=known) - values) / grain)
    return np.argsort(np.where(known, behind, np.inf), kind="stable")


def sample_share(frame: Frame | ScaledFrame, rows: float) -> float:
    """The share of the data to sample: so many rows, and never just a few groups."""
    return min(1.0, max(rows / max(frame.rows, 1.0), LEAST_UNITS / max(frame.members, 1.0)))


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
