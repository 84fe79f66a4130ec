"""One fit of the paper's problem, in units of one plain pass over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, wall_seconds
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import default_threads
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.metrics import coefficient_error

FITS = 5
PASSES = 20
MOST = 25.0


def run(watch: Watch, n_samples: int = 100_000, n_features: int = 128) -> Result:
    """Time a symmetric fit, start included, and ``X @ v`` with the same threads.

    Parameters
    ----------
    watch : told what is being measured.
    n_samples, n_features : the size; the paper's, unless told otherwise.

    Returns
    -------
    Result
        The median of 5 fits over the fastest of 20 passes: 10 of the passes are timed before the fits and
        10 after, so that a machine busy with something else for a while does not flatter the ratio.
    """
    watch("drawing rows")
    data = make_mixed_regression(n_samples, n_features, snr=10, symmetric=True, random_state=0)
    vector = np.ones(n_features)
    threads = default_threads()
    estimator = MixedLinearRegression(2, symmetric=True, random_state=0, n_jobs=threads)

    def plain() -> Any:
        with threadpool_limits(threads, user_api="blas"):
            return wall_seconds(lambda: data.X @ vector, PASSES // 2)

    watch("a plain pass")
    passes = plain()
    fits = []
    for number in range(FITS):
        watch(f"fit {number + 1} of {FITS}")
        fits += wall_seconds(lambda: estimator.fit(data.X, data.y), 1)
    watch("a plain pass")
    passes += plain()
    one_pass, one_fit = min(passes), float(np.median(fits))
    limit = Limit("one fit of the paper's problem, in plain passes", one_fit / one_pass, most=MOST)
    return Result(
        suite="fit",
        title=f"One fit, n = {n_samples:,}, d = {n_features}, symmetric, {threads} threads",
        columns=("", "milliseconds", "plain passes"),
        rows=(
            (f"plain pass X @ v, fastest of {PASSES}", f"{1e3 * one_pass:.1f}", "1.0"),
            (f"fit, start included, median of {FITS}", f"{1e3 * one_fit:.1f}", f"{one_fit / one_pass:.1f}"),
        ),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "threads": threads,
            "pass_seconds": passes,
            "fit_seconds": fits,
            "ratio": one_fit / one_pass,
            "iterations": estimator.n_iter_,
            "relative_error": coefficient_error(estimator.coef_[0], data.coef[0]),
            "limits": [limit.plain()],
        },
    )
