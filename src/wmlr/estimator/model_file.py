"""What a model file may hold: types, shapes and ranges, looked at before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from wmlr.families import NORMAL, Student, from_plain
from wmlr.methods.search.certificate import Search
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

FORMAT = "wmlr-model-2"
READ = ("wmlr-model-1", FORMAT)
LARGEST_FILE = 2**30
MOST_COMPONENTS = 10_000
MOST_COLUMNS = 10_000_000
LONGEST_NAME = 10_000
ROUNDING = 1e-6  # by which weights in a file, which a hand may have written, may miss 1
RECORDED = ("iteration", "log_likelihood")

Found = TypeVar("Found")
Components = Annotated[list[float], Meta(min_length=1, max_length=MOST_COMPONENTS)]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]


class StoredMixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of a :class:`wmlr.Mixture`."""

    coef: Annotated[list[list[float]], Meta(min_length=1, max_length=MOST_COMPONENTS)]
    intercept: Components
    weights: Components
    sigma: Components
    symmetric: bool = False
    family: dict[str, str | float] | list[dict[str, str | float]] | None = None
    dof: float | None = None  # of models written before there were families
    gate: list[list[float]] | None = None
    prior: Components | None = None

    def mixture(self) -> Mixture:
        """The mixture, or one line on what is wrong with it."""
        k, widths = len(self.coef), {len(line) for line in self.coef}
        if len(widths) != 1 or widths == {0}:
            raise ValueError(f"coef must have the same number of columns for each component (got {sorted(widths)})")
        for name in ("intercept", "weights", "sigma"):
            count = len(getattr(self, name))
            if count != k:
                raise ValueError(f"{name} must have a number for each of {k} components (got {count})")
        numbers = {name: finite(getattr(self, name), name) for name in ("coef", "intercept", "weights", "sigma")}
        if np.any(numbers["weights"] < 0) or abs(numbers["weights"].sum() - 1) > ROUNDING:
            raise ValueError(f"weights must be shares that sum to 1 (got {_excerpt(self.weights)})")
        if np.any(numbers["sigma"] <= 0):
            raise ValueError(f"sigma must be positive (got {_excerpt(self.sigma)})")
        if self.family is not None and self.dof is not None:
            raise ValueError("a mixture has a family or, in older files, dof, not both")
        law = from_plain(self.family) if self.family is not None else NORMAL if self.dof is None else Student(self.dof)
        if law.kinds and len(law.kinds) != k:
            raise ValueError(f"there are {len(law.kinds)} families for {k} components")
        if self.symmetric and (k != 2 or not np.array_equal(numbers["coef"][0], -numbers["coef"][1])):
            raise ValueError("a symmetric pair has two components, one the negative of the other")
        return Mixture(**numbers, symmetric=self.symmetric, family=law, gate=self._gate(k), prior=self._prior(k))

    def _prior(self, k: int) -> Array | None:
        if self.prior is None:
            return None
        if len(self.prior) != k or not all(0 < value < np.inf for value in self.prior):
            raise ValueError(f"prior must be {k} positive numbers (got {_excerpt(self.prior)})")
        return np.asarray(finite(self.prior, "prior"))

    def _gate(self, k: int) -> Array | None:
        if self.gate is None:
            return None
        if len(self.gate) != k or len({len(line) for line in self.gate}) != 1 or not self.gate[0] or any(self.gate[-1]):
            raise ValueError(f"gate must have as many numbers for each of {k} components, and zeros for the last")
        return np.asarray(finite(self.gate, "gate"))


class StoredGroups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The posteriors of the groups of the fit."""

    labels: dict[str, Any]
    responsibilities: list[Components]


Count = Annotated[int, Meta(ge=0)]


class StoredSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the maximum was found: the numbers of a :class:`wmlr.Search`."""

    searches: Count
    reached: Count
    maxima: Annotated[list[tuple[float, Count, float]], Meta(min_length=1, max_length=MOST_COMPONENTS)]
    steps: Annotated[float, Meta(ge=0)]
    generations: Count
    sampled: bool
    consistent: bool
    interrupted: bool

    def restore(self) -> Search:
        """The search, or one line on what is wrong with it."""
        finite(self.maxima, "maxima")
        if self.reached > self.searches:
            raise ValueError(f"{self.reached} of {self.searches} searches cannot have reached the maximum")
        return Search.from_plain(msgspec.to_builtins(self))


class ModelFile(msgspec.Struct, frozen=True):
    """A model file as a whole; the parts that are ``Any`` have readers of their own."""

    format: str
    parameters: dict[str, Any]
    mixture: StoredMixture
    log_likelihood: float
    n_iter: Annotated[int, Meta(ge=0)]
    converged: bool
    history: list[dict[str, int | float]]
    n_features_in: Annotated[int, Meta(ge=1, le=MOST_COLUMNS)]
    feature_names_in: list[Name] | None
    features: Any = None
    formula: Any = None
    gate_formula: Any = None
    groups: StoredGroups | UnsetType = UNSET
    stream: Any = None
    search: StoredSearch | None = None
    effective_parameters: Annotated[float, Meta(ge=0)] | None = None
    degenerate: bool = False
    grouped: bool | None = None
    target: Name | None = None
    ids: Name | None = None
    needed: Annotated[list[Literal["offset", "trials"]], Meta(max_length=2)] = []
    dropped: Count = 0
    gaps: dict[Name, Count] = {}

    def refuse_damaged(self) -> None:
        """Raise where parts do not fit each other."""
        finite(self.log_likelihood, "log_likelihood")
        names = self.feature_names_in
        if names is not None and len(names) != self.n_features_in:
            raise ValueError(f"there are {len(names)} names for {self.n_features_in} columns")
        if names is not None and len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        if any(set(record) != set(self.history[0]) or not set(RECORDED) <= set(record) for record in self.history):
            raise ValueError("the records of history do not have the same entries")


def read_model_file(path: Path) -> ModelFile:
    """The content of a model file; every error is one line."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file: name a model that save() wrote")
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, too many for a model (at most {LARGEST_FILE:,})")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a model file: {error}") from None
    if not isinstance(content, dict) or content.get("format") not in READ:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ValueError(
            f"{path} is not a model written by this version (format {str(found)[:80]!r}, wanted {FORMAT!r})"
        )
    return report_damage(path, lambda: _convert(content))


def report_damage(path: Path, reading: Callable[[], Found]) -> Found:
    """What a reader makes of a part of a file; whatever it stumbles over is one line that names the file."""
    try:
        return reading()
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {_shorten(str(error))}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__} {_shorten(str(error))}") from None


def finite(value: Any, name: str) -> Any:
    """Numbers as an array, all of them finite."""
    numbers = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be finite numbers (got {numbers[~np.isfinite(numbers)].flat[0]})")
    return numbers


def _convert(content: Any) -> ModelFile:
    found = msgspec.convert(content, ModelFile)
    found.refuse_damaged()
    return found


def _excerpt(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values[:5]) + (" ..." if len(values) > 5 else "")


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 600 else f"{line[:597]}..."
