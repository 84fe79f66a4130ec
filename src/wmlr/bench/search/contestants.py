"""Who is compared: a fit of ours in several settings, the baselines, and R's packages, behind one function each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wmlr.core.query import Query
from wmlr.engines.arrays import ArrayRows
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.methods import MixIRLS
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums


@dataclass(frozen=True)
class Data:
    """Rows to fit, and what is said about them beforehand."""

    X: Array
    y: Array
    k: int
    shared_sigma: bool = True
    intercept: bool = True
    outliers: float = 0.0


@dataclass(frozen=True)
class Ended:
    """Where a contestant ended: the mixture, or why there is none; seconds of the processor, passes over the rows."""

    mixture: Mixture | None
    seconds: float
    passes: float
    failure: str = ""


Contestant = Callable[[Data, int], Ended]


class CountedRows(ArrayRows):
    """Rows in memory that count how often they were asked."""

    passes = 0

    def total(self, query: Query) -> Sums:
        self.passes += 1
        return super().total(query)


def fit_estimator(data: Data, seed: int, **settings: Any) -> Ended:
    """A fit by the estimator, on one thread."""
    rows = CountedRows(data.X, data.y, n_jobs=1)
    model = MixedLinearRegression(
        data.k, shared_sigma=data.shared_sigma, fit_intercept=data.intercept, random_state=seed, n_jobs=1, **settings
    )
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit_on(rows)
    except (ValueError, ArithmeticError) as error:
        return Ended(None, time.process_time() - begun, rows.passes, str(error))
    return Ended(model.mixture_, time.process_time() - begun, rows.passes)


def has_search() -> bool:
    """Whether the estimator has settings for how far it searches."""
    return "search" in MixedLinearRegression().get_params()


def ours() -> dict[str, Contestant]:
    """The fits of this library, by what they are called in the tables."""

    def searching(effort: str) -> Contestant:
        return lambda data, seed: fit_estimator(data, seed, search=effort)

    def random_em(starts: int) -> Contestant:
        return lambda data, seed: fit_estimator(data, seed, method="em", start="random", n_init=starts)

    efforts = {effort: searching(effort) for effort in ("quick", "thorough")} if has_search() else {}
    return {"default": lambda data, seed: fit_estimator(data, seed)} | efforts | {
        "EM, 1 random": random_em(1),
        "EM, 10 random": random_em(10),
        "EM, 60 random": random_em(60),
        "Mix-IRLS": lambda data, seed: fit_estimator(data, seed, method=mix_irls(data)),
        "AltMin, 10 random": lambda data, seed: fit_estimator(data, seed, method="altmin", n_init=10),
    }  # fmt: skip


def mix_irls(data: Data) -> MixIRLS:
    """Its authors' settings: others for real data, which have intercepts here, than for drawn data."""
    if data.intercept:
        return MixIRLS(outliers=data.outliers, oversampling=2.0, tuning=1.0)
    return MixIRLS(outliers=data.outliers)
