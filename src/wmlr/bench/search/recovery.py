"""Parts (b) and (c): how many rows it takes to find the true components of drawn mixtures.

Features are standard normal, and so are the coefficients; ``snr`` instead makes every component's signal that many
times the noise. A fit has found the components if each is within 2 sigma of its own, in Euclidean length: then not
knowing the labels costs the predictions less than twice the noise. Least squares with known labels, judged alike,
is the line that no method can be left of. Sizes are tried from the largest down, by each method until it finds the
components of at most half of the draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment

from wmlr.bench import Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench.search.contestants import Data, ours
from wmlr.engines.arrays import default_threads
from wmlr.numerics.arrays import Array, Integers

PHASES = "phases"
MINIMUM = "minimum"
KNOWN_LABELS = "known labels"
CONTESTANTS = ("default", "quick", "thorough", "Mix-IRLS", "EM, 10 random", "AltMin, 10 random")
ROWS_OF_THE_SMALLEST = (1.1, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.4)
CLOSE = 2.0
OFTEN, LOST = 0.9, 0.5  # of the draws: enough, and so few that fewer rows need not be tried
UNBALANCED = {3: (0.7, 0.2, 0.1), 4: (0.4, 0.3, 0.2, 0.1)}


@dataclass(frozen=True)
class Setting:
    """A law that rows are drawn from."""

    d: int
    weights: tuple[float, ...]
    sigma: float = 0.01
    snr: float | None = None
    outliers: float = 0.0

    @property
    def k(self) -> int:
        return len(self.weights)

    @property
    def noise(self) -> float:
        return self.sigma if self.snr is None else 1.0 / self.snr

    @property
    def name(self) -> str:
        level = f"sigma {self.sigma:g}" if self.snr is None else f"SNR {self.snr:g}"
        astray = f" {100 * self.outliers:.0f}% outliers" if self.outliers else ""
        equal = len(set(self.weights)) == 1
        shares = "equal" if equal else " ".join(f"{weight:g}" for weight in self.weights)
        return f"d={self.d} k={self.k} {shares} {level}{astray}"

    def draw(self, n: int, seed: int) -> tuple[Array, Array, Array, Integers]:
        """Features, responses, true coefficients (k, d), and labels, -1 for outliers."""
        generator = np.random.default_rng([seed, n, self.d, self.k])
        labels = generator.choice(self.k, n, p=self.weights)
        X, coef = generator.standard_normal((n, self.d)), generator.standard_normal((self.k, self.d))
        if self.snr is not None:
            coef /= np.linalg.norm(coef, axis=1, keepdims=True)
        y = np.einsum("ij,ij->i", X, coef[labels]) + self.noise * generator.standard_normal(n)
        astray = generator.random(n) < self.outliers
        y[astray] = np.std(y) * generator.standard_normal(int(astray.sum()))
        return X, y, coef, np.where(astray, -1, labels)


@dataclass(frozen=True)
class RecoveryPoint:
    """A setting and a number of rows."""

    setting: Setting
    n: int

    @property
    def key(self) -> str:
        return f"{self.setting.name} n={self.n}"


def settings() -> Iterator[Setting]:
    """Unbalanced and balanced mixtures, from little noise to much, without outliers and with."""
    for d in (100, 300):
        for weights in UNBALANCED.values():
            yield Setting(d, weights)
        for k in (3, 4, 5, 7, 10) if d == 100 else (3, 5):
            yield Setting(d, (1.0 / k,) * k)
    for snr in (20.0, 5.0, 2.0):
        yield Setting(100, UNBALANCED[3], snr=snr)
        yield Setting(100, (1.0 / 3,) * 3, snr=snr)
    for share in (0.05, 0.1, 0.2):
        yield Setting(100, UNBALANCED[3], outliers=share)


def phase_points(chosen: Iterable[Setting], ratios: Sequence[float] = ROWS_OF_THE_SMALLEST) -> list[RecoveryPoint]:
    """For every setting, numbers of rows that give the smallest component so many per column, the largest first."""
    return [
        RecoveryPoint(setting, int(np.ceil(ratio * setting.d / min(setting.weights))))
        for setting in chosen
        for ratio in sorted(ratios, reverse=True)
    ]


def sum_of_minimum() -> list[RecoveryPoint]:
    """The setting of Ding, Chen and others, "Sum-of-minimum optimization" (2024)."""
    return [RecoveryPoint(Setting(8, (0.125,) * 8), 1000)]


def largest_error(estimated: Array, true: Array) -> float:
    """The largest distance of a true component to the estimated one that is its own; infinite if one has none."""
    if len(estimated) < len(true):
        return np.inf
    distances = np.linalg.norm(true[:, None] - estimated[None], axis=2)
    return float(distances[linear_sum_assignment(distances**2)].max())


def measure(
    part: str,
    points: Sequence[RecoveryPoint],
    seeds: int,
    ledger: ResultLedger,
    watch: Watch,
    chosen: Sequence[str] = CONTESTANTS,
) -> None:
    """Try every point with every seed, as far as the ledger does not have them; not who was lost at one before."""
    contestants = [who for who in CONTESTANTS if who in ours() and who in chosen]
    lost: set[tuple[str, str]] = set()
    for point in points:
        name = point.setting.name
        still_in = [who for who in contestants if (name, who) not in lost]
        missing = [
            (who, seed)
            for who in [KNOWN_LABELS, *still_in]
            for seed in range(seeds)
            if not ledger.has(part, point.key, who, seed)
        ]
        if missing:
            watch(point.key)
            attempts = (delayed(attempt)(part, point, *one) for one in missing)
            for line in Parallel(n_jobs=default_threads(), return_as="generator")(attempts):
                ledger.add([line])
        lost |= {(name, who) for who in still_in if _share_found(part, point, who, seeds, ledger) <= LOST}


def _share_found(part: str, point: RecoveryPoint, who: str, seeds: int, ledger: ResultLedger) -> float:
    tried = [line for line in ledger.of(part) if line["problem"] == point.key and line["who"] == who]
    return float(np.mean([line["found"] for line in tried if line["seed"] < seeds]))


def attempt(part: str, point: RecoveryPoint, who: str, seed: int) -> Line:
    """Whether one contestant finds the components of one draw."""
    setting = point.setting
    X, y, coef, labels = setting.draw(point.n, seed)
    line: Line = {"part": part, "problem": point.key, "who": who, "seed": seed, "setting": setting.name, "n": point.n}
    line |= {"d": setting.d}
    if who == KNOWN_LABELS:
        found = np.stack([_least_squares(X[labels == j], y[labels == j]) for j in range(setting.k)])
        return line | {"found": bool(np.linalg.norm(found - coef, axis=1).max() <= CLOSE * setting.noise)}
    data = Data(X, y, setting.k, intercept=False, outliers=setting.outliers)
    ended = ours()[who](data, seed)
    error = np.inf if ended.mixture is None else largest_error(ended.mixture.coef, coef)
    return line | {"found": error <= CLOSE * setting.noise, "seconds": ended.seconds, "passes": ended.passes}


def _least_squares(X: Array, y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])


def curves(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """For every setting and contestant: rows per column, share of successes, and the rows that 90% take."""
    hits: dict[tuple[str, str], dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    columns = {}
    for line in lines:
        hits[line["setting"], line["who"]][line["n"]].append(bool(line["found"]))
        columns[line["setting"]] = line["d"]
    made = []
    for (setting, who), by in hits.items():
        sizes = sorted(by)
        shares = [float(np.mean(by[n])) for n in sizes]
        ratios = [n / columns[setting] for n in sizes]
        made.append(
            {"setting": setting, "who": who, "ratios": ratios, "shares": shares, "enough": enough(ratios, shares)}
        )
    return made


def enough(ratios: Sequence[float], shares: Sequence[float]) -> float | None:
    """The least rows per column from which on at least 90% succeed."""
    last = next((place for place in range(len(shares) - 1, -1, -1) if shares[place] < OFTEN), -1)
    return None if last == len(shares) - 1 else ratios[last + 1]
