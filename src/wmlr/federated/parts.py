"""What queries hold and what their answers are made of: shapes, Gram matrices, amounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wmlr.core.round import Query, Rows, Sampled, Together
from wmlr.features.maps import Mapped
from wmlr.federated.wire import MessageError
from wmlr.statistics.chosen import Chosen
from wmlr.statistics.robust import Trimmed
from wmlr.statistics.whitened import Whitened

# p is the number of features, with or without one for the intercept; other letters are the same wherever they
# stand in one query.
SHAPES = {
    "CandidateScores": {"transform": "p q", "coef": "s k q", "weights": "s k", "s2": "s k"},
    "ClusterScore": {"coef": "p k", "log_weights": "k", "s2": "k"},
    "ComponentUse": {"transform": "p q", "coef": "g k q", "weights": "g k", "s2": "g k", "caps": "b"},
    "FourthMoments": {"mean": "p"},
    "FourthProducts": {"V": "p c", "mean": "p"},
    "HeldScore": {"anchor": "p c", "log_weights": "k", "s2": "k", "coef": "p c"},
    "Histogram": {"edges": "b"},
    "InverseSquareScore": {"coef": "p k", "log_weights": "k", "s2": "k"},
    "LocalSteps": {"reference": "p g", "metric": "p p"},
    "MissingInformation": {"beta": "p", "mean": "p"},
    "Minimax": {"beta": "p k", "gamma": "p g", "log_weights": "k", "s2": "k"},
    "MixtureLikelihood": {"coef": "p k", "log_weights": "k", "s2": "k"},
    "MixtureScore": {"coef": "p k", "log_weights": "k", "s2": "k"},
    "NearestSquares": {"transform": "p q", "coef": "s k q"},
    "ObservedInformation": {"coef": "p k", "weights": "k", "s2": "k"},
    "PosteriorProducts": {"coef": "p k", "log_weights": "k", "s2": "k", "V": "p k"},
    "Products": {"V": "p c"},
    "RedescendingScore": {"coef": "p", "found": "p j", "reach": "j"},
    "ResidualHistogram": {"coef": "p k", "found": "p j", "reach": "j", "edges": "b"},
    "SecondMoments": {"beta": "p", "mean": "p"},
    "SeedFits": {
        "transform": "p q",
        "centre": "c q",
        "coef": "g k q",
        "weights": "g k",
        "s2": "g k",
        "mixture": "c",
        "component": "c",
        "rule": "c",
        "cap": "c",
        "rate": "c",
        "tail": "c",
        "limit": "c",
    },
    "Spread": {"centre": "p"},
    "SymmetricLengths": {"direction": "p", "lengths": "l", "s2": "l", "mean": "p"},
    "SymmetricMinimax": {"beta": "p", "gamma": "p g", "mean": "p"},
    "SymmetricResiduals": {"beta": "p", "mean": "p"},
    "SymmetricScore": {"beta": "p", "mean": "p"},
    "Whitened": {"centre": "p", "basis": "p r"},
}
GRAMS = {
    "ClusterScore": ("grams",),
    "FourthMoments": ("fourth",),
    "MissingInformation": ("lost",),
    "InverseSquareScore": ("grams",),
    "MixtureScore": ("grams",),
    "Moments": ("gram", "fourth"),
    "ObservedInformation": ("outer",),
    "RedescendingScore": ("gram",),
}
SYMMETRIC = {
    "FourthMoments": ("pairs",),
    "Moments": ("pairs",),
    "ObservedInformation": ("information",),
}
AMOUNTS = (
    "weight", "rows", "units", "counts", "mass", "yy", "rr", "uu", "squares", "xx", "xxyy", "missing",
    "explained", "missing_along", "pair_count", "amount", "histogram", "loss", "unexplained", "own", "multiples",
    "curvature_weight",
    "curvature_weight",
)  # fmt: skip
WRAPPERS = (Sampled, Trimmed, Mapped, Chosen, Whitened)


def parts_of(query: Any, names: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The parts of an answer that a table of kinds names: ``parts_of(query, GRAMS)`` are its Gram matrices."""
    if isinstance(query, Together):
        return {f"{number}/{name}" for number, part in enumerate(query.queries) for name in parts_of(part, names)}
    if isinstance(query, WRAPPERS):
        return parts_of(query.query, names)
    return set(names.get(type(query).__name__, ()))


def _probe(n_features: int, grouped: bool) -> Rows:
    """Two rows to let a query show what its answer looks like."""
    X = np.outer([0.5, -0.25], 1.0 / (1.0 + np.arange(n_features)))
    return Rows(X, np.array([0.5, -1.0]), None, np.zeros(1, dtype=np.int64) if grouped else None, np.arange(2))


def answer_shapes(query: Query, n_features: int, grouped: bool) -> dict[str, tuple[int, ...]]:
    """The shapes of an answer: what the query makes of two rows, which share a component or stand alone."""
    try:
        with np.errstate(all="ignore"):
            answer = query.answer(_probe(n_features, grouped))
    except (ValueError, IndexError, TypeError, FloatingPointError) as error:
        raise MessageError(f"{type(query).__name__} does not fit rows of {n_features} columns: {error}") from None
    return {name: np.shape(value) for name, value in answer.items()}
