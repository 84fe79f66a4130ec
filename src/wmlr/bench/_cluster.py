"""What the suites of clusters share: rows drawn part by part, the same fits here and there, and their table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from wmlr.bench import Watch
from wmlr.bench._measure import Limit, time_in_turn, wall_seconds
from wmlr.core.query import Query
from wmlr.core.round import Engine, Rows
from wmlr.engines import ArrayRows
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.numerics.arrays import Array, Sums

WORKERS = 2
PARTS = 16
TIMES = 3
ROUNDS = 40
SNR = 10.0

Loaded = TypeVar("Loaded", bound=Engine)


@dataclass(frozen=True)
class EmptyQuery(Query):
    """A query that costs nothing: what is left is the round itself."""

    state: Array

    def answer(self, rows: Rows) -> Sums:
        return {"sum": self.state}


def draw_part(number: int, n: int, d: int) -> tuple[Array, Array]:
    """Rows of the symmetric problem; a worker draws them where it is."""
    generator = np.random.default_rng([number, n, d])
    beta = np.full(d, SNR / np.sqrt(d))
    X = generator.standard_normal((n, d))
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0) * (X @ beta) + generator.standard_normal(n)
    return X, y


def rows_in_process(n: int, d: int, parts: int, threads: int) -> ArrayRows:
    """The rows of all parts, as arrays of this process."""
    X, y = np.empty((n // parts * parts, d)), np.empty(n // parts * parts)
    for number in range(parts):
        place = slice(number * (n // parts), (number + 1) * (n // parts))
        X[place], y[place] = draw_part(number, n // parts, d)
    return ArrayRows(X, y, n_jobs=threads)


def fits() -> dict[str, Callable[[Engine], MixedLinearRegression]]:
    """What is fitted: the default for the symmetric model, and a few steps of EM for three components."""
    return {
        "default fit, symmetric": lambda rows: MixedLinearRegression(symmetric=True, random_state=0).fit_on(rows),
        "3 components, 5 steps": lambda rows: MixedLinearRegression(3, max_iter=5, random_state=0).fit_on(rows),
    }


def compare_fits(
    watch: Watch, name: str, fit: Callable[[Engine], MixedLinearRegression], here: Engine, there: Engine, times: int
) -> dict[str, Any]:
    """Seconds of a fit by threads here and by workers there, in turn, and how far apart the coefficients are."""
    watch(name)
    fitted = [fit(here), fit(there)]
    apart = float(np.abs(fitted[0].coef_ - fitted[1].coef_).max() / np.abs(fitted[0].coef_).max())
    seconds = time_in_turn({"threads": lambda: fit(here), "workers": lambda: fit(there)}, times)
    threads, workers = min(seconds["threads"]), min(seconds["workers"])
    return {"name": name, "threads": threads, "workers": workers, "ratio": workers / threads, "apart": apart}


def measure(
    watch: Watch, here: Engine, load: Callable[[], Loaded], n_features: int, times: int, rounds: int
) -> tuple[Loaded, dict[str, Any]]:
    """The engine that ``load`` makes, and the seconds of loading, of empty rounds, and of fits beside those here."""
    watch("loading")
    engines: list[Loaded] = []
    loading = wall_seconds(lambda: engines.append(load()), 1)[0]
    there, query = engines[0], EmptyQuery(np.zeros(n_features))
    watch("rounds")
    seconds = wall_seconds(lambda: there.total(query), rounds)
    compared = [compare_fits(watch, name, fit, here, there, times) for name, fit in fits().items()]
    return there, {"loading_seconds": loading, "round_seconds": seconds, "fits": compared}


def table_lines(found: dict[str, Any], limits: Sequence[Limit]) -> list[tuple[str, ...]]:
    """The rows of the table: fits, an empty round, loading, and the difference between here and there."""
    compared = found["fits"]
    judged = [(limit.bound, limit.verdict) for limit in limits] + [("", "")] * len(compared)
    lines = [
        (one["name"], f"{1e3 * one['workers']:.0f}", f"{1e3 * one['threads']:.0f}", f"{one['ratio']:.2f}", *verdict)
        for one, verdict in zip(compared, judged)
    ]
    return [
        *lines,
        ("a round that asks nothing, median", f"{1e3 * float(np.median(found['round_seconds'])):.1f}", "", "", "", ""),
        ("loading, once", f"{1e3 * found['loading_seconds']:.0f}", "", "", "", ""),
        (
            "largest relative difference of coefficients",
            f"{max(one['apart'] for one in compared):.0e}",
            *("", "", "", ""),
        ),
    ]
