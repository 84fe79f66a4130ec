"""The best maximum known of every real problem: a table in the repository that can only rise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.bench.search.value import Value
from wmlr.io.files import write_text
from wmlr.model.mixture import Mixture

TABLE = Path(__file__).parent / "data" / "best.json"
HIGHER = 1e-3


@dataclass(frozen=True)
class KnownProblem:
    """A data set, a number of components, and one sigma or a sigma each."""

    name: str
    k: int
    shared_sigma: bool

    @property
    def key(self) -> str:
        return f"{self.name} k={self.k} {'one sigma' if self.shared_sigma else 'a sigma each'}"


@dataclass(frozen=True)
class Best:
    """The value that ranks (:mod:`wmlr.bench.search.value`), the plain one, the parameters, and who found them."""

    ranked: float
    log_likelihood: float
    at_floor: bool
    by: str
    mixture: Mixture


class KnownValues:
    """Best known values by problem, read from a file and written back when they rise."""

    def __init__(self, path: Path = TABLE) -> None:
        self.path = path
        lines = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self._best = {key: _read(line) for key, line in lines.items()}

    def __len__(self) -> int:
        return len(self._best)

    def __contains__(self, problem: KnownProblem) -> bool:
        return problem.key in self._best

    def __getitem__(self, problem: KnownProblem) -> Best:
        return self._best[problem.key]

    def offer(self, problem: KnownProblem, value: Value, by: str) -> bool:
        """Take a value in if none is known or it is higher than the best; whether it was."""
        known = self._best.get(problem.key)
        if not np.isfinite(value.ranked) or (known is not None and value.ranked <= known.ranked + HIGHER):
            return False
        self._best[problem.key] = Best(value.ranked, value.log_likelihood, value.at_floor, by, value.mixture.ordered())
        return True

    def save(self, path: Path | None = None) -> None:
        """Write the table, a line for each problem."""
        lines = [f"{json.dumps(key)}: {json.dumps(_plain(self._best[key]))}" for key in sorted(self._best)]
        write_text(path or self.path, "{\n" + ",\n".join(lines) + "\n}\n")


def _plain(best: Best) -> dict[str, Any]:
    mixture = best.mixture
    arrays = {"coef": mixture.coef, "intercept": mixture.intercept, "weights": mixture.weights, "sigma": mixture.sigma}
    return {
        "ranked": round(best.ranked, 6),
        "log_likelihood": round(best.log_likelihood, 6),
        "at_floor": best.at_floor,
        "by": best.by,
    } | {name: _round(values.tolist()) for name, values in arrays.items()}


def _round(values: Any) -> Any:
    return [_round(one) for one in values] if isinstance(values, list) else float(f"{values:.12g}")


def _read(line: dict[str, Any]) -> Best:
    coef, intercept, weights, sigma = (
        np.array(line[name], dtype=np.float64) for name in ("coef", "intercept", "weights", "sigma")
    )
    mixture = Mixture(coef, intercept, weights, sigma)
    return Best(line["ranked"], line["log_likelihood"], line["at_floor"], line["by"], mixture)
