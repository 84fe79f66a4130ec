"""How far off coefficients are among gross outliers, beside Student's noise, Mix-IRLS and R's flexmix.

Every number is the median over draws of the relative error of coefficients and intercepts, over that of the fit to the
rows that are no outliers, begun at the truth. Mix-IRLS is told the share of outliers; flexmix has ten random starts,
and a second fit with a component more and a sigma each, of which the components nearest to the truth are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench._measure import Limit
from wmlr.bench.search import peers
from wmlr.bench.search.contestants import Data, Ended, fit_estimator, mix_irls
from wmlr.metrics import coefficient_error
from wmlr.model.mixture import Mixture

SEEDS = 3
SHARES = (0.05, 0.1, 0.2, 0.3)
ROWS, COLUMNS, COMPONENTS = 1500, 5, 3
SIZE = 3.0  # of a component's slopes, in deviations of the noise
OURS: dict[str, dict[str, Any]] = {"outliers=True": {"outliers": True}, "robust=True": {"robust": True}}
PEER = "flexmix, 10 random"
MORE = "flexmix, k + 1"
WORST = 2.0  # times the error without outliers


@dataclass(frozen=True)
class OutlierCase:
    """Three planes with one sigma or a sigma each, and outliers of a share of the rows, on either side or above."""

    shared_sigma: bool
    above: bool
    share: float

    @property
    def name(self) -> str:
        noise = "one sigma" if self.shared_sigma else "a sigma each"
        return f"{noise}, {'above' if self.above else 'either side'}, {100 * self.share:g}%"

    def draw(self, seed: int) -> tuple[Data, Mixture, NDArray[np.bool_]]:
        """Rows, the mixture they are from, and which of them are outliers."""
        generator = np.random.default_rng([seed, int(self.shared_sigma), int(self.above), round(1000 * self.share)])
        directions = generator.standard_normal((COMPONENTS, COLUMNS))
        coef = SIZE * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        sigma = np.ones(COMPONENTS) if self.shared_sigma else np.array([0.5, 1.0, 1.5])
        truth = Mixture(coef, generator.standard_normal(COMPONENTS), np.array([0.5, 0.3, 0.2]), sigma)
        X = generator.standard_normal((ROWS, COLUMNS))
        y, _ = truth.sample(X, generator)
        astray = generator.random(ROWS) < self.share
        spread = float(y.std())
        gross = generator.uniform(3, 20, ROWS) if self.above else 10 * generator.standard_normal(ROWS)
        y = np.where(astray, spread * gross, y)
        return Data(X, y, COMPONENTS, self.shared_sigma, outliers=self.share), truth, astray


def cases() -> list[OutlierCase]:
    """Every combination."""
    return [OutlierCase(*one) for one in product((True, False), (False, True), SHARES)]


def error(ended: Ended, truth: Mixture) -> float:
    """The relative error of coefficients and intercepts; of more components, of those that have the least."""
    found = ended.mixture
    if found is None or found.n_components < truth.n_components:
        return float("inf")
    lines, true = found.lines, truth.lines
    chosen = combinations(range(len(lines)), len(true))
    return min(coefficient_error(lines[list(some)], true) for some in chosen)


def measure(case: OutlierCase, seeds: int, ledger: ResultLedger, watch: Watch) -> None:
    """Fit a case by every contestant, but for what the ledger has."""

    def is_missing(who: str, seed: int) -> bool:
        return not ledger.has("outliers", case.name, who, seed)

    def note(who: str, seed: int, ended: Ended, truth: Mixture) -> None:
        line: Line = {"part": "outliers", "problem": case.name, "who": who, "seed": seed}
        ledger.add([line | {"error": error(ended, truth), "seconds": ended.seconds}])

    for seed in range(seeds):
        watch(f"{case.name}: draw {seed + 1} of {seeds}")
        data, truth, astray = case.draw(seed)
        if is_missing("clean", seed):
            clean = replace(data, X=data.X[~astray], y=data.y[~astray])
            note("clean", seed, fit_estimator(clean, seed, start=truth.lines), truth)
        for who, settings in OURS.items():
            if is_missing(who, seed):
                note(who, seed, fit_estimator(data, seed, **settings), truth)
        if is_missing("Mix-IRLS", seed):
            note("Mix-IRLS", seed, fit_estimator(data, seed, method=mix_irls(data)), truth)
        more = replace(data, k=data.k + 1, shared_sigma=False)
        for who, rows in ((PEER, data), (MORE, more)) if PEER in peers.present() else ():
            if is_missing(who, seed):
                note(who, seed, peers.fits(PEER, rows, [seed])[seed], truth)


def run(watch: Watch, seeds: int = SEEDS, out: Path | None = None) -> Result:
    """Measure what is not yet in the folder of results; the result is of all that is there.

    Parameters
    ----------
    seeds : draws of each case.
    out : the folder of results, where every fit is a line of ``outliers.jsonl`` as it comes.
    """
    ledger = ResultLedger(None if out is None else out / "outliers.jsonl")
    for case in cases():
        measure(case, seeds, ledger, watch)
    who = [one for one in (*OURS, "Mix-IRLS", PEER, MORE) if any(line["who"] == one for line in ledger.lines)]
    rows, numbers, worst = [], [], 0.0
    for case in cases():
        medians = {one: _median(ledger, case, one, seeds) for one in ("clean", *who)}
        ratios = {one: medians[one] / medians["clean"] for one in who}
        rows.append((case.name, f"{medians['clean']:.3f}", *(_format_ratio(ratios[one]) for one in who)))
        known = {one: ratio if np.isfinite(ratio) else None for one, ratio in ratios.items()}
        numbers.append({"case": case.name, "clean": medians["clean"], "ratios": known})
        worst = max(worst, ratios["outliers=True"])
    title = f"Coefficients' error over that of the clean rows: {COMPONENTS} planes in {COLUMNS} columns, {ROWS} rows"
    columns = ("noise, outliers", "clean rows", *who)
    bound = Limit("error with outliers=True over that without outliers, up to 30% of them", worst, WORST)
    plain = {"cases": numbers, "seeds": seeds, "limits": [bound.plain()]}
    return Result("outliers", f"{title}, medians of {seeds} draws", columns, tuple(rows), plain)


def _median(ledger: ResultLedger, case: OutlierCase, who: str, seeds: int) -> float:
    mine = [line for line in ledger.lines if line["problem"] == case.name and line["who"] == who]
    found = [line["error"] for line in mine if line["seed"] < seeds]
    return float(np.median(found)) if found else float("nan")


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
