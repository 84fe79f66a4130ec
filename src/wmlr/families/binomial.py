"""Successes among trials: the predictor is the logit (or another link) of their probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betainc

from wmlr.families.base import Derivatives, Family, Terms
from wmlr.families.links import LARGEST_LOGIT, LinkedFamily
from wmlr.families.poisson import has_large_counts, log_factorials
from wmlr.numerics.arrays import Array, Beside
from wmlr.numerics.compiled import row_terms
from wmlr.numerics.stirling import LOG_ROOT_2PI, log_gamma_rest, log_less_gap

NEAR = 1e-4  # of a logit: nearer to nil, tanh(x/2)/(2x) is a quarter to rounding
LONGEST = 4.0  # by so much at most a row may ask its predictor to move, where its weight alone would let it ask more


@dataclass(frozen=True)
class Binomial(LinkedFamily):
    """The binomial law, of one trial per row unless rows have their ``trials`` beside them.

    y counts successes; the mean is their probability, whatever the trials.

    Attributes
    ----------
    link : "logit", "probit" or "cloglog".
    """

    link: str = "logit"

    name: ClassVar[str] = "binomial"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    has_scale: ClassVar[bool] = False
    discrete: ClassVar[bool] = True
    takes_trials: ClassVar[bool] = True

    def of_rows(self, beside: Beside) -> Family:
        return BinomialOfTrials(self.link, beside["trials"]) if "trials" in beside else self

    def _trials(self, like: Array) -> Array:
        """The trials of the rows along the first axis of an array."""
        return np.ones((1,) * like.ndim)

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """With a logit, weights are those of the parabola that lies below the log-likelihood and touches it.

        Its maximum is no lower (Jaakkola and Jordan, 2000), where Newton's weights may lead beyond all bounds; with
        other links, weights that keep a row from asking for a longer step than ``LONGEST``. Predictors so far out that
        the probability is 0 or 1 to rounding are called back to where it is not, unless all trials came out so.
        """
        trials = self._trials(y)
        if self.link == "logit":
            terms = _logit_terms(y, np.broadcast_to(trials, y.shape), predictor)
            large = has_large_counts(trials)
            return terms._replace(log_density=self._log_probability(y, trials, predictor)) if large else terms
        eta = np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT)
        p, slope, _ = self._mean.at(predictor)
        rest = self._mean.complement(predictor)
        weight = trials * slope * slope / (p * rest)
        score = (y - trials * p) * slope / (p * rest)
        weight = np.maximum(np.maximum(weight, np.abs(score) / LONGEST), 1e-12 * trials)
        back = np.where(np.abs(y - trials * p) > NEAR * trials, eta - predictor, 0.0)
        return Terms(self._log_probability(y, trials, predictor), score / weight + back, weight)

    def _log_probability(self, y: Array, trials: Array, predictor: Array) -> Array:
        p, rest = self._mean.mean(predictor), self._mean.complement(predictor)
        if has_large_counts(trials):
            return _large_log_probability(y, trials, p, rest)
        return np.asarray(_log_ways(y, trials) + y * np.log(p) + (trials - y) * np.log(rest))

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        trials = self._trials(y)
        p, slope, bend = self._mean.at(predictor)
        spread = p * self._mean.complement(predictor)
        gap = y - trials * p
        curvature = trials * slope * slope / spread
        if self.link != "logit":
            curvature = curvature - gap * (bend * spread - slope * slope * (1.0 - 2.0 * p)) / spread**2
        nil = np.zeros_like(curvature)
        return Derivatives(np.asarray(gap * slope / spread), nil, curvature, nil, nil)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        trials = self._trials(y)
        known = (y >= 0) & (y <= trials) & (y == np.floor(y))
        inside = np.where(known, y, 0.0)
        return np.where(known, self._log_probability(inside, trials, predictor), -np.inf)

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        trials, p = self._trials(y), self.mean(predictor)
        at = np.clip(np.floor(y), 0.0, np.maximum(trials - 1.0, 0.0))
        inside = betainc(np.maximum(trials - at, 1e-300), at + 1.0, 1.0 - p)
        return np.where(y < 0, 0.0, np.where(y >= trials, 1.0, inside))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        from scipy.stats import binom

        return np.asarray(binom.ppf(q, self._trials(predictor), self.mean(predictor)))

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        trials = np.broadcast_to(self._trials(predictor), predictor.shape).astype(np.int64)
        return generator.binomial(trials, self.mean(predictor)).astype(np.float64)

    def start_response(self, y: Array) -> Array:
        trials = self._trials(y)
        if np.any((y < 0) | (y > trials) | (y != np.floor(y))):  # an agent's error may be read by others: no value
            raise ValueError(
                "family='binomial' is for successes among trials, and y has other numbers: give 0 and 1, or two "
                "columns, successes and failures (trials= where y has the successes alone)"
            )
        return self._mean.predictor(np.asarray((y + 0.5) / (trials + 1.0)))


@dataclass(frozen=True, eq=False)
class BinomialOfTrials(Binomial):
    """The binomial law of some rows, with the trials of each: it stays with them."""

    trials: Array = None  # type: ignore[assignment]

    def _trials(self, like: Array) -> Array:
        return self.trials.reshape(-1, *[1] * (like.ndim - 1))


def _logit_terms(y: Array, trials: Array, predictor: Array) -> Terms:
    """With the logit as link, where exp(-|eta|) says all."""
    ways = _log_ways(y, trials)
    found = row_terms("logit_terms", predictor, (y, trials, ways), (LARGEST_LOGIT, NEAR), 3)
    if found is not None:
        return Terms(*found)
    eta = np.clip(predictor, -LARGEST_LOGIT, LARGEST_LOGIT)
    size = np.abs(eta)
    decay = np.exp(-size)
    rest = 1.0 / (1.0 + decay)
    p = np.where(eta > 0, rest, decay * rest)
    weight = trials * np.where(size > NEAR, (1.0 - decay) * rest / (2.0 * np.maximum(size, NEAR)), 0.25)
    density = ways + y * eta - trials * (np.maximum(eta, 0.0) + np.log1p(decay))
    gap = y - trials * p
    back = np.where(np.abs(gap) > NEAR * trials, eta - predictor, 0.0)
    return Terms(np.asarray(density), gap / weight + back, weight)


def _large_log_probability(y: Array, trials: Array, p: Array, rest: Array) -> Array:
    """With what is large and cancels taken out beforehand (Loader, 2000)."""
    some, others = np.maximum(y, 1.0), np.maximum(trials - y, 1.0)
    gap = np.where(p < 0.5, trials * p - y, (trials - y) - trials * rest)
    of_some = some * log_less_gap(np.log(trials * p) - np.log(some), gap / some)
    of_others = others * log_less_gap(np.log(trials * rest) - np.log(others), -gap / others)
    constant = 0.5 * np.log(trials / (some * others)) - LOG_ROOT_2PI
    rests = log_gamma_rest(trials) - log_gamma_rest(some) - log_gamma_rest(others)
    ends = np.where(y > 0, trials * np.log(p), trials * np.log(rest))
    return np.asarray(np.where((y > 0) & (y < trials), of_some + of_others + constant + rests, ends))


def _log_ways(y: Array, trials: Array) -> Array:
    """The logarithm of the ways in which so many of the trials can be successes."""
    if np.all(trials == 1.0):
        return np.zeros_like(y)
    return log_factorials(trials) - log_factorials(y) - log_factorials(trials - y)
