"""Whether one component more is needed: the likelihood-ratio test by a parametric bootstrap (McLachlan, 1987).

A component that is not there lies at the edge of the model, where twice the log of the likelihood ratio follows no
chi-square law. Its law is found by drawing from the fit of k components and fitting k and k + 1 to each draw. Labels
of components have no part in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from wmlr.core.round import EmptyComponentError
from wmlr.families import of_components
from wmlr.inference.bootstrap import entropy_of, with_progress
from wmlr.io.files import read_bytes, write_text
from wmlr.io.users_line import without_warnings
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Beside, Integers

FORMAT = "wmlr-component-test-1"


@dataclass(frozen=True, eq=False)
class ComponentTest:
    """A test of k components against k + 1.

    Attributes
    ----------
    n_components : k.
    statistic : twice the difference of the log-likelihoods.
    draws : (n_boot,) the same of data drawn from the fit of k components.
    """

    n_components: int
    statistic: float
    draws: Array

    @property
    def p_value(self) -> float:
        """The share of draws with as large a statistic, the data counted among them."""
        return float((1 + np.count_nonzero(self.draws >= self.statistic)) / (1 + len(self.draws)))

    def quantile(self, level: float) -> float:
        """The statistic that a share ``level`` of the draws do not exceed."""
        return float(np.quantile(self.draws, level))

    def __str__(self) -> str:
        k = self.n_components
        return (
            f"{k} component{'s' if k > 1 else ''} against {k + 1}: 2 log LR = {self.statistic:.4f}, "
            f"p = {self.p_value:.4g} ({len(self.draws)} draws, 95% of them below {self.quantile(0.95):.4f})"
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ComponentRefits:
    """The rows that are drawn again, and the model that is fitted to them with k and k + 1 components."""

    model: Any
    mixture: Mixture
    X: Any
    y: Array
    groups: Integers | None
    weight: Array | None
    beside: Beside = field(default_factory=dict)

    def statistic(self, y: Array) -> float:
        """Twice the log of the likelihood ratio at a response; never negative, since k + 1 begin at k as well."""
        given = {"sample_weight": self.weight, "groups": self.groups}
        given |= {role: values for role, values in self.beside.items() if role != "gate"}
        with without_warnings():
            smaller = clone(self.model).fit(self.X, y, **given)
            more = self.mixture.n_components + 1
            larger = clone(self.model).set_params(n_components=more, family=of_components(self.model.family, more))
            larger.start_from_smaller(smaller)
            try:
                larger.fit(self.X, y, **given)
            except EmptyComponentError:
                return 0.0
        return float(max(0.0, 2.0 * (larger.log_likelihood_ - smaller.log_likelihood_)))

    def draw(self, seed: np.random.SeedSequence) -> float:
        """The statistic of one draw from the fit."""
        y, _ = self.mixture.sample(self.X, np.random.default_rng(seed), self.groups, self.beside)
        return self.statistic(y)


def compare_components(
    refits: ComponentRefits, n_boot: int, random_state: Any, n_jobs: int | None, checkpoint: str | Path | None
) -> ComponentTest:
    """The test; the seed alone decides the draws, whatever ``n_jobs``, and a checkpoint goes on where it stopped."""
    if n_boot < 1:
        raise ValueError(f"n_boot must be at least 1 (got {n_boot!r})")
    statistic = refits.statistic(refits.y)
    path = None if checkpoint is None else Path(checkpoint)
    k = refits.mixture.n_components
    entropy, done = _read(path, {"format": FORMAT, "n_components": k, "statistic": statistic}, random_state)
    draws = done[:n_boot]
    seeds = np.random.SeedSequence(entropy).spawn(n_boot)[len(draws) :]
    work: Iterator[float] = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(refits.draw)(seed) for seed in seeds)
    for value in with_progress(work, len(seeds)):
        draws.append(value)
        if path is not None:
            found = {"format": FORMAT, "n_components": k, "statistic": statistic, "entropy": entropy, "draws": draws}
            write_text(path, json.dumps(found))
    return ComponentTest(k, statistic, np.array(draws))


def _read(path: Path | None, expected: dict[str, Any], random_state: Any) -> tuple[int, list[float]]:
    """The seed and the draws so far, from a checkpoint of the same test."""
    entropy = entropy_of(random_state)
    fresh = int(np.random.SeedSequence().generate_state(2, np.uint64)[0]) if entropy is None else entropy
    if path is None or not path.exists():
        return fresh, []
    try:
        found = json.loads(read_bytes(path))
        same = all(found[name] == expected[name] for name in ("format", "n_components"))
        same = same and bool(np.isclose(found["statistic"], expected["statistic"], rtol=1e-6, atol=1e-6))
        same = same and entropy in (None, found["entropy"])
        draws = [float(value) for value in found["draws"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no checkpoint of such a test ({error}): name another file, or none") from None
    if not same:
        raise ValueError(f"{path} is the checkpoint of another test, or of another seed: name another file, or none")
    return int(found["entropy"]), draws
